"""What Celery runs: one report, what the schedule asks for, and, when the worker starts, the set-up of Spark."""

import logging
from typing import Any

from celery import Task, shared_task
from celery.exceptions import Ignore
from celery.signals import worker_ready, worker_shutdown
from django.utils import timezone

from spark_jobs.errors import LakeCancelledError
from spark_jobs.hosting import lake_state, lake_worker, report_worker, runs, setup
from spark_jobs.hosting.lake_state import SYNC_TASK
from spark_jobs.hosting.schedules import RUN_SCHEDULED_TASK, parameters_at

logger = logging.getLogger(__name__)


@shared_task(  # type: ignore[untyped-decorator, unused-ignore]  # celery has no types
    name=runs.RUN_TASK,
    ignore_result=True,
    acks_late=True,
    soft_time_limit=report_worker.TIME_LIMIT_S + 60,
    time_limit=report_worker.TIME_LIMIT_S + 120,
)
def run_report(run_id: int) -> None:
    """Carry out one run. The limits are for pools that have them; the worker watches the time itself."""
    report_worker.carry_out(run_id)


@shared_task(name=RUN_SCHEDULED_TASK, ignore_result=True)  # type: ignore[untyped-decorator, unused-ignore]
def run_scheduled(report: str) -> None:
    """Start a run by schedule; while one is under way there is nothing to do."""
    try:
        runs.require_report(report)
        runs.start_run(report, parameters_at(report, timezone.now()), requested_by="schedule")
    except (runs.RunActiveError, runs.UnknownReportError, runs.NoWorkerError) as error:
        logger.warning("The schedule's run of %s did not start: %s", report, error)


@worker_ready.connect  # type: ignore[untyped-decorator, unused-ignore]
def on_worker_ready(**_: Any) -> None:
    """A worker has started: set Spark up, and take up the runs whose messages a killed worker took with it."""
    setup.begin()
    report_worker.enqueue_forgotten()
    report_worker.keep_house()


@worker_shutdown.connect  # type: ignore[untyped-decorator, unused-ignore]
def on_worker_shutdown(**_: Any) -> None:
    """The worker ends, and Spark with it."""
    report_worker.spark().end()


@shared_task(  # type: ignore[untyped-decorator, unused-ignore]
    name=SYNC_TASK,
    bind=True,
    soft_time_limit=lake_worker.TIME_LIMIT.total_seconds() + 60,
    time_limit=lake_worker.TIME_LIMIT.total_seconds() + 120,
)
def lake_sync(task: Task, with_bodies: bool = False) -> dict[str, Any]:
    """A round of filling the lake. Its result, or why it failed, is kept with the other tasks' in the admin."""
    try:
        return lake_worker.fill_lake(task.request.id, with_bodies)
    except LakeCancelledError as error:
        lake_state.end_cancelled(task.request.id)
        raise Ignore from error  # Celery has nothing to keep of it
