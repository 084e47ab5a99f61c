"""A run on the worker's side: what becomes of it, and what it says meanwhile."""

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from spark_jobs import report_worker, setup
from spark_jobs.environment import write_environment
from spark_jobs.errors import NoJavaError
from spark_jobs.models import ReportRun, SparkState, Status
from spark_jobs.report_run import Job
from spark_jobs.report_worker import Watch, carry_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.django_db


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float]]:
    handed: list[tuple[int, float]] = []
    monkeypatch.setattr(report_worker, "enqueue", lambda run_id, delay_s=0: handed.append((run_id, delay_s)))
    return handed


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> Callable[[Callable[..., Any]], None]:
    """A worker with Spark, whose reports are the function that it is given. Its watch looks only when told to."""
    settings.GLASSMQ_DATA_DIR = tmp_path
    settings.GLASSMQ_REPORTS_DIR = tmp_path / "reports"
    monkeypatch.setattr(setup, "is_ready", lambda: True)
    monkeypatch.setattr(report_worker, "WATCH_S", 3600)
    monkeypatch.setattr(report_worker, "get_session",
        lambda master, scratch: SimpleNamespace(sparkContext=SimpleNamespace(cancelJobGroup=lambda group: None)))
    return lambda report: monkeypatch.setattr(report_worker, "run_report", report)


def queued(**more: Any) -> ReportRun:
    return ReportRun.objects.create(report="throughput", **more)


def test_a_run_that_succeeds(worker: Any) -> None:
    jobs: list[Job] = []

    def report(job: Job, spark: Any, now: Any, progress: Any) -> dict[str, Any]:
        jobs.append(job)
        progress(50, "half")
        return {"total": {"messages": 12}}

    worker(report)
    run = queued(parameters={"from_ms": 7, "to_ms": None})
    carry_out(run.pk)
    run.refresh_from_db()
    assert (run.status, run.percent, run.messages, run.folder) == (Status.DONE, 100, 12, f"throughput/{run.pk}")
    assert run.started is not None
    assert run.finished is not None
    assert (jobs[0].from_ms, jobs[0].to_ms, jobs[0].group) == (7, None, f"report-run-{run.pk}")


@pytest.mark.parametrize(("error", "text"), [
    (NoJavaError("There is no Java."), "There is no Java."),
    (ValueError("first line\nsecond line"), "ValueError: first line (the report worker's log has the rest)"),
])
def test_a_run_that_fails_says_why(worker: Any, error: Exception, text: str) -> None:
    def report(*_: Any) -> None:
        raise error

    worker(report)
    run = queued()
    carry_out(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error, run.folder) == (Status.FAILED, text, "")


@pytest.mark.parametrize(("stopped_by", "status", "error"), [
    ("cancel", Status.CANCELLED, ""), ("time", Status.FAILED, "It took longer than 60 minutes and was stopped.")])
def test_a_run_that_was_stopped(worker: Any, monkeypatch: pytest.MonkeyPatch, stopped_by: str, status: Status,
                                error: str) -> None:
    watches: list[Watch] = []
    original = Watch.__enter__
    monkeypatch.setattr(Watch, "__enter__", lambda self: watches.append(self) or original(self))

    def report(*_: Any) -> None:
        watches[0].stopped_by = stopped_by
        raise RuntimeError("Job 3 cancelled")

    worker(report)
    run = queued()
    carry_out(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error) == (status, error)


def test_a_run_is_carried_out_once(worker: Any) -> None:
    calls: list[Job] = []
    worker(lambda job, *_: calls.append(job) or {"total": {"messages": 0}})
    run = queued()
    carry_out(run.pk)
    carry_out(run.pk)
    carry_out(99_999)
    assert len(calls) == 1


def test_without_spark_it_waits(handed_over: list[tuple[int, float]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "is_ready", lambda: False)
    write_environment(SparkState.INSTALLING, "Downloading pyspark")
    run = queued()
    carry_out(run.pk)
    run.refresh_from_db()
    assert (run.status, run.doing) == (Status.WAITING, "Downloading pyspark")
    assert handed_over == [(run.pk, report_worker.LOOK_AGAIN_S)]


def test_where_nobody_sets_spark_up_it_begins_to(handed_over: list[tuple[int, float]],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    monkeypatch.setattr(setup, "is_ready", lambda: False)
    monkeypatch.setattr(setup, "begin", lambda: begun.append(True))
    carry_out(queued().pk)
    assert (begun, len(handed_over)) == ([True], 1)


def test_with_spark_that_cannot_be_had_it_fails(handed_over: list[tuple[int, float]],
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "is_ready", lambda: False)
    write_environment(SparkState.FAILED, "No space left.")
    run = queued()
    carry_out(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error, handed_over) == (Status.FAILED, "No space left.", [])


def test_old_runs_make_room(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_worker, "KEPT_RUNS", 2)
    worker(lambda *_: {"total": {"messages": 0}})
    old = [queued(status=Status.DONE).pk for _ in range(3)]
    run = queued()
    carry_out(run.pk)
    assert list(ReportRun.objects.values_list("pk", flat=True)) == [run.pk, old[-1]]


def test_forgotten_runs_are_handed_over_again(handed_over: list[tuple[int, float]]) -> None:
    queued(status=Status.DONE)
    waiting = queued(status=Status.WAITING)
    report_worker.enqueue_forgotten()
    assert handed_over == [(waiting.pk, 0)]


def test_progress_never_goes_back() -> None:
    run = queued(status=Status.RUNNING)
    watch = Watch(run.pk)
    watch.progress(40, "reading")
    watch.progress(30, "still reading")
    watch.look()
    run.refresh_from_db()
    assert (run.percent, run.doing) == (40, "still reading")
    assert run.heartbeat is not None
    assert (timezone.now() - run.heartbeat).total_seconds() < 60


def test_the_time_limit_stops_a_run() -> None:
    cancelled: list[str] = []
    watch = Watch(queued(status=Status.RUNNING).pk, limit_s=-1)
    watch.look_at(SimpleNamespace(cancelJobGroup=cancelled.append))  # type: ignore[arg-type]
    watch.look()
    assert (watch.stopped_by, cancelled) == ("time", [watch.group])


def test_progress_is_that_of_the_scan(spark: "SparkSession") -> None:
    context = spark.sparkContext
    context.setJobGroup("scanned", "for a test")
    context.parallelize(range(30), 3).map(lambda number: (number % 2, 1)).reduceByKey(lambda a, b: a + b).collect()
    assert report_worker.scan_progress(context, "scanned") == (3, 3)
    assert report_worker.scan_progress(context, "nobody's") == (0, 0)


def test_a_cancel_reaches_spark(spark: "SparkSession") -> None:
    run = queued(status=Status.RUNNING, cancel_requested=True)
    watch = Watch(run.pk)
    watch.look_at(spark.sparkContext)
    started, failures = threading.Event(), []

    def work() -> None:
        spark.sparkContext.setJobGroup(watch.group, "for a test", interruptOnCancel=True)
        started.set()
        try:
            spark.range(1_000_000_000_000, numPartitions=2).selectExpr("sum(hash(id))").collect()
        except Exception as error:
            failures.append(str(error))

    from pyspark import InheritableThread

    thread = InheritableThread(target=work, session=spark)
    thread.start()
    started.wait()
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getJobIdsForGroup(watch.group):
        threading.Event().wait(0.05)
    watch.look()
    thread.join()
    assert watch.stopped_by == "cancel"
    assert "cancelled" in failures[0].lower()
