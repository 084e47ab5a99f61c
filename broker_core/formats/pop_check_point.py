"""What the revive log holds: check points of popped messages, and their acknowledgements, as JSON.

The log is the topic ``rmq_sys_REVIVE_LOG_<cluster>``. The tag of a message says what its body is: ``ck`` a
PopCheckPoint, ``ack`` an AckMsg with one offset, ``bAck`` one with several.
"""

import msgspec
from msgspec import field

CK_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
OFFSETS_GROUP = "CID_RMQ_SYS_GLASSMQ_POPPED"
REVIVE_QUEUES = 8
"""RocketMQ's reviveQueueNum."""


class PopCheckPoint(msgspec.Struct, kw_only=True, gc=False):
    """RocketMQ's PopCheckPoint: a group popped messages of one queue. Times are in ms.

    Message number ``i`` has the queue offset ``start_offset + diffs[i]``; without diffs it has ``start_offset + i``.
    It is acknowledged if bit ``i`` is set. With ``put_again`` the messages were popped before, by another record.
    """

    bit_map: int = field(default=0, name="bm")
    broker_name: str = field(default="", name="bn")
    group: str = field(name="c")
    diffs: list[int] | None = field(default=None, name="d")
    invisible_ms: int = field(name="it")
    count: int = field(name="n")
    pop_time: int = field(name="pt")
    queue_id: int = field(name="q")
    put_again: str | None = field(default=None, name="rp")
    start_offset: int = field(name="so")
    topic: str = field(name="t")

    def waiting(self) -> list[int]:
        """The queue offsets that are not acknowledged, at most 32 as in a pop."""
        diffs = range(min(self.count, 32)) if not self.diffs else self.diffs[:32]
        return [self.start_offset + diff for number, diff in enumerate(diffs) if not self.bit_map >> number & 1]


class AckMsg(msgspec.Struct, kw_only=True, gc=False, omit_defaults=True):
    """RocketMQ's AckMsg or BatchAckMsg. ``offsets`` are those of a batch, whose ``offset`` is -1."""

    offset: int = field(name="ao")
    offsets: list[int] | None = field(default=None, name="aol")
    broker_name: str = field(default="", name="bn")
    group: str = field(name="c")
    pop_time: int = field(name="pt")
    queue_id: int = field(name="q")
    start_offset: int = field(name="so")
    topic: str = field(name="t")


_check_point = msgspec.json.Decoder(PopCheckPoint, strict=False)
_ack = msgspec.json.Decoder(AckMsg, strict=False)
_encoder = msgspec.json.Encoder()


def encode(value: PopCheckPoint | AckMsg) -> bytes:
    return _encoder.encode(value)


def decode_check_point(body: bytes) -> PopCheckPoint | None:
    """None for a body that is no check point."""
    try:
        return _check_point.decode(body)
    except (ValueError, RecursionError):
        return None


def decode_ack(body: bytes) -> AckMsg | None:
    """None for a body that is no acknowledgement."""
    try:
        return _ack.decode(body)
    except (ValueError, RecursionError):
        return None


def revive_topic(cluster: str) -> str:
    """The topic of the revive log."""
    return REVIVE_TOPIC_PREFIX + cluster


def pop_retry_topic(topic: str, group: str) -> str:
    """The topic from which a group pops a message again. RocketMQ's buildPopRetryTopic."""
    return f"%RETRY%{group}_{topic}"
