"""Ctrl-C while a command waits for Spark: what becomes of its jobs, and of a second one."""

import signal
import threading

import pytest

from spark_jobs.spark.ctrl_c import cancelled_by_ctrl_c
from spark_jobs.spark.job_group import JobGroup


class Jobs(JobGroup):
    """Jobs of Spark's that note that they are cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = threading.Event()

    def cancel_now(self) -> None:
        self.cancelled.set()

    begin = leave = begin_scan = scan_progress = cancel_now  # type: ignore[assignment]


def test_the_first_cancels_and_the_second_interrupts() -> None:
    before, jobs = signal.getsignal(signal.SIGINT), Jobs()
    with cancelled_by_ctrl_c(jobs) as is_cancelled:
        assert not is_cancelled()
        signal.raise_signal(signal.SIGINT)
        assert is_cancelled()
        assert jobs.cancelled.wait(30)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    jobs.end()


def test_who_is_left_alone_changes_nothing() -> None:
    before, jobs = signal.getsignal(signal.SIGINT), Jobs()
    with pytest.raises(ValueError, match="its own"), cancelled_by_ctrl_c(jobs) as is_cancelled:
        raise ValueError("its own")
    assert not is_cancelled()
    assert signal.getsignal(signal.SIGINT) is before
    assert not jobs.cancelled.is_set()
