"""One run of a report, from the store to the folder of its files. Knows Spark and no Django."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from spark_jobs.catalogue import REPORTS, ReportInfo
from spark_jobs.errors import WindowError
from spark_jobs.spark.code_version import code_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.inputs import StoreInputs
    from spark_jobs.output.result import Result
    from spark_jobs.reports.shape import Report
    from spark_jobs.sources.commit_log_segments import LogPlan


class Progress(Protocol):
    """Whom to tell how far a run is."""

    def __call__(self, percent: int, doing: str, until: int = 0) -> None:
        """Percent never go back. ``until``: what is being done is a scan, and goes as far as that."""


MINUTE_MS = 60_000
NO_JOURNAL = (
    "This store has no poll journal, so {}: how pulls are answered and what is committed is written there alone. "
    "GlassMQ keeps one while pollJournalEnable is true; RocketMQ keeps none."
)
MOST_DAMAGE = 5
"""Damaged places of a log that have a sentence each."""
SCAN_FROM, SCAN_TO = 5, 80
"""Percent of a run that go by while the facts are made."""
FEW_FACTS, FEW_ROWS = 500_000, 50_000
"""Facts that one task processes; facts of a small store that are collected and become a table of their own."""


class Job(NamedTuple):
    """What to run, in minutes of time that begin in [from_ms, to_ms); None leaves that side open."""

    report: str
    store: Path
    folder: Path
    from_ms: int | None = None
    to_ms: int | None = None
    topic: str | None = None
    consumer_group: str | None = None
    compare: bool = False
    """With the period of the same length before; needs both ends."""
    lakes: Path | None = None
    """The folder in which a lake of the store may be."""
    source: str = "auto"
    """What to read, one of ``report_lake.SOURCES``."""


class Period(NamedTuple):
    """A part of time, whole minutes in ms; None is open."""

    from_ms: int | None
    to_ms: int | None


def run_report(job: Job, spark: "SparkSession", now: Callable[[], datetime], progress: Progress) -> dict[str, Any]:
    """Run the report and write its folder; returns the summary.

    NotAStoreError, WindowError, KeyError for an unknown report.
    """
    from spark_jobs.inputs import StoreInputs
    from spark_jobs.lake.report_lake import lake_for
    from spark_jobs.output.files import write_folder
    from spark_jobs.output.result import before, concerning, result
    from spark_jobs.output.words import words
    from spark_jobs.reports import load

    started, info, parts = now(), REPORTS[job.report], periods(job)
    report = load(job.report)
    progress(1, "looking what there is")
    bounds = [part.from_ms for part in reversed(parts) if part.from_ms is not None]
    lake, said = lake_for(job.store, job.lakes, job.source)
    inputs = StoreInputs(spark, job.store, report, bounds, parts[0].to_ms, lake)
    with ExitStack() as stack:
        stack.callback(inputs.forget)

        def read_part(facts: "dict[str, DataFrame]", part: int, parts: int) -> "dict[str, DataFrame]":
            return stack.enter_context(read_facts(facts, progress, part, parts, inputs.are_few))

        asked = inputs.of(report)._replace(topic=job.topic, group=job.consumer_group, read=read_part)
        facts = stack.enter_context(read_facts(report.facts(asked), progress, from_few=inputs.are_few))
        told = concerning(facts, job.topic, job.consumer_group)
        found = result(report, told, parts[0], lambda doing: progress(SCAN_TO, doing))
        progress(95, "comparing")
        previous = [(part, *before(report, told, part)) for part in parts[1:]]
        source = described(inputs, facts)
    for total in (found.total, *(its_total for _, its_total, _ in previous)):
        total |= dict.fromkeys(unknown(info, report, inputs))
    progress(98, "writing the files")
    finished, tables = now(), dict(found.tables)
    summary = {
        "report": job.report,
        "title": info.title,
        "rows": next(iter(found.tables.values())).to_pylist(),
        "total": found.total,
        "parameters": parameters(job),
        "input": source,
        "words": words(job.report, found.total | {"step_ms": found.step_ms}, found.tables),
        "step_ms": found.step_ms,
        "left_out": found.left_out,
        "notes": [*said, *notes(info, report, inputs, found, job, source)],
        "code_version": code_version(),
        "started_ms": int(started.timestamp() * 1000),
        "finished_ms": int(finished.timestamp() * 1000),
        "duration_s": round((finished - started).total_seconds(), 3),
    }
    for part, its_total, its_rows in previous:
        tables["previous"] = its_rows
        summary["previous"] = {
            "from_ms": part.from_ms,
            "to_ms": part.to_ms,
            "total": its_total,
            "rows": its_rows.to_pylist(),
        }
    summary["headlines"] = headlines(report, found.total, *(its_total for _, its_total, _ in previous))
    return write_folder(job.folder, summary, tables, report.charts)


def unknown(info: ReportInfo, report: "Report", inputs: "StoreInputs") -> list[str]:
    """Figures of which this store says nothing, since it has no poll journal."""
    if inputs.journal is None or inputs.journal.files:
        return []
    return [figure.name for figure in report.headlines if figure.of_journal or info.needs_journal]


def headlines(report: "Report", total: dict[str, Any], before: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The figures that stand for the report, beside those of the period before."""
    from spark_jobs.output.charts import kind_of

    return [
        figure._asdict()
        | {
            "kind": kind_of(figure.name),
            "value": total.get(figure.name),
            "before": None if before is None else before.get(figure.name),
        }
        for figure in report.headlines
    ]


def parameters(job: Job) -> dict[str, Any]:
    """What was asked for, as the summary has it."""
    return {
        "from_ms": job.from_ms,
        "to_ms": job.to_ms,
        "topic": job.topic,
        "consumer_group": job.consumer_group,
        "compare": job.compare,
        "source": job.source,
    }


def periods(job: Job) -> list[Period]:
    """The job's period, and the one before it if that is to be compared. WindowError for what cannot be."""
    start, stop = job.from_ms, job.to_ms
    if any(bound is not None and bound % MINUTE_MS for bound in (start, stop)):
        raise WindowError(f"A report's window begins and ends with a whole minute: a multiple of {MINUTE_MS:,} ms.")
    if start is not None and stop is not None and stop <= start:
        raise WindowError("The end of a report's window must be later than its beginning.")
    found = [Period(start, stop)]
    if job.compare:
        if start is None or stop is None:
            raise WindowError("A comparison with the time before needs the beginning and the end of the window.")
        found.append(Period(2 * start - stop, start))
    return found


@contextmanager
def read_facts(
    facts: "dict[str, DataFrame]", progress: Progress, part: int = 0, parts: int = 1, from_few: bool = False
) -> "Iterator[dict[str, DataFrame]]":
    """Have Spark compute the facts, once; they are cached until the context ends.

    Up to FEW_FACTS facts are put into one partition, so that each table is a single task. Up to FEW_ROWS facts are
    collected and become a new table: a cached table keeps its plan, and the plan of a report with several steps grows
    with each of them until planning takes longer than reading. ``from_few``: the input is so small that the facts are
    collected without being counted first. ``part`` of ``parts``: which of all facts these are.
    """
    cached: list[DataFrame] = []
    ready = {}
    try:
        if not from_few or len(facts) > 1:  # one may be made of another
            cached += [rows.persist() for rows in facts.values()]
        for index, (name, rows) in enumerate(facts.items()):
            begin, until = (
                SCAN_FROM + (SCAN_TO - SCAN_FROM) * (part * len(facts) + done) // (parts * len(facts))
                for done in (index, index + 1)
            )
            progress(begin, f"reading: {name.replace('_', ' ')}", until)
            count = None if from_few else rows.count()
            table = None
            if count is None or count <= FEW_ROWS:
                table = as_table(rows)
            elif count <= FEW_FACTS:
                table = rows.coalesce(1).persist()
            cached.append(rows.persist() if table is None else table)
            ready[name] = rows if table is None else table
        yield ready
    finally:
        with suppress(Exception):  # a session whose Java is gone has nothing to give back
            for rows in cached:
                rows.unpersist()


def as_table(rows: "DataFrame") -> "DataFrame | None":
    """Their values alone, in one partition; None when they are not that few."""
    found = rows.coalesce(1).limit(FEW_ROWS + 1).toArrow()
    return None if found.num_rows > FEW_ROWS else rows.sparkSession.createDataFrame(found, rows.schema).coalesce(1)


def described(inputs: "StoreInputs", facts: "dict[str, DataFrame]") -> dict[str, Any]:
    """What was read: of the log, if it was, and in ``journal`` what there is of the poll journal."""
    from pyspark.sql import functions as F

    from spark_jobs.inputs import log_described
    from spark_jobs.lake.report_lake import LAKE_SEGMENT, lake_described, log_with_lake

    found: dict[str, Any] = {"store": str(inputs.store)}
    of_lake = 0
    if inputs.plan is not None:
        segments = (
            facts["stored"]
            .groupBy("segment")
            .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"), F.max("end").alias("end"))
            .collect()
        )
        rows = {segment["segment"]: segment.asDict() for segment in segments}
        of_lake = rows.pop(LAKE_SEGMENT, {"messages": 0})["messages"]
        found |= log_described(inputs.plan, list(rows.values()))
        if inputs.lake is not None:
            found = log_with_lake(found, inputs.lake, of_lake)
    if inputs.lake is not None:
        found["lake"] = lake_described(inputs.lake, inputs.plan, of_lake)
    if inputs.journal is not None:
        found["journal"] = inputs.journal._asdict() | {"foreign_files": list(inputs.journal.foreign_files)}
    return found


def damage_notes(plan: "LogPlan", source: dict[str, Any]) -> list[str]:
    """What is missing because the log is damaged: bytes, offsets, about how many messages, of what time.

    ``source`` is the ``input`` of the summary.
    """
    from spark_jobs.sources.commit_log_bounds import implausible_note
    from spark_jobs.sources.commit_log_damage import find_damage

    is_short = plan.end - plan.start > sum(part.stop - part.start for part in plan.ranges)
    if not is_short and not source["torn_segments"]:
        return []
    found, left_out = find_damage(plan, source["torn_segments"])
    said = []
    for damage in found[:MOST_DAMAGE]:
        size = damage.end - damage.start
        about = round(size / source["mean_size"]) if source["mean_size"] else 0
        said.append(
            f"{size:,} bytes of the commit log, from offset {damage.start:,} to {damage.end:,}, are missing or damaged"
            + (f": about {about:,} message{'' if about == 1 else 's'}" if about else "")
            + _between(damage.from_ms, damage.to_ms)
            + "."
        )
    others = found[MOST_DAMAGE:]
    if others:
        size = sum(damage.end - damage.start for damage in others)
        said.append(f"{len(others):,} more places of the commit log are missing or damaged, {size:,} bytes in all.")
    return [*said, note] if (note := implausible_note(left_out)) else said


def _between(from_ms: int | None, to_ms: int | None) -> str:
    """As ``, stored between 2026-01-31 10:00:00 and 2026-01-31 10:05:00 UTC``."""
    first, last = (
        None if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        for at_ms in (from_ms, to_ms)
    )
    if first and last:
        return f", stored between {first} and {last} UTC"
    return f", stored after {first} UTC" if first else f", stored before {last} UTC" if last else ""


def notes(
    info: ReportInfo,
    report: "Report",
    inputs: "StoreInputs",
    found: "Result",
    job: Job,
    source: dict[str, Any],
) -> list[str]:
    """What the reader has to know before the figures, a sentence each."""
    from spark_jobs.lake.report_lake import lake_notes

    said, journal, plan = [], inputs.journal, inputs.plan
    empty = not any(table.num_rows for table in found.tables.values())
    if journal is not None and not journal.files:
        missing = "there is nothing to report" if info.needs_journal else "a part of this report is missing"
        said.append(NO_JOURNAL.format(missing))
    elif journal is not None and not journal.entries:
        said.append("The poll journal of this store is empty: no pull has ended yet.")
    elif empty and plan is None:
        said.append(f"The poll journal has no entry of what was asked for{_asked(job)}.")
    if plan is not None and plan.end <= plan.start and inputs.lake is None:
        said.append("The commit log of this store is empty.")
    elif plan is not None and empty:
        said.append(f"The commit log has no message of what was asked for{_asked(job)}.")
    if plan is not None:
        said = [*damage_notes(plan, source), *said]
    if journal is not None and journal.lost:
        said.append(f"The broker could not write {journal.lost:,} entries of its poll journal; they are missing here.")
    if inputs.lake is not None:
        begins = [part.from_ms for part in periods(job) if part.from_ms is not None]
        said += lake_notes(inputs.lake, plan, journal, min(begins, default=None))
    said += [f"The table {name} is longer than can be kept here; it has its first rows only." for name in found.cut]
    return said


def _asked(job: Job) -> str:
    """As ``: topic orders, group a``; empty for everything."""
    words = [f"{name} {value}" for name, value in (("topic", job.topic), ("group", job.consumer_group)) if value]
    if job.from_ms is not None or job.to_ms is not None:
        words.append("this window of time")
    return f": {', '.join(words)}" if words else ""
