"""A lake, and what is done with Spark: its tasks run, its tables read.

Spark reads the active files of the Delta tables, as delta-rs lists them, never a folder. Behind a URL pyarrow reads
them in Spark's tasks: Spark itself needs Java packages for that, which are not part of it.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from spark_jobs.lake.delta import files_in
from spark_jobs.lake.lake import Lake
from spark_jobs.lake.storage import Location, is_local
from spark_jobs.lake.sync import Progress, Synced, Wanted, sync
from spark_jobs.lake.tasks import TIMESTAMPS, Done, LakeFile, LogWork, Work, carry_out_in_spark, read_remote
from spark_jobs.sources import commit_log_columns, poll_journal_columns
from spark_jobs.sources.source_options import SourceTable
from spark_jobs.spark.session import parallelism
from spark_jobs.spark.small_tables import small_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fill(
    spark: "SparkSession",
    store: str,
    broker: str,
    lakes: Location,
    now_ms: Callable[[], int],
    progress: Progress,
    *,
    with_bodies: bool = False,
    rounds: int | None = None,
    keep_days: int = 0,
) -> Synced:
    """Fill the lake below ``lakes`` with what is new in the store of a broker. Raises what ``sync.sync`` does."""
    wanted = Wanted(store, broker, lakes, with_bodies, parallelism(spark), rounds, keep_days)
    return sync(wanted, partial(run_in_spark, spark), now_ms, progress)


def run_in_spark(spark: "SparkSession", works: Sequence[Work]) -> list[Done]:
    """Carry works out, the ranges of the log by their tasks; each file of the journal has a task of its own."""
    of_log = [work for work in works if isinstance(work, LogWork)]
    bundles: list[Sequence[Work]] = [
        *([work] for work in works if not isinstance(work, LogWork)),
        *(list(together) for _, together in groupby(of_log, key=attrgetter("range.task"))),
    ]
    encoded = [msgspec.json.encode(bundle) for bundle in bundles]
    numbers = spark.range(0, len(bundles), 1, len(bundles))
    found = numbers.mapInArrow(partial(carry_out_in_spark, encoded), "done string").toArrow()
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
