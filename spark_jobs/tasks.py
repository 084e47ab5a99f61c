"""Celery's tasks: runs of reports, fills of the lake, and the runs that schedules start."""

import logging
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown
from django.utils import timezone

from spark_jobs.hosting import lake_state, runs, worker
from spark_jobs.hosting.schedules import RUN_SCHEDULED_TASK, Parameters, claim, parameters_at

logger = logging.getLogger(__name__)


@shared_task(  # type: ignore[untyped-decorator, unused-ignore]  # celery has no types
    name=runs.RUN_TASK,
    ignore_result=True,
    acks_late=True,
    soft_time_limit=worker.TIME_LIMIT_S + 60,
    time_limit=worker.TIME_LIMIT_S + 120,
)
def run_report(run_id: int) -> None:
    """Carry out one run. The time limits work in some of Celery's pools only, so the worker also watches the time."""
    worker.carry_out(run_id)


@shared_task(name=RUN_SCHEDULED_TASK, bind=True, ignore_result=True)  # type: ignore[untyped-decorator, unused-ignore]
def run_scheduled(task: Any, report: str, **about: Any) -> None:
    """Start the run of a schedule, unless a run of the report is under way. ``about``: fields of ``Parameters``."""
    if not claim(task.request.get("periodic_task_name")):
        return
    try:
        runs.require_report(report)
        runs.start_run(report, parameters_at(report, timezone.now(), Parameters(**about)), requested_by="schedule")
    except (runs.RunActiveError, runs.UnknownReportError, runs.UnknownBrokerError, runs.NoWorkerError) as error:
        logger.warning("The schedule's run of %s did not start: %s", report, error)


@shared_task(name=lake_state.SYNC_TASK, bind=True, ignore_result=True)  # type: ignore[untyped-decorator, unused-ignore]
def lake_sync(task: Any, with_bodies: bool = False) -> None:
    """Start the fill of a schedule, unless a fill is under way."""
    if not claim(task.request.get("periodic_task_name")):
        return
    try:
        lake_state.begin_sync(with_bodies=with_bodies, requested_by="schedule")
    except (runs.RunActiveError, runs.NoWorkerError) as error:
        logger.warning("The schedule's fill of the lake did not start: %s", error)


@worker_ready.connect  # type: ignore[untyped-decorator, unused-ignore]
def on_worker_ready(**_: Any) -> None:
    """Enqueue the runs whose messages a killed worker took with it, and begin the housekeeping."""
    worker.enqueue_forgotten()
    worker.keep_house()


@worker_shutdown.connect  # type: ignore[untyped-decorator, unused-ignore]
def on_worker_shutdown(**_: Any) -> None:
    """End Spark with the worker."""
    worker.spark().end()
