"""How far Spark's tasks are."""

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.spark import progress
from spark_jobs.spark.progress import first_stage, watch_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ENDLESS = 1_000_000_000_000


def test_the_tasks_of_a_job_are_reported_while_it_runs(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_S", 0.001)
    told: set[tuple[int, int]] = set()
    jobs = spark.sparkContext

    def tell(finished: int, tasks: int) -> None:
        told.add((finished, tasks))
        if tasks == 3:
            jobs.cancelAllJobs()

    query = spark.range(ENDLESS, numPartitions=3).selectExpr("sum(hash(id))")
    with watch_tasks(spark, tell), pytest.raises(Exception, match="cancel"):
        query.collect()
    assert (0, 3) in told
    assert first_stage(jobs) == (0, 0)


class FakeConnect:
    """A session at a Connect server, as far as progress goes."""

    def __init__(self) -> None:
        self.handlers: list[Callable[..., None]] = []
        self.registerProgressHandler = self.handlers.append
        self.removeProgressHandler = self.handlers.remove


def test_a_servers_progress_is_that_of_its_first_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "is_connect_session", lambda session: True)
    session: Any = FakeConnect()
    told: list[tuple[int, int]] = []
    before = threading.active_count()
    with watch_tasks(session, lambda *tasks: told.append(tasks)):
        [handler] = session.handlers
        stages = [
            SimpleNamespace(stage_id=stage, num_tasks=tasks, num_completed_tasks=finished)
            for stage, tasks, finished in ((8, 2, 0), (7, 4, 3))
        ]
        handler(stages=[], inflight_tasks=0, operation_id="a", done=False)
        handler(stages=stages, inflight_tasks=1, operation_id="a", done=False)
    assert (told, session.handlers, threading.active_count()) == ([(3, 4)], [], before)
