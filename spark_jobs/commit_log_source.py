"""A commit log as a Spark table: ``spark.read.format("rocketmq_commitlog").load(path)``.

Reads the store of a GlassMQ broker or of a real RocketMQ one, beside a running broker too. Spark does not tell a Python
source which columns a query needs: name them, as in ``.schema(pruned("topic", "total_size"))``, since each one costs.

Options: ``start`` and ``end`` (global offsets of records; without ``end``: where the log ends, see
``commit_log_segments``), ``split_bytes``.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.commit_log_columns import COLUMN_TYPES, DEFAULT_COLUMNS, record_batches
from spark_jobs.commit_log_due import DueTimes
from spark_jobs.commit_log_headers import Segment
from spark_jobs.commit_log_segments import DEFAULT_SPLIT_BYTES, LogRange, plan_log
from spark_jobs.commit_log_walk import walk
from spark_jobs.consume_queues import ConsumeQueues

FORMAT = "rocketmq_commitlog"


def pruned(*columns: str) -> str:
    """The schema, as DDL, of only these columns. ValueError for a column that there is not."""
    unknown = [name for name in columns if name not in COLUMN_TYPES]
    if unknown:
        raise ValueError(f"a commit log has no column {', '.join(unknown)}, but {', '.join(COLUMN_TYPES)}")
    return ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in columns)


class CommitLogPartition(InputPartition):  # type: ignore[misc, unused-ignore]  # pyspark may not be installed
    """One split: a range of one segment."""

    def __init__(self, log_range: LogRange) -> None:
        super().__init__(tuple(log_range))


class CommitLogSource(DataSource):  # type: ignore[misc, unused-ignore]  # pyspark may not be installed
    """The format ``rocketmq_commitlog``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return pruned(*DEFAULT_COLUMNS)

    def reader(self, schema: StructType) -> "CommitLogReader":
        return CommitLogReader(schema, dict(self.options))


class CommitLogReader(DataSourceReader):  # type: ignore[misc, unused-ignore]  # pyspark may not be installed
    """Plans the splits on the driver, reads them in the tasks."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._columns = tuple(schema.fieldNames())
        for field in schema.fields:
            wanted = COLUMN_TYPES.get(field.name)
            if {"long": "bigint"}.get(wanted or "", wanted) != field.dataType.simpleString():
                raise ValueError(
                    f"a commit log has no column {field.name} of type {field.dataType.simpleString()}; "
                    f"it has {pruned(*COLUMN_TYPES)}")
        if "path" not in options:
            raise ValueError("say which store: .load(PATH)")
        self._store = options["path"].removeprefix("file:")
        self._start = int(options.get("start", "0"))
        self._end = int(options["end"]) if "end" in options else None
        self._split_bytes = int(options.get("split_bytes", str(DEFAULT_SPLIT_BYTES)))

    def partitions(self) -> list[InputPartition]:
        plan = plan_log(self._store, start=self._start, end=self._end, split_bytes=self._split_bytes)
        return [CommitLogPartition(log_range) for log_range in plan.ranges]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The split's records. A segment that retention has deleted since the plan was made is read as empty."""
        if partition.value is None:  # Spark's stand-in where there is no partition
            return
        log_range = LogRange(*partition.value)
        try:
            segment = Segment.map(log_range.path, log_range.base)
        except FileNotFoundError:
            return
        found = walk(segment, log_range.start - log_range.base, log_range.stop - log_range.base,
            ConsumeQueues.of(Path(self._store)), resume=True)
        yield from record_batches(segment, found.headers, self._columns, DueTimes(Path(self._store)))
