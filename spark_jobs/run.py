"""One run of a report, from the store to the folder of its files. Needs Spark, and no settings of Django."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker_core.version import VERSION
from spark_jobs.catalogue import REPORTS, ReportInfo
from spark_jobs.inputs import RunInputs, StoreInputs, log_described, window_read
from spark_jobs.job import PARAMETERS, Job, Progress, periods
from spark_jobs.lake.report_lake import LAKE_SEGMENT, lake_described, lake_for, log_with_lake
from spark_jobs.output.charts import kind_of
from spark_jobs.output.files import write_folder
from spark_jobs.output.notes import notes_of_run
from spark_jobs.output.result import Result, compute, compute_previous
from spark_jobs.output.words import words
from spark_jobs.reports import load
from spark_jobs.reports.shape import Report
from spark_jobs.reports.steps import about
from spark_jobs.spark.at_once import AT_ONCE

SCAN_FROM, SCAN_TO = 5, 80
"""The part of a run in which the facts are computed, in percent."""
FEW_FACTS, FEW_ROWS = 500_000, 50_000
"""Up to so many facts are processed by one task; up to so many are collected and become a table of their own."""


def run_report(job: Job, spark: SparkSession, now: Callable[[], datetime], progress: Progress) -> dict[str, Any]:
    """Run the report and write its folder; returns the summary.

    NotAStoreError, WindowError, LakeError, KeyError for an unknown report.
    """
    started, info, parts = now(), REPORTS[job.report], periods(job)
    report = load(job.report)
    progress(1, "looking what there is")
    bounds = [part.from_ms for part in reversed(parts) if part.from_ms is not None]
    needed = window_read(report, min(bounds, default=None), parts[0].to_ms)
    stores, lake_problems = [], []
    for broker, path in job.stores:
        lake, problems = lake_for(path, job.lakes, job.source)
        lake_problems += problems
        stores.append(StoreInputs(spark, broker, path, report, lake, needed))
    inputs = RunInputs(spark, stores, report, bounds, parts[0].to_ms, int(started.timestamp() * 1000))
    with ExitStack() as stack:
        stack.callback(inputs.forget)

        def read_part(facts: dict[str, DataFrame], part: int, parts: int) -> dict[str, DataFrame]:
            return stack.enter_context(read_facts(facts, progress, part, parts, inputs.are_few))

        wanted = inputs.of(report)._replace(topic=job.topic, group=job.consumer_group, read=read_part)
        facts = stack.enter_context(read_facts(report.facts(wanted), progress, from_few=inputs.are_few))
        restricted = {name: about(rows, job.topic, job.consumer_group) for name, rows in facts.items()}
        # If the facts are too many to collect, tables may be long, and Java has room for only one at a time.
        most = 1 if any(rows.is_cached for rows in facts.values()) else AT_ONCE
        result = compute(report, restricted, parts[0], len(stores), lambda doing: progress(SCAN_TO, doing), most)
        progress(95, "comparing")
        previous = [(part, *compute_previous(report, restricted, part, len(stores))) for part in parts[1:]]
        sources = describe(stores, facts)
    for total in (result.total, *(its_total for _, its_total, _ in previous)):
        total |= dict.fromkeys(unknown(info, report, stores))
    progress(98, "writing the files")
    notes = [*lake_problems, *notes_of_run(info, stores, sources, result, job)]
    summary = summarize(job, report, result, sources, notes, started, now(), *(total for _, total, _ in previous))
    tables = dict(result.tables)
    for part, its_total, its_rows in previous:
        tables["previous"] = its_rows
        summary["previous"] = part._asdict() | {"total": its_total, "rows": its_rows.to_pylist()}
    return write_folder(job.folder, summary, tables, report.charts)


def summarize(
    job: Job,
    report: Report,
    result: Result,
    sources: list[dict[str, Any]],
    notes: list[str],
    started: datetime,
    finished: datetime,
    previous: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The summary of a run, as ``summary.json`` has it. ``previous``: the totals of the period before."""
    info, tables = REPORTS[job.report], result.tables
    return {
        "report": job.report,
        "title": info.title,
        "brokers": [broker for broker, _ in job.stores],
        "rows": next(iter(tables.values())).to_pylist() if tables else [],
        "total": result.total,
        "parameters": {name: getattr(job, name) for name in PARAMETERS},
        "look_back_ms": info.look_back_ms,
        "inputs": sources,
        "words": words(job.report, result.total | {"step_ms": result.step_ms}, tables) if tables else [],
        "step_ms": result.step_ms,
        "left_out": result.left_out,
        "notes": notes,
        "code_version": VERSION,
        "started_ms": int(started.timestamp() * 1000),
        "finished_ms": int(finished.timestamp() * 1000),
        "duration_s": round((finished - started).total_seconds(), 3),
        "headlines": headlines(report, result.total, previous),
    }


def unknown(info: ReportInfo, report: Report, stores: Sequence[StoreInputs]) -> list[str]:
    """Names of the figures that are unknown because none of the stores has a poll journal."""
    if any(store.journal is None or store.journal.files for store in stores):
        return []
    return [figure.name for figure in report.headlines if figure.of_journal or info.needs_journal]


def headlines(report: Report, total: dict[str, Any], previous: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The most important figures of the report, each with its value in the period before."""
    return [
        figure._asdict()
        | {
            "kind": kind_of(figure.name),
            "value": total.get(figure.name),
            "before": None if previous is None else previous.get(figure.name),
        }
        for figure in report.headlines
    ]


@contextmanager
def read_facts(
    facts: dict[str, DataFrame], progress: Progress, part: int = 0, parts: int = 1, from_few: bool = False
) -> Iterator[dict[str, DataFrame]]:
    """Have Spark compute the facts once. They are cached until the context ends.

    Up to FEW_ROWS facts are collected and become a new table. A cached table would keep its plan, and the plan of a
    report with several steps grows with each step until planning takes longer than reading. Up to FEW_FACTS facts are
    put into one partition, so that each table is a single task. ``from_few``: the input is so small that it is read
    again, and not cached, if the facts are many. ``part`` of ``parts``: the position of these facts in the whole run.
    """
    cached: list[DataFrame] = []
    ready = {}
    try:
        if not from_few or len(facts) > 1:  # one may be computed from another
            cached += [rows.persist() for rows in facts.values()]
        for index, (name, rows) in enumerate(facts.items()):
            begin, until = (
                SCAN_FROM + (SCAN_TO - SCAN_FROM) * (part * len(facts) + done) // (parts * len(facts))
                for done in (index, index + 1)
            )
            progress(begin, f"reading: {name.replace('_', ' ')}", until)
            table = as_table(rows)
            if table is None:
                table = rows.coalesce(1).persist() if rows.count() <= FEW_FACTS else rows.persist()
            cached.append(table)
            ready[name] = table
        yield ready
    finally:
        with suppress(Exception):  # a session whose Java is gone has no cache
            for rows in cached:
                rows.unpersist()


def as_table(rows: DataFrame) -> DataFrame | None:
    """The rows as a table without a plan, in one partition; None if there are more than FEW_ROWS."""
    table = rows.limit(FEW_ROWS + 1).toArrow()
    return None if table.num_rows > FEW_ROWS else rows.sparkSession.createDataFrame(table, rows.schema).coalesce(1)


def describe(stores: Sequence[StoreInputs], facts: dict[str, DataFrame]) -> list[dict[str, Any]]:
    """What was read of each store: of its log if the report reads logs, of its lake and its poll journal if any."""
    segments: dict[str, dict[int, dict[str, Any]]] = {store.broker: {} for store in stores}
    if "stored" in facts:
        ends = facts["stored"].groupBy("broker", "segment")
        for row in ends.agg(
            *(F.sum(name).alias(name) for name in ("messages", "bytes")), F.max("end").alias("end")
        ).collect():
            segments[row["broker"]][row["segment"]] = row.asDict()
    sources = []
    for store in stores:
        source: dict[str, Any] = {"broker": store.broker, "store": str(store.store)}
        of_lake = segments[store.broker].pop(LAKE_SEGMENT, {"messages": 0})["messages"]
        if store.plan is not None:
            source |= log_described(store.plan, list(segments[store.broker].values()))
            if store.lake is not None:
                source = log_with_lake(source, store.lake, of_lake)
        if store.lake is not None:
            source["lake"] = lake_described(store.lake, store.plan, of_lake)
        if store.journal is not None:
            source["journal"] = store.journal._asdict() | {"foreign_files": list(store.journal.foreign_files)}
        sources.append(source)
    return sources
