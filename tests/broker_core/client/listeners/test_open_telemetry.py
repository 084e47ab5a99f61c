"""A client's spans and metrics, as OpenTelemetry's SDK exports them."""

import asyncio
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, get_current_span

from broker_core.client import (
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MQClientException,
    MQClientInstance,
    SendResult,
)
from broker_core.client.listeners.open_telemetry import OpenTelemetryListener, extract_context, inject_context
from tests.fakes.client import Inbox
from tests.fakes.virtual_cluster import NAMESRV, PULL, SEND, WALL_MS, VirtualCluster, run_virtually


class Telemetry:
    """A listener for a client, and what it has exported."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        tracers, meters = TracerProvider(), MeterProvider([self._metrics])
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.tracer = tracers.get_tracer("program")
        listener = OpenTelemetryListener(tracers, meters, clock=cluster.loop)
        self.instance = MQClientInstance(NAMESRV, clock=cluster.loop, event_listener=listener)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def points(self, name: str, **wanted: str) -> list[Any]:
        """Of a metric, the points with the attributes: underscores stand for dots, without ``messaging.``."""
        data = self._metrics.get_metrics_data()
        assert data is not None
        found = [
            point
            for metric in data.resource_metrics[0].scope_metrics[0].metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        attributes = {f"messaging.{key.replace('_', '.')}": value for key, value in wanted.items()}
        return [point for point in found if attributes.items() <= dict(point.attributes or {}).items()]


def check_sends(telemetry: Telemetry, checkout: SpanContext, result: SendResult) -> None:
    send, bad_send, refused = telemetry.spans("send orders")
    assert send.kind is SpanKind.CLIENT and send.parent == checkout
    assert [link.context.span_id for link in send.links] == [checkout.span_id]
    assert dict(send.attributes or {}) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "a-0",
        "messaging.message.id": result.msg_id,
        "messaging.message.body.size": 4,
        "messaging.rocketmq.message.tag": "TagA",
        "messaging.rocketmq.message.keys": ("k\t1", "k2"),
    }
    assert bad_send.parent is None and not bad_send.links and bad_send.status.status_code is StatusCode.UNSET
    assert refused.status.status_code is StatusCode.ERROR and "13" in str(refused.status.description)
    assert (refused.attributes or {})["error.type"] == "_OTHER"
    assert "messaging.destination.partition.id" not in (refused.attributes or {})  # it was not stored


def check_calls(telemetry: Telemetry, checkout: SpanContext, result: SendResult) -> None:
    process, bad_process = telemetry.spans("process orders")
    assert process.kind is SpanKind.CONSUMER and process.parent is not None
    assert process.parent.span_id == checkout.span_id and process.parent.is_remote
    assert process.start_time is not None and process.end_time is not None
    assert 50_000_000 <= process.end_time - process.start_time < 60_000_000
    assert process.start_time > WALL_MS * 1_000_000
    assert (process.attributes or {})["messaging.consumer.group.name"] == "cg"
    assert (process.attributes or {})["messaging.message.id"] == result.msg_id
    assert bad_process.parent is None and bad_process.status.description == "1 of 1 messages were not consumed"


def check_metrics(telemetry: Telemetry) -> None:
    (sent,) = telemetry.points("messaging.client.sent.messages", operation_type="send")[:1]
    assert sent.value == 2
    counts = [point.count for point in telemetry.points("messaging.client.operation.duration", operation_name="send")]
    assert counts == [2, 1]  # the one that failed has error.type
    (received,) = telemetry.points("messaging.client.consumed.messages", consumer_group_name="cg")
    assert received.value == 2
    good, bad = telemetry.points("messaging.process.duration")
    assert good.count == bad.count == 1 and good.sum == pytest.approx(0.05, abs=0.001)
    assert "error.type" in bad.attributes and "error.type" not in good.attributes
    pulls = telemetry.points("messaging.client.operation.duration", operation_name="pull", destination_name="orders")
    assert [point.count > 1 for point in pulls if "error.type" in point.attributes] == [True]


def test_a_trace_goes_from_the_sender_to_the_consumer() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        telemetry = Telemetry(cluster)
        inbox = Inbox(fail=lambda message: message.body == b"bad")
        consumer = DefaultMQPushConsumer("cg", instance=telemetry.instance)
        consumer.subscribe("orders")
        consumer.register_message_listener(inbox)
        async with DefaultMQProducer("pg", instance=telemetry.instance) as producer, consumer:
            await asyncio.sleep(2)
            inbox.open.clear()
            with telemetry.tracer.start_as_current_span("checkout") as checkout:
                message = inject_context(Message("orders", b"good", "TagA", ["k\t1", "k2"]))
                result = await producer.send(message)
            await asyncio.sleep(0.05)
            inbox.open.set()
            await inbox.until(1)
            await producer.send(Message("orders", b"bad"))
            await inbox.until(2)
            broker.refuse |= {PULL: 2, SEND: 13}
            with pytest.raises(MQClientException):
                await producer.send(Message("orders", b"refused"))
            await asyncio.sleep(3)

        check_sends(telemetry, checkout.get_span_context(), result)
        check_calls(telemetry, checkout.get_span_context(), result)
        check_metrics(telemetry)
        consumed = get_current_span(extract_context(inbox.messages[0])).get_span_context()
        assert consumed.span_id == checkout.get_span_context().span_id

    run_virtually(story)


def test_the_span_of_several_messages_is_linked_to_each() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        telemetry = Telemetry(cluster)
        inbox = Inbox()
        options: dict[str, Any] = {
            "consume_message_batch_max_size": 10,
            "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
        }
        consumer = DefaultMQPushConsumer("cg", instance=telemetry.instance, **options)
        consumer.subscribe("orders")
        consumer.register_message_listener(inbox)
        async with DefaultMQProducer("pg", instance=telemetry.instance) as producer:
            roots = []
            for number in range(2):
                with telemetry.tracer.start_as_current_span(f"checkout {number}") as root:
                    await producer.send(inject_context(Message("orders", b"x")))
                roots.append(root.get_span_context().span_id)
            await producer.send_batch([Message("orders", b"y")] * 3)
            async with consumer:
                await inbox.until(5)
                await asyncio.sleep(1)
        (process,) = telemetry.spans("process orders")
        assert process.parent is None and [link.context.span_id for link in process.links] == roots
        assert (process.attributes or {})["messaging.batch.message_count"] == 5
        batch = telemetry.spans("send orders")[2]
        assert (batch.attributes or {})["messaging.batch.message_count"] == 3
        assert "messaging.message.id" not in (batch.attributes or {})
        (sent,) = telemetry.points("messaging.client.sent.messages")
        assert sent.value == 5

    run_virtually(story)
