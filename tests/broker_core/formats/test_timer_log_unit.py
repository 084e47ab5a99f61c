"""Entries of the timer log, byte for byte."""

import pytest

from broker_core.formats import timer_log_unit
from broker_core.formats.timer_log_unit import MAGIC_DELETE, MAGIC_ROLL, TimerLogUnit

UNIT = TimerLogUnit(-1, 1, 1_700_000_000_000, 5000, 1024, 294, -1008770331, 1_700_000_005_500)
BYTES = bytes.fromhex(
    "00000034 ffffffffffffffff 00000001 0000018bcfe56800 00001388 0000000000000400 00000126 c3df62e5 0000018bcfe57d7c"
)


def test_the_bytes_are_those_of_the_picture() -> None:
    assert timer_log_unit.encode(UNIT) == BYTES
    assert timer_log_unit.decode(b"12345" + BYTES, 5) == UNIT
    assert (UNIT.slot_ms, UNIT.rolls, UNIT.deletes) == (1_700_000_005_000, False, False)


@pytest.mark.parametrize(("magic", "rolls", "deletes"), [(3, True, False), (5, False, True), (7, True, False)])
def test_a_recall_that_rolls_deletes_nothing_yet(magic: int, rolls: bool, deletes: bool) -> None:
    unit = UNIT._replace(magic=magic)
    assert (unit.rolls, unit.deletes) == (rolls, deletes)
    assert (MAGIC_ROLL, MAGIC_DELETE) == (2, 4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        BYTES[:-1],
        bytes(52),
        BYTES[:36] + bytes(16),
        b"\0\0\0\x33" + BYTES[4:],
        timer_log_unit.filler(52) + bytes(36),
    ],
)
def test_what_was_not_written_is_no_entry(data: bytes) -> None:
    assert timer_log_unit.decode(data, 0) is None


def test_the_filler() -> None:
    assert timer_log_unit.filler(100) == bytes.fromhex("00000064 0000000000000000 cbd43194")
    assert timer_log_unit.is_filler(timer_log_unit.filler(100) + bytes(84), 0)
    assert timer_log_unit.is_filler(bytes(15), 0) and not timer_log_unit.is_filler(bytes(52), 0)
