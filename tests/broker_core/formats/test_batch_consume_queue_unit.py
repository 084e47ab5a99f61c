"""The entries of a batch consume queue: RocketMQ's bytes."""

import pytest

from broker_core.formats.batch_consume_queue_unit import UNIT, UNIT_SIZE, BatchUnit

OF_ROCKETMQ = {
    "0000000000000000 00000131 0000000000000000 000001a20aa9d518 0000000000000000 0003 ffffffff 00000000": BatchUnit(
        0, 305, 0, 1_795_475_232_024, 0, 3
    ),
    "0000000000000131 00000122 0000000000000041 000001a20aa9d712 0000000000000003 0002 ffffffff 00000000": BatchUnit(
        305, 290, 65, 1_795_475_232_530, 3, 2
    ),
    "0000000000000253 000000b3 0000000000000000 000001a20aa9d718 0000000000000005 0001 ffffffff 00000000": BatchUnit(
        595, 179, 0, 1_795_475_232_536, 5, 1
    ),
}
"""What RocketMQ 5.4.0 wrote: batches of 3 and of 2 (with the tag A), and a single message."""


@pytest.mark.parametrize("text", OF_ROCKETMQ)
def test_entries_are_those_of_rocketmq(text: str) -> None:
    octets, unit = bytes.fromhex(text), OF_ROCKETMQ[text]
    assert BatchUnit._make(UNIT.unpack(octets)) == unit
    assert unit.encode() == octets
    assert unit.is_valid and not unit.is_hole


def test_an_entry_of_which_any_part_is_missing_is_not_valid() -> None:
    whole = BatchUnit(305, 290, 65, 1_795_475_232_530, 3, 300).encode()
    reserved_at = UNIT_SIZE - 4
    for end in range(reserved_at):
        part = whole[:end].ljust(UNIT_SIZE, b"\0")
        assert not BatchUnit._make(UNIT.unpack(part)).is_valid, end
    assert whole[:reserved_at].ljust(UNIT_SIZE, b"\0") == whole
