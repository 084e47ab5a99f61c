"""A lake, and what is done with Spark: its tasks run, its tables read.

What counts is what the manifest names: tables are read file by file, never folder by folder.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from spark_jobs.lake.lake import Lake, round_open
from spark_jobs.lake.manifest import LakeFile
from spark_jobs.lake.round import carry_out_while_open, decoded
from spark_jobs.lake.sync import Progress, Synced, Wanted, sync
from spark_jobs.lake.tasks import SUM_KEYS, SUMS, SUMS_SCHEMA, Done, LogWork, Work, carry_out_in_spark
from spark_jobs.sources import commit_log_source, poll_journal_source
from spark_jobs.sources.commit_log_segments import bundled
from spark_jobs.sources.commit_log_sums import sums_schema
from spark_jobs.spark.cluster import parallelism

FEW_SUMS = 500_000
"""Rows of sums that one task reads: what is made of them then need not be brought together."""

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fill(
    spark: "SparkSession",
    store: str,
    lakes: Path,
    now_ms: Callable[[], int],
    progress: Progress,
    *,
    with_bodies: bool = False,
    rounds: int | None = None,
    keep_days: int = 0,
) -> Synced:
    """Fill the lake of a store below ``lakes`` with what is new. Raises what ``lake_sync.sync`` does."""
    wanted = Wanted(store, lakes, with_bodies, parallelism(spark), rounds, keep_days)
    return sync(wanted, partial(run_in_spark, spark), now_ms, progress)


def run_in_spark(spark: "SparkSession", works: Sequence[Work]) -> list[Done]:
    """Carry works out, those of a bundle in one task; each file of the journal, or to be merged, has one of its own."""
    of_log = [work for work in works if isinstance(work, LogWork)]
    bundles: list[Sequence[Work]] = [
        *([work] for work in works if not isinstance(work, LogWork)),
        *bundled(of_log, lambda work: work.end - work.start),
    ]
    encoded = [msgspec.json.encode(bundle) for bundle in bundles]
    with round_open(Path(works[0].lake)) as mark:
        found = spark.range(0, len(bundles), 1, len(bundles)).mapInArrow(
            partial(carry_out_while_open, mark, carry_out_in_spark, encoded), "done string"
        )
        return decoded(found.toArrow())


def lake_messages(
    spark: "SparkSession", lake: Lake, columns: Sequence[str], from_ms: int | None = None, to_ms: int | None = None
) -> "DataFrame":
    """Messages stored in [from_ms, to_ms), with these columns of the commit log; a body that was left out is null."""
    files = [file for part in lake.manifest.messages for file in part.files]
    return _read(spark, lake, files, commit_log_source.pruned, columns, "store_ts", from_ms, to_ms)


def lake_sums(
    spark: "SparkSession",
    lake: Lake,
    keys: Sequence[str],
    sums: Sequence[str],
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> "DataFrame":
    """Messages counted by keys, as ``commit_log_sums`` names them, of the minutes that begin in [from_ms, to_ms).

    ValueError for what the lake has not counted (``lake_tasks.SUMS_SCHEMA``).
    """
    unknown = {*keys, *sums} - {*SUMS_SCHEMA.names}
    if unknown:
        raise ValueError(f"a lake has not counted {', '.join(sorted(unknown))}")
    files = [file for part in lake.manifest.messages for file in part.sums]
    kinds = dict(column.split(" ") for column in sums_schema(SUM_KEYS, SUMS).split(", "))

    def schema(*columns: str) -> str:
        return ", ".join(f"{name} {kinds[name]}" for name in columns)

    rows = _read(spark, lake, files, schema, (*keys, *sums), "minute_ts", from_ms, to_ms)
    return rows.coalesce(1) if sum(file.rows for file in files) <= FEW_SUMS else rows


def lake_polls(
    spark: "SparkSession", lake: Lake, columns: Sequence[str], from_ms: int | None = None, to_ms: int | None = None
) -> "DataFrame":
    """Entries of the poll journal of the times in [from_ms, to_ms), with these columns of it."""
    files = [file for part in lake.manifest.polls for file in part.files]
    return _read(spark, lake, files, poll_journal_source.pruned, columns, "at_ms", from_ms, to_ms)


def _read(
    spark: "SparkSession",
    lake: Lake,
    files: Iterable[LakeFile],
    schema: Callable[..., str],
    columns: Sequence[str],
    time: str,
    from_ms: int | None,
    to_ms: int | None,
) -> "DataFrame":
    from pyspark.sql import functions as F

    paths = [
        str(lake.folder / file.path)
        for file in files
        if (from_ms is None or file.max_ms >= from_ms) and (to_ms is None or file.min_ms < to_ms)
    ]
    if not paths:
        return spark.createDataFrame([], schema(*columns))
    rows = spark.read.schema(schema(*dict.fromkeys([*columns, time]))).parquet(*paths)
    if from_ms is not None:
        rows = rows.where(F.col(time) >= from_ms)
    if to_ms is not None:
        rows = rows.where(F.col(time) < to_ms)
    return rows.select(*columns)
