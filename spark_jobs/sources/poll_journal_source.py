"""The poll journal as a Spark table: ``spark.read.format("glassmq_poll_journal").load(path)``.

Reads the store of a GlassMQ broker, beside the running broker too; a store of RocketMQ has no journal and is empty.
Spark does not tell a Python source which columns a query needs: name them, as in
``.schema(pruned("topic", "held_us"))``, since each one costs.

Options: ``from_ms`` and ``to_ms`` choose the entries whose times are in [from_ms, to_ms): files that were written
before or after, and blocks without such an entry, are passed over; ``split_bytes``: files up to so many bytes together
are one task; ``after``: leave out what is before this ``JournalPosition``, a JSON array.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.sources.commit_log_files import local_folder, range_of_window
from spark_jobs.sources.poll_journal_columns import COLUMN_TYPES, TABLE, record_batches
from spark_jobs.sources.poll_journal_files import (
    JournalFile,
    JournalPosition,
    begin_of,
    files_after,
    find_files,
    read_file,
)
from spark_jobs.sources.source_options import whole_number

FORMAT = "glassmq_poll_journal"
DEFAULT_SPLIT_BYTES = 64 * 1024 * 1024
pruned = TABLE.ddl
"""The schema, as DDL, of only these columns. ValueError for a column that there is not."""


class PollJournalSource(DataSource):  # type: ignore[misc, unused-ignore]  # pyspark may not be installed
    """The format ``glassmq_poll_journal``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return pruned(*COLUMN_TYPES)

    def reader(self, schema: StructType) -> "PollJournalReader":
        return PollJournalReader(schema, dict(self.options))


class PollJournalReader(DataSourceReader):  # type: ignore[misc, unused-ignore]  # pyspark may not be installed
    """Plans the splits on the driver, reads them in the tasks."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._columns = tuple(schema.fieldNames())
        TABLE.require(schema)
        if "path" not in options:
            raise ValueError("say which store: .load(PATH)")
        self._store = local_folder(options["path"])
        self._from_ms = whole_number(options, "from_ms", None)
        self._to_ms = whole_number(options, "to_ms", None)
        self._after = JournalPosition(*json.loads(options["after"])) if "after" in options else None
        self._split_bytes = whole_number(options, "split_bytes", DEFAULT_SPLIT_BYTES) or 1

    def partitions(self) -> list[InputPartition]:
        files = files_after(find_files(self._store), self._after)
        low, high = range_of_window(files, begin_of, self._from_ms, self._to_ms)
        return [InputPartition(part) for part in split(files[low:high], self._split_bytes)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The entries of the split's files. A file that was removed since the plan was made is read as empty."""
        for file in partition.value or ():  # None is Spark's stand-in where there is no partition
            data = read_file(file.path)
            if data is not None:
                yield from record_batches(
                    data,
                    self._columns,
                    from_ms=self._from_ms,
                    to_ms=self._to_ms,
                    start=file.start,
                )


def split(files: Sequence[JournalFile], split_bytes: int) -> list[list[JournalFile]]:
    """Files in order, as many at a time as have ``split_bytes`` together; at least one."""
    parts: list[list[JournalFile]] = []
    room = 0
    for file in files:
        if not parts or file.size > room:
            parts.append([])
            room = split_bytes
        parts[-1].append(file)
        room -= file.size
    return parts
