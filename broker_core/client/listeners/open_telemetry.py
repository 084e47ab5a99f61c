"""Spans and metrics of a client for OpenTelemetry, by its messaging conventions. It needs opentelemetry-api.

instance = MQClientInstance("127.0.0.1:9876", event_listener=OpenTelemetryListener())
async with DefaultMQProducer("my-producers", instance=instance) as producer:
    await producer.send(inject_context(Message("orders", b"hello")))

The conventions are those of semantic-conventions 1.45, where messaging is still "development".
"""

from collections.abc import Iterator, Mapping

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from broker_core.client.client_events import ClientEvent, MessagesConsumed, MessageSent, MessagesPut, PullAnswered
from broker_core.client.message import Message, MessageExt
from broker_core.clock import Clock, SystemClock
from broker_core.commands import MessageQueue
from broker_core.formats import message_properties
from broker_core.formats.message_properties import KEYS, TAGS, split_keys

SCOPE = "glassmq.client"
DURATIONS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The buckets that the conventions advise."""
MAX_LINKS = 128
"""Links of one span at most: the limit of OpenTelemetry's SDK."""

Attributes = dict[str, AttributeValue]


def inject_context(message: Message) -> Message:
    """Put the current trace context into the message's properties (``traceparent``). Returns the message."""
    propagate.inject(message.properties)
    return message


def extract_context(message: MessageExt) -> Context:
    """The trace context in a message's properties; an empty one if it has none. A listener's spans can continue it."""
    return _context_in(message.properties)


def _context_in(properties: Mapping[str, str]) -> Context:
    return propagate.extract(properties, context=Context())


class OpenTelemetryListener:
    """An event listener that creates spans and metrics. Clients of one process can share one.

    | span | kind | |
    |---|---|---|
    | ``send TOPIC`` | client | a send with its retries; linked to the context in the message |
    | ``process TOPIC`` | consumer | a call of the listener; the parent, or for several messages the links, is in them |

    | metric | unit |
    |---|---|
    | ``messaging.client.operation.duration`` | s; sends, and pulls with the time for which the broker held them |
    | ``messaging.process.duration`` | s; calls of the listener |
    | ``messaging.client.sent.messages``, ``messaging.client.consumed.messages`` | messages |
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        """Without providers, the global ones of OpenTelemetry are used."""
        self._clock = clock or SystemClock()
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
        self._operations = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=DURATIONS_S,
        )
        self._processings = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=DURATIONS_S,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )

    def __call__(self, event: ClientEvent) -> None:
        """The client's event listener."""
        if isinstance(event, MessageSent):
            self._note_send(event)
        elif isinstance(event, MessagesConsumed):
            self._note_consumption(event)
        elif isinstance(event, MessagesPut):
            self._consumed.add(len(event.messages), _attributes("pull", "receive", event.queue.topic, event.group))
        elif isinstance(event, PullAnswered):
            attributes = _attributes("pull", "receive", event.queue.topic, event.group, failed=bool(event.error))
            self._operations.record(event.duration_ns / 1e9, attributes)

    def _note_send(self, event: MessageSent) -> None:
        attributes = _attributes("send", "send", event.topic, failed=bool(event.error))
        ids = event.msg_id.split(",")
        self._sent.add(len(ids), attributes)
        self._operations.record(event.duration_ns / 1e9, attributes)
        tag, keys = (message_properties.find(event.properties, name) for name in (TAGS, KEYS))
        more: Attributes = {"messaging.message.body.size": event.size}
        if len(ids) > 1:
            more["messaging.batch.message_count"] = len(ids)
        else:
            more["messaging.message.id"] = event.msg_id
        if event.queue is not None:
            more["messaging.destination.partition.id"] = _partition(event.queue)
        links = list(_links([_context_in(message_properties.decode(event.properties))]))
        # The caller's context is the current one: the event is emitted where the send was called.
        attributes |= more | _tag_and_keys(tag, keys)
        self._span(f"send {event.topic}", SpanKind.CLIENT, attributes, event, None, links, event.error)

    def _note_consumption(self, event: MessagesConsumed) -> None:
        failed = len(event.messages) - event.consumed
        attributes = _attributes("process", "process", event.queue.topic, event.group, failed=failed > 0)
        self._processings.record(event.duration_ns / 1e9, attributes)
        more: Attributes = {"messaging.destination.partition.id": _partition(event.queue)}
        contexts = [extract_context(message) for message in event.messages[:MAX_LINKS]]
        parent = Context()
        if len(event.messages) == 1:
            (message,), (parent,) = event.messages, contexts
            more |= {"messaging.message.id": message.msg_id, "messaging.message.body.size": len(message.record.body)}
            more |= _tag_and_keys(message.tags, message.keys)
        else:
            more["messaging.batch.message_count"] = len(event.messages)
        problem = f"{failed} of {len(event.messages)} messages were not consumed" if failed else ""
        name, links = f"process {event.queue.topic}", list(_links(contexts))
        self._span(name, SpanKind.CONSUMER, attributes | more, event, parent, links, problem)

    def _span(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        event: MessageSent | MessagesConsumed,
        parent: Context | None,
        links: list[Link],
        problem: str,
    ) -> None:
        """A span that ends now. ``parent`` is None for the current context."""
        end_ns = self._clock.now().wall_ms * 1_000_000
        begin_ns = end_ns - event.duration_ns
        span = self._tracer.start_span(name, parent, kind, attributes, links, start_time=begin_ns)
        if problem:
            span.set_status(Status(StatusCode.ERROR, problem))
        span.end(end_ns)


def _attributes(operation: str, kind: str, topic: str, group: str = "", *, failed: bool = False) -> Attributes:
    """The attributes that metrics have, too: they have few different values."""
    attributes: Attributes = {
        "messaging.system": "rocketmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
    }
    if group:
        attributes["messaging.consumer.group.name"] = group
    if failed:
        attributes["error.type"] = "_OTHER"  # the conventions' word for an error that has no short name
    return attributes


def _tag_and_keys(tag: str, keys: str) -> Attributes:
    attributes: Attributes = {}
    if tag:
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys:
        attributes["messaging.rocketmq.message.keys"] = split_keys(keys)
    return attributes


def _partition(queue: MessageQueue) -> str:
    """Queue ids are those of a broker; an id that is unique in the topic has both."""
    return f"{queue.broker_name}-{queue.queue_id}"


def _links(contexts: list[Context]) -> Iterator[Link]:
    for context in contexts:
        span_context = trace.get_current_span(context).get_span_context()
        if span_context.is_valid:
            yield Link(span_context)
