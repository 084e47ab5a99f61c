"""One run on the worker's side: wait for Spark, have it run, tell how far it is, stop it, say how it ended."""

import logging
import threading
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection
from django.utils import timezone

from spark_jobs.hosting import runs, setup
from spark_jobs.hosting.environment import read_environment
from spark_jobs.hosting.runs import enqueue, remove
from spark_jobs.hosting.spark_process import Policy, SparkProcess
from spark_jobs.models import ACTIVE, ReportRun, SparkState, Status
from spark_jobs.output.folders import remove_drafts
from spark_jobs.run import Job
from spark_jobs.spark.connect import is_connect

if TYPE_CHECKING:
    from django.db.models import QuerySet

logger = logging.getLogger(__name__)

TIME_LIMIT_S = 3600
START_LIMIT_S = 240
"""How long Spark may take to start, with the wait for a cluster's workers."""
SERVER_CANCEL = timedelta(seconds=20)
"""How long ending a job may take at a Spark Connect server: what somebody killed has kept there stays there."""
KEPT_RUNS = 30
"""Ended runs of a report that are kept, with their files."""
LOOK_AGAIN_S = 2.0
TELL_S = 0.5
PARAMETERS = frozenset(Job._fields) - {"report", "store", "folder", "lakes"}
"""What of a job people may say; all else comes from here."""
HOUSEKEEPING_S = 5.0


@cache
def spark() -> SparkProcess:
    """The worker's one process with a Spark session."""
    policy = Policy(idle=timedelta(minutes=settings.GLASSMQ_SPARK_IDLE_MINUTES))
    if is_connect(settings.GLASSMQ_SPARK_MASTER):
        policy = policy._replace(cancel=SERVER_CANCEL)
    return SparkProcess(policy)


def carry_out(run_id: int) -> None:
    """Do what the run with that number asks for; nothing if it is not waiting any more."""
    run = ReportRun.objects.filter(pk=run_id, status__in=(Status.QUEUED, Status.WAITING)).first()
    if run is None or not has_spark(run):
        return
    now = timezone.now()
    waiting = ReportRun.objects.filter(pk=run_id, status__in=(Status.QUEUED, Status.WAITING), attempt=run.attempt)
    claimed = waiting.update(status=Status.RUNNING, started=now, heartbeat=now, doing="starting Spark", percent=0)
    if not claimed:
        return
    remove_drafts(Path(settings.GLASSMQ_REPORTS_DIR) / run.report)
    watch = Watch(run)
    try:
        answer = spark().run(order_for(run), runs.log_of(run), watch)
    except OSError as error:
        logger.exception("Spark's process cannot be started.")
        answer = {"failed": f"Spark's process cannot be started: {error}.", "passing": False}
    conclude(run, watch, answer)
    remove_old_runs(run.report)


def has_spark(run: ReportRun) -> bool:
    """Whether the run may begin. Otherwise it has failed with Spark's set-up, or comes again in a moment."""
    if setup.is_ready():
        return True
    environment = read_environment()
    still = ReportRun.objects.filter(pk=run.pk, status__in=(Status.QUEUED, Status.WAITING))
    if environment.state == SparkState.FAILED:
        still.update(status=Status.FAILED, error=environment.text, finished=timezone.now(), doing="")
        return False
    if environment.state != SparkState.INSTALLING:
        setup.begin()
    still.update(status=Status.WAITING, doing=environment.text[:200], heartbeat=timezone.now())
    enqueue(run.pk, LOOK_AGAIN_S)
    return False


def folder_of(run: ReportRun) -> str:
    """Where the files of a run go, below GLASSMQ_REPORTS_DIR."""
    return f"{run.report}/{run.pk}"


def order_for(run: ReportRun) -> dict[str, Any]:
    """What Spark's process is asked for. The group is another one in each attempt: what is cancelled stays so."""
    return {
        "job": "report",
        "group": f"report-run-{run.pk}-{run.attempt}",
        "master": settings.GLASSMQ_SPARK_MASTER,
        "scratch": str(setup.scratch_folder()),
        "arguments": {name: value for name, value in run.parameters.items() if name in PARAMETERS}
        | {
            "report": run.report,
            "store": str(settings.GLASSMQ_STORE_DIR),
            "folder": str(Path(settings.GLASSMQ_REPORTS_DIR) / folder_of(run)),
            "lakes": str(settings.GLASSMQ_LAKE_DIR),
        },
    }


def conclude(run: ReportRun, watch: "Watch", answer: dict[str, Any]) -> None:
    """Say how the run ended, or that it is tried again."""
    if "done" in answer:
        mine(run).update(
            status=Status.DONE,
            percent=100,
            folder=folder_of(run),
            messages=answer["done"]["messages"],
            result=answer["done"]["result"],
            finished=timezone.now(),
            doing="",
        )
        runs.log_of(run).unlink(missing_ok=True)
    elif watch.stopped_by == "cancel":
        mine(run).update(status=Status.CANCELLED, finished=timezone.now(), doing="")
        runs.log_of(run).unlink(missing_ok=True)
    elif watch.stopped_by:
        runs.end_attempt(run, watch.stopped_by, passing=False)
    elif "failed" in answer:
        runs.end_attempt(run, answer["failed"], passing=answer["passing"])
    else:
        runs.end_attempt(
            run, f"Spark's process ended in the middle of this run (code {answer.get('gone')}).", passing=True
        )


def mine(run: ReportRun) -> "QuerySet[ReportRun]":
    """The run, while this attempt is the one that counts."""
    return ReportRun.objects.filter(pk=run.pk, status=Status.RUNNING, attempt=run.attempt)


class Watch:
    """What a run's watcher sees: signs of life and progress go to the database, a cancel comes from there.

    ``stopped_by`` is "cancel", or the sentence that says which limit the run has passed.
    """

    def __init__(self, run: ReportRun, *, limit_s: float = TIME_LIMIT_S, start_limit_s: float = START_LIMIT_S) -> None:
        self.stopped_by = ""
        self._run = run
        self._told = timezone.now()
        self._begun: datetime | None = None
        self._limit = timedelta(seconds=limit_s)
        self._start_limit = timedelta(seconds=start_limit_s)
        self._percent = 0
        self._doing = "starting Spark"

    def progress(self, percent: int, doing: str) -> None:
        """How far it is; the number never goes back."""
        self._percent = max(self._percent, percent)
        self._doing = doing

    def is_wanted(self) -> bool:
        """Whether anybody still wants the result, and tells how far it is."""
        if self.stopped_by:
            return False
        now = timezone.now()
        self._begun = self._begun or now  # not before the run has Spark's process to itself
        if now - self._begun > self._limit:
            self.stopped_by = f"It took longer than {self._limit.total_seconds() / 60:g} minutes and was stopped."
        elif self._percent == 0 and now - self._begun > self._start_limit:
            self.stopped_by = f"Spark did not start within {self._start_limit.total_seconds() / 60:g} minutes."
        else:
            try:
                self._look()
            except DatabaseError:
                logger.exception("Run %d could not be watched for a moment.", self._run.pk)
        return not self.stopped_by

    def _look(self) -> None:
        found = mine(self._run).values_list("cancel_requested", flat=True).first()
        if found is not False:  # asked to stop, or another attempt has taken this one's place
            self.stopped_by = "cancel"
        elif timezone.now() - self._told > timedelta(seconds=TELL_S):
            self._told = timezone.now()
            mine(self._run).update(heartbeat=self._told, percent=self._percent, doing=self._doing[:200])


def remove_old_runs(report: str) -> None:
    """Keep the newest ended runs of a report."""
    for run in ReportRun.objects.filter(report=report).exclude(status__in=ACTIVE)[KEPT_RUNS:]:
        remove(run)


def enqueue_forgotten() -> None:
    """Hand over again what waits: its message may have died with a worker."""
    for run in ReportRun.objects.filter(status__in=(Status.QUEUED, Status.WAITING)):
        enqueue(run.pk)


def keep_house() -> threading.Event:
    """From now on, in a thread: take up runs whose worker is gone, end a Spark that has nothing to do.

    Set the event to end that.
    """
    over = threading.Event()

    def keep() -> None:
        try:
            while not over.wait(HOUSEKEEPING_S):
                try:
                    close_old_connections()
                    runs.take_up_lost_runs()
                    spark().end_if_idle()
                except Exception:
                    logger.exception("The report worker's housekeeping failed; it is tried again.")
        finally:
            connection.close()

    threading.Thread(target=keep, name="housekeeping", daemon=True).start()
    return over
