"""The child process from its inside, in the session that all tests share, and how a real one ends."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.errors import PassingError
from spark_jobs.hosting import spark_child
from spark_jobs.hosting.spark_child import ProgressLines, carry_out
from spark_jobs.lake.lake import find_lake
from tests.conftest import PROJECT
from tests.spark_jobs.stores import make_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def order(tmp_path: Path, job: str = "report", **arguments: Any) -> dict[str, Any]:
    return {"job": job, "master": "local[2]", "scratch": str(tmp_path), "arguments": arguments}


def test_a_report_is_carried_out_and_its_progress_sent(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 50)
    answers: list[dict[str, Any]] = []
    arguments = {"report": "throughput", "stores": [("a", str(tmp_path / "store"))], "folder": str(tmp_path / "out")}
    carry_out(order(tmp_path, **arguments), answers.append)
    done = answers[-1]["done"]
    assert done["messages"] == 50
    assert set(done["result"]) == {"words", "headlines", "notes"}
    steps = [answer["progress"][0] for answer in answers[:-1]]
    assert steps == sorted(steps)
    assert answers[0] == {"progress": (0, "starting Spark")}
    assert (tmp_path / "out" / "summary.json").exists()


def test_the_lake_is_filled_from_all_stores_for_a_round(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 50)
    answers: list[dict[str, Any]] = []
    make_store(tmp_path / "other", 20)
    stores = [(name, str(tmp_path / name)) for name in ("store", "nowhere", "other")]
    arguments = {"lakes": str(tmp_path / "lakes"), "with_bodies": False, "keep_days": 0}
    carry_out(order(tmp_path, "lake", stores=stores, **arguments), answers.append)
    assert "nowhere is not a store" in answers[-1]["failed"], "the others were filled nevertheless"
    steps = [answer["progress"][0] for answer in answers[:-1]]
    assert steps == sorted(steps)
    for name, messages in (("store", 50), ("other", 20)):
        lake = find_lake(tmp_path / "lakes", name)
        assert lake is not None
        assert sum(file.rows for file in lake.messages) == messages
    carry_out(order(tmp_path, "lake", stores=[stores[0], stores[2]], **arguments), answers.append)
    end = {"ended_by": "unwritten space", "segments_unread": 0}
    assert answers[-1] == {"done": {"messages": 0, "is_all": True, "result": {"store": end, "other": end}}}


def test_a_store_that_fails_stops_no_fill_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = {"a": 3, "c": 1}

    def fill(spark: object, store: str, *_: Any, **__: Any) -> SimpleNamespace:
        if store == "b":
            raise OSError("The disk of b fails.")
        rounds[store] -= 1
        return SimpleNamespace(messages=10, is_all=rounds[store] <= 0, broker=store, ended_by="", segments_unread=0)

    def run() -> dict[str, Any]:
        arguments = {"stores": [(name, name) for name in "abc"], "lakes": "x", "with_bodies": False, "keep_days": 0}
        return spark_child.lake(arguments, nullcontext, lambda *_, **__: None)

    monkeypatch.setattr("spark_jobs.lake.tables.fill", fill)
    for done in (run(), run()):
        assert (done["messages"], done["is_all"], sorted(done["result"])) == (20, False, ["a", "c"])
    with pytest.raises(OSError, match="The disk of b fails"):
        run()
    assert rounds["a"] == 0


def test_a_failure_is_sent_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise PassingError("Not now.")

    monkeypatch.setitem(spark_child.JOBS, "fails", fail)
    answers: list[dict[str, Any]] = []
    carry_out(order(tmp_path, "fails"), answers.append)
    assert answers == [{"failed": "Not now.", "passing": True}]
    assert "The job fails failed.\nTraceback" in caplog.text
    monkeypatch.setattr(spark_child._is_ending, "is_set", lambda: True)
    with pytest.raises(SystemExit):  # an error of the clean-up is no answer of a process that ends
        carry_out(order(tmp_path, "fails"), answers.append)
    assert len(answers) == 1


def test_progress_grows_with_the_tasks_of_a_scan_and_never_goes_back() -> None:
    answers: list[dict[str, Any]] = []
    progress = ProgressLines(answers.append)
    progress(1, "looking")
    progress.tell_tasks(3, 4)
    progress(5, "reading", until=85)
    for tasks in ((0, 0), (0, 4), (1, 4), (1, 4), (0, 2), (2, 4)):
        progress.tell_tasks(*tasks)
    progress(40, "comparing")
    progress.tell_tasks(4, 4)
    assert [answer["progress"] for answer in answers] == [
        (1, "looking"),
        (5, "reading"),
        (25, "reading"),
        (45, "reading"),
        (45, "comparing"),
    ]


CHILD = """
import atexit, signal, sys
from spark_jobs.hosting import spark_child

def wait(order, say):
    print("for the log", flush=True)
    say({"progress": (0, order["job"])})
    signal.pause()

spark_child.carry_out = wait
atexit.register(lambda: (signal.raise_signal(signal.SIGTERM), print("session closed", file=sys.stderr)))
spark_child.main()
"""


@pytest.mark.parametrize("how", ["terminated", "left alone"])
def test_the_process_ends_in_order_on_request_and_when_its_parent_has_died(how: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        cwd=PROJECT,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    print(json.dumps({"job": "first"}), file=process.stdin, flush=True)
    assert json.loads(process.stdout.readline()) == {"progress": [0, "first"]}
    if how == "terminated":
        process.terminate()
        process.wait(60)
    rest, log = process.communicate(timeout=60)  # closes its standard input
    assert (process.returncode, rest) == (0, "")
    assert log.splitlines() == ["for the log", "session closed"]
