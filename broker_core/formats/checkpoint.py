"""The file ``checkpoint``: the time up to which all messages are on the disk.

offset  bytes  field (big-endian, signed), in a file of 4096 bytes
------  -----  ---------------------------------------------------------------
     0      8  physicMsgTimestamp   store time of the last flushed log record, ms
     8      8  logicsMsgTimestamp   ... of the last flushed queue unit
    16      8  indexMsgTimestamp    ... of the last entry of the last flushed index file
    24      8  masterFlushedOffset
    32      8  confirmPhyOffset
"""

from struct import Struct
from typing import NamedTuple

LAYOUT = Struct(">5q")
FILE_SIZE = 4096
MARGIN_MS = 3000
"""Log and queues are flushed separately, so recovery reads this much more."""


class Checkpoint(NamedTuple):
    """RocketMQ's StoreCheckpoint. Times in ms."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    @property
    def recovery_timestamp(self) -> int:
        """After an unclean stop only records stored from this time on must be read; 0: all records."""
        return max(min(self.physic_msg_timestamp, self.logics_msg_timestamp) - MARGIN_MS, 0)


def decode(data: bytes) -> Checkpoint:
    """The checkpoint. If it is missing or truncated, all fields are 0, so that recovery reads everything."""
    if len(data) < LAYOUT.size:
        return Checkpoint()
    values = LAYOUT.unpack_from(data)
    return Checkpoint(*values) if min(values) >= 0 else Checkpoint()


def encode(checkpoint: Checkpoint) -> bytes:
    """The whole file."""
    return LAYOUT.pack(*checkpoint).ljust(FILE_SIZE, b"\0")
