"""``config/timercheck``, byte for byte."""

import pytest

from broker_core.formats import timer_checkpoint
from broker_core.formats.timer_checkpoint import TimerCheckpoint


def test_the_bytes_are_those_of_the_picture() -> None:
    checkpoint = TimerCheckpoint(1, 2, 3, 4, 5, 6, 7, 8)
    data = timer_checkpoint.encode(checkpoint)
    assert data == b"".join(number.to_bytes(8, "big") for number in range(1, 9))
    assert timer_checkpoint.decode(data.ljust(4096, b"\0")) == checkpoint


@pytest.mark.parametrize("data", [b"", bytes(63), b"\xff" * 64])
def test_what_cannot_be_read_makes_everything_be_read_again(data: bytes) -> None:
    assert timer_checkpoint.decode(data) == TimerCheckpoint()
