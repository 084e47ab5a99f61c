"""One run of a report, from the store to the folder of its files. Needs Spark, and no settings of Django."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from broker_core.version import VERSION
from spark_jobs.catalogue import REPORTS
from spark_jobs.inputs import RunInputs, StoreInputs, log_described, reads_little, window_read
from spark_jobs.job import MINUTE_MS, PARAMETERS, Job, Period, Progress, periods
from spark_jobs.lake.report_lake import LAKE_SEGMENT, lake_described, lake_for, log_with_lake
from spark_jobs.output.charts import kind_of
from spark_jobs.output.files import write_folder
from spark_jobs.output.notes import notes_of_run
from spark_jobs.output.result import Result, compute, step_of
from spark_jobs.output.words import words
from spark_jobs.reports import load
from spark_jobs.reports.shape import Report
from spark_jobs.reports.spreads import sums
from spark_jobs.reports.steps import about
from spark_jobs.sources.commit_log_files import find_segments
from spark_jobs.sources.consume_queues import unknown_queues
from spark_jobs.sources.poll_journal_files import find_files
from spark_jobs.spark.at_once import run_at_once

StartSpark = Callable[[bool], AbstractContextManager[SparkSession]]
"""Starts Spark, unless it has started; the argument says whether little is read (``get_session``)."""
SCAN_FROM, SCAN_TO = 5, 80
"""The part of a run in which the facts are computed, in percent."""
FEW_FACTS = 50_000
"""Up to so many facts are collected, and become a table of one partition."""


def run_report(job: Job, start_spark: StartSpark, now: Callable[[], datetime], progress: Progress) -> dict[str, Any]:
    """Run the report and write its folder; returns the summary. Spark is not started if there is nothing to read.

    NotAStoreError, WindowError, LakeError, KeyError for an unknown report.
    """
    report, parts, laps = load(job.report), periods(job), Laps(now)
    lakes, notes, is_something = [], [], bool(report.reads)
    for broker, path in job.stores:
        find_segments(path)
        lake, problems = lake_for(broker, path, job.lakes, job.needs_lake)
        is_something = is_something or bool(find_files(path) or (lake is not None and lake.polls))
        lakes.append(lake)
        notes += problems
    bounds = [part.from_ms for part in reversed(parts) if part.from_ms is not None]
    needed = window_read(job.report, min(bounds, default=None), parts[0].to_ms)
    before: Result | None = None
    with ExitStack() as stack:
        spark = stack.enter_context(start_spark(reads_little(job.stores, lakes))) if is_something else None
        laps.end("start_spark")
        progress(1, "looking at what is stored")
        stores = [StoreInputs(*store, report, lake, needed) for store, lake in zip(job.stores, lakes, strict=True)]
        if spark is None:
            result, sources = Result({}, {}, [], MINUTE_MS, []), describe(stores, {})
        else:
            now_ms = int(laps.started.timestamp() * 1000)
            inputs = RunInputs(spark, stores, job.report, bounds, parts[0].to_ms, now_ms)
            stack.callback(inputs.forget)

            def read_part(facts: dict[str, DataFrame], part: int, parts: int) -> dict[str, DataFrame]:
                return stack.enter_context(read_facts(facts, progress, part, parts))

            wanted = inputs.of(job.report)._replace(topic=job.topic, group=job.consumer_group, read=read_part)
            facts = stack.enter_context(read_facts(report.facts(wanted), progress))
            sources = describe(stores, facts)
            laps.end("read")
            are_few = not any(rows.is_cached for rows in facts.values())
            facts = {name: about(rows, job.topic, job.consumer_group) for name, rows in facts.items()}
            step_ms = step_of(parts[0], span_of(sources))
            doing = partial(progress, SCAN_TO)
            result = compute(report, facts, parts[0], step_ms, len(stores), doing, are_few)
            progress(95, "comparing")
            if job.compare:
                first = report._replace(tables=dict(islice(report.tables.items(), 1)))
                before = compute(first, facts, parts[1], MINUTE_MS, len(stores), lambda doing: None, are_few)
            laps.end("make_tables")
    for total in (result.total, *([before.total] if before else [])):
        total |= dict.fromkeys(unknown(report, stores))
    progress(98, "writing the files")
    notes += notes_of_run(report, stores, sources, result, job)
    tables = result.tables | ({"previous": next(iter(before.tables.values()))} if before else {})
    charts = report.charts if tables else ()
    return write_folder(
        job.folder, lambda: summarize(job, report, result, before, sources, notes, laps), tables, charts
    )


class Laps:
    """How long each step of a run takes."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.started = self.ended = now()
        self.durations_s: dict[str, float] = {}

    def end(self, step: str) -> None:
        """This step has ended, and the next one begins."""
        begun, self.ended = self.ended, self._now()
        self.durations_s[step] = round((self.ended - begun).total_seconds(), 3)


def summarize(
    job: Job,
    report: Report,
    result: Result,
    before: Result | None,
    sources: list[dict[str, Any]],
    notes: list[str],
    laps: Laps,
) -> dict[str, Any]:
    """The summary of a run, as ``summary.json`` has it, at the end of the run."""
    laps.end("write_files")
    tables = result.tables
    summary = {
        "report": job.report,
        "title": REPORTS[job.report].title,
        "brokers": [broker for broker, _ in job.stores],
        "parameters": {name: getattr(job, name) for name in PARAMETERS},
        "span": span_of(sources)._asdict(),
        "look_back_ms": REPORTS[job.report].look_back_ms,
        "notes": notes,
        "left_out": result.left_out,
        "words": words(job.report, result.total | {"step_ms": result.step_ms}, tables) if tables else [],
        "headlines": headlines(report, result.total, before.total if before else None),
        "total": result.total,
        "rows": next(iter(tables.values())).to_pylist() if tables else [],
        "step_ms": result.step_ms,
        "inputs": sources,
        "code_version": VERSION,
        "started_ms": int(laps.started.timestamp() * 1000),
        "finished_ms": int(laps.ended.timestamp() * 1000),
        "duration_s": round((laps.ended - laps.started).total_seconds(), 3),
        "durations_s": laps.durations_s,
    }
    if before:
        rows = next(iter(before.tables.values())).to_pylist()
        summary["previous"] = periods(job)[1]._asdict() | {"total": before.total, "rows": rows}
    return summary


def unknown(report: Report, stores: Sequence[StoreInputs]) -> list[str]:
    """Names of the figures that are unknown because none of the stores has a poll journal."""
    if any(store.journal is None or store.journal.files for store in stores):
        return []
    return [figure.name for figure in report.headlines if figure.of_journal or not report.reads]


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
    facts: dict[str, DataFrame], progress: Progress, part: int = 0, parts: int = 1
) -> Iterator[dict[str, DataFrame]]:
    """Have Spark compute the facts once. They are cached until the context ends.

    Up to FEW_FACTS facts are collected and become a new table, so that each later query is a single task. A cached
    table would keep its plan, and the plan of a report with several steps grows with each step until planning takes
    longer than reading. ``part`` of ``parts``: the position of these facts in the whole run.
    """
    ready = {}
    try:
        for rows in facts.values():
            rows.persist()
        for index, (name, rows) in enumerate(facts.items()):
            begin, until = (
                SCAN_FROM + (SCAN_TO - SCAN_FROM) * (part * len(facts) + done) // (parts * len(facts))
                for done in (index, index + 1)
            )
            progress(begin, f"reading: {name.replace('_', ' ')}", until)
            found = rows.limit(FEW_FACTS + 1).toArrow()
            are_few = found.num_rows <= FEW_FACTS
            ready[name] = rows.sparkSession.createDataFrame(found, rows.schema).coalesce(1) if are_few else rows
        yield ready
    finally:
        with suppress(Exception):  # a session whose Java is gone has no cache
            for rows in facts.values():
                rows.unpersist()


def describe(stores: Sequence[StoreInputs], facts: dict[str, DataFrame]) -> list[dict[str, Any]]:
    """What was read of each store: of its log if the report reads logs, of its lake and its poll journal if any."""
    segments: dict[str, dict[int, dict[str, Any]]] = {store.broker: {} for store in stores}
    queues: list[dict[str, Any]] = []
    if "stored" in facts:
        stored = facts["stored"]
        ends = sums(
            stored,
            "broker",
            "segment",
            messages="sum(messages)",
            bytes="sum(bytes)",
            end="max(end)",
            from_ms="min(minute_ts)",
            to_ms=f"max(minute_ts) + {MINUTE_MS}",
        )
        keys = [name for name in ("broker", "topic", "queue_id") if name in stored.columns]
        counts = sums(stored, *keys, messages="sum(messages)")
        of_segments, of_queues = run_at_once(stored.sparkSession, [ends.toArrow, counts.toArrow])
        for row in of_segments.to_pylist():
            segments[row["broker"]][row["segment"]] = row
        queues = of_queues.to_pylist()
    sources = []
    for store in stores:
        source: dict[str, Any] = {"broker": store.broker, "store": str(store.store)}
        of_store = segments[store.broker]
        if of_store:
            source["from_ms"] = min(segment["from_ms"] for segment in of_store.values())
            source["to_ms"] = max(segment["to_ms"] for segment in of_store.values())
        of_lake = of_store.pop(LAKE_SEGMENT, {"messages": 0, "bytes": 0})
        if store.plan is not None:
            source |= log_described(store.plan, list(of_store.values()))
            if store.lake is not None:
                source = log_with_lake(source, store.lake, of_lake["messages"], of_lake["bytes"])
            source |= unknown_in(store, queues)
        if store.lake is not None:
            source["lake"] = lake_described(store.lake, store.plan, store.store, of_lake["messages"])
        if store.journal is not None:
            source["journal"] = store.journal._asdict()
            if store.lake is not None:
                del source["journal"]["files"]  # those that the lake has read may be deleted
        sources.append(source)
    return sources


def unknown_in(store: StoreInputs, queues: list[dict[str, Any]]) -> dict[str, Any]:
    """How many messages are in topics and queues that the broker does not have, and which of these have the fewest.

    ``queues``: the number of ``messages`` by ``broker``, ``topic`` and, where it is known, ``queue_id``.
    """
    counts = ((row["topic"], row.get("queue_id"), row["messages"]) for row in queues if row["broker"] == store.broker)
    unknown = unknown_queues(store.store, counts)
    names = [f"{name} ({messages:,})" for name, messages in unknown.items()]
    return {"unknown_messages": sum(unknown.values()), "unknown_queues": names}


def span_of(sources: Sequence[dict[str, Any]]) -> Period:
    """From the first minute to the end of the last one of which something was read; None for both without any."""
    read = [source for source in sources if "from_ms" in source]
    read += [source["journal"] for source in sources if "journal" in source and source["journal"]["entries"]]
    if not read:
        return Period(None, None)
    first, last = min(part["from_ms"] for part in read), max(part["to_ms"] for part in read)
    return Period(first - first % MINUTE_MS, last + -last % MINUTE_MS)
