"""The notes of a report: sentences that its reader must know before the figures."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.inputs import StoreInputs
from spark_jobs.job import NO_JOURNAL, Job, periods
from spark_jobs.lake.report_lake import lake_gaps, lake_notes, unread_files
from spark_jobs.output.result import Result
from spark_jobs.output.words import many
from spark_jobs.reports.shape import Report
from spark_jobs.sources.commit_log_bounds import implausible_note
from spark_jobs.sources.commit_log_damage import find_damage, left_out_of
from spark_jobs.sources.poll_journal_files import JournalSurvey

if TYPE_CHECKING:
    from spark_jobs.sources.commit_log_damage import Gap
    from spark_jobs.sources.commit_log_segments import LogPlan

MOST_DAMAGE = 5
"""Damaged places of a log that get a sentence each."""
MOST_NAMED = 5
"""The most names that a sentence lists."""


def notes_of_run(
    report: Report, stores: Sequence[StoreInputs], sources: Sequence[dict[str, Any]], result: Result, job: Job
) -> list[str]:
    """The notes about every store, with its broker's name where there are several; then those about the tables."""
    is_empty = not any(table.num_rows for table in result.tables.values())
    sentences = []
    for store, source in zip(stores, sources, strict=True):
        start = f"{store.broker}: " if len(stores) > 1 else ""
        sentences += [start + sentence for sentence in store_notes(report, store, source, is_empty, job)]
    return sentences + [
        f"The table {name} is too long for this report and contains its first rows only." for name in result.cut
    ]


def store_notes(report: Report, store: StoreInputs, source: dict[str, Any], is_empty: bool, job: Job) -> list[str]:
    """The notes about one store. ``is_empty``: the report's tables have no rows."""
    sentences, journal, plan = [], store.journal, store.plan
    gaps = lake_gaps(store.lake, plan, store.window) if store.lake and plan else []
    if plan is not None:
        sentences += damage_notes(plan, source, gaps) + unknown_notes(source) + batch_notes(Path(plan.store))
    if journal is not None and not journal.files:
        missing = "there is nothing to report" if not report.reads else "a part of this report is missing"
        sentences.append(NO_JOURNAL.format(missing))
    elif journal is not None and not journal.entries and store.window == (None, None):
        sentences.append("The poll journal of this store is empty: no pull has ended yet.")
    elif is_empty and plan is None:
        sentences.append(f"The poll journal has no entry of what was asked for{_restriction(job)}.")
    if plan is not None and plan.log_end <= plan.log_start and store.lake is None:
        sentences.append("The commit log of this store is empty.")
    elif plan is not None and is_empty:
        sentences.append(f"The commit log has no message of what was asked for{_restriction(job)}.")
    if journal is not None:
        sentences += journal_notes(journal)
    if store.lake is not None:
        begins = [part.from_ms for part in periods(job) if part.from_ms is not None]
        unread = unread_files(store.lake, store.store) if journal is not None else None
        sentences += lake_notes(store.lake, plan, gaps, unread, min(begins, default=None))
    return sentences


def journal_notes(journal: JournalSurvey) -> list[str]:
    """Sentences on the entries that the journal lacks."""
    sentences, about = [], journal.torn_entries
    if journal.torn_bytes:
        of = many(journal.entries + about, "entry", "entries")
        missing = f"about {about:,} of {of}" if about else "the entries there"
        sentences.append(
            f"{many(journal.torn_bytes, 'byte')} of the poll journal, in {listed(journal.torn_files)}, cannot be read: "
            f"this report lacks {missing}."
        )
    if journal.cut_off_files:
        files = many(journal.cut_off_files, "file")
        sentences.append(f"A crash may have cut off the last entries of {files} of the poll journal.")
    if journal.lost:
        entries = many(journal.lost, "entry", "entries")
        sentences.append(f"This report lacks {entries} that the broker could not write to its poll journal.")
    return sentences


def listed(names: Sequence[str]) -> str:
    """As ``a, b and 3 more``."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def batch_notes(store: Path) -> list[str]:
    """A sentence about the topics of a store with batch consume queues; an empty list if there are none."""
    topics = sorted(folder.name for folder in store.glob("batchconsumequeue/*"))
    if not topics:
        return []
    return [f"Each batch of a producer counts as one message in topics with queue.type=BatchCQ: {listed(topics)}."]


def _restriction(job: Job) -> str:
    """As ``: topic orders, group a``; empty for everything."""
    names = (("topic", job.topic), ("group", job.consumer_group))
    parts = [f"{name} {value}" for name, value in names if value]
    if job.from_ms is not None or job.to_ms is not None:
        parts.append("this window of time")
    return f": {', '.join(parts)}" if parts else ""


def damage_notes(plan: "LogPlan", source: dict[str, Any], gaps: "Sequence[Gap]" = ()) -> list[str]:
    """Sentences on what the log's damage cost: bytes, offsets, the estimated number of messages, and their time.

    ``source`` describes what was read of the store (``run.describe``); ``gaps`` is what its lake lacks.
    """
    is_short = plan.end - plan.start > sum(part.stop - part.start for part in plan.ranges)
    if is_short or source["torn_segments"]:
        gaps = [*gaps, *find_damage(plan, source["torn_segments"])]
    left_out = left_out_of(gaps)
    places = [(gap.amount, gap.start, gap.end, gap.from_ms, gap.to_ms) for gap in gaps if gap.what not in left_out]
    sentences = []
    for size, start, end, from_ms, to_ms in places[:MOST_DAMAGE]:
        about = round(size / source["mean_size"]) if source["mean_size"] else 0
        sentences.append(
            f"From offset {start:,} to {end:,} the commit log is missing or damaged: {many(size, 'byte')}"
            + (f", about {many(about, 'message')}" if about else "")
            + _between(from_ms, to_ms)
            + "."
        )
    others = places[MOST_DAMAGE:]
    if others:
        size = sum(place[0] for place in others)
        sentences.append(f"The same is true of {many(len(others), 'more place')}, {many(size, 'byte')} in all.")
    return [*sentences, note] if (note := implausible_note(left_out)) else sentences


def unknown_notes(source: dict[str, Any]) -> list[str]:
    """A sentence on messages in topics and queues that the broker does not have; an empty list without any."""
    count = source["unknown_messages"]
    if not count:
        return []
    return [
        f"The broker does not have the topic or queue of {many(count, 'message')}: {listed(source['unknown_queues'])}. "
        "A deleted topic looks like this, and so does a damaged message."
    ]


def _between(from_ms: int | None, to_ms: int | None) -> str:
    """As ``, stored between 2026-01-31 10:00:00 and 2026-01-31 10:05:00 UTC``."""
    first, last = (
        None if at_ms is None else f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        for at_ms in (from_ms, to_ms)
    )
    if first and last:
        return f", stored between {first} and {last} UTC"
    return f", stored after {first} UTC" if first else f", stored before {last} UTC" if last else ""
