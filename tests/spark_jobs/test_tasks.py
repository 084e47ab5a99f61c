"""The tasks, and one run from start to end by a real worker."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from spark_jobs import tasks
from spark_jobs.hosting import runs, worker
from spark_jobs.models import ReportRun
from spark_jobs.spark.session import is_running
from tests.conftest import PROJECT, Manage
from tests.fakes.redis_server import RedisServer
from tests.spark_jobs.stores import make_store


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(runs, "start_run", lambda *args, requested_by: calls.append((*args, requested_by)))
    return calls


def test_a_schedule_starts_a_run(started: list[tuple[Any, ...]]) -> None:
    tasks.run_scheduled("throughput", topic="orders")
    tasks.lake_sync(with_bodies=True)
    parameters = {"topic": "orders", "consumer_group": None, "broker": None}
    assert started == [
        ("throughput", parameters, "schedule"),
        ("lake", {"with_bodies": True}, "schedule"),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("task", [tasks.run_scheduled, tasks.lake_sync])
def test_what_two_schedulers_send_starts_one_run(started: list[tuple[Any, ...]], task: Any) -> None:
    each = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    name = PeriodicTask.objects.create(name="each hour", task=task.name, interval=each).name
    for _ in range(2):
        task.push_request(periodic_task_name=name)
        task(*["throughput"] * (task is tasks.run_scheduled))
        task.pop_request()
    assert len(started) == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("report", "about", "said"),
    [
        ("skew", {}, "is under way; cancel it, or wait for it."),
        ("throughput", {"broker": "gone"}, "There is no store of a broker 'gone' here"),
        ("gone", {}, "There is no report 'gone'"),
    ],
)
def test_a_schedule_whose_run_cannot_start_says_why(
    caplog: pytest.LogCaptureFixture, report: str, about: dict[str, Any], said: str
) -> None:
    ReportRun.objects.create(report="skew", heartbeat=timezone.now())
    tasks.run_scheduled(report, **about)
    assert said in caplog.text


def test_what_a_worker_does_from_its_start_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    monkeypatch.setattr(runs, "take_up_lost_runs", lambda waited: done.append(waited.total_seconds()))
    is_kept = threading.Event()
    monkeypatch.setattr(worker, "keep_house", lambda over: is_kept.set())
    monkeypatch.setattr(worker, "carry_out", done.append)
    monkeypatch.setattr(worker.spark, "end", lambda: done.append("end of Spark"))
    tasks.on_worker_ready()
    tasks.run_report(5)
    tasks.on_worker_shutdown()
    assert done == [0, 5, "end of Spark"]
    assert is_kept.wait(30)


class Workers:
    """Real Celery processes over one data folder, and what becomes of the only run."""

    def __init__(self, manage: Manage, tmp_path: Path, **environment: str) -> None:
        self._manage = manage
        self._environment = (
            manage.environment
            | environment
            | {"GLASSMQ_STORE_DIR": str(tmp_path / "store"), "GLASSMQ_SPARK_MASTER": "local[1]"}
        )
        self._started: list[subprocess.Popen[str]] = []
        self.folder = tmp_path / "data"
        make_store(tmp_path / "store", 50)
        assert manage.run("migrate", "--verbosity", "0") == (0, "")

    def do(self, code: str) -> None:
        """Run some Python in the project."""
        ended, output = self._manage.run("shell", "-v", "0", "-c", code, **self._environment)
        assert ended == 0, output

    def start(self, *command: str) -> "subprocess.Popen[str]":
        started = subprocess.Popen(
            [sys.executable, "-m", "celery", "--app", "config.celery", "--quiet", *command],
            cwd=PROJECT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._started.append(started)
        return started

    def wait_for(self, *, percent: int = 0, statuses: tuple[str, ...] = ("done", "failed", "cancelled")) -> Any:
        """Look at the first run until it has come so far, four minutes at most."""
        look, row = threading.Event(), None
        for _ in range(1200):
            row = self.query("SELECT status, error, messages, attempt, percent FROM spark_jobs_reportrun ORDER BY id")
            if row is not None and row[0] in statuses and row[4] >= percent:
                return row[:4]
            look.wait(0.2)
        pytest.fail(f"the run is {row}; the processes said: {self.end()}")

    def query(self, sql: str) -> Any:
        with sqlite3.connect(self.folder / "glassmq.sqlite3", timeout=60) as connection:
            return connection.execute(sql).fetchone()

    def end(self) -> str:
        """End all of them in order; what they said."""
        for process in self._started:
            if process.poll() is None:
                process.terminate()
        said = [process.communicate(timeout=60)[0] for process in self._started]
        self._started.clear()
        return "\n".join(said)


def children_of(parent: int) -> list[int]:
    """Process ids of what a process has started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    found = [int(pid) for pid, its in map(str.split, listed.splitlines()) if int(its) == parent]
    assert found
    return found


def wait_until_gone(processes: list[int]) -> None:
    """Until none of them runs any more, two minutes at most."""
    look = threading.Event()
    for _ in range(600):
        processes = [process for process in processes if is_running(process)]
        if not processes:
            return
        look.wait(0.2)
    pytest.fail(f"still there: {processes}")


A_SECOND = """
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from spark_jobs.hosting.schedules import RUN_SCHEDULED_TASK, arguments_for
each = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.SECONDS)
PeriodicTask.objects.create(
    name="each second", task=RUN_SCHEDULED_TASK, args=arguments_for("throughput"), interval=each)
"""


@pytest.mark.torture
def test_a_scheduled_run_whose_worker_is_killed_in_the_middle_comes_to_a_result_by_the_next(
    manage: Manage, tmp_path: Path, redis_server: RedisServer
) -> None:
    workers = Workers(manage, tmp_path, GLASSMQ_REDIS_URL=redis_server.url)
    try:
        workers.do(A_SECOND)
        first = workers.start("worker", "--pool", "solo")
        workers.start("beat", "--pidfile=", "--max-interval", "1")
        workers.wait_for(percent=5, statuses=("running",))
        spark = children_of(first.pid)
        first.kill()
        first.communicate(timeout=60)
        wait_until_gone(spark)
        assert list((workers.folder / "reports" / "throughput").glob("*/summary.json")) == []
        workers.query("UPDATE spark_jobs_reportrun SET heartbeat = datetime('now', '-2 minutes')")
        workers.start("worker", "--pool", "solo")
        assert workers.wait_for() == ("done", "", 50, 2)
        assert (workers.folder / "reports" / "throughput" / "1" / "report.html").exists()
    finally:
        said = workers.end()
    assert workers.query("SELECT requested_by FROM spark_jobs_reportrun ORDER BY id") == ("schedule",)
    assert not (workers.folder / "celery").exists(), "messages went through files"
    assert "Traceback" not in said
