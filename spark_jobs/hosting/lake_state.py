"""What the lake has of a broker, for the page, and the runs and the schedule that fill it.

Does not import pyspark. Imports what reads the lake, which comes with Spark's packages, only where there is a lake.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from broker_core.formats import lake_position, safe_end
from spark_jobs.errors import LakeError
from spark_jobs.hosting import runs
from spark_jobs.hosting.schedules import change_entry, crontab_of
from spark_jobs.lake.storage import is_local
from spark_jobs.models import ACTIVE, ReportRun

if TYPE_CHECKING:
    from spark_jobs.lake.lake import Lake

SYNC_TASK = "spark_jobs.lake_sync"
SCHEDULE_NAME = "Lake, hourly"
FIRST_CRON = "15 * * * *"
KEPT_S = 5.0
"""How long a lake in S3 is shown before it is read again, in seconds."""


class StoredLake(NamedTuple):
    """What the lake has of a broker."""

    broker: str
    store: Path
    lake: "Lake | None"
    """None if the lake has nothing of the broker, or cannot be read."""
    problem: str
    """Why the lake cannot be read; empty if it can."""


_kept: dict[tuple[str, Path], tuple[float, StoredLake]] = {}
"""When a lake in S3 was read last, in seconds, and what it has; by broker and store."""


def read_stored(broker: str = "") -> StoredLake:
    """What the lake has of a broker, or of the first one. UnknownBrokerError.

    Does not use the database. A server of S3 that does not answer makes this wait for minutes, so call it outside of
    Django's thread. A lake in S3 is read again after KEPT_S.
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


def _read_stored(broker: str, store: Path) -> StoredLake:
    lakes, problem, found = settings.GLASSMQ_LAKE_DIR, "", None
    if is_local(lakes) and not Path(lakes, "messages").is_dir():
        return StoredLake(broker, store, None, "")
    try:
        from spark_jobs.lake.lake import find_lake, require_same

        found = find_lake(lakes, broker)
        if found is not None:
            require_same(store, found)
    except LakeError as error:
        problem = str(error)
    except (OSError, ImportError) as error:  # what reads a lake comes with Spark's packages
        problem = f"The lake in {lakes} cannot be read: {error}."
    return StoredLake(broker, store, found, problem)


def behind_bytes(stored: StoredLake) -> int | None:
    """Bytes of the log that the lake has not read; None if the store has no file with the end of its log."""
    end = safe_end.decode(_read(stored.store / safe_end.FILE_NAME))
    position = stored.lake.position or 0 if stored.lake else 0
    return None if end is None else max(0, end.flushed_offset - max(position, end.min_offset))


def synced_ms(stored: StoredLake) -> int | None:
    """When the lake was filled last, as the store's ``lakePosition`` says, or when files were written; None: never."""
    published = lake_position.decode(_read(stored.store / lake_position.FILE_NAME))
    if stored.lake is None:
        return None
    is_this = published is not None and published.lake == stored.lake.folder
    return max(stored.lake.written_ms, published.wall_ms if published and is_this else 0) or None


def find_active() -> ReportRun | None:
    """The fill that runs or waits, if any."""
    runs.take_up_lost_runs()
    return ReportRun.objects.filter(report=runs.LAKE, status__in=ACTIVE).first()


def find_ended() -> ReportRun | None:
    """The last fill that has ended, if any."""
    return ReportRun.objects.filter(report=runs.LAKE).exclude(status__in=ACTIVE).first()


def begin_sync(*, with_bodies: bool = False, broker: str = "") -> ReportRun:
    """Have the report worker fill the lake from the stores of all brokers, or of one. Errors are those of start_run."""
    return runs.start_run(runs.LAKE, {"with_bodies": with_bodies, "broker": broker or None})


def cancel_sync() -> None:
    """Stop the fill that runs or waits. UnknownReportError when there is none."""
    active = find_active()
    if active is None or not runs.cancel(active):
        raise runs.UnknownReportError(
            "The report worker is not filling the lake. (One that `manage.py lake sync` fills is "
            "cancelled by Ctrl-C there.)"
        )


def read_schedule() -> PeriodicTask | None:
    """When the lake is filled automatically; None if somebody has removed the schedule."""
    return PeriodicTask.objects.filter(task=SYNC_TASK).select_related("crontab").order_by("id").first()


def change_schedule(cron: str | None, enabled: bool | None) -> PeriodicTask:
    """Change when, or whether, the lake is filled automatically. BadCronError."""
    task = read_schedule()
    if task is None:
        task = PeriodicTask.objects.create(
            name=SCHEDULE_NAME, task=SYNC_TASK, enabled=False, crontab=crontab_of(FIRST_CRON)
        )
    return change_entry(task, cron=cron, enabled=enabled)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
