"""The process with the Spark session, from its inside; its session is the one that all tests share."""

import io
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.errors import PassingError
from spark_jobs.hosting import spark_child
from spark_jobs.hosting.spark_child import Child
from spark_jobs.spark import connect
from spark_jobs.spark.job_group import OwnJobGroup
from tests.spark_jobs.stores import make_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOR_EVER = 1_000_000_000_000


class Said(list[dict[str, Any]]):
    """Answers, and a way to wait for one."""

    def __init__(self) -> None:
        self.new = threading.Condition()

    def __call__(self, answer: dict[str, Any]) -> None:
        with self.new:
            self.append(answer)
            self.new.notify_all()


def order(tmp_path: Path, job: str = "report", group: str = "asked", **arguments: Any) -> dict[str, Any]:
    return {"job": job, "group": group, "master": "local[2]", "scratch": str(tmp_path), "arguments": arguments}


def test_a_report_is_carried_out_and_its_progress_told(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 50)
    said = Said()
    Child(said).run(
        order(
            tmp_path,
            report="throughput",
            group="asked",
            store=str(tmp_path / "store"),
            folder=str(tmp_path / "out"),
            from_ms=None,
            to_ms=None,
        )
    )
    assert said[-1]["done"]["messages"] == 50
    result = said[-1]["done"]["result"]
    assert set(result) == {"words", "headlines", "notes"}
    assert result["words"][0].startswith("50 messages")
    assert said[-1]["memory"] > 100_000_000
    steps = [answer["progress"][0] for answer in said[:-1]]
    assert steps == sorted(steps)
    assert said[0] == {"progress": [0, "starting Spark"]}
    assert (tmp_path / "out" / "summary.json").exists()


def test_a_failure_is_said_and_logged(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> Any:
        raise PassingError("Not now.")

    monkeypatch.setitem(spark_child.JOBS, "fails", fails)
    said = Said()
    Child(said).run(order(tmp_path, "fails"))
    assert said[-1] == {"failed": "Not now.", "passing": True}
    assert "asked failed" in caplog.text
    assert "Traceback" in caplog.text


def test_a_cancel_reaches_spark_and_the_session_goes_on(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Said()
    child = Child(said)

    def endless(arguments: Any, session: "SparkSession", progress: Any) -> dict[str, Any]:
        progress(5, "reading")
        session.range(FOR_EVER, numPartitions=2).selectExpr("sum(hash(id))").collect()
        return {}

    def cancel() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not tracker.getActiveJobsIds():
            threading.Event().wait(0.02)
        child.cancel()

    monkeypatch.setitem(spark_child.JOBS, "endless", endless)
    canceller = threading.Thread(target=cancel)
    canceller.start()
    child.run(order(tmp_path, "endless", "endless"))
    canceller.join()
    assert said[-1] == {"cancelled": True}
    child.prepare()
    monkeypatch.setitem(spark_child.JOBS, "small", lambda _, session, progress: {"rows": session.range(5).count()})
    child.run(order(tmp_path, "small", "small"))
    assert said[-1]["done"] == {"rows": 5}


def test_what_is_cancelled_between_two_steps_takes_no_other(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, steps = Said(), []
    child = Child(said)

    def in_steps(arguments: Any, session: "SparkSession", progress: Any) -> dict[str, Any]:
        for step in (10, 20, 30):
            progress(step, "on")
            steps.append(step)
            child.cancel()
        return {}

    monkeypatch.setitem(spark_child.JOBS, "steps", in_steps)
    child.run(order(tmp_path, "steps", "steps"))
    assert (steps, said[-1]) == ([10], {"cancelled": True})


def test_the_scan_is_told_while_it_goes_on(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, counts = Said(), iter([(0, 4), (1, 4), (1, 4), (2, 4)])
    monkeypatch.setattr(spark_child, "LOOK_S", 0.001)
    monkeypatch.setattr(OwnJobGroup, "scan_progress", lambda _: next(counts, (2, 4)))

    def scans(arguments: Any, session: "SparkSession", progress: Any) -> dict[str, Any]:
        progress(5, "reading", until=90)
        with said.new:
            assert said.new.wait_for(lambda: {"progress": [47, "reading"]} in said, timeout=30)
        return {}

    monkeypatch.setitem(spark_child.JOBS, "scans", scans)
    Child(said).run(order(tmp_path, "scans"))
    assert [answer["progress"][0] for answer in said[:-1]] == [0, 1, 5, 26, 47]


class Ended(BaseException):
    """Instead of the end of the process."""


def test_orders_come_as_lines_and_the_end_of_them_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    over = threading.Event()

    def run(child: Child, order: dict[str, Any]) -> None:
        done.append(order["job"])
        if order["job"] == "second":
            over.wait()
            raise Ended

    monkeypatch.setattr(Child, "run", run)
    monkeypatch.setattr(Child, "cancel", lambda child: done.append("cancel"))
    monkeypatch.setattr(spark_child, "end_spark", lambda: done.append("java"))
    monkeypatch.setattr(spark_child.os, "_exit", lambda code: over.set())
    orders = io.BytesIO(
        b"".join(json.dumps(line).encode() + b"\n" for line in ({"job": "first"}, {"cancel": True}, {"job": "second"}))
    )
    with pytest.raises(Ended):
        spark_child.serve(orders, done.append)
    assert sorted(done) == ["cancel", "first", "java", "second"]


@pytest.mark.parametrize("is_at_a_server", [True, False])
def test_before_the_process_ends_a_job_takes_away_what_it_keeps_at_a_server(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_at_a_server: bool
) -> None:
    said, steps, given_up = Said(), [], threading.Event()
    child = Child(said)

    def in_steps(arguments: Any, session: "SparkSession", progress: Any) -> dict[str, Any]:
        try:
            steps.append("begins")
            giving_up.start()
            if is_at_a_server:
                session.range(FOR_EVER, numPartitions=2).selectExpr("sum(hash(id))").collect()
            assert given_up.wait(30)
        finally:
            steps.append("ends")
        return {}

    def give_up() -> None:
        child.give_up()
        steps.append("given up")
        given_up.set()

    giving_up = threading.Thread(target=give_up)
    monkeypatch.setattr(connect, "current_session", lambda: spark if is_at_a_server else None)
    monkeypatch.setitem(spark_child.JOBS, "steps", in_steps)
    child.prepare()
    child.run(order(tmp_path, "steps", f"given up {is_at_a_server}"))
    giving_up.join()
    assert steps == (["begins", "ends", "given up"] if is_at_a_server else ["begins", "given up", "ends"])
    assert ({"cancelled": True} in said) == is_at_a_server
