"""The lake of this broker's store, as the page shows it, and the runs and the schedule that fill it.

Reads the notes that every fill leaves behind. Imports no pyspark.
"""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django_celery_beat.models import PeriodicTask

from broker_core.formats import lake_position, safe_end
from spark_jobs.errors import LakeError
from spark_jobs.hosting import runs
from spark_jobs.hosting.schedules import Schedule, crontab_of, described
from spark_jobs.lake.folders import brokers, notes_path, require_new_format
from spark_jobs.lake.notes import Dropped, Notes, Rows, read_notes
from spark_jobs.models import ACTIVE, ReportRun, Status

SYNC_TASK = "spark_jobs.lake_sync"
SCHEDULE_NAME = "Lake, hourly"
FIRST_CRON = "15 * * * *"


class NotUnderWayError(LookupError):
    """The report worker is not filling the lake; a sentence."""


class LakeState(NamedTuple):
    """``folder`` is empty while there is no lake; ``problem`` is why it cannot be read."""

    folder: str
    position: int
    behind_bytes: int | None
    """How much of the log the lake has not read; None where the store does not say where its log ends."""
    synced_ms: int | None
    messages: Rows
    polls: Rows
    gap_bytes: int
    missing_journal_files: int
    retired_bytes: int
    """In files that were merged or dropped, and that may still be read."""
    dropped: Dropped
    """Rows that the lake had, and that it was not to keep any longer."""
    ended_by: str
    """Why the lake has no more of the log, as ``LogPlan.ended_by``; ``segments_unread`` behind that are not empty."""
    segments_unread: int
    other_lakes: int
    """Lakes of stores that were at the same path."""
    problem: str
    under_way: bool
    """Whether a fill runs or waits."""
    status: str
    """Of the fill under way, else of the last one; empty if there was none."""
    percent: int
    """Of the round under way."""
    doing: str
    cancel_requested: bool
    last_try: datetime | None
    last_failure: str
    """Why the last fill failed; empty if it did not."""
    schedule: Schedule | None


def lake_state() -> LakeState:
    """The state now."""
    store, problem, notes = Path(settings.GLASSMQ_STORE_DIR), "", None
    path = find_notes(store)
    try:
        notes = read_notes(path.parent, path.stem) if path else None
        if path is None:
            require_new_format(Path(settings.GLASSMQ_LAKE_DIR), store)
    except LakeError as error:
        problem = str(error)
    notes = notes or Notes(str(store))
    end = safe_end.decode(_read(store / safe_end.FILE_NAME))
    active = find_active()
    ended = ReportRun.objects.filter(report=runs.LAKE).exclude(status__in=ACTIVE).first()
    shown = active or ended
    status = shown.status if shown else ""
    return LakeState(
        folder=str(path.parent) if path else "",
        position=notes.position,
        behind_bytes=None if end is None else max(0, end.flushed_offset - max(notes.position, end.min_offset)),
        synced_ms=notes.synced_ms or None,
        messages=notes.messages,
        polls=notes.polls,
        gap_bytes=notes.gap_bytes,
        missing_journal_files=len(notes.missing_journal_files),
        retired_bytes=notes.retired_bytes,
        dropped=notes.dropped,
        ended_by=notes.ended_by,
        segments_unread=len(notes.segments_unread),
        other_lakes=len([other for other in _notes(store) if other != path]),
        problem=problem,
        under_way=active is not None,
        status=str(Status.QUEUED if status == Status.WAITING else status),
        percent=active.percent if active else 0,
        doing=active.doing if active else "",
        cancel_requested=active is not None and active.cancel_requested,
        last_try=ended.finished if ended else None,
        last_failure=ended.error if ended else "",
        schedule=read_schedule(),
    )


def find_notes(store: Path) -> Path | None:
    """The notes on the lake's broker; None while there is no lake.

    Of several below GLASSMQ_LAKE_DIR the one that the broker waits for, as the store's ``lakePosition`` names it, else
    the newest. Where GLASSMQ_LAKE_DIR has none, the lake that ``lakePosition`` names.
    """
    position = lake_position.decode(_read(store / lake_position.FILE_NAME))
    noted = Path(position.lake) if position and position.lake.endswith(".json") else None
    here = _notes(store)
    return here[-1] if here and noted not in here else noted


def _notes(store: Path) -> list[Path]:
    """The notes below GLASSMQ_LAKE_DIR on stores that were at that path, oldest first."""
    lakes = Path(settings.GLASSMQ_LAKE_DIR)
    return [notes_path(lakes, broker) for broker in brokers(lakes, store)]


def find_active() -> ReportRun | None:
    """The fill that runs or waits."""
    runs.take_up_lost_runs()
    return ReportRun.objects.filter(report=runs.LAKE, status__in=ACTIVE).first()


def begin_sync(*, with_bodies: bool = False, requested_by: str = "person") -> None:
    """Have the report worker fill the lake. RunActiveError while it does; NoWorkerError."""
    try:
        runs.start_run(runs.LAKE, {"with_bodies": with_bodies}, requested_by)
    except runs.RunActiveError as error:
        raise runs.RunActiveError("The lake is being filled already.") from error


def cancel_sync() -> None:
    """Stop the fill that runs or waits. NotUnderWayError when there is none."""
    active = find_active()
    if active is None or not runs.cancel(active):
        raise NotUnderWayError(
            "The report worker is not filling the lake. (One that `manage.py lake sync` fills is "
            "cancelled by Ctrl-C there.)"
        )


def read_schedule() -> Schedule | None:
    """When the lake is filled by itself; None where somebody has removed the entry."""
    task = _task()
    return None if task is None else described(task)


def change_schedule(cron: str | None, enabled: bool | None) -> Schedule:
    """Change when, or whether, the lake is filled by itself. BadCronError."""
    task = _task() or PeriodicTask(name=SCHEDULE_NAME, task=SYNC_TASK, enabled=False, crontab=crontab_of(FIRST_CRON))
    if cron is not None:
        task.crontab, task.interval, task.solar, task.clocked = crontab_of(cron), None, None, None
    if enabled is not None:
        task.enabled = enabled
    task.last_run_at = None  # so that it does not run at once for the time that it was off
    task.save()
    return described(task)


def _task() -> PeriodicTask | None:
    return PeriodicTask.objects.filter(task=SYNC_TASK).select_related("crontab").order_by("id").first()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
