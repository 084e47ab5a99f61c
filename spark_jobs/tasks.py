"""Celery's tasks: runs of reports, fills of the lake, and the runs that schedules start."""

import logging
import threading
from datetime import timedelta
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutdown
from django.utils import timezone

from spark_jobs.hosting import lake_state, runs, worker
from spark_jobs.hosting.schedules import RUN_SCHEDULED_TASK, Parameters, claim, parameters_at

logger = logging.getLogger(__name__)


@shared_task(name=runs.RUN_TASK, ignore_result=True)  # type: ignore[untyped-decorator, unused-ignore]  # no types
def run_report(run_id: int) -> None:
    """Carry out one run. The worker watches the time, because Celery's limits do not work in its pool."""
    worker.carry_out(run_id)


@shared_task(name=RUN_SCHEDULED_TASK, bind=True, ignore_result=True)  # type: ignore[untyped-decorator, unused-ignore]
def run_scheduled(task: Any, report: str, **about: Any) -> None:
    """Start the run of a schedule. ``about``: fields of ``Parameters``."""
    start(task, report, parameters_at(report, timezone.now(), Parameters(**about)))


@shared_task(name=lake_state.SYNC_TASK, bind=True, ignore_result=True)  # type: ignore[untyped-decorator, unused-ignore]
def lake_sync(task: Any, with_bodies: bool = False) -> None:
    """Start the fill of a schedule, from the stores of all brokers."""
    start(task, runs.LAKE, {"with_bodies": with_bodies})


def start(task: Any, name: str, parameters: dict[str, Any]) -> None:
    """Start a run, unless one is under way, or the due time of ``task`` has had its run."""
    if not claim(task.request.get("periodic_task_name")):
        return
    try:
        runs.start_run(name, parameters, requested_by="schedule")
    except (runs.RunActiveError, runs.UnknownReportError, runs.UnknownBrokerError) as error:
        logger.warning("The schedule's run of %s did not start: %s", name, error)


@worker_ready.connect  # type: ignore[untyped-decorator, unused-ignore]
def on_worker_ready(**_: Any) -> None:
    """Enqueue the runs whose messages a killed worker took with it, and begin the housekeeping."""
    runs.take_up_lost_runs(waited=timedelta(0))
    threading.Thread(target=worker.keep_house, args=[threading.Event()], name="housekeeping", daemon=True).start()


@worker_shutdown.connect  # type: ignore[untyped-decorator, unused-ignore]
def on_worker_shutdown(**_: Any) -> None:
    """End Spark with the worker."""
    worker.spark.end()
