"""A slot of the timer wheel, byte for byte."""

from broker_core.formats import timer_wheel_slot
from broker_core.formats.timer_wheel_slot import SLOT, TimerWheelSlot


def test_the_bytes_are_those_of_the_picture() -> None:
    slot = TimerWheelSlot(1_700_000_005, 104, 156, 2)
    data = bytes.fromhex("000000006553f105 0000000000000068 000000000000009c 00000002 00000000")
    assert timer_wheel_slot.encode(slot) == data
    assert TimerWheelSlot(*SLOT.unpack(data)) == slot
    assert timer_wheel_slot.SLOT_SIZE == 32
