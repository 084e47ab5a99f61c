"""A commit log as a Spark table: ``spark.read.format("rocketmq_commitlog").load(path)``.

Reads the store of a GlassMQ broker or of a real RocketMQ one, beside a running broker too; ``path`` is its folder.
Spark does not tell a Python source which columns a query needs: name them, as in
``.schema(pruned("topic", "total_size"))``, since each one costs.

A record with an implausible field is left out (see ``commit_log_bounds``).

Options: ``start`` and ``end`` (global offsets of records; without ``end``: where the log ends, see
``commit_log_segments``), and ``split_bytes``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.sources.commit_log_bounds import Bounds
from spark_jobs.sources.commit_log_columns import DEFAULT_COLUMNS, TABLE, record_batch
from spark_jobs.sources.commit_log_files import local_folder
from spark_jobs.sources.commit_log_records import RecordWalk
from spark_jobs.sources.commit_log_segments import LARGEST_SHARE, LogRange, open_segment, plan_log
from spark_jobs.sources.source_options import whole_number

FORMAT = "rocketmq_commitlog"
BATCH_BYTES = 4 * 1024 * 1024
"""Bytes of the batches that Spark gets, about: each one costs Spark a millisecond or two, however small it is."""
pruned = TABLE.ddl
"""The schema, as DDL, of only these columns. ValueError for a column that there is not."""


class CommitLogSource(DataSource):  # type: ignore[misc, unused-ignore]  # pyspark may not be installed
    """The format ``rocketmq_commitlog``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return pruned(*DEFAULT_COLUMNS)

    def reader(self, schema: StructType) -> "CommitLogReader":
        TABLE.require(schema)
        return CommitLogReader(schema, dict(self.options))


class CommitLogReader(DataSourceReader):  # type: ignore[misc, unused-ignore]  # pyspark may not be installed
    """Plans the splits on the driver, reads them in the tasks."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._columns = tuple(schema.fieldNames())
        if "path" not in options:
            raise ValueError("say which store: .load(PATH)")
        self._store = local_folder(options["path"])
        self._start = whole_number(options, "start", 0) or 0
        self._end = whole_number(options, "end", None)
        self._split_bytes = max(1, whole_number(options, "split_bytes", LARGEST_SHARE) or 0)

    def partitions(self) -> list[InputPartition]:
        plan = plan_log(self._store, start=self._start, end=self._end, split_bytes=self._split_bytes)
        tasks = groupby(plan.ranges, key=attrgetter("task"))
        return [InputPartition((tuple(plan.bounds), [*map(tuple, ranges)])) for _, ranges in tasks]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The split's records. A segment that retention has deleted since the plan was made is read as empty."""
        if partition.value is None:  # Spark's stand-in where there is no partition
            return
        bounds, ranges = partition.value
        for values in ranges:
            yield from self._read_range(LogRange(*values), Bounds(*bounds))

    def _read_range(self, log_range: LogRange, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        segment = open_segment(log_range)
        if segment is None:
            return
        schema, left_out = TABLE.arrow(self._columns), Counter[str]()
        parts, size = list[pa.RecordBatch](), 0
        for headers in RecordWalk(segment, log_range.start - segment.base, log_range.stop - segment.base):
            parts.append(record_batch(segment, bounds.plausible(segment, headers, left_out), schema))
            size += parts[-1].nbytes
            if size >= BATCH_BYTES:
                yield pa.concat_batches(parts)
                parts, size = [], 0
        if parts:
            yield pa.concat_batches(parts)
