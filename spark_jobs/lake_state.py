"""The lake of this broker's store, as the page shows it: where, how far, how far behind, and when it is filled.

Reads what whoever fills the lake leaves behind; knows nothing of Spark, and needs none of its packages.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from django.conf import settings
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_results.models import TaskResult
from kombu.exceptions import OperationalError

from broker_core.formats import lake_position, safe_end
from spark_jobs.errors import LakeError
from spark_jobs.lake_folders import generations
from spark_jobs.lake_manifest import FILE_NAME, LakeFile, Manifest, read_manifest
from spark_jobs.runs import NoWorkerError, RunActiveError, sender
from spark_jobs.timetable import Schedule, crontab_of, described

SYNC_TASK = "spark_jobs.lake_sync"
SCHEDULE_NAME = "Lake, hourly"
FROM_THE_BEGINNING = "15 * * * *"
LONGEST_FAILURE = 1000
LOST_AFTER = timedelta(hours=2)
"""A round that was asked for, or has begun, so long ago is not waited for any more: its worker is gone."""


class Rows(NamedTuple):
    """What is in a table of the lake: rows, files, bytes."""

    rows: int
    files: int
    size: int


class LakeState(NamedTuple):
    """``folder`` is empty while there is no lake; ``problem`` says why there is none that can be read."""

    folder: str
    position: int
    behind_bytes: int | None
    """How much of the log the lake has not read; None where the store does not say where its log ends."""
    synced_ms: int | None
    messages: Rows
    polls: Rows
    gap_bytes: int
    missing_journal_files: int
    ended_by: str
    """Why the lake has no more of the log, as ``LogPlan.ended_by``; ``segments_unread`` behind that hold something."""
    segments_unread: int
    other_lakes: int
    """Lakes of stores that were at the same path."""
    problem: str
    under_way: bool
    """Whether it is being filled, or will be in a moment."""
    last_try: datetime | None
    last_failure: str
    """Why the last try failed; empty when it did not."""
    schedule: Schedule | None


def lake_state() -> LakeState:
    """What there is now."""
    store, problem, manifest = Path(settings.GLASSMQ_STORE_DIR), "", None
    folder = folder_of(store)
    try:
        manifest = read_manifest(folder) if folder else None
    except LakeError as error:
        problem = str(error)
    manifest = manifest or Manifest(str(store))
    end = safe_end.decode(_read(store / safe_end.FILE_NAME))
    ended = TaskResult.objects.filter(task_name=SYNC_TASK, status__in=("SUCCESS", "FAILURE"))
    tried = ended.order_by("-date_done").first()
    return LakeState(
        folder=str(folder or ""), position=manifest.position,
        behind_bytes=None if end is None else max(0, end.flushed_offset - max(manifest.position, end.min_offset)),
        synced_ms=manifest.synced_ms or None,
        messages=_counted([file for part in manifest.messages for file in part.files]),
        polls=_counted([file for part in manifest.polls for file in part.files]),
        gap_bytes=sum(gap.end - gap.start for gap in manifest.gaps),
        missing_journal_files=len(manifest.missing_journal_files),
        ended_by=manifest.ended_by, segments_unread=len(manifest.segments_unread),
        other_lakes=len([other for other in _filled(store) if other != folder]),
        problem=problem, under_way=is_under_way("PENDING", "STARTED"),
        last_try=tried.date_done if tried else None, last_failure=_failure(tried), schedule=schedule())


def folder_of(store: Path) -> Path | None:
    """The lake's folder; None while there is none.

    Of several below GLASSMQ_LAKE_DIR the one that its filler noted beside the store, else the newest; that noted one
    also where there is none below.
    """
    found = lake_position.decode(_read(store / lake_position.FILE_NAME))
    noted = Path(found.lake) if found and found.lake else None
    here = _filled(store)
    return here[-1] if here and noted not in here else noted


def _filled(store: Path) -> list[Path]:
    """Lakes below GLASSMQ_LAKE_DIR, oldest first. A folder without a manifest is being filled for the first time."""
    return [folder for folder in generations(Path(settings.GLASSMQ_LAKE_DIR), store) if (folder / FILE_NAME).is_file()]


def begin_sync(*, with_bodies: bool = False) -> None:
    """Have the report worker fill the lake. RunActiveError while that is under way; NoWorkerError if it is not told."""
    if is_under_way("PENDING", "STARTED"):
        raise RunActiveError("The lake is being filled already.")
    _send(with_bodies)


def go_on(*, with_bodies: bool) -> None:
    """Have the report worker do the next round, unless one waits already. NoWorkerError."""
    if not is_under_way("PENDING"):
        _send(with_bodies)


def is_under_way(*states: str) -> bool:
    """Whether a round is in one of these states, and nothing says that it was lost."""
    recent = timezone.now() - LOST_AFTER  # date_done is the time of the last change, as long as it is not done
    return bool(TaskResult.objects.filter(task_name=SYNC_TASK, status__in=states, date_done__gt=recent).exists())


def _send(with_bodies: bool) -> None:
    waits = TaskResult.objects.create(task_id=uuid4().hex, task_name=SYNC_TASK, status="PENDING")
    try:
        sender().send_task(SYNC_TASK, kwargs={"with_bodies": with_bodies}, task_id=waits.task_id, retry=False)
    except (OperationalError, OSError) as error:
        waits.delete()
        raise NoWorkerError(f"The report worker could not be told: {error}.") from error


def schedule() -> Schedule | None:
    """When the lake is filled by itself; None where somebody has removed the entry."""
    task = _task()
    return None if task is None else described(task)


def change_schedule(cron: str | None, enabled: bool | None) -> Schedule:
    """Change when, or whether, the lake is filled by itself. BadCronError."""
    task = _task() or PeriodicTask(name=SCHEDULE_NAME, task=SYNC_TASK, enabled=False,
        crontab=crontab_of(FROM_THE_BEGINNING))
    if cron is not None:
        task.crontab, task.interval, task.solar, task.clocked = crontab_of(cron), None, None, None
    if enabled is not None:
        task.enabled = enabled
    task.last_run_at = None  # it is next due when its time comes next
    task.save()
    return described(task)


def _task() -> PeriodicTask | None:
    return PeriodicTask.objects.filter(task=SYNC_TASK).select_related("crontab").order_by("id").first()


def _failure(tried: TaskResult | None) -> str:
    """The sentence of a task that failed."""
    if tried is None or tried.status != "FAILURE":
        return ""
    try:
        said = json.loads(tried.result)["exc_message"]
    except (ValueError, TypeError, KeyError):
        return "It failed; the report worker's log says why."
    return " ".join(map(str, said if isinstance(said, list) else [said]))[:LONGEST_FAILURE]


def _counted(files: list[LakeFile]) -> Rows:
    return Rows(sum(file.rows for file in files), len(files), sum(file.size for file in files))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
