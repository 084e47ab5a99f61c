"""What producers send and consumers get."""

from collections.abc import Iterable, Mapping

from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from broker_core.formats.inner_batch import split_record
from broker_core.formats.message_body import decompress
from broker_core.formats.message_id import encode_offset_message_id
from broker_core.formats.message_properties import (
    DELAY,
    KEYS,
    ORIGIN_MESSAGE_ID,
    REAL_QID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
    WAIT,
)

MAX_BODY = 64 << 20
"""Bytes of a decompressed body at most. Brokers accept 4 MiB of compressed bytes by default."""

RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
RESERVED = frozenset(
    {TAGS, KEYS, UNIQ_KEY, DELAY, WAIT, RETRY_TOPIC, ORIGIN_MESSAGE_ID, REAL_TOPIC, REAL_QID}
    | {TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_OUT_MS}
    | {RECONSUME_TIME, MAX_RECONSUME_TIMES, "TRAN_MSG", "PGROUP"}
)
"""Names of properties that have a meaning of their own: a user cannot set them as properties."""


class Message:
    """RocketMQ's Message. ``delay_level`` is 1 to 18 (1 s to 2 h by default); 0 is no delay.

    ``deliver_time_ms`` is a wall time at which consumers are to get it, ``delay_time_ms`` how long after it was sent;
    at most one of the three.

    Raises MQClientException for properties that RocketMQ reserves, or that contain its separators.
    """

    __slots__ = ("body", "flag", "properties", "topic")

    def __init__(
        self,
        topic: str,
        body: bytes,
        tags: str = "",
        keys: str | Iterable[str] = "",
        *,
        delay_level: int = 0,
        deliver_time_ms: int = 0,
        delay_time_ms: int = 0,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
        wait_store_msg_ok: bool = True,
    ) -> None:
        self.topic = topic
        self.body = body
        self.flag = flag
        self.properties = dict(properties or {})
        reserved = RESERVED.intersection(self.properties)
        if reserved:
            raise MQClientException(f"the property {min(reserved)!r} is RocketMQ's own; choose another name")
        text = keys if isinstance(keys, str) else " ".join(keys)
        delays = {DELAY: delay_level, TIMER_DELIVER_MS: deliver_time_ms, TIMER_DELAY_MS: delay_time_ms}
        own = {TAGS: tags, KEYS: text} | {name: str(value) for name, value in delays.items() if value > 0}
        if sum(value > 0 for value in delays.values()) > 1:
            raise MQClientException("set one of delay_level, deliver_time_ms and delay_time_ms")
        self.properties |= {name: value for name, value in own.items() if value}
        self.properties[WAIT] = "true" if wait_store_msg_ok else "false"
        try:
            message_properties.encode(self.properties)
        except message_properties.PropertiesError as error:
            raise MQClientException(f"the message cannot be sent: {error}") from error

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, body of {len(self.body)} bytes, properties={self.properties!r})"

    @property
    def delay_level(self) -> int:
        return int(self.properties.get(DELAY, 0))

    @property
    def is_delayed(self) -> bool:
        """Whether it is delivered later than it is sent."""
        return any(name in self.properties for name in (DELAY, TIMER_DELIVER_MS, TIMER_DELAY_MS))

    @property
    def transaction_id(self) -> str:
        """The ``msg_id`` of the message that a transaction listener gets. Empty before the message is sent."""
        return self.properties.get(UNIQ_KEY, "")


class MessageExt:
    """RocketMQ's MessageExt: a message from a queue of ``broker_name``.

    ``topic`` is the topic that the message was first sent to, also for a message that comes again from a retry topic.
    ``reconsume_times`` says how often the group has failed to consume it.
    """

    __slots__ = ("_properties", "broker_name", "consume_started_ns", "reconsume_times", "record", "topic")

    def __init__(self, record: CommitLogRecord, broker_name: str) -> None:
        self.record = record
        self.broker_name = broker_name
        self.reconsume_times = record.reconsume_times
        self.topic = message_properties.find(record.properties, RETRY_TOPIC) or record.topic
        self.consume_started_ns = 0
        self._properties: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"MessageExt({self.msg_id}, {self.message_queue}, offset {self.record.queue_offset})"

    @property
    def body(self) -> bytes:
        """The body as it was sent. Raises BodyError if it cannot be decompressed."""
        return decompress(self.record.body, self.record.sys_flag, MAX_BODY)

    @property
    def properties(self) -> dict[str, str]:
        if self._properties is None:
            self._properties = message_properties.decode(self.record.properties)
        return self._properties

    @property
    def tags(self) -> str:
        return message_properties.find(self.record.properties, TAGS)

    @property
    def keys(self) -> str:
        """The keys, separated by blanks."""
        return message_properties.find(self.record.properties, KEYS)

    @property
    def msg_id(self) -> str:
        """The id that the producer gave it (UNIQ_KEY); the offset message id if it gave none."""
        return message_properties.find(self.record.properties, UNIQ_KEY) or self.offset_msg_id

    @property
    def transaction_id(self) -> str:
        """RocketMQ's name for the id of a message in a transaction; empty if its producer gave it none."""
        return message_properties.find(self.record.properties, UNIQ_KEY)

    @property
    def offset_msg_id(self) -> str:
        record = self.record
        return encode_offset_message_id(record.store_host, record.store_port, record.physical_offset)

    @property
    def message_queue(self) -> MessageQueue:
        """The queue that it was pulled from: for a message that comes again, a queue of the retry topic."""
        record = self.record
        return MessageQueue(topic=record.topic, broker_name=self.broker_name, queue_id=record.queue_id)

    @property
    def queue_id(self) -> int:
        return self.record.queue_id

    @property
    def queue_offset(self) -> int:
        return self.record.queue_offset

    @property
    def born_timestamp(self) -> int:
        """ms since 1970, by the producer's clock."""
        return self.record.born_timestamp

    @property
    def store_timestamp(self) -> int:
        """ms since 1970, by the broker's clock."""
        return self.record.store_timestamp


def decode_messages(records: bytes, broker_name: str) -> list[MessageExt]:
    """The messages in a pull's answer; the record of a batch has several.

    RecordError if the bytes are not whole records, or a batch is damaged.
    """
    return [MessageExt(message, broker_name) for record in decode_all(records) for message in split_record(record)]
