"""One entry of the timer log: a timer message, and the entry before it in the same slot of the timer wheel.

    offset  bytes  field (big-endian, signed)
    ------  -----  ---------------------------------------------------------------
         0      4  size of the entry, 52
         4      8  position of the slot's previous entry in the timer log; -1: none
        12      4  magic: 1, plus 2 if the message is to be put back for a later time, plus 4 if it deletes another
        16      8  wall time at which the entry was written, ms, rounded down to timerPrecisionMs
        24      4  delay: time of the slot minus that time, ms
        28      8  physical offset of the message's record in the commit log
        36      4  size of the record
        40      4  Java's hashCode of the message's real topic
        44      8  GlassMQ's own: wall time at which the message is due, ms; RocketMQ writes 0 and does not read it

An entry never crosses the end of a file. If 52 + 16 bytes do not fit before it, the rest begins with a filler:

         0      4  bytes up to the file's end
         4      8  0
        12      4  0xCBD43194
"""

from struct import Struct
from typing import NamedTuple

from broker_core.formats.commit_log_record import Buffer

UNIT = Struct(">iqiqiqiiq")
UNIT_SIZE = UNIT.size
FILLER = Struct(">iqi")
_INT = Struct(">i")
_LONG = Struct(">q")
BLANK_MAGIC = -875286124
NONE = -1
"""Stands for a position in the timer log where there is no entry."""

MAGIC_DEFAULT = 1
MAGIC_ROLL = 2
MAGIC_DELETE = 4


class TimerLogUnit(NamedTuple):
    """An entry without its size. Times are in ms."""

    previous: int
    magic: int
    write_ms: int
    delay_ms: int
    physical_offset: int
    record_size: int
    topic_hash: int
    due_ms: int

    @property
    def slot_ms(self) -> int:
        """The time of its slot."""
        return self.write_ms + self.delay_ms

    @property
    def rolls(self) -> bool:
        """Whether the message is put back into the timer topic instead of being delivered."""
        return bool(self.magic & MAGIC_ROLL)

    @property
    def deletes(self) -> bool:
        """Whether it deletes another message of the same slot."""
        return self.magic & (MAGIC_DELETE | MAGIC_ROLL) == MAGIC_DELETE


def encode(unit: TimerLogUnit) -> bytes:
    return UNIT.pack(UNIT_SIZE, *unit)


def moved(data: Buffer, position: int, previous: int, slot_ms: int) -> bytearray:
    """A copy of the entry at a position, for another slot, whose last entry is ``previous``."""
    entry = bytearray(data[position : position + UNIT_SIZE])
    (write_ms,) = _LONG.unpack_from(entry, 16)
    _LONG.pack_into(entry, 4, previous)
    _INT.pack_into(entry, 24, slot_ms - write_ms)
    return entry


def filler(left: int) -> bytes:
    """What stands before the end of a file that has ``left`` bytes left."""
    return FILLER.pack(left, 0, BLANK_MAGIC)


def decode(data: Buffer, position: int) -> TimerLogUnit | None:
    """The entry at a position; None if none was written there."""
    if len(data) - position < UNIT_SIZE:
        return None
    size, *fields = UNIT.unpack_from(data, position)
    unit = TimerLogUnit(*fields)
    is_valid = size == UNIT_SIZE and 0 < unit.magic <= 15 and unit.physical_offset >= 0 and unit.record_size > 0
    return unit if is_valid else None


def is_filler(data: Buffer, position: int) -> bool:
    """Whether the rest of a file from a position on has no entries."""
    left = len(data) - position
    return left < FILLER.size or FILLER.unpack_from(data, position)[2] == BLANK_MAGIC
