"""The file ``config/timercheck``: how far the timer wheel is on the disk.

offset  bytes  field (big-endian, signed), in a file of 4096 bytes
------  -----  ---------------------------------------------------------------
     0      8  lastReadTimeMs: messages of earlier slots are delivered
     8      8  lastTimerLogFlushPos: end of the timer log
    16      8  lastTimerQueueOffset: messages of the timer queue before it are in the wheel
    24      8  masterTimerQueueOffset: the same, of the master
    32      8  stateVersion   of RocketMQ's DataVersion
    40      8  timestamp, ms
    48      8  counter
    56      8  GlassMQ's own: waiting_from_ms of TimerMessageStore, wall ms; RocketMQ does not write it
"""

from struct import Struct
from typing import NamedTuple

LAYOUT = Struct(">8q")
ROCKETMQ_SIZE = 56
FILE_SIZE = 4096


class TimerCheckpoint(NamedTuple):
    """RocketMQ's TimerCheckpoint."""

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0
    waiting_from_ms: int = 0


def decode(data: bytes) -> TimerCheckpoint:
    """The check point. If it is missing or cut short, all fields are 0, so that everything is read again."""
    if len(data) < LAYOUT.size:
        return TimerCheckpoint()
    values = LAYOUT.unpack_from(data)
    return TimerCheckpoint(*values) if min(values) >= 0 else TimerCheckpoint()


def encode(checkpoint: TimerCheckpoint) -> bytes:
    """The fields, without the zeros after them."""
    return LAYOUT.pack(*checkpoint)
