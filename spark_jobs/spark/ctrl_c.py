"""Ctrl-C while a command waits for Spark."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from spark_jobs.spark.job_group import JobGroup


@contextmanager
def cancelled_by_ctrl_c(jobs: JobGroup) -> Iterator[Callable[[], bool]]:
    """Meanwhile, Ctrl-C cancels these jobs of Spark's.

    Yields whether that has happened; whoever waits for a job then gets an error of Spark's. A second Ctrl-C is a
    KeyboardInterrupt. For the main thread only, as signals are.
    """
    pressed = False  # an Event's lock would be waited for for ever by a second one within the first

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pressed = True
        jobs.cancel()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
