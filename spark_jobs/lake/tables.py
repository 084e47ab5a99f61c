"""A lake, and what is done with Spark: its tasks run, its tables read.

Spark reads the active files of the Delta tables, as delta-rs lists them, never a folder. Behind a URL pyarrow reads
them in Spark's tasks: Spark itself needs Java packages for that, which are not part of it.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from spark_jobs.lake.delta import files_in
from spark_jobs.lake.lake import Lake
from spark_jobs.lake.storage import is_local
from spark_jobs.lake.sync import Synced, sync
from spark_jobs.lake.tasks import TIMESTAMPS, Done, LakeFile, Target, Work, carry_out_in_spark, read_remote
from spark_jobs.sources import commit_log_columns, poll_journal_columns
from spark_jobs.sources.source_options import SourceTable
from spark_jobs.spark.session import parallelism
from spark_jobs.spark.small_tables import small_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fill(spark: "SparkSession", *given: Any, **more: Any) -> Synced:
    """Call ``sync`` with these arguments, and have Spark's tasks carry out the works."""
    return sync(partial(run_in_spark, spark), *given, cores=parallelism(spark), **more)


def run_in_spark(spark: "SparkSession", target: Target, works: Sequence[Work]) -> list[Done]:
    """Carry out works. Ranges of the log with the same ``task`` share one; each file of the journal has its own."""
    bundles = [list(bundle) for _, bundle in groupby(works, lambda work: getattr(work, "task", work))]
    numbers = spark.range(0, len(bundles), 1, len(bundles))
    found = numbers.mapInArrow(partial(carry_out_in_spark, target, bundles), "done binary").toArrow()
    return [msgspec.json.decode(done, type=Done) for done in found.column("done").to_pylist()]


def lake_messages(
    spark: "SparkSession", lake: Lake, columns: Sequence[str], from_ms: int | None = None, to_ms: int | None = None
) -> "DataFrame":
    """Messages stored in [from_ms, to_ms), with these columns of the commit log; a body that was left out is null."""
    return _read(spark, lake.messages, commit_log_columns.TABLE, columns, "store_ts", from_ms, to_ms)


def lake_polls(
    spark: "SparkSession", lake: Lake, columns: Sequence[str], from_ms: int | None = None, to_ms: int | None = None
) -> "DataFrame":
    """Entries of the poll journal of the times in [from_ms, to_ms), with these columns of it."""
    return _read(spark, lake.polls, poll_journal_columns.TABLE, columns, "at_ms", from_ms, to_ms)


def _read(
    spark: "SparkSession",
    files: Iterable[LakeFile],
    table: SourceTable,
    columns: Sequence[str],
    time: str,
    from_ms: int | None,
    to_ms: int | None,
) -> "DataFrame":
    from pyspark.sql import functions as F

    paths = [file.path for file in files_in(files, from_ms, to_ms)]
    if not paths:
        return small_table(spark, (), table.ddl(*columns))
    if not is_local(paths[0]):
        task = partial(read_remote, paths, table.arrow(columns), (time, from_ms, to_ms))
        return spark.range(0, len(paths), 1, len(paths)).mapInArrow(task, table.ddl(*columns))
    stored = {name: TIMESTAMPS.get(name, name) for name in [*columns, time]}
    kinds = {name: "timestamp" if name in TIMESTAMPS else table.types[name] for name in stored}
    schema = ", ".join(f"`{stored[name]}` {kind}" for name, kind in kinds.items())
    rows = spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*paths)
    if from_ms is not None:
        rows = rows.where(F.col(stored[time]) >= F.timestamp_millis(F.lit(from_ms)))
    if to_ms is not None:
        rows = rows.where(F.col(stored[time]) < F.timestamp_millis(F.lit(to_ms)))
    return rows.select(
        *(F.unix_millis(stored[name]).alias(name) if name in TIMESTAMPS else F.col(name) for name in columns)
    )
