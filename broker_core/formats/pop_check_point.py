"""What the revive log holds: check points of popped messages, and their acknowledgements, as JSON.

The log is the topic ``rmq_sys_REVIVE_LOG_<cluster>``. The tag of a message says what its body is: ``ck`` a
PopCheckPoint, ``ack`` an AckMsg with one offset, ``bAck`` one with several.

A consumer names a popped message by its extraInfo: RocketMQ's ExtraInfoUtil, a receipt in the web API.
"""

from typing import NamedTuple

import msgspec
from msgspec import field

CK_TAG, ACK_TAG, BATCH_ACK_TAG = "ck", "ack", "bAck"
REVIVE_TOPIC_PREFIX = "rmq_sys_REVIVE_LOG_"
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
OFFSETS_GROUP = "CID_RMQ_SYS_GLASSMQ_POPPED"
POP_ORDER_REVIVE_QUEUE = 999
"""The revive queue in the extraInfo of a message that was popped in order."""
ORDER_ACK_TAG = "orderAck"
"""GlassMQ's own: the group has consumed a queue up to the offset of this AckMsg. RocketMQ passes over such a record."""
UNDONE_TAG = "undone"
"""GlassMQ's own: the pop of this AckMsg is undone, because a power cut lost the check point of an earlier one. The
group's offset is ``offset`` again, or none if that is -1."""
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


NORMAL, RETRY, RETRY_V2 = "0", "1", "2"
"""The kinds of topics in an extraInfo: the topic itself, ``%RETRY%<group>_<topic>``, ``%RETRY%<group>+<topic>``."""


class ExtraInfo(NamedTuple):
    """The eight words that name a popped message: its check point, and its place."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue: int
    kind: str
    broker: str
    queue_id: int
    offset: int

    def encode(self) -> str:
        """The words, with blanks between them."""
        return " ".join(map(str, self))

    @classmethod
    def decode(cls, text: str) -> "ExtraInfo":
        """ValueError for a text that ``encode`` does not return. The numbers may be wrong nevertheless."""
        words = text.split(" ")
        kind, broker = words[4:6] if len(words) == len(cls._fields) else ("", "")
        numbers = [int(word) for word in words[:4] + words[6:]]
        start_offset, pop_time_ms, invisible_ms, revive_queue, queue_id, offset = numbers
        info = cls(start_offset, pop_time_ms, invisible_ms, revive_queue, kind, broker, queue_id, offset)
        if kind not in (NORMAL, RETRY, RETRY_V2) or min(numbers) < 0 or max(numbers) >> 63 or info.encode() != text:
            raise ValueError(text)
        return info


def revive_topic(cluster: str) -> str:
    """The topic of the revive log."""
    return REVIVE_TOPIC_PREFIX + cluster


def pop_retry_topic(topic: str, group: str) -> str:
    """The topic from which a group pops a message again. RocketMQ's buildPopRetryTopic."""
    return f"%RETRY%{group}_{topic}"


def pop_retry_topics(topic: str, group: str) -> tuple[str, str]:
    """All topics from which a group pops messages of ``topic`` again. An adopted store may have the second one, which
    RocketMQ writes with ``enableRetryTopicV2``."""
    return pop_retry_topic(topic, group), f"%RETRY%{group}+{topic}"


def popped_topic(kind: str, topic: str, group: str) -> str:
    """The topic of this kind (``NORMAL``, ``RETRY``, ``RETRY_V2``) from which a group popped a message of ``topic``."""
    if kind == NORMAL:
        return topic
    old, new = pop_retry_topics(topic, group)
    return new if kind == RETRY_V2 else old


def kind_of(popped: str, topic: str, group: str) -> str:
    """The kind of the topic ``popped`` from which a group popped a message of ``topic``."""
    if popped == topic:
        return NORMAL
    return RETRY_V2 if popped == pop_retry_topics(topic, group)[1] else RETRY
