"""The state of the lake of a broker's store for the page, and the runs and the schedule that fill it.

Reads the notes that every fill writes. Does not import pyspark.
"""

from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from broker_core.formats import lake_position, safe_end
from spark_jobs.errors import LakeError
from spark_jobs.hosting import runs
from spark_jobs.hosting.schedules import Schedule, crontab_of, described
from spark_jobs.lake.folders import brokers, notes_path
from spark_jobs.lake.notes import Notes, read_notes
from spark_jobs.lake.storage import is_local
from spark_jobs.models import ACTIVE, ReportRun, Status

SYNC_TASK = "spark_jobs.lake_sync"
SCHEDULE_NAME = "Lake, hourly"
FIRST_CRON = "15 * * * *"
KEPT_S = 5.0
"""How long notes of a lake in S3 are shown before they are read again."""


class NotUnderWayError(LookupError):
    """The report worker is not filling the lake. The message is a sentence."""


class StoredNotes(NamedTuple):
    """The notes on the store of a broker, as files of the lake have them."""

    broker: str
    store: Path
    known: list[str]
    """The files that there are, oldest first; those of other stores that were at the same path before, too."""
    path: str | None
    """The file of this store; None if there is no lake."""
    notes: Notes
    """What the last fill noted; empty if there is no lake."""
    problem: str
    """Why the lake cannot be read; empty if it can."""

    @property
    def folder(self) -> str:
        """The lake's folder or URL; empty if there is no lake."""
        return folder_and_broker(self.path)[0] if self.path else ""


class LakeState(NamedTuple):
    """The lake of a broker's store, and what the report worker does about it."""

    stored: StoredNotes
    brokers: list[str]
    """All brokers with a store here."""
    behind_bytes: int | None
    """Bytes of the log that the lake has not read; None if the store has no file with the end of its log."""
    active: ReportRun | None
    """The fill that runs or waits."""
    ended: ReportRun | None
    """The last fill that has ended."""
    schedule: Schedule | None

    @property
    def status(self) -> str:
        """The status of the fill under way, otherwise of the last one; empty without any fill."""
        shown = self.active or self.ended
        status = shown.status if shown else ""
        return str(Status.QUEUED if status == Status.WAITING else status)


_kept: dict[tuple[str, Path], tuple[float, StoredNotes]] = {}
"""When the notes of a lake in S3 were read last, in seconds, and what they say; by broker and store."""


def read_stored(broker: str = "") -> StoredNotes:
    """The notes on the lake of a broker, or of the first one. UnknownBrokerError.

    Does not use the database. A server of S3 that does not answer makes this wait for minutes, so call it outside of
    Django's thread. Notes in S3 are read again after KEPT_S.
    """
    runs.require_broker(broker)
    broker, store = runs.stores(broker)[0]
    if is_local(settings.GLASSMQ_LAKE_DIR):
        return _read_stored(broker, store)
    read_at, stored = _kept.get((broker, store), (0.0, None))
    if stored is None or not 0 <= timezone.now().timestamp() - read_at < KEPT_S:  # negative: the clock was set back
        stored = _read_stored(broker, store)
        _kept[broker, store] = timezone.now().timestamp(), stored  # calls that wait for a slow S3 are answered at once
    return stored


def _read_stored(broker: str, store: Path) -> StoredNotes:
    problem, notes = "", Notes(str(store))
    path, known = None, list[str]()
    try:
        known = [notes_path(settings.GLASSMQ_LAKE_DIR, name) for name in brokers(settings.GLASSMQ_LAKE_DIR, store)]
        path = choose_notes(store, known)
        if path is not None:
            notes = read_notes(*folder_and_broker(path)) or notes
    except LakeError as error:
        problem = str(error)
    except (OSError, ImportError) as error:  # a lake in S3; what reads it comes with Spark's packages
        problem = f"The lake in {settings.GLASSMQ_LAKE_DIR} cannot be read: {error}."
    return StoredNotes(broker, store, known, path, notes, problem)


def lake_state(stored: StoredNotes) -> LakeState:
    """The state of a lake: its notes, with the current fill and schedule from the database."""
    end = safe_end.decode(_read(stored.store / safe_end.FILE_NAME))
    return LakeState(
        stored,
        [broker for broker, _ in runs.stores()],
        None if end is None else max(0, end.flushed_offset - max(stored.notes.position, end.min_offset)),
        find_active(),
        ReportRun.objects.filter(report=runs.LAKE).exclude(status__in=ACTIVE).first(),
        read_schedule(),
    )


def folder_and_broker(path: str) -> tuple[str, str]:
    """The lake's folder or URL, and the broker, of a file with notes."""
    folder, _, name = path.rpartition("/")
    return folder, name.removesuffix(".json")


def choose_notes(store: Path, here: list[str]) -> str | None:
    """The file with the notes on this store; None if there is no lake.

    If GLASSMQ_LAKE_DIR has several (``here``, oldest first), it is the one that the store's ``lakePosition`` names,
    otherwise the newest. If it has none, it is the one that ``lakePosition`` names.
    """
    position = lake_position.decode(_read(store / lake_position.FILE_NAME))
    noted = position.lake if position and position.lake.endswith(".json") else None
    return here[-1] if here and noted not in here else noted


def find_active() -> ReportRun | None:
    """The fill that runs or waits, if any."""
    runs.take_up_lost_runs()
    return ReportRun.objects.filter(report=runs.LAKE, status__in=ACTIVE).first()


def begin_sync(*, with_bodies: bool = False, broker: str = "", requested_by: str = "person") -> None:
    """Have the report worker fill the lake from the stores of all brokers, or of one.

    RunActiveError if it does already; NoWorkerError; UnknownBrokerError.
    """
    try:
        runs.start_run(runs.LAKE, {"with_bodies": with_bodies, "broker": broker or None}, requested_by)
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
    """When the lake is filled automatically; None if somebody has removed the schedule."""
    task = _task()
    return None if task is None else described(task)


def change_schedule(cron: str | None, enabled: bool | None) -> Schedule:
    """Change when, or whether, the lake is filled automatically. BadCronError."""
    task = _task() or PeriodicTask(name=SCHEDULE_NAME, task=SYNC_TASK, enabled=False, crontab=crontab_of(FIRST_CRON))
    if cron is not None:
        task.crontab, task.interval, task.solar, task.clocked = crontab_of(cron), None, None, None
    if enabled is not None:
        task.enabled = enabled
    task.last_run_at = None  # otherwise it would run at once for a time at which it was off
    task.save()
    return described(task)


def _task() -> PeriodicTask | None:
    return PeriodicTask.objects.filter(task=SYNC_TASK).select_related("crontab").order_by("id").first()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
