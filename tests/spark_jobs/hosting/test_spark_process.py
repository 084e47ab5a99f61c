"""The process with the Spark session, as the worker sees it, with a stand-in that speaks as the real one does."""

import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.hosting import spark_process
from spark_jobs.hosting.spark_process import Policy, SparkProcess

STAND_IN = r"""
import json, os, sys, threading, time

def say(answer):
    os.write(1, ("\x1e" + json.dumps(answer) + "\n").encode())

cancelled = threading.Event()
for line in sys.stdin:
    order = json.loads(line)
    what = order.get("job")
    if what == "good":
        say({"progress": [40, "reading"]})
        say({"done": {"pid": os.getpid()}, "memory": order.get("memory", 0)})
    elif what == "talks":
        os.write(2, b"half a line\x1e" + json.dumps({"progress": [1, "a"]}).encode() + b"\n")
        os.write(1, "größer\n\x1enot json\n".encode() + b"x" * 5000 + b"\n")
        say({"failed": "It failed.", "passing": order["passing"]})
    elif what == "patient" or what == "deaf":
        say({"progress": [5, "waiting"]})
        say({"progress": [os.getpid(), "pid"]})
        for line in sys.stdin:
            if what == "patient":
                say({"cancelled": True})
                break
    elif what == "dies":
        os._exit(7)
"""


class Wanting:
    """A watcher; ``until`` says from which progress on the result is not wanted any more."""

    def __init__(self, until: str = "") -> None:
        self.seen: list[tuple[int, str]] = []
        self.until = until

    def progress(self, percent: int, doing: str) -> None:
        self.seen.append((percent, doing))

    def is_wanted(self) -> bool:
        return not self.until or self.until not in [doing for _, doing in self.seen]


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Any:
    def make(**policy: Any) -> SparkProcess:
        process = SparkProcess(Policy(**policy), [sys.executable, "-c", STAND_IN])
        request.addfinalizer(process.end)
        return process

    return make


def test_a_job_is_done_and_the_child_kept_for_the_next(make: Any, tmp_path: Path) -> None:
    process, watcher = make(), Wanting()
    first = process.run({"job": "good"}, tmp_path / "new" / "log", watcher)
    assert watcher.seen == [(40, "reading")]
    assert first["done"]["pid"] == process.pid
    assert process.run({"job": "good"}, tmp_path / "log", Wanting()) == first


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ({"runs": 1}, {"job": "good"}),
        ({"memory": 1000}, {"job": "good", "memory": 1001}),
        ({}, {"job": "talks", "passing": True}),
        ({}, {"job": "dies"}),
    ],
)
def test_a_child_is_ended_by_policy_or_when_something_is_wrong_with_it(
    make: Any, tmp_path: Path, policy: Any, order: Any
) -> None:
    process = make(**policy)
    process.run(order, tmp_path / "log", Wanting())
    assert process.pid is None
    assert "done" in process.run({"job": "good"}, tmp_path / "log", Wanting())


def test_a_failure_of_the_job_alone_keeps_the_child(make: Any, tmp_path: Path) -> None:
    process = make()
    assert process.run({"job": "talks", "passing": False}, tmp_path / "log", Wanting())["failed"] == "It failed."
    assert process.pid is not None


def test_idle_children_are_ended(make: Any, tmp_path: Path) -> None:
    process = make(idle=timedelta(hours=1))
    process.run({"job": "good"}, tmp_path / "log", Wanting())
    process.end_if_idle()
    assert process.pid is not None
    process._used -= timedelta(hours=1)
    process.end_if_idle()
    assert process.pid is None


def test_a_child_at_work_is_not_idle(make: Any, tmp_path: Path) -> None:
    process, watcher = make(idle=timedelta(0)), Wanting()

    def is_wanted() -> bool:
        process.end_if_idle()  # what the housekeeping may do at any moment
        return not watcher.seen

    watcher.is_wanted = is_wanted  # type: ignore[method-assign]
    assert process.run({"job": "patient"}, tmp_path / "log", watcher) == {"cancelled": True}


def test_what_is_said_is_logged_and_answers_are_found_in_it(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_process, "LOG_BYTES", 2000)
    process, watcher = make(), Wanting()
    process.run({"job": "talks", "passing": False}, tmp_path / "log", watcher)
    assert watcher.seen == [(1, "a")]
    log = (tmp_path / "log").read_text()
    assert log.startswith("half a line\ngrößer\nnot json\nxxx")
    process.run({"job": "talks", "passing": False}, tmp_path / "log", watcher)
    assert (tmp_path / "log").read_text() == log


def test_a_cancel_ends_the_job_and_not_the_child(make: Any, tmp_path: Path) -> None:
    process = make()
    assert process.run({"job": "patient"}, tmp_path / "log", Wanting(until="pid")) == {"cancelled": True}
    assert process.pid is not None


def test_a_child_that_does_not_hear_is_killed(make: Any, tmp_path: Path) -> None:
    process = make(cancel=timedelta(0))
    assert process.run({"job": "deaf"}, tmp_path / "log", Wanting(until="pid")) == {"gone": -signal.SIGKILL}
    assert process.pid is None


def test_a_child_that_is_killed_is_told_of_and_replaced(make: Any, tmp_path: Path) -> None:
    process, watcher = make(), Wanting()
    killed = threading.Event()

    def is_wanted() -> bool:
        if "pid" in [doing for _, doing in watcher.seen] and not killed.is_set():
            killed.set()
            os.kill(process.pid or 0, signal.SIGKILL)
        return True

    watcher.is_wanted = is_wanted  # type: ignore[method-assign]
    assert process.run({"job": "patient"}, tmp_path / "log", watcher) == {"gone": -signal.SIGKILL}
    assert "done" in process.run({"job": "good"}, tmp_path / "log", Wanting())


def test_a_child_that_died_in_between_is_replaced(make: Any, tmp_path: Path) -> None:
    process = make()
    first = process.run({"job": "good"}, tmp_path / "log", Wanting())
    child = process._child
    child.kill()
    child.wait()
    assert process.run({"job": "good"}, tmp_path / "log", Wanting())["done"] != first["done"]


def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program"):
        SparkProcess(command=[str(tmp_path / "no-such-program")]).run({}, tmp_path / "log", Wanting())
