"""One slot of the file ``timerwheel``: the messages of one second (timerPrecisionMs).

    offset  bytes  field (big-endian, signed)
    ------  -----  ---------------------------------------------------------------
         0      8  time of the slot, in units of timerPrecisionMs
         8      8  position of its first entry in the timer log
        16      8  position of its last entry, from which each leads to the one before it
        24      4  number of messages; each that deletes another counts -1
        28      4  GlassMQ's own: how many of them are recalls; RocketMQ calls it magic, keeps it and does not use it

The slot of a time is number ``time % SLOTS``. A slot with another time is empty.
"""

from struct import Struct
from typing import NamedTuple

SLOT = Struct(">qqqii")
SLOT_SIZE = SLOT.size
TTL_SLOTS = 7 * 24 * 3600
"""RocketMQ's TIMER_WHEEL_TTL_DAY, in slots of a second. The wheel has twice as many slots."""


class TimerWheelSlot(NamedTuple):
    """RocketMQ's Slot."""

    time: int
    first: int
    last: int
    messages: int
    recalls: int = 0


def encode(slot: TimerWheelSlot) -> bytes:
    return SLOT.pack(slot.time, slot.first, slot.last, slot.messages, slot.recalls)
