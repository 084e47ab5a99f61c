"""Writes RocketMQ's message traces: when each message was sent, and how it was consumed.

trace = AsyncTraceDispatcher(namesrv_addr="127.0.0.1:9876")
instance = MQClientInstance("127.0.0.1:9876", event_listener=trace)
async with trace, DefaultMQProducer("my-producers", instance=instance) as producer:
    ...

``mqadmin queryMsgTraceById`` and RocketMQ's dashboard read the traces. A line is fields, each followed by 0x01 but the
last, and 0x02. Java writes the word null for what is missing, since its reader needs every field.
"""

import asyncio
import logging
from collections import defaultdict, deque
from typing import Any, NamedTuple
from uuid import uuid4

from broker_core.client.client_events import ClientEvent, MessagesConsumed, MessageSent
from broker_core.client.message import Message
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.producer.default_mq_producer import DefaultMQProducer
from broker_core.formats import message_properties
from broker_core.formats.message_id import MessageIdError, decode_offset_message_id
from broker_core.formats.message_properties import DELAY, KEYS, TAGS, TRAN_MSG
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRACE_GROUP = "_INNER_TRACE_PRODUCER"
REGION = "DefaultRegion"
"""The regionId of every broker whose configuration sets no other."""
MAX_WAITING = 10_000
"""Traces that wait to be sent; those of more events are discarded and counted."""
MAX_TRACES, MAX_SIZE, MAX_KEYS_SIZE = 100, 118_000, 16_000
"""Limits of one trace message. The trace that reaches one of them is its last. The sizes are in characters."""
MAX_KEY = 1000
"""Characters of a message's keys at most, for its traces to be found by them. All keys must fit into the properties."""
LINGER_SECONDS = 0.05
"""Traces of this time are sent together."""
SEND_MS = 5000
SHUTDOWN_SECONDS = 5.0
NORMAL, HALF, DELAYED = 0, 1, 3
"""Ordinals of RocketMQ's MessageType."""
CONSUMED, FAILED = 0, 4
"""Ordinals of RocketMQ's ConsumeReturnType."""


class Trace(NamedTuple):
    """Lines about a message, with the keys by which they are found."""

    topic: str
    keys: tuple[str, ...]
    text: str


def _line(*fields: Any) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def traces_of_send(event: MessageSent, now_ms: int) -> list[Trace]:
    """RocketMQ's Pub lines, one for each message of a batch. As in Java, a message that was not stored has none."""
    find, properties, cost_ms = message_properties.find, event.properties, event.duration_ns // 1_000_000
    tags, keys = find(properties, TAGS), find(properties, KEYS)
    kind = HALF if find(properties, TRAN_MSG) else DELAYED if find(properties, DELAY) else NORMAL
    is_success = "true" if event.send_status == "SEND_OK" else "false"
    traces = []
    for msg_id, offset_msg_id in zip(event.msg_id.split(","), event.offset_msg_id.split(","), strict=False):
        if not offset_msg_id:
            continue
        text = _line(
            "Pub",
            now_ms - cost_ms,
            REGION,
            event.group,
            event.topic,
            msg_id,
            tags or "null",
            keys or "null",
            _store_host(offset_msg_id),
            event.size,
            cost_ms,
            kind,
            offset_msg_id,
            is_success,
        )
        traces.append(Trace(event.topic, _keys_of(msg_id, keys), text))
    return traces


def _keys_of(msg_id: str, keys: str) -> tuple[str, ...]:
    return (msg_id, keys) if 0 < len(keys) <= MAX_KEY else (msg_id,)


def _store_host(offset_msg_id: str) -> str:
    try:
        where = decode_offset_message_id(offset_msg_id)
    except MessageIdError:
        return "null"
    return f"{where.host}:{where.port}"


def traces_of_consumption(event: MessagesConsumed, now_ms: int) -> list[Trace]:
    """RocketMQ's SubBefore and SubAfter lines. Both are written when the listener has returned."""
    request_id, cost_ms = uuid4().hex.upper(), event.duration_ns // 1_000_000
    traces = []
    for place, message in enumerate(event.messages):
        if message.properties.get("TRACE_ON") == "false":
            continue
        region = message.properties.get("MSG_REGION", REGION)
        msg_id, keys, is_consumed = message.msg_id, message.keys, place < event.consumed
        begin = _line(
            "SubBefore",
            now_ms - cost_ms,
            region,
            event.group,
            request_id,
            msg_id,
            message.reconsume_times,
            keys or "null",
        )
        end = _line(
            "SubAfter",
            request_id,
            msg_id,
            cost_ms // len(event.messages),
            "true" if is_consumed else "false",
            keys or "null",
            CONSUMED if is_consumed else FAILED,
            now_ms,
            event.group,
        )
        traces.append(Trace(message.topic, _keys_of(msg_id, keys), begin + end))
    return traces


class _TraceMessage:
    """The traces of one topic that are sent together."""

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}
        self.texts: list[str] = []
        self._size = self._keys_size = 0

    def add(self, trace: Trace) -> bool:
        """Add a trace. Returns whether this was the last one."""
        self.texts.append(trace.text)
        self._size += len(trace.text)
        for key in trace.keys:
            self.keys[key] = None
            self._keys_size += len(key) + 1
        return len(self.texts) >= MAX_TRACES or self._size >= MAX_SIZE or self._keys_size >= MAX_KEYS_SIZE


class AsyncTraceDispatcher:
    """RocketMQ's AsyncTraceDispatcher: an event listener that sends traces by a producer of its own.

    It never delays what it traces. ``discarded`` counts traces that were not sent: too many waited, or the send failed.
    ``options`` are those of DefaultMQProducer.
    """

    def __init__(self, *, trace_topic: str = TRACE_TOPIC, **options: Any) -> None:
        self._producer = DefaultMQProducer(TRACE_GROUP, **({"send_msg_timeout": SEND_MS} | options))
        self._topic = trace_topic
        self._waiting: deque[Trace] = deque()
        self._sending: list[_TraceMessage] = []
        self._has_waiting = asyncio.Event()
        self._ending = False
        self._task: asyncio.Task[None] | None = None
        self.discarded = 0

    def __call__(self, event: ClientEvent) -> None:
        """The client's event listener."""
        now_ms = self._producer.instance.clock.now().wall_ms
        if isinstance(event, MessageSent):
            traces = traces_of_send(event, now_ms)
        elif isinstance(event, MessagesConsumed):
            traces = traces_of_consumption(event, now_ms)
        else:
            return
        if len(self._waiting) + len(traces) > MAX_WAITING:
            self._discard(len(traces), f"{len(self._waiting)} wait to be sent")
        elif traces:
            self._waiting.extend(traces)
            self._has_waiting.set()

    async def start(self) -> None:
        """Begin to send. Earlier traces wait until then."""
        await self._producer.start()
        if self._task is None:
            self._ending = False
            self._task = start_task(self._run(), "send message traces")

    async def shutdown(self) -> None:
        """Send the waiting traces, for 5 s at most. Shut down the traced clients first."""
        self._ending = True
        self._has_waiting.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=SHUTDOWN_SECONDS)
            await end_task(self._task)
            self._task = None
        left = len(self._waiting) + sum(len(traces.texts) for traces in self._sending)
        if left:
            self._discard(left, "they were not sent before the end")
            self._waiting.clear()
            self._sending.clear()
        await self._producer.shutdown()

    async def __aenter__(self) -> "AsyncTraceDispatcher":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def _run(self) -> None:
        while True:
            await self._has_waiting.wait()
            if not self._ending:
                await asyncio.sleep(LINGER_SECONDS)
            self._has_waiting.clear()
            while self._waiting:
                await self._send_some()
            if self._ending:
                return

    async def _send_some(self) -> None:
        """Send up to MAX_TRACES of those that wait. As in RocketMQ, each topic has trace messages of its own."""
        by_topic: defaultdict[str, _TraceMessage] = defaultdict(_TraceMessage)
        while self._waiting:
            trace = self._waiting.popleft()
            if by_topic[trace.topic].add(trace):
                break
        self._sending = list(by_topic.values())
        while self._sending:
            await self._send(self._sending[0])
            del self._sending[0]

    async def _send(self, traces: _TraceMessage) -> None:
        try:
            await self._producer.send(Message(self._topic, "".join(traces.texts).encode(), keys=traces.keys))
        except MQClientException as error:
            self._discard(len(traces.texts), str(error))

    def _discard(self, number: int, reason: str) -> None:
        if not self.discarded:
            log.warning("%d message traces are lost; more of them are only counted: %s", number, reason)
        self.discarded += number
