"""Spark's jobs of one name; those at a Connect server are in test_connect_server, too."""

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.spark import job_group as module
from spark_jobs.spark.job_group import ConnectJobGroup, job_group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOR_EVER = 1_000_000_000_000


def test_progress_is_that_of_the_newest_scan(spark: "SparkSession") -> None:
    with job_group(spark, "scanned") as jobs:
        assert jobs.scan_progress() == (0, 0)
        spark.range(30, numPartitions=3).repartition(2, "id").count()
        spark.range(20, numPartitions=4).collect()
        assert jobs.scan_progress() == (4, 4)
        jobs.begin_scan()
        assert jobs.scan_progress() == (0, 0), "what was read before is not what is being read"
        spark.range(20, numPartitions=2).collect()
        assert jobs.scan_progress() == (2, 2)
    with job_group(spark, "another") as others:
        spark.range(5, numPartitions=1).collect()
        assert others.scan_progress() == (1, 1)


def test_what_is_cancelled_ends_and_takes_what_was_still_to_come_with_it(spark: "SparkSession") -> None:
    with job_group(spark, "cancelled for good") as jobs:

        def cancel() -> None:
            while not spark.sparkContext.statusTracker().getActiveJobsIds():
                threading.Event().wait(0.02)
            jobs.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(Exception, match="cancelled"):
            spark.range(FOR_EVER, numPartitions=2).selectExpr("sum(hash(id))").collect()
        canceller.join()
        with pytest.raises(Exception, match="cancelled"):
            spark.range(5).collect()
    assert spark.range(5).count() == 5


class Server:
    """A session at a Connect server: what it was asked for, and whom it tells of progress."""

    def __init__(self) -> None:
        self.tags: set[str] = set()
        self.told: list[Any] = []
        self.interrupted: list[str] = []
        self.twice = threading.Event()
        self.addTag, self.removeTag = self.tags.add, self.tags.remove
        self.registerProgressHandler, self.removeProgressHandler = self.told.append, self.told.remove

    def interruptTag(self, tag: str) -> None:
        self.interrupted.append(tag)
        if len(self.interrupted) == 2:
            self.twice.set()
        raise ConnectionError("a server that is away for a moment")

    def tell(self, operation: str, *stages: tuple[int, int, int]) -> None:
        for tell in self.told:
            tell(
                operation_id=operation,
                inflight_tasks=1,
                done=False,
                stages=[
                    SimpleNamespace(stage_id=stage, num_completed_tasks=done, num_tasks=tasks)
                    for stage, done, tasks in stages
                ],
            )


def connected(server: Server, name: str) -> Any:
    session: Any = server
    return ConnectJobGroup(session, name)


def test_a_server_tells_of_an_operations_stages() -> None:
    server = Server()
    jobs = connected(server, "told")
    jobs.begin()
    assert (server.tags, jobs.scan_progress()) == ({"told"}, (0, 0))
    server.tell("first", (8, 0, 5), (7, 2, 3))
    assert jobs.scan_progress() == (2, 3)
    jobs.begin_scan()
    server.tell("first", (8, 5, 5), (7, 3, 3))
    assert jobs.scan_progress() == (0, 0)
    server.tell("second")
    assert jobs.scan_progress() == (0, 0)
    server.tell("second", (9, 1, 2))
    assert jobs.scan_progress() == (1, 2)
    jobs.end()
    assert (server.tags, server.told) == (set(), [])


def test_what_is_cancelled_at_a_server_is_until_the_group_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CANCEL_AGAIN_S", 0.001)
    server = Server()
    jobs = connected(server, "cancelled")
    jobs.begin()
    jobs.cancel()
    assert server.twice.wait(30), "what comes later is to be interrupted, too"
    jobs.end()
    assert set(server.interrupted) == {"cancelled"}
    [thread] = [thread for thread in threading.enumerate() if thread.name == "cancel"] or [None]
    if thread is not None:
        thread.join(30)
        assert not thread.is_alive()
