"""The lake of this broker's store, as the page shows it: where, how far, how far behind, and when it is filled.

Reads what whoever fills the lake leaves behind; knows nothing of Spark, and needs none of its packages.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from django.conf import settings
from django.db.models import Case, Q, Value, When
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_results.models import TaskResult
from kombu.exceptions import OperationalError

from broker_core.formats import lake_position, safe_end
from spark_jobs.errors import LakeError
from spark_jobs.hosting.runs import NoWorkerError, RunActiveError, sender
from spark_jobs.hosting.timetable import Schedule, crontab_of, described
from spark_jobs.lake.folders import brokers, notes_path, require_new_format
from spark_jobs.lake.notes import Dropped, Notes, Rows, read_notes
from spark_jobs.models import Status

if TYPE_CHECKING:
    from django.db.models import QuerySet

SYNC_TASK = "spark_jobs.lake_sync"
SCHEDULE_NAME = "Lake, hourly"
FROM_THE_BEGINNING = "15 * * * *"
LONGEST_FAILURE = 1000
LOST_AFTER = timedelta(hours=2)
"""A round that was asked for, or has begun, so long ago is not waited for any more: its worker is gone."""
SILENT_FOR = timedelta(minutes=15)
"""A worker that fills, says so every second; one that was silent for so long is gone."""
STOPS_WITHIN = timedelta(minutes=1)
"""A worker that has not stopped so long after it was asked to is gone."""
WAITING, RUNNING, STOPPING, CANCELLED = "PENDING", "STARTED", "ABORTED", "REVOKED"
"""Celery's words for how far a round is: STOPPING is asked to stop, CANCELLED has ended because of that."""
STATUS = {
    WAITING: Status.QUEUED,
    RUNNING: Status.RUNNING,
    STOPPING: Status.RUNNING,
    CANCELLED: Status.CANCELLED,
    "SUCCESS": Status.DONE,
    "FAILURE": Status.FAILED,
}
"""The same as the words for runs of reports."""


class NotUnderWayError(LookupError):
    """The report worker is not filling the lake; a sentence."""


class LakeState(NamedTuple):
    """``folder`` is empty while there is no lake; ``problem`` says why it cannot be read."""

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
    """What the lake had and was not to keep any longer."""
    ended_by: str
    """Why the lake has no more of the log, as ``LogPlan.ended_by``; ``segments_unread`` behind that hold something."""
    segments_unread: int
    other_lakes: int
    """Lakes of stores that were at the same path."""
    problem: str
    under_way: bool
    """Whether it is being filled, or will be in a moment."""
    status: str
    """How far the fill under way is, or how the last one ended, in the words for runs of reports; empty: none yet."""
    percent: int
    """Of the round under way."""
    doing: str
    cancel_requested: bool
    last_try: datetime | None
    last_failure: str
    """Why the last try failed; empty when it did not."""
    schedule: Schedule | None


def lake_state() -> LakeState:
    """What there is now."""
    store, problem, notes = Path(settings.GLASSMQ_STORE_DIR), "", None
    path = notes_of(store)
    try:
        notes = read_notes(path.parent, path.stem) if path else None
        if path is None:
            require_new_format(Path(settings.GLASSMQ_LAKE_DIR), store)
    except LakeError as error:
        problem = str(error)
    notes = notes or Notes(str(store))
    end = safe_end.decode(_read(store / safe_end.FILE_NAME))
    current = _rounds(RUNNING, STOPPING).first() or _rounds(WAITING).first()
    ended = TaskResult.objects.filter(task_name=SYNC_TASK, status__in=("SUCCESS", "FAILURE", CANCELLED, STOPPING))
    tried = ended.exclude(pk=current.pk if current else None).order_by("-date_done").first()
    percent, doing = _progress(current)
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
        under_way=current is not None,
        status=_status(current, tried),
        percent=percent,
        doing=doing,
        cancel_requested=current is not None and current.status == STOPPING,
        last_try=tried.date_done if tried else None,
        last_failure=_failure(tried),
        schedule=schedule(),
    )


def notes_of(store: Path) -> Path | None:
    """The notes on the lake's broker; None while there is no lake.

    Of several below GLASSMQ_LAKE_DIR the one that its filler noted beside the store, else the newest. Also the one
    noted beside the store where GLASSMQ_LAKE_DIR has none.
    """
    found = lake_position.decode(_read(store / lake_position.FILE_NAME))
    noted = Path(found.lake) if found and found.lake.endswith(".json") else None
    here = _notes(store)
    return here[-1] if here and noted not in here else noted


def _notes(store: Path) -> list[Path]:
    """The notes below GLASSMQ_LAKE_DIR on stores that were at that path, oldest first."""
    lakes = Path(settings.GLASSMQ_LAKE_DIR)
    return [notes_path(lakes, broker) for broker in brokers(lakes, store)]


def begin_sync(*, with_bodies: bool = False) -> None:
    """Have the report worker fill the lake. RunActiveError while that is under way; NoWorkerError if it is not told."""
    if _rounds(WAITING, RUNNING, STOPPING).exists():
        raise RunActiveError("The lake is being filled already.")
    _send(with_bodies)


def cancel_sync() -> None:
    """Have the fill under way stop, its rounds that wait with it. NotUnderWayError when there is none.

    One that is asked to stop already, stops.
    """
    # At once: a round that is just taken up is the one or the other.
    stopped = _rounds(RUNNING, WAITING).update(
        date_done=timezone.now(), status=Case(When(status=RUNNING, then=Value(STOPPING)), default=Value(CANCELLED))
    )
    if not stopped and not _rounds(STOPPING).exists():
        raise NotUnderWayError(
            "The report worker is not filling the lake. (One that `manage.py lake sync` fills is "
            "cancelled by Ctrl-C there.)"
        )


def take_up(task_id: str) -> bool:
    """A worker begins with a round; whether it is still wanted. A schedule's round is not known before."""
    now = timezone.now()
    _, is_new = TaskResult.objects.get_or_create(
        task_id=task_id, defaults={"task_name": SYNC_TASK, "status": RUNNING, "date_started": now}
    )
    known = TaskResult.objects.filter(task_id=task_id).exclude(status__in=(STOPPING, CANCELLED))
    return is_new or bool(known.update(status=RUNNING, date_started=now, date_done=now))


def tell(task_id: str, percent: int, doing: str) -> None:
    """How far a round is."""
    TaskResult.objects.filter(task_id=task_id, status=RUNNING).update(
        result=json.dumps({"percent": percent, "doing": doing}), date_done=timezone.now()
    )


def is_to_stop(task_id: str) -> bool:
    """Whether somebody has cancelled that round."""
    return bool(TaskResult.objects.filter(task_id=task_id, status__in=(STOPPING, CANCELLED)).exists())


def end_cancelled(task_id: str) -> None:
    """A round has ended because it was cancelled."""
    TaskResult.objects.filter(task_id=task_id).update(status=CANCELLED, date_done=timezone.now(), result=None)


def go_on(task_id: str, *, with_bodies: bool) -> bool:
    """Have the report worker do the round behind this one, unless one waits already; False if the fill is to stop.

    NoWorkerError.
    """
    sent = ""
    if not is_to_stop(task_id) and not _rounds(WAITING).exists():
        sent = _send(with_bodies)
    if not is_to_stop(task_id):
        return True
    # The cancel may have come before it was there.
    _rounds(WAITING).filter(task_id=sent).update(status=CANCELLED, date_done=timezone.now())
    return False


def _rounds(*states: str) -> "QuerySet[Any]":
    """Rounds in these states, but for those that were lost."""
    now = timezone.now()  # date_done is the time of the last change, as long as it is not done
    lost = (
        Q(date_done__lte=now - LOST_AFTER)
        | Q(status=RUNNING, date_done__lte=now - SILENT_FOR)
        | Q(status=STOPPING, date_done__lte=now - STOPS_WITHIN)
    )
    found: QuerySet[Any] = TaskResult.objects.filter(task_name=SYNC_TASK, status__in=states).exclude(lost)
    return found


def _send(with_bodies: bool) -> str:
    waits = TaskResult.objects.create(task_id=uuid4().hex, task_name=SYNC_TASK, status=WAITING)
    try:
        sender().send_task(SYNC_TASK, kwargs={"with_bodies": with_bodies}, task_id=waits.task_id, retry=False)
    except (OperationalError, OSError) as error:
        waits.delete()
        raise NoWorkerError(f"The report worker could not be told: {error}.") from error
    return str(waits.task_id)


def schedule() -> Schedule | None:
    """When the lake is filled by itself; None where somebody has removed the entry."""
    task = _task()
    return None if task is None else described(task)


def change_schedule(cron: str | None, enabled: bool | None) -> Schedule:
    """Change when, or whether, the lake is filled by itself. BadCronError."""
    task = _task() or PeriodicTask(
        name=SCHEDULE_NAME, task=SYNC_TASK, enabled=False, crontab=crontab_of(FROM_THE_BEGINNING)
    )
    if cron is not None:
        task.crontab, task.interval, task.solar, task.clocked = crontab_of(cron), None, None, None
    if enabled is not None:
        task.enabled = enabled
    task.last_run_at = None  # it is next due when its time comes next
    task.save()
    return described(task)


def _task() -> PeriodicTask | None:
    return PeriodicTask.objects.filter(task=SYNC_TASK).select_related("crontab").order_by("id").first()


def _status(current: TaskResult | None, tried: TaskResult | None) -> str:
    if current is not None:
        return STATUS[current.status].value
    if tried is None:
        return ""
    return (Status.CANCELLED if tried.status == STOPPING else STATUS[tried.status]).value  # its worker was gone


def _progress(current: TaskResult | None) -> tuple[int, str]:
    """What ``tell`` has said of a round."""
    if current is None or current.status == WAITING or not current.result:
        return 0, ""
    try:
        said = json.loads(current.result)
        return int(said["percent"]), str(said["doing"])
    except (ValueError, TypeError, KeyError):
        return 0, ""


def _failure(tried: TaskResult | None) -> str:
    """The sentence of a task that failed."""
    if tried is None or tried.status != "FAILURE":
        return ""
    try:
        said = json.loads(tried.result)["exc_message"]
    except (ValueError, TypeError, KeyError):
        return "It failed; the report worker's log says why."
    return " ".join(map(str, said if isinstance(said, list) else [said]))[:LONGEST_FAILURE]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
