"""Ctrl-C while a command waits for Spark: what becomes of its jobs, and of a second one."""

import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from spark_jobs.ctrl_c import cancelled_by_ctrl_c


class FakeSpark:
    """A session: what its context was asked for."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.cancelled = threading.Event()
        self._is_gone = is_gone
        self.sparkContext = SimpleNamespace(setJobGroup=self.set_group,
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(cancelJobGroupAndFutureJobs=self.cancel,
                clearJobGroup=lambda: self.asked.append(("clear",)))))

    def set_group(self, group: str, words: str, interruptOnCancel: bool) -> None:
        assert interruptOnCancel
        self.asked.append(("set", group))

    def cancel(self, group: str) -> None:
        self.asked.append(("cancel", group))
        self.cancelled.set()
        if self._is_gone:
            raise ConnectionError("its Java is gone")


@pytest.mark.parametrize("is_gone", [False, True])
def test_the_first_cancels_and_the_second_interrupts(is_gone: bool) -> None:
    before, spark = signal.getsignal(signal.SIGINT), FakeSpark(is_gone=is_gone)
    fake: Any = spark
    with cancelled_by_ctrl_c(fake, "g") as is_cancelled:
        assert not is_cancelled()
        signal.raise_signal(signal.SIGINT)
        assert is_cancelled()
        assert spark.cancelled.wait(30)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert spark.asked == [("set", "g"), ("cancel", "g"), ("clear",)]


def test_who_is_left_alone_changes_nothing() -> None:
    before, spark = signal.getsignal(signal.SIGINT), FakeSpark()
    fake: Any = spark
    with pytest.raises(ValueError, match="its own"), cancelled_by_ctrl_c(fake, "g") as is_cancelled:
        raise ValueError("its own")
    assert not is_cancelled()
    assert signal.getsignal(signal.SIGINT) is before
    assert spark.asked == [("set", "g"), ("clear",)]
