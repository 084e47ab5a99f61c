"""The tasks, and one run from start to end by a real worker."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs import report_worker, runs, setup, tasks
from tests.conftest import PROJECT, Manage
from tests.spark_jobs.stores import make_store


def test_a_schedule_starts_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[Any, ...]] = []
    monkeypatch.setattr(runs, "start_run", lambda *args, requested_by: started.append((*args, requested_by)))
    tasks.run_scheduled("throughput")
    assert started == [("throughput", {}, "schedule")]


def test_a_schedule_passes_over_a_report_that_is_running(monkeypatch: pytest.MonkeyPatch,
                                                         caplog: pytest.LogCaptureFixture) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise runs.RunActiveError("Run 3 of throughput is under way.")

    monkeypatch.setattr(runs, "start_run", refuse)
    tasks.run_scheduled("throughput")
    assert "Run 3 of throughput is under way" in caplog.text


def test_a_worker_sets_spark_up_and_takes_up_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(setup, "begin", lambda: done.append("set-up"))
    monkeypatch.setattr(report_worker, "enqueue_forgotten", lambda: done.append("forgotten"))
    monkeypatch.setattr(report_worker, "keep_house", lambda: done.append("house"))
    tasks.on_worker_ready()
    assert done == ["set-up", "forgotten", "house"]


def test_a_worker_that_ends_ends_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(report_worker, "spark", lambda: SimpleNamespace(end=lambda: ended.append(True)))
    tasks.on_worker_shutdown()
    assert ended == [True]


def test_a_worker_carries_out_the_run_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    carried: list[int] = []
    monkeypatch.setattr(report_worker, "carry_out", carried.append)
    tasks.run_report(5)
    assert carried == [5]


def test_a_real_worker_runs_a_report(manage: Manage, tmp_path: Path) -> None:
    make_store(tmp_path / "store", 50)
    more = {"GLASSMQ_STORE_DIR": str(tmp_path / "store"), "GLASSMQ_SPARK_MASTER": "local[1]"}
    assert manage.run("migrate", "--verbosity", "0") == (0, "")
    code, output = manage.run("shell", "-c", "from spark_jobs import runs; runs.start_run('throughput', {})",
        **more)
    assert code == 0, output
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "--app", "config.celery", "--quiet", "worker", "--pool", "solo"],
        cwd=PROJECT, env=manage.environment | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True)
    try:
        status, error, messages = wait_for_end(tmp_path / "data" / "glassmq.sqlite3")
    finally:
        os.killpg(worker.pid, 15)
        said, _ = worker.communicate(timeout=60)
    assert (status, error, messages) == ("done", "", 50), said
    assert (tmp_path / "data" / "reports" / "throughput" / "1" / "report.html").exists()


def wait_for_end(database: Path) -> tuple[str, str, int]:
    """Look at the only run until it has ended, two minutes at most."""
    look = threading.Event()
    for _ in range(600):
        with sqlite3.connect(database, timeout=20) as connection:
            row = connection.execute("SELECT status, error, messages FROM spark_jobs_reportrun").fetchone()
        if row[0] in ("done", "failed", "cancelled"):
            break
        look.wait(0.2)
    return row  # type: ignore[no-any-return]
