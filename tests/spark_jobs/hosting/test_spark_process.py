"""The child process as the worker sees it, with a stand-in that answers as the real one does."""

import os
import queue
import select
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.hosting import spark_process
from spark_jobs.hosting.spark_process import SparkProcess, ended, read_answers

STAND_IN = r"""
import json, os, signal, subprocess, sys, time

def say(answer):
    print(json.dumps(answer), flush=True)

for line in sys.stdin:
    order = json.loads(line)
    what = order["job"]
    if what == "good":
        say({"progress": [40, "reading"]})
        say({"done": {"pid": os.getpid()}})
    elif what == "talks":
        os.write(2, "größer\n".encode() + b"x" * 5000 + b"\n")
        say({"failed": "It failed.", "passing": order["passing"]})
    elif what == "endless":
        if order.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say({"progress": [5, "waiting"]})
        time.sleep(600)
    elif what == "has a child":
        say({"progress": [subprocess.Popen(["sleep", "600"]).pid, "waiting"]})
        time.sleep(600)
    elif what == "torn":
        os.write(1, b'{"done": {"half')
        os._exit(7)
"""


class Watching:
    """Notes the progress of a job. From its first progress on, calls ``act``, which returns whether the job goes on."""

    def __init__(self, act: Callable[[], bool] = lambda: True) -> None:
        self.seen: list[tuple[int, str]] = []
        self._act = act

    def __call__(self, percent: int, doing: str) -> bool:
        if percent:
            self.seen.append((percent, doing))
        return not percent or self._act()


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Callable[[], SparkProcess]:
    def start() -> SparkProcess:
        process = SparkProcess([sys.executable, "-c", STAND_IN])
        request.addfinalizer(process.end)
        return process

    return start


Start = Callable[[], SparkProcess]


def test_a_job_is_done_and_the_child_kept_for_the_next(start: Start, tmp_path: Path) -> None:
    process, watching = start(), Watching()
    first = process.run({"job": "good"}, tmp_path / "new" / "log", watching)
    assert watching.seen == [(40, "reading")]
    assert first == {"done": {"pid": process.pid}}
    assert process.run({"job": "good"}, tmp_path / "log", Watching()) == first


@pytest.mark.parametrize("order", [{"job": "talks", "passing": True}, {"job": "torn"}])
def test_a_child_with_a_broken_spark_is_replaced(start: Start, tmp_path: Path, order: dict[str, Any]) -> None:
    process = start()
    process.run(order, tmp_path / "log", Watching())
    assert process.pid is None
    assert "done" in process.run({"job": "good"}, tmp_path / "log", Watching())


def test_a_child_is_ended_when_it_has_been_idle_and_not_at_work(start: Start, tmp_path: Path) -> None:
    process = start()
    pids: list[int | None] = []

    def keep_house() -> bool:
        process.end_if_idle(timedelta(0))
        pids.append(process.pid)
        return True

    process.run({"job": "good"}, tmp_path / "log", Watching(keep_house))
    assert pids[0] is not None
    process.end_if_idle(timedelta(hours=1))
    assert process.pid == pids[0]
    process.end_if_idle(timedelta(0))
    assert process.pid is None


def test_the_output_of_a_child_whose_job_fails_is_logged_up_to_a_size(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_process, "LOG_BYTES", 4)
    process = start()
    assert process.run({"job": "talks", "passing": False}, tmp_path / "log", Watching())["failed"] == "It failed."
    assert process.pid is not None, "it is kept"
    process.end()
    assert (tmp_path / "log").read_text() in ("", "größer\n")


def test_the_output_of_a_child_is_read_on_when_its_job_ends_meanwhile(start: Start) -> None:
    """A child whose output nobody reads stops when the pipe is full."""
    process, output = start(), iter([b"one\n", b"two\n"])

    class LogOfAJobThatEnds(BytesIO):
        def tell(self) -> int:
            process._log = None
            return 0

    log = process._log = LogOfAJobThatEnds()
    process._read_log(output)
    assert log.getvalue() == b"one\n"
    assert next(output, None) is None


def test_a_child_that_ignores_its_end_is_killed(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_process, "END_GRACE_S", 0)
    process = start()
    order = {"job": "endless", "deaf": True}
    assert process.run(order, tmp_path / "log", Watching(lambda: False)) == ended(-signal.SIGKILL)
    assert process.pid is None


def test_a_cancelled_job_takes_the_processes_with_it_that_the_child_has_started(start: Start, tmp_path: Path) -> None:
    grandchildren: list[int] = []

    def cancel() -> bool:
        grandchildren.append(os.pidfd_open(watching.seen[0][0]))
        return False

    watching = Watching(cancel)
    assert start().run({"job": "has a child"}, tmp_path / "log", watching) == ended(-signal.SIGTERM)
    assert select.select(grandchildren, [], [], 60)[0] == grandchildren, "it has ended"
    os.close(grandchildren[0])


def test_a_child_that_is_killed_is_replaced(start: Start, tmp_path: Path) -> None:
    process = start()

    def kill() -> bool:
        os.kill(process.pid or 0, signal.SIGKILL)
        return True

    assert process.run({"job": "endless"}, tmp_path / "log", Watching(kill)) == ended(-signal.SIGKILL)
    first = process.run({"job": "good"}, tmp_path / "log", Watching())
    kill()
    assert process._child is not None
    process._child.wait()
    assert process.run({"job": "good"}, tmp_path / "log", Watching())["done"] != first["done"]


def test_a_child_whose_job_nobody_watches_any_more_is_replaced(start: Start, tmp_path: Path) -> None:
    process = start()

    def fail() -> bool:
        raise RuntimeError("no database")

    with pytest.raises(RuntimeError, match="no database"):
        process.run({"job": "endless"}, tmp_path / "log", Watching(fail))
    assert process.pid is None


def test_what_is_printed_while_python_starts_is_no_answer() -> None:
    answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    read_answers([b"a warning\n", b'{"done": {}}\n', b'{"do'], answers)
    assert [answers.get(), answers.get()] == [{"done": {}}, None]
