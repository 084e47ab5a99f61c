"""One run on the worker's side: wait for Spark, run, tell how far it is, stop when asked, keep the newest results."""

import logging
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from spark_jobs import setup
from spark_jobs.environment import read_environment
from spark_jobs.errors import ReportError
from spark_jobs.models import ACTIVE, ReportRun, SparkState, Status
from spark_jobs.report_run import Job, run_report
from spark_jobs.run_folders import remove_drafts
from spark_jobs.runs import enqueue, remove
from spark_jobs.session import get_session

if TYPE_CHECKING:
    from pyspark import SparkContext

logger = logging.getLogger(__name__)

TIME_LIMIT_S = 3600
KEPT_RUNS = 30
"""Ended runs of a report that are kept, with their files."""
LOOK_AGAIN_S = 2.0
WATCH_S = 0.5
SCAN_FROM, SCAN_TO = 5, 90
"""The part of the percent bar that is the scan of the log."""


def carry_out(run_id: int) -> None:
    """Do what the run with that number asks for; nothing if it is not waiting any more."""
    run = ReportRun.objects.filter(pk=run_id, status__in=(Status.QUEUED, Status.WAITING)).first()
    if run is None or not has_spark(run):
        return
    claimed = ReportRun.objects.filter(pk=run_id, status__in=(Status.QUEUED, Status.WAITING)).update(
        status=Status.RUNNING, started=timezone.now(), heartbeat=timezone.now(), doing="starting Spark", percent=0)
    if not claimed:
        return
    folder = Path(run.report) / str(run.pk)
    remove_drafts(Path(settings.GLASSMQ_REPORTS_DIR) / run.report)
    with Watch(run_id) as watch:
        changes = attempt(run, folder, watch)
    ReportRun.objects.filter(pk=run_id).update(**changes, finished=timezone.now(), doing="")
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


def attempt(run: ReportRun, folder: Path, watch: "Watch") -> dict[str, Any]:
    """Run the report; what is to be said of the run afterwards."""
    try:
        spark = get_session(settings.GLASSMQ_SPARK_MASTER, setup.scratch_folder())
        watch.look_at(spark.sparkContext)
        if not watch.stopped_by:
            summary = run_report(Job(
                run.report, Path(settings.GLASSMQ_STORE_DIR), Path(settings.GLASSMQ_REPORTS_DIR) / folder,
                run.parameters.get("from_ms"), run.parameters.get("to_ms"), watch.group,
            ), spark, timezone.now, watch.progress)
            return {"status": Status.DONE, "percent": 100, "folder": str(folder),
                "messages": summary["total"]["messages"]}
    except Exception as error:
        if not watch.stopped_by:
            logger.exception("Run %d of %s failed.", run.pk, run.report)
            return {"status": Status.FAILED, "error": sentence(error)}
    if watch.stopped_by == "cancel":
        return {"status": Status.CANCELLED}
    return {"status": Status.FAILED, "error": f"It took longer than {TIME_LIMIT_S // 60} minutes and was stopped."}


def sentence(error: Exception) -> str:
    """Why a run failed, for the reader; the log has the rest."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, ReportError):
        return text
    return f"{type(error).__name__}: {text.splitlines()[0][:400]} (the report worker's log has the rest)"


class Watch:
    """Beside a run: signs of life and progress into the database; a cancel or the time limit into Spark.

    A thread, since the run's own one waits for Spark. It names the run itself: nothing of Celery's request is known
    in another thread.
    """

    def __init__(self, run_id: int, *, every_s: float = WATCH_S, limit_s: float = TIME_LIMIT_S) -> None:
        self.group = f"report-run-{run_id}"
        self.stopped_by = ""
        self._run_id = run_id
        self._every_s = every_s
        self._deadline: datetime = timezone.now() + timedelta(seconds=limit_s)
        self._percent = 0
        self._doing = "starting Spark"
        self._context: SparkContext | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_watch, name=self.group, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def look_at(self, context: "SparkContext") -> None:
        """Where the run's jobs are from now on."""
        self._context = context

    def progress(self, percent: int, doing: str) -> None:
        """``report_run``'s Progress; the number never goes back."""
        self._percent = max(self._percent, percent)
        self._doing = doing

    def _keep_watch(self) -> None:
        try:
            while not self._over.wait(self._every_s):
                try:
                    self.look()
                except Exception:
                    logger.exception("Run %d could not be watched for a moment.", self._run_id)
        finally:
            connection.close()

    def look(self) -> None:
        """One look: what the database wants, and what it is told."""
        if self._context is not None and SCAN_FROM <= self._percent < SCAN_TO:
            done, total = scan_progress(self._context, self.group)
            self.progress(SCAN_FROM + (SCAN_TO - SCAN_FROM) * done // max(total, 1), self._doing)
        mine = ReportRun.objects.filter(pk=self._run_id, status=Status.RUNNING)
        mine.update(heartbeat=timezone.now(), percent=self._percent, doing=self._doing[:200])
        if not self.stopped_by and mine.filter(cancel_requested=True).exists():
            self.stopped_by = "cancel"
        elif not self.stopped_by and timezone.now() > self._deadline:
            self.stopped_by = "time"
        if self.stopped_by and self._context is not None:
            self._context.cancelJobGroup(self.group)


def scan_progress(context: "SparkContext", group: str) -> tuple[int, int]:
    """(finished, all) tasks of the stage that reads the log: the first stage of the group's first job.

    Only that one, since the total over all stages grows while they are submitted.
    """
    tracker = context.statusTracker()
    jobs = [info for number in sorted(tracker.getJobIdsForGroup(group)) if (info := tracker.getJobInfo(number))]
    stages = sorted(jobs[0].stageIds) if jobs else []
    stage = tracker.getStageInfo(stages[0]) if stages else None
    return (stage.numCompletedTasks, stage.numTasks) if stage else (0, 0)


def remove_old_runs(report: str) -> None:
    """Keep the newest ended runs of a report."""
    for run in ReportRun.objects.filter(report=report).exclude(status__in=ACTIVE)[KEPT_RUNS:]:
        remove(run)


def enqueue_forgotten() -> None:
    """Hand over again what waits: its message may have died with a worker."""
    for run in ReportRun.objects.filter(status__in=(Status.QUEUED, Status.WAITING)):
        enqueue(run.pk)
