"""Runs on the report worker's side: a Celery task has the child process carry out a run, within a time limit."""

import errno
import logging
import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import Error, close_old_connections
from django.utils import timezone

from spark_jobs.errors import NoJavaError, NoSparkError
from spark_jobs.hosting import runs
from spark_jobs.hosting.spark_process import SparkProcess
from spark_jobs.job import DRAFT_PREFIX, PARAMETERS
from spark_jobs.models import ACTIVE, NOT_BEGUN, ReportRun, Status
from spark_jobs.spark.java import find_java_home
from spark_jobs.spark.session import current_java_home, is_connect, require_packages

logger = logging.getLogger(__name__)

TIME_LIMIT_S = 3600
START_LIMIT_S = 240
"""How long Spark may take to start, including the wait for a cluster's executors."""
KEPT_RUNS = 30
"""The number of ended runs of a report that are kept, with their files."""
HOUSEKEEPING_S = 5.0


spark = SparkProcess()
"""The worker's only child process with a Spark session."""


def carry_out(run_id: int) -> None:
    """Carry out the run with that number, if it is still waiting."""
    waiting = ReportRun.objects.filter(pk=run_id, status__in=NOT_BEGUN)
    run = waiting.first()
    if run is None:
        return
    if problem := spark_problem():
        waiting.update(status=Status.WAITING, doing=problem, heartbeat=timezone.now())
        return  # the housekeeping hands it over again
    now = timezone.now()
    if not waiting.filter(attempt=run.attempt).update(
        status=Status.RUNNING, started=run.started or now, heartbeat=now, doing="starting Spark", percent=0
    ):
        return  # another worker has it
    for draft in (Path(settings.GLASSMQ_REPORTS_DIR) / run.report).glob(f"{DRAFT_PREFIX}*"):  # of a killed attempt
        shutil.rmtree(draft, ignore_errors=True)
    watch = RunWatch(run)
    try:
        answer = spark.run(order_for(run), runs.log_of(run), watch)
    except OSError as error:
        logger.exception("Spark's process cannot be started.")
        why = full_disk(error, settings.GLASSMQ_REPORTS_DIR) or f"Spark's process cannot be started: {error}."
        answer = {"failed": why, "passing": False}
    conclude(run, watch, answer)
    for old in ReportRun.objects.filter(report=run.report).exclude(status__in=ACTIVE)[KEPT_RUNS:]:
        runs.remove(old)


def spark_problem() -> str:
    """Why Spark cannot start in this environment, as a sentence; empty if it can."""
    try:
        require_packages(settings.GLASSMQ_SPARK_MASTER)
        if not is_connect(settings.GLASSMQ_SPARK_MASTER):  # a Connect server has its own Java
            find_java_home(current_java_home(), scratch_folder())
    except (NoSparkError, NoJavaError) as error:
        return str(error)
    except OSError as error:
        folder = scratch_folder()
        return full_disk(error, folder) or f"Spark's files in {folder} cannot be read or written: {error}."
    return ""


def full_disk(error: OSError, folder: Path) -> str:
    """The sentence for an error that a full disk caused while a folder was written to; empty for any other error."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return ""
    return f"The disk with {folder} is full. Free some space on it."


def hand_over_waiting() -> None:
    """Hand over the runs that wait for Spark if it can start now; otherwise write why they wait.

    A run that handed itself over again would have one more message under way after each start of a worker.
    """
    waiting = ReportRun.objects.filter(status=Status.WAITING)
    if not waiting.exists():
        return
    if problem := spark_problem():
        waiting.update(doing=problem)
        return
    for run in waiting:
        if waiting.filter(pk=run.pk).update(status=Status.QUEUED, doing="", heartbeat=timezone.now()):
            runs.enqueue(run.pk)


def scratch_folder() -> Path:
    """The folder for Spark's temporary files."""
    return Path(settings.GLASSMQ_DATA_DIR) / "spark"


def order_for(run: ReportRun) -> dict[str, Any]:
    """The order for the child process, as ``spark_child`` describes it."""
    stores = [(name, str(path)) for name, path in runs.stores(run.parameters.get("broker") or "")]
    arguments: dict[str, Any] = {"lakes": str(settings.GLASSMQ_LAKE_DIR), "stores": stores}
    if run.report == runs.LAKE:
        arguments |= {
            "keep_days": settings.GLASSMQ_LAKE_KEEP_DAYS,
            "with_bodies": run.parameters["with_bodies"],
        }
    else:
        arguments |= {name: value for name, value in run.parameters.items() if name in PARAMETERS}
        arguments |= {"report": run.report, "folder": str(Path(settings.GLASSMQ_REPORTS_DIR) / runs.folder_of(run))}
    return {
        "job": "lake" if run.report == runs.LAKE else "report",
        "master": settings.GLASSMQ_SPARK_MASTER,
        "scratch": str(scratch_folder()),
        "arguments": arguments,
    }


def conclude(run: ReportRun, watch: "RunWatch", answer: dict[str, Any]) -> None:
    """Write how the run ended, or have it tried again."""
    if "done" in answer:
        conclude_done(run, answer["done"])
    elif watch.stopped_by:
        runs.end_attempt(run, watch.stopped_by, passing=False)
    else:
        runs.end_attempt(run, answer["failed"], passing=answer["passing"])
    row = ReportRun.objects.filter(pk=run.pk).first()
    if row is None or (row.attempt == run.attempt and row.status != Status.FAILED):
        runs.log_of(run).unlink(missing_ok=True)  # another attempt would still write it


def conclude_done(run: ReportRun, done: dict[str, Any]) -> None:
    """The job is done. A fill of the lake with more to read queues again behind the waiting reports."""
    messages, attempt = done["messages"], runs.attempt_of(run)
    if run.report == runs.LAKE:
        messages += run.messages or 0
        if not done["is_all"]:
            waiting = attempt.filter(cancel_requested=False)
            if waiting.update(status=Status.QUEUED, heartbeat=timezone.now(), messages=messages):
                runs.enqueue(run.pk)
            else:
                attempt.update(status=Status.CANCELLED, finished=timezone.now(), doing="", messages=messages)
            return
    attempt.update(
        status=Status.DONE,
        percent=100,
        folder=runs.folder_of(run),
        messages=messages,
        result=done.get("result", {}),
        finished=timezone.now(),
        doing="",
    )


class RunWatch:
    """Writes a run's progress and heartbeat to the database, and ends the run when it is cancelled or takes too long.

    ``stopped_by`` is "cancel", or a sentence with the limit that the run has exceeded.
    """

    def __init__(self, run: ReportRun) -> None:
        self.stopped_by = ""
        self._run = run
        self._begun = timezone.now()

    def __call__(self, percent: int, doing: str) -> bool:
        """Whether the run may go on."""
        now = timezone.now()
        seconds = (now - self._begun).total_seconds()
        if seconds > TIME_LIMIT_S:
            self.stopped_by = f"It took longer than {TIME_LIMIT_S / 60:g} minutes and was stopped."
        elif percent == 0 and seconds > START_LIMIT_S:
            self.stopped_by = (
                f"Spark did not start within {START_LIMIT_S / 60:g} minutes. (A cluster needs an executor with free "
                "cores and memory.)"
            )
        else:
            try:
                wanted = runs.attempt_of(self._run).filter(cancel_requested=False)
                if not wanted.update(heartbeat=now, percent=percent, doing=doing):
                    self.stopped_by = "cancel"  # or another attempt has taken this one's place
            except Error:
                logger.exception("Run %d could not be watched for a moment.", self._run.pk)
                close_old_connections()  # a connection that a restart of the database has ended stays useless
        return not self.stopped_by


def keep_house(over: threading.Event) -> None:
    """Take up waiting runs and those of ended workers, and end an idle Spark, until the event is set."""
    while not over.wait(HOUSEKEEPING_S):
        try:
            close_old_connections()
            runs.take_up_lost_runs()
            hand_over_waiting()
            spark.end_if_idle(timedelta(minutes=settings.GLASSMQ_SPARK_IDLE_MINUTES))
        except Exception:
            logger.exception("The report worker's housekeeping failed; it is tried again.")
