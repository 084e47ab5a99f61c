"""One run of a report, from the store to the folder of its files. Knows Spark and no Django."""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.catalogue import REPORTS
from spark_jobs.code_version import code_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.commit_log_segments import LogPlan

logger = logging.getLogger(__name__)

Progress = Callable[[int, str], None]
"""Called with percent, never less than before, and what is being done."""

_SMALLEST_SPLIT = 16 * 1024 * 1024
_SPLITS_A_CORE = 3


class Job(NamedTuple):
    """What to run: ``group`` names its Spark jobs, by which they can be watched and cancelled."""

    report: str
    store: Path
    folder: Path
    from_ms: int | None = None
    to_ms: int | None = None
    group: str = "report"


def run_report(job: Job, spark: "SparkSession", now: Callable[[], datetime], progress: Progress) -> dict[str, Any]:
    """Run the report and write its folder; returns the summary. NotAStoreError, KeyError for an unknown report."""
    from spark_jobs import throughput
    from spark_jobs.commit_log_segments import plan_log
    from spark_jobs.report_files import write_folder

    info = REPORTS[job.report]
    started = now()
    progress(1, "looking where the log ends")
    plan = plan_log(job.store)
    split_bytes = max(_SMALLEST_SPLIT, (plan.end - plan.start) // (spark.sparkContext.defaultParallelism
        * _SPLITS_A_CORE))
    spark.sparkContext.setJobGroup(job.group, f"{info.title} of {job.store}", interruptOnCancel=True)
    progress(5, "reading the log")
    facts = read_messages(spark, plan, throughput.READS, split_bytes).transform(throughput.with_classes).transform(
        throughput.counted).persist()
    try:
        segments = facts.transform(throughput.by_segment).toArrow().to_pylist()
        windowed = throughput.in_window(facts, job.from_ms, job.to_ms)
        tables = {}
        for index, (name, table) in enumerate(throughput.TABLES.items()):
            progress(90 + 2 * index, f"making {name}")
            tables[name] = windowed.transform(table).toArrow()
    finally:
        with suppress(Exception):  # a session whose Java is gone has nothing to give back
            facts.unpersist()
    progress(98, "writing the files")
    finished = now()
    rows = tables["by_topic"].to_pylist()
    summary = {
        "report": job.report,
        "title": info.title,
        "rows": rows,
        "total": {name: sum(row[name] for row in rows) for name in ("messages", "bytes", "body_bytes")},
        "parameters": {"from_ms": job.from_ms, "to_ms": job.to_ms},
        "input": described(plan, segments),
        "code_version": code_version(),
        "started_ms": int(started.timestamp() * 1000),
        "finished_ms": int(finished.timestamp() * 1000),
        "duration_s": round((finished - started).total_seconds(), 3),
    }
    return write_folder(job.folder, summary, tables)


def read_messages(spark: "SparkSession", plan: "LogPlan", columns: tuple[str, ...], split_bytes: int) -> "DataFrame":
    """The planned range of the log, and of each message only these columns."""
    from spark_jobs.commit_log_source import FORMAT, pruned

    return (spark.read.format(FORMAT).schema(pruned(*columns)).option("split_bytes", str(split_bytes))
        .option("start", str(plan.start)).option("end", str(plan.end)).load(plan.store))


def described(plan: "LogPlan", segments: list[dict[str, Any]]) -> dict[str, Any]:
    """What was read, and what could not be: ``torn_bytes`` lie between records and are no filler."""
    from spark_jobs.commit_log_segments import filler_size

    records = {segment["segment"]: segment for segment in segments}
    stops: dict[int, tuple[str, int, int]] = {}
    for found in plan.ranges:
        first = stops.get(found.base, (found.path, found.start, 0))[1]
        stops[found.base] = (found.path, first, found.stop)
    torn, gone = 0, []
    for base, (path, start, stop) in stops.items():
        of_records = records.get(base, {"bytes": 0, "end": start})
        filler = filler_size(path, base, of_records["end"], stop)
        if filler is None:
            gone.append(Path(path).name)
        else:
            torn += stop - start - of_records["bytes"] - filler
    return {
        "store": plan.store,
        "start_offset": plan.start,
        "end_offset": plan.end,
        "ended_by": plan.ended_by,
        "messages": sum(segment["messages"] for segment in segments),
        "segments_read": len(stops) - len(gone),
        "segments_gone": gone,
        "segments_unread": list(plan.segments_unread),
        "foreign_files": list(plan.foreign_files),
        "torn_bytes": torn,
    }
