"""Runs of reports and fills of the lake for the web: start, find, cancel and remove them, and their files and logs.

A run is a row of ReportRun. Does not import pyspark.
"""

import logging
import re
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from celery import current_app
from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from spark_jobs.catalogue import REPORTS, ReportInfo
from spark_jobs.models import ACTIVE, NOT_BEGUN, ReportRun, Status

if TYPE_CHECKING:
    from django.db.models import QuerySet

logger = logging.getLogger(__name__)

RUN_TASK = "spark_jobs.run_report"
LAKE = "lake"
"""The name of the runs that fill the lake."""
LAST_RUNS = 5
LOST_AFTER = timedelta(seconds=60)
"""A worker without a sign of life for so long has ended, and its run with it."""
SEND_AGAIN_AFTER = timedelta(minutes=10)
"""A run that waits for so long is handed over again."""
RETRY_AFTER_S = (5, 60)
"""Pauses before the next attempts, if the cause of the failure may pass."""
_FILE_NAME = re.compile(r"[a-z0-9_]+\.(json|html|csv|parquet)")


class UnknownReportError(LookupError):
    """There is no such report, run, file of a run or schedule. The message is a sentence."""


class UnknownBrokerError(LookupError):
    """There is no store of a broker with that name. The message is a sentence."""


class RunActiveError(RuntimeError):
    """A run of that report is under way. The message is a sentence."""


def last_runs(name: str) -> list[ReportRun]:
    """The newest runs of a report, newest first, with the newest one that is done, because pages show its result."""
    found = list(ReportRun.objects.filter(report=name)[:LAST_RUNS])
    if len(found) == LAST_RUNS and all(run.status != Status.DONE for run in found):
        found.extend(ReportRun.objects.filter(report=name, status=Status.DONE)[:1])
    return found


def spark_problem() -> str:
    """Why runs wait for Spark, as the report worker says; empty if no run does."""
    return ReportRun.objects.filter(status=Status.WAITING).values_list("doing", flat=True).first() or ""


def require_report(name: str) -> ReportInfo:
    """The report of that name. UnknownReportError if there is none."""
    if name not in REPORTS:
        raise UnknownReportError(f"There is no report {name!r}; the reports are {', '.join(REPORTS)}.")
    return REPORTS[name]


def stores(broker: str = "") -> list[tuple[str, Path]]:
    """(name, store) of the brokers of this installation, or of ``broker`` only; empty if there is no such broker.

    The settings name the first broker's store. ``manage.py broker --cluster`` puts those of the others below
    ``brokers`` in the data folder (``bridge/cluster.py``). Stores there of brokers that no setting names are left out.
    With ``GLASSMQ_ATTACH`` the copies of the followed brokers are the only stores (``bridge/attach.py``).
    """
    if settings.GLASSMQ_ATTACH:
        logs = sorted((settings.GLASSMQ_DATA_DIR / "attached").glob("*/store/commitlog"))
        return [(log.parts[-3], log.parent) for log in logs if broker in ("", log.parts[-3])]
    first, *others = settings.GLASSMQ_CLUSTER_NAMES
    found = {first: Path(settings.GLASSMQ_STORE_DIR)}
    for name in others:
        store = settings.GLASSMQ_DATA_DIR / "brokers" / name / "store"
        if (store / "commitlog").is_dir():
            found[name] = store
    return [(name, path) for name, path in found.items() if broker in ("", name)]


def require_broker(broker: str) -> None:
    """UnknownBrokerError if no broker of that name has a store here; empty is all brokers."""
    if not stores(broker):
        raise UnknownBrokerError(
            f"There is no store of a broker {broker!r} here, but of {', '.join(name for name, _ in stores())}."
        )


def start_run(name: str, parameters: dict[str, Any], requested_by: str = "person") -> ReportRun:
    """Start a run by handing it to the report worker. RunActiveError while a run of the report is under way.

    UnknownBrokerError if the ``broker`` of the parameters has no store here.
    """
    if name != LAKE:
        require_report(name)
    require_broker(parameters.get("broker") or "")
    take_up_lost_runs()
    try:
        with transaction.atomic():
            run = ReportRun.objects.create(
                report=name,
                parameters=parameters,
                requested_by=requested_by,
                heartbeat=timezone.now(),
            )
    except IntegrityError as error:
        active = ReportRun.objects.filter(report=name, status__in=ACTIVE).first()
        which = f"Run {active.pk} of {name}" if active else f"A run of {name}"
        raise RunActiveError(f"{which} is under way; cancel it, or wait for it.") from error
    enqueue(run.pk)
    return run


def enqueue(run_id: int, delay_s: float = 0) -> None:
    """Hand a run to the report worker. A run that is handed over twice is carried out once.

    If this fails, the run is handed over again after SEND_AGAIN_AFTER, or when a worker starts.
    """
    try:
        current_app.send_task(RUN_TASK, args=[run_id], countdown=delay_s or None, ignore_result=True, retry=False)
    except (OperationalError, OSError):
        logger.exception("Run %d could not be handed to the report worker; it waits.", run_id)


def find_run(name: str, run_id: int) -> ReportRun:
    """The run with that number. UnknownReportError if the report has none."""
    require_report(name)
    take_up_lost_runs()
    run = ReportRun.objects.filter(report=name, pk=run_id).first()
    if run is None:
        raise UnknownReportError(
            f"{name} has no run {run_id}. It was removed, belongs to another report, or never existed."
        )
    return run


def list_runs(name: str) -> list[ReportRun]:
    """The newest runs of a report, newest first."""
    require_report(name)
    take_up_lost_runs()
    return list(ReportRun.objects.filter(report=name))


def cancel_or_remove(name: str, run_id: int) -> ReportRun | None:
    """Cancel an active run and return it; remove one that has ended, with its files, and return None."""
    run = find_run(name, run_id)
    if cancel(run):
        run.refresh_from_db()
        return run
    remove(run)
    return None


def cancel(run: ReportRun) -> bool:
    """Cancel a run that has not begun, or ask its worker to end it. False if the run has ended already."""
    not_begun = ReportRun.objects.filter(pk=run.pk, status__in=NOT_BEGUN)
    return bool(
        not_begun.update(status=Status.CANCELLED, finished=timezone.now(), doing="")
        or ReportRun.objects.filter(pk=run.pk, status=Status.RUNNING).update(cancel_requested=True)
    )


def folder_of(run: ReportRun) -> str:
    """The folder of a run's files, relative to GLASSMQ_REPORTS_DIR. A killed worker may leave it without a result."""
    return f"{run.report}/{run.pk}"


def log_of(run: ReportRun) -> Path:
    """The file with the log of a run. It is deleted if the run succeeds or is cancelled."""
    return Path(settings.GLASSMQ_REPORTS_DIR) / run.report / f"{run.pk}.log"


def log_to_read(name: str, run_id: int) -> Path:
    """The log of a run that failed or is under way. UnknownReportError if there is none."""
    run = find_run(name, run_id)
    if not has_log(run):
        raise UnknownReportError(f"Run {run_id} of {name} has no log.")
    return log_of(run)


def has_log(run: ReportRun) -> bool:
    """Whether the run has a log that is not empty."""
    log = log_of(run)
    return log.is_file() and log.stat().st_size > 0


def remove(run: ReportRun) -> None:
    """Remove a run, its files and its log."""
    log_of(run).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.rmtree(Path(settings.GLASSMQ_REPORTS_DIR) / folder_of(run))
    run.delete()


def files_of(run: ReportRun) -> list[str]:
    """The sorted names of the run's files."""
    folder = Path(settings.GLASSMQ_REPORTS_DIR) / run.folder
    if not run.folder or not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name) and path.is_file())


def file_of(name: str, run_id: int, file: str) -> Path:
    """The path of one of the run's own files. UnknownReportError for any other name."""
    run = find_run(name, run_id)
    if file not in files_of(run):
        raise UnknownReportError(f"Run {run_id} of {name} has no file {file!r}.")
    return Path(settings.GLASSMQ_REPORTS_DIR) / run.folder / file


def take_up_lost_runs(waited: timedelta = SEND_AGAIN_AFTER) -> None:
    """Try the runs again whose worker has ended, or write that they failed. Their own worker no longer can.

    Runs that have waited for at least ``waited`` are handed over again, because a queue or a worker may have lost their
    messages.
    """
    now = timezone.now()
    for run in ReportRun.objects.filter(status=Status.RUNNING, heartbeat__lt=now - LOST_AFTER):
        end_attempt(run, "The report worker ended while it ran this report.", passing=True)
    for run in ReportRun.objects.filter(status__in=NOT_BEGUN, heartbeat__lt=now - waited):
        still = ReportRun.objects.filter(pk=run.pk, status=run.status, heartbeat=run.heartbeat)
        if still.update(heartbeat=now):  # otherwise another process has taken it up
            enqueue(run.pk)


def attempt_of(run: ReportRun) -> "QuerySet[ReportRun]":
    """The run, or an empty query set if another attempt has taken the place of this one."""
    return ReportRun.objects.filter(pk=run.pk, status=Status.RUNNING, attempt=run.attempt)


def end_attempt(run: ReportRun, why: str, *, passing: bool) -> None:
    """End an attempt that failed or was cancelled. If the cause is ``passing``, the run may be tried again.

    Otherwise, or if no attempt is left, the run has failed. Nothing happens if another attempt has taken this one's
    place.
    """
    mine = attempt_of(run)
    if mine.filter(cancel_requested=True).update(status=Status.CANCELLED, finished=timezone.now(), doing=""):
        return
    if passing and run.attempt <= len(RETRY_AFTER_S):
        delay_s = RETRY_AFTER_S[run.attempt - 1]
        if mine.update(
            status=Status.QUEUED,
            attempt=run.attempt + 1,
            percent=0,
            heartbeat=timezone.now(),
            doing=f"tried again in {delay_s} s: {why}",
        ):
            enqueue(run.pk, delay_s)
        return
    many = f" (It was tried {run.attempt} times.)" if run.attempt > 1 else ""
    mine.update(status=Status.FAILED, error=why + many, finished=timezone.now(), doing="")
