"""The file ``checkpoint``: up to when everything is on the disk.

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
"""Flushes of log and queues are not one step; so much is read again."""


class Checkpoint(NamedTuple):
    """RocketMQ's StoreCheckpoint. Times in ms."""

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    @property
    def recovery_timestamp(self) -> int:
        """Records stored before this need not be looked at again after an unclean stop; 0: all need it."""
        return max(min(self.physic_msg_timestamp, self.logics_msg_timestamp) - MARGIN_MS, 0)


def decode(data: bytes) -> Checkpoint:
    """The checkpoint; one that is missing or cut off reads as zeros, so that nothing is taken for granted."""
    if len(data) < LAYOUT.size:
        return Checkpoint()
    values = LAYOUT.unpack_from(data)
    return Checkpoint(*values) if min(values) >= 0 else Checkpoint()


def encode(checkpoint: Checkpoint) -> bytes:
    """The whole file."""
    return LAYOUT.pack(*checkpoint).ljust(FILE_SIZE, b"\0")
