"""Spark's jobs of one name: cancelled together, and how far they are; in a Spark of this process or of a server."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from spark_jobs.spark.connect import is_of_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CANCEL_AGAIN_S = 0.2


class JobGroup(ABC):
    """Jobs that are being done for somebody."""

    def __init__(self) -> None:
        self._over = threading.Event()

    def cancel(self) -> None:
        """End those that run and those that are still to come. Returns at once, in any thread."""
        threading.Thread(target=self._cancel_until_over, name="cancel", daemon=True).start()

    def _cancel_until_over(self) -> None:
        """Spark ends what there is: a server nothing that comes later, a Spark of its own not all of that."""
        while not self._over.is_set():
            with suppress(Exception):  # a Spark that is gone has nothing to cancel
                self.cancel_now()
            self._over.wait(CANCEL_AGAIN_S)

    def end(self) -> None:
        """What this thread has Spark do from now on is not of the group."""
        self._over.set()
        with suppress(Exception):  # a Spark that is gone has no groups
            self.leave()

    @abstractmethod
    def begin(self) -> None:
        """What this thread has Spark do from now on is of the group."""

    @abstractmethod
    def leave(self) -> None:
        """Undo what ``begin`` does."""

    @abstractmethod
    def cancel_now(self) -> None:
        """End what runs now."""

    @abstractmethod
    def begin_scan(self) -> None:
        """Forget the scan that there was: the next job has the one that is asked for."""

    @abstractmethod
    def scan_progress(self) -> tuple[int, int]:
        """(finished, all) tasks of the stage that reads, the first one of the newest job; (0, 0) before there is one.

        Only that one, since the total over all stages grows while they are submitted.
        """


@contextmanager
def job_group(spark: "SparkSession", name: str) -> Iterator[JobGroup]:
    """Meanwhile, what this thread has Spark do is of that name, which nothing else had: what is cancelled stays so."""
    group = ConnectJobGroup(spark, name) if is_of_connect(spark) else OwnJobGroup(spark, name)
    group.begin()
    try:
        yield group
    finally:
        group.end()


class OwnJobGroup(JobGroup):
    """In a Spark whose driver is this process."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        super().__init__()
        self._context = spark.sparkContext
        self._name = name
        self._before = -1

    def begin(self) -> None:
        self._context.setJobGroup(self._name, self._name, interruptOnCancel=True)

    def leave(self) -> None:
        self._context._jsc.sc().clearJobGroup()

    def cancel_now(self) -> None:
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._name)

    def begin_scan(self) -> None:
        self._before = self._newest()

    def scan_progress(self) -> tuple[int, int]:
        newest, tracker = self._newest(), self._context.statusTracker()
        job = tracker.getJobInfo(newest) if newest > self._before else None
        stage = tracker.getStageInfo(min(job.stageIds)) if job and job.stageIds else None
        return (stage.numCompletedTasks, stage.numTasks) if stage else (0, 0)

    def _newest(self) -> int:
        return max(self._context.statusTracker().getJobIdsForGroup(self._name), default=-1)


class ConnectJobGroup(JobGroup):
    """In a Spark behind a Connect server, which knows of operations: each has one or several jobs."""

    def __init__(self, spark: "SparkSession", name: str) -> None:
        super().__init__()
        self._spark: Any = spark
        self._name = name
        self._operation: str | None = None
        self._before: str | None = None
        self._scan = (0, 0)

    def begin(self) -> None:
        self._spark.addTag(self._name)
        self._spark.registerProgressHandler(self._tell)

    def leave(self) -> None:
        self._spark.removeTag(self._name)
        self._spark.removeProgressHandler(self._tell)

    def cancel_now(self) -> None:
        self._spark.interruptTag(self._name)

    def begin_scan(self) -> None:
        self._before = self._operation

    def scan_progress(self) -> tuple[int, int]:
        return (0, 0) if self._operation == self._before else self._scan

    def _tell(self, stages: Iterable[Any] | None, operation_id: str | None, **_: Any) -> None:
        """What the server says of an operation, some times while it goes on."""
        first = min(stages or (), key=lambda stage: stage.stage_id, default=None)
        if first is not None:
            self._scan = (first.num_completed_tasks, first.num_tasks)
            self._operation = operation_id
