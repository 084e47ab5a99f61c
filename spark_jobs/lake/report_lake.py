"""The lake as an input of reports: which lake to read, and the notes about it.

A report reads the lake, then the log and the journal from the lake's end on. So it has everything that the store still
has, and what the broker has deleted since the lake was filled.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spark_jobs.errors import LakeError
from spark_jobs.lake.delta import files_in
from spark_jobs.lake.lake import Lake, find_lake, require_same
from spark_jobs.lake.storage import Location
from spark_jobs.lake.sync import read_on
from spark_jobs.lake.tasks import CUT_OFF, LOST, OF_JOURNAL, UNREAD, JournalDone
from spark_jobs.output.words import many
from spark_jobs.sources.commit_log_bounds import first_store_ms
from spark_jobs.sources.commit_log_damage import DAMAGED, DELETED, Gap
from spark_jobs.sources.commit_log_files import find_segments
from spark_jobs.sources.commit_log_segments import LogPlan
from spark_jobs.sources.poll_journal_files import JournalPosition, JournalSurvey, created_ms_of, files_after, find_files

LAKE_SEGMENT = -1
"""The value of the column ``segment`` for messages from a lake."""
CUT_SHORT = {"invalid record": "the bytes there are not a valid record"}
"""In words, the ends of a log behind which there may be more, by their names."""


def lake_for(broker: str, store: Path, lakes: Location | None, is_needed: bool) -> tuple[Lake | None, list[str]]:
    """The lake to read of a broker, or None for the log alone, and notes for the reader of the report.

    There is a note if a lake exists but cannot be read. If a lake ``is_needed``, there is a LakeError in place of the
    note, and also if there is no lake.
    """
    problem = ""
    try:
        found = find_lake(lakes, broker) if lakes else None
        if found is not None:
            require_same(store, found)
            return found, []
    except LakeError as error:
        problem = str(error)
    if is_needed:
        raise LakeError(
            problem or f"There is no lake of {broker} in {lakes}. `.venv/bin/python manage.py lake sync` fills one."
        )
    sentence = f"The lake was not read, and what is deleted from the log is missing here: {problem}"
    return None, [sentence] if problem else []


def with_lake(tail: JournalSurvey, lake: Lake, window: tuple[int | None, int | None] = (None, None)) -> JournalSurvey:
    """The survey of the whole journal: what is new in the store, whose files alone are counted, and the lake's part.

    Of the lake, the entries of files that may have some of the window count.
    """
    polls = files_in(lake.polls, *window)
    starts, stops = [file.min_ms for file in polls], [file.max_ms for file in polls]
    if tail.entries:
        starts.append(tail.from_ms)
        stops.append(tail.to_ms)
    return tail._replace(
        files=max(tail.files, int(lake.journal is not None)),
        entries=tail.entries + sum(file.rows for file in polls),
        lost=tail.lost + lake.amounts[LOST],
        cut_off_files=tail.cut_off_files + lake.amounts[CUT_OFF],
        from_ms=min(starts, default=0),
        to_ms=max(stops, default=0),
    )


def unread_files(lake: Lake, store: Path) -> int:
    """Files of the poll journal that were deleted or damaged before the lake had read them, until now."""
    behind = files_after(find_files(store), lake.journal)
    there = [JournalDone(JournalPosition(file.number, created_ms_of(file) or 0, 0, True)) for file in behind]
    return lake.unread_files + (read_on(lake.journal, there)[1][UNREAD] if there else 0)


def lake_gaps(lake: Lake, plan: LogPlan, window: tuple[int | None, int | None] = (None, None)) -> list[Gap]:
    """What lake and log together lack of the log, where it may have messages that were stored in the window.

    Includes what was deleted behind the lake's end before the lake had read it.
    """
    found = [gap for gap in lake.gaps if gap.what not in OF_JOURNAL]
    position, begin = lake.position or 0, plan.log_start
    if lake.position is not None and begin > position:
        first = next((file for file in find_segments(plan.store)[0] if file.base <= begin < file.limit), None)
        first_ms = None if first is None else first_store_ms(first.path, first.base)
        found.append(Gap(DELETED, position, begin, begin - position, lake.last_ms, first_ms))
    from_ms, to_ms = window
    return [
        gap
        for gap in found
        if (from_ms is None or gap.to_ms is None or gap.to_ms >= from_ms)
        and (to_ms is None or gap.from_ms is None or gap.from_ms < to_ms)
    ]


def lake_described(lake: Lake, plan: LogPlan | None, store: Path, messages: int) -> dict[str, Any]:
    """The summary's part about the lake. ``messages``: how many were read from it."""
    behind = max(0, plan.log_start - lake.position) if plan and lake.position is not None else 0
    return {
        "folder": lake.folder,
        "broker": lake.broker,
        "position": lake.position or 0,
        "messages": messages,
        "written_ms": lake.written_ms,
        "dropped_before_ms": lake.dropped.before_ms,
        "gap_bytes": behind + lake.deleted_bytes,
        "missing_journal_files": unread_files(lake, store),
    }


def log_with_lake(log: dict[str, Any], lake: Lake, messages: int, size: int) -> dict[str, Any]:
    """The result of ``log_described``, which is about the log behind the lake, with the lake's part added.

    ``messages`` and their ``size``: what was read of the lake.
    """
    count = log["messages"] + messages
    return log | {
        "messages": count,
        "mean_size": (log["mean_size"] * log["messages"] + size) / count if count else 0.0,
        "start_offset": min((file.min_offset for file in lake.messages), default=log["start_offset"]),
        "torn_bytes": log["torn_bytes"] + lake.amounts[DAMAGED],
    }


def lake_notes(
    lake: Lake, plan: LogPlan | None, gaps: Sequence[Gap], unread: int | None, from_ms: int | None = None
) -> list[str]:
    """Sentences on what the lake lacks, for the reader of a report that begins at ``from_ms``, or with all data.

    ``plan``: what follows the lake in the log; None for a report that reads no log. ``gaps``: those of the report's
    window. ``unread``: files of the poll journal (``unread_files``); None for a report that does not read it.
    """
    sentences, dropped = [], lake.dropped
    is_read = (plan is not None and dropped.messages) or (unread is not None and dropped.polls)
    if is_read and (from_ms is None or from_ms < dropped.before_ms):
        before = datetime.fromtimestamp(dropped.before_ms / 1000, UTC).date()
        sentences.append(
            f"The lake has dropped what it had of before {before} (UTC), as GLASSMQ_LAKE_KEEP_DAYS says; that "
            "is missing here."
        )
    deleted = sum(gap.amount for gap in gaps if gap.what == DELETED)
    if deleted:
        sentences.append(
            f"The broker deleted {many(deleted, 'byte')} of the log before the lake had read that far; messages are "
            "missing here. The lake has to be filled more often, or fileReservedTime to be longer."
        )
    if plan is not None and plan.ended_by in CUT_SHORT:
        sentences.append(
            f"The log cannot be read behind byte {plan.log_end:,}, since {CUT_SHORT[plan.ended_by]}. Neither the "
            f"report nor the lake has what follows, including {many(len(plan.segments_unread), 'segment')}."
        )
    if unread:
        sentences.append(
            f"The lake lacks {many(unread, 'file')} of the poll journal, deleted or damaged before a fill; what was "
            "there is missing here."
        )
    return sentences
