"""How far Spark's tasks are: from its status tracker, or from the progress that a Connect server sends."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from spark_jobs.spark.session import is_connect_session

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOK_S = 0.2
Tell = Callable[[int, int], None]


@contextmanager
def watch_tasks(session: "SparkSession", tell: Tell) -> Iterator[None]:
    """Meanwhile, call ``tell`` in another thread with the finished and all tasks of the stage that reads.

    That is the first stage of the job under way. The total over all stages would grow while Spark submits them.
    """
    if is_connect_session(session):
        connected: Any = session

        def on_progress(stages: Any = None, **_: Any) -> None:
            first = min(stages or (), key=lambda stage: stage.stage_id, default=None)
            if first is not None:
                tell(first.num_completed_tasks, first.num_tasks)

        connected.registerProgressHandler(on_progress)
        try:
            yield
        finally:
            connected.removeProgressHandler(on_progress)
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            with suppress(Exception):  # the job says what is wrong with a Spark that has gone
                tell(*first_stage(session.sparkContext))

    thread = threading.Thread(target=watch, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def first_stage(context: "SparkContext") -> tuple[int, int]:
    """(finished, all) tasks of the first stage of the newest job that runs; (0, 0) when none does."""
    tracker = context.statusTracker()
    job = tracker.getJobInfo(max(tracker.getActiveJobsIds(), default=-1))
    stage = tracker.getStageInfo(min(job.stageIds)) if job and job.stageIds else None
    return (stage.numCompletedTasks, stage.numTasks) if stage else (0, 0)
