"""Reports and the lake: whether there is one to be read, and what is said of it.

What a lake has of a store need not be read from its log and journal again, and may be gone there: a report reads the
lake, then the log and the journal from where the lake ends. So it never says less than the log does.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spark_jobs.errors import LakeError
from spark_jobs.lake.folders import filled
from spark_jobs.lake.lake import Lake, find_lake
from spark_jobs.lake.manifest import CUT_SHORT
from spark_jobs.sources.commit_log_segments import LogPlan
from spark_jobs.sources.poll_journal_files import HEAD, JournalSurvey, find_files, name_in, name_of, read_head

SOURCES = ("auto", "lake", "log")
"""What a report may be told to read: the lake where there is one, the lake, or only the log and the journal."""
LAKE_SEGMENT = -1
"""In the column ``segment``, of messages that come from a lake."""


def lake_for(store: str | os.PathLike[str], lakes: Path | None, source: str) -> tuple[Lake | None, list[str]]:
    """The lake to be read, None for the log alone; and what the reader of the report has to know of that.

    LakeError where it has to be a lake and there is none. Only where there is none the log alone is nothing to be told.
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
        others = filled(lakes, store) if lakes else []
        if others:
            problem = (
                f"{others[-1]} was filled from another store that was there; `.venv/bin/python manage.py lake "
                "sync` fills one of this store."
            )
    except LakeError as error:
        problem = str(error)
    if source == "lake":
        raise LakeError(
            problem
            or f"There is no lake of {os.fspath(store)} in {lakes}. `.venv/bin/python manage.py lake sync` fills one."
        )
    said = f"The lake was not read, and what is deleted from the log is missing here: {problem}"
    return None, [said] if problem else []


def known_of_journal(lake: Lake | None) -> dict[str, int]:
    """What the lake has of each file of the journal, as ``poll_journal_files.begins_behind`` takes it."""
    if lake is None:
        return {}
    return {name_of(*file): part.end for file, part in lake.manifest.journal_ends().items()}


def with_lake(tail: JournalSurvey, store: str | Path, lake: Lake) -> JournalSurvey:
    """What is in the journal, the lake's part with what is new in the store."""
    parts, ends = lake.manifest.polls, lake.manifest.journal_ends()
    on_disk = {name_in(read_head(file.path, HEAD)) for file in find_files(store)[0]}
    gone = [part for file, part in ends.items() if name_of(*file) not in on_disk]
    newest = max((part.number for part in parts), default=-1)
    files = [file for part in parts for file in part.files]
    starts, stops = [file.min_ms for file in files], [file.max_ms for file in files]
    if tail.entries:
        starts.append(tail.from_ms)
        stops.append(tail.to_ms)
    return tail._replace(
        files=tail.files + len(gone),
        entries=tail.entries + sum(file.rows for file in files),
        lost=tail.lost + sum(part.lost for part in parts),
        cut_off_files=tail.cut_off_files
        + sum(not part.closed and (part.number != newest or tail.files > 0) for part in gone),
        from_ms=min(starts, default=0),
        to_ms=max(stops, default=0),
    )


def gap_bytes(lake: Lake, plan: LogPlan | None) -> int:
    """Bytes of the log that were deleted before the lake had read them, those behind its end among them."""
    behind = max(0, plan.start - lake.manifest.position) if plan else 0
    return behind + sum(gap.end - gap.start for gap in lake.manifest.gaps)


def lake_described(lake: Lake, plan: LogPlan | None, messages: int) -> dict[str, Any]:
    """What a summary says of the lake; ``messages`` of them were read from it."""
    manifest = lake.manifest
    return {
        "folder": str(lake.folder),
        "position": manifest.position,
        "messages": messages,
        "synced_ms": manifest.synced_ms,
        "dropped_before_ms": manifest.dropped.before_ms,
        "gap_bytes": gap_bytes(lake, plan),
        "missing_journal_files": len(manifest.missing_journal_files),
    }


def log_with_lake(log: dict[str, Any], lake: Lake, messages: int) -> dict[str, Any]:
    """What ``log_described`` says of the part behind the lake, and the lake's part."""
    parts = lake.manifest.messages
    return log | {
        "messages": log["messages"] + messages,
        "start_offset": parts[0].start if parts else log["start_offset"],
        "torn_bytes": log["torn_bytes"] + sum(part.torn_bytes for part in parts),
    }


def lake_notes(
    lake: Lake, plan: LogPlan | None, journal: JournalSurvey | None, from_ms: int | None = None
) -> list[str]:
    """What the reader of a report has to know of the lake; it begins at ``from_ms``, or with all there is."""
    said, lost, dropped = [], gap_bytes(lake, plan), lake.manifest.dropped
    is_read = (plan is not None and dropped.messages) or (journal is not None and dropped.polls)
    if is_read and (from_ms is None or from_ms < dropped.before_ms):
        before = datetime.fromtimestamp(dropped.before_ms / 1000, UTC).date()
        said.append(
            f"The lake has dropped what it had of before {before} (UTC), as GLASSMQ_LAKE_KEEP_DAYS says; that "
            "is missing here."
        )
    if plan is not None and lost:
        said.append(
            f"{lost:,} bytes of the log were deleted before the lake had read them; their messages are missing "
            "here. The lake has to be filled more often, or fileReservedTime to be longer."
        )
    if plan is not None and plan.ended_by in CUT_SHORT:
        said.append(
            f"The log cannot be read behind byte {plan.end:,}, since {CUT_SHORT[plan.ended_by]}: neither "
            f"report nor lake have what comes then, {len(plan.segments_unread):,} segments among it."
        )
    if journal is not None and lake.manifest.missing_journal_files:
        said.append(
            f"{len(lake.manifest.missing_journal_files):,} files of the poll journal were deleted before the "
            "lake had read them; what was in them is missing here."
        )
    return said
