"""Ctrl-C while a command waits for Spark: what becomes of its jobs, and of a second one."""

import signal
import threading

import pytest

from spark_jobs.ctrl_c import cancelled_by_ctrl_c


class Jobs:
    """Jobs of Spark's that note that they are cancelled."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.cancelled = threading.Event()
        self._is_gone = is_gone

    def cancel(self) -> None:
        self.cancelled.set()
        if self._is_gone:
            raise ConnectionError("its Java is gone")

    def begin_scan(self) -> None:
        raise AssertionError("nobody has asked")

    def scan_progress(self) -> tuple[int, int]:
        raise AssertionError("nobody has asked")


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_first_cancels_and_the_second_interrupts(is_gone: bool) -> None:
    before, jobs = signal.getsignal(signal.SIGINT), Jobs(is_gone=is_gone)
    with cancelled_by_ctrl_c(jobs) as is_cancelled:
        assert not is_cancelled()
        signal.raise_signal(signal.SIGINT)
        assert is_cancelled()
        assert jobs.cancelled.wait(30)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_who_is_left_alone_changes_nothing() -> None:
    before, jobs = signal.getsignal(signal.SIGINT), Jobs()
    with pytest.raises(ValueError, match="its own"), cancelled_by_ctrl_c(jobs) as is_cancelled:
        raise ValueError("its own")
    assert not is_cancelled()
    assert signal.getsignal(signal.SIGINT) is before
    assert not jobs.cancelled.is_set()
