"""The lake as an input of reports: which lake to read, and the notes about it.

A report reads the lake, then the log and the journal from the lake's end on. So it has everything that the store still
has, and what the broker has deleted since the lake was filled.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spark_jobs.errors import LakeError
from spark_jobs.lake.folders import brokers
from spark_jobs.lake.lake import Lake, find_lake, journal_names
from spark_jobs.lake.notes import CUT_SHORT, DELETED, LOST, TORN
from spark_jobs.lake.storage import Location
from spark_jobs.sources.commit_log_bounds import implausible_note
from spark_jobs.sources.commit_log_segments import LogPlan
from spark_jobs.sources.poll_journal_files import JournalSurvey, name_of

SOURCES = ("auto", "lake", "log")
"""What a report reads: the lake if there is one, always the lake, or only the log and the journal."""
LAKE_SEGMENT = -1
"""The value of the column ``segment`` for messages from a lake."""


def lake_for(store: str | os.PathLike[str], lakes: Location | None, source: str) -> tuple[Lake | None, list[str]]:
    """The lake to read, or None for the log alone, and notes for the reader of the report.

    There is a note if a lake exists but cannot be read. LakeError if ``source`` is ``lake`` and there is none.
    """
    if source not in SOURCES:
        raise LakeError(f"A report reads {', '.join(SOURCES)}, not {source!r}.")
    if source == "log" or (lakes is None and source == "auto"):
        return None, []
    problem = ""
    try:
        found = find_lake(lakes, store) if lakes else None
        if found is not None:
            return found, []
        if lakes and brokers(lakes, store):
            problem = (
                f"What the lake in {lakes} has of {os.fspath(store)} comes from another store that was there, or from "
                "another machine's store of that path; "
                "`.venv/bin/python manage.py lake sync` fills it from this store."
            )
    except LakeError as error:
        problem = str(error)
    if source == "lake":
        raise LakeError(
            problem
            or f"There is no lake of {os.fspath(store)} in {lakes}. `.venv/bin/python manage.py lake sync` fills one."
        )
    sentence = f"The lake was not read, and what is deleted from the log is missing here: {problem}"
    return None, [sentence] if problem else []


def with_lake(tail: JournalSurvey, store: str | Path, lake: Lake) -> JournalSurvey:
    """The survey of the whole journal: the lake's part, and what is new in the store."""
    on_disk = journal_names(store)
    read = [file for file in lake.notes.journal if name_of(file.number, file.created_ms) in lake.journal]
    gone = [file for file in read if name_of(file.number, file.created_ms) not in on_disk]
    newest = max((file.number for file in read), default=-1)
    starts, stops = [file.min_ms for file in lake.polls], [file.max_ms for file in lake.polls]
    if tail.entries:
        starts.append(tail.from_ms)
        stops.append(tail.to_ms)
    return tail._replace(
        files=tail.files + len(gone),
        entries=tail.entries + sum(file.rows for file in lake.polls),
        lost=tail.lost + lake.notes.amounts[LOST],
        cut_off_files=tail.cut_off_files
        + sum(not file.closed and (file.number != newest or tail.files > 0) for file in gone),
        from_ms=min(starts, default=0),
        to_ms=max(stops, default=0),
    )


def gap_bytes(lake: Lake, plan: LogPlan | None) -> int:
    """Bytes of the log that were deleted before the lake had read them, including those behind the lake's end."""
    behind = max(0, plan.log_start - lake.position) if plan and lake.position is not None else 0
    return behind + lake.notes.amounts[DELETED]


def lake_described(lake: Lake, plan: LogPlan | None, messages: int) -> dict[str, Any]:
    """The summary's part about the lake. ``messages``: how many were read from it."""
    notes = lake.notes
    return {
        "folder": lake.folder,
        "broker": lake.broker,
        "position": lake.position or 0,
        "messages": messages,
        "synced_ms": notes.synced_ms,
        "dropped_before_ms": notes.dropped.before_ms,
        "gap_bytes": gap_bytes(lake, plan),
        "missing_journal_files": len(notes.missing_journal_files),
    }


def log_with_lake(log: dict[str, Any], lake: Lake, messages: int) -> dict[str, Any]:
    """The result of ``log_described``, which is about the log behind the lake, with the lake's part added."""
    return log | {
        "messages": log["messages"] + messages,
        "start_offset": min((file.min_offset for file in lake.messages), default=log["start_offset"]),
        "torn_bytes": log["torn_bytes"] + lake.notes.amounts[TORN],
    }


def lake_notes(lake: Lake, plan: LogPlan | None, reads_polls: bool, from_ms: int | None = None) -> list[str]:
    """Sentences on what the lake lacks, for the reader of a report that begins at ``from_ms``, or with all data.

    ``plan``: what follows the lake in the log; None for a report that reads no log.
    """
    sentences, lost, dropped = [], gap_bytes(lake, plan), lake.notes.dropped
    is_read = (plan is not None and dropped.messages) or (reads_polls and dropped.polls)
    if is_read and (from_ms is None or from_ms < dropped.before_ms):
        before = datetime.fromtimestamp(dropped.before_ms / 1000, UTC).date()
        sentences.append(
            f"The lake has dropped what it had of before {before} (UTC), as GLASSMQ_LAKE_KEEP_DAYS says; that "
            "is missing here."
        )
    if plan is not None and lost:
        sentences.append(
            f"{lost:,} bytes of the log were deleted before the lake had read them; their messages are missing "
            "here. The lake has to be filled more often, or fileReservedTime to be longer."
        )
    amounts = lake.notes.amounts
    torn = amounts[TORN]
    if plan is not None and torn:
        rows, read = sum(file.rows for file in lake.messages), (lake.position or 0) - torn
        about = round(torn * rows / read) if read > 0 else 0
        sentences.append(
            f"{torn:,} bytes of the log that the lake has read were damaged; about {about:,} "
            f"{'message is' if about == 1 else 'messages are'} missing here."
        )
    left_out = {what: count for what, count in amounts.items() if what not in (DELETED, TORN, LOST)}
    if plan is not None and left_out:
        sentences.append(f"When the lake was filled: {implausible_note(left_out)}")
    if plan is not None and plan.ended_by in CUT_SHORT:
        sentences.append(
            f"The log cannot be read behind byte {plan.log_end:,}, since {CUT_SHORT[plan.ended_by]}. Neither the "
            f"report nor the lake has what follows, including {len(plan.segments_unread):,} segments."
        )
    if reads_polls and lake.notes.missing_journal_files:
        sentences.append(
            f"{len(lake.notes.missing_journal_files):,} files of the poll journal were deleted before the "
            "lake had read them; what was in them is missing here."
        )
    return sentences
