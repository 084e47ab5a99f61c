"""One entry of a batch consume queue: one record, which is a batch of messages, or a single message.

    offset  bytes  field (big-endian, signed)
    ------  -----  -----------------------------------------------------------------
         0      8  physical offset of the record in the commit log
         8      4  size of the record
        12      8  tagsCode of the record's own TAGS; 0 without
        20      8  STORETIMESTAMP of the record, ms
        28      8  queue offset of the record's first message: its QUEUEOFFSET
        36      2  number of messages in the record
        38      4  compacted offset: -1
        42      4  reserved: 0

The queue offsets of the next entry begin where those of this one end. A hole (physical offset 0, size 0x7FFFFFFF, the
queue offsets of the entry that was there) stands for a record that recovery could not read.

The record of a batch has bits 6 (needs unwrap) and 7 (inner batch) of SYSFLAG. Its body has the messages in the format
of ``message_batch``. Its property INNER_NUM is their number, INNER_BASE the queue offset of the first. The record of a
single message has none of these; its entry has the number 1.

These three entries were written by RocketMQ 5.4.0. They are a batch of 3 messages, one of 2 with the tag A, and a
single message:

    0000000000000000 00000131 0000000000000000 000001a20aa9d518 0000000000000000 0003 ffffffff 00000000
    0000000000000131 00000122 0000000000000041 000001a20aa9d712 0000000000000003 0002 ffffffff 00000000
    0000000000000253 000000b3 0000000000000000 000001a20aa9d718 0000000000000005 0001 ffffffff 00000000
"""

from struct import Struct
from typing import NamedTuple

from broker_core.formats.consume_queue_unit import HOLE_SIZE

UNIT = Struct(">qiqqqhii")
UNIT_SIZE = 46
NOT_COMPACTED = -1
NUMBER_MAX = 32_767
"""Messages of one record: the largest number that the field can have."""


class BatchUnit(NamedTuple):
    """The fields of an entry; ``number`` messages from queue offset ``base`` on. Times in ms."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    base: int
    number: int
    compacted_offset: int = NOT_COMPACTED
    reserved: int = 0

    @property
    def end(self) -> int:
        """The queue offset after the last message."""
        return self.base + self.number

    @property
    def is_hole(self) -> bool:
        """Whether the entry stands for a record that the log does not contain."""
        return self.physical_offset == 0 and self.size == HOLE_SIZE

    @property
    def is_valid(self) -> bool:
        """Whether the whole entry was written. The unwritten part of a file is zero.

        The compacted offset is written after all that matters, and is not zero, so a part of an entry is not valid.
        """
        return (
            self.compacted_offset == NOT_COMPACTED
            and self.physical_offset >= 0
            and self.size > 0
            and self.base >= 0
            and self.number > 0
        )

    def encode(self) -> bytes:
        """The 46 bytes."""
        return UNIT.pack(*self)
