"""Message traces, as RocketMQ's tools read them."""

import asyncio
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.client import DefaultMQProducer, DefaultMQPushConsumer, Message, MQClientInstance
from broker_core.client.client_events import MessageSent
from broker_core.client.listeners import async_trace_dispatcher
from broker_core.client.listeners.async_trace_dispatcher import TRACE_TOPIC, AsyncTraceDispatcher, traces_of_send
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, decode_all
from tests.fakes.client import Inbox, instance_of
from tests.fakes.virtual_cluster import NAMESRV, SEND, WALL_MS, VirtualBroker, VirtualCluster, run_virtually


def stored_traces(broker: VirtualBroker) -> list[CommitLogRecord]:
    """All trace messages, in the order in which they were stored. The first one creates their topic."""
    records = []
    for queue_id in range(4):
        reply: Any = broker.ask(c.PullMessage(topic=TRACE_TOPIC, queue_id=queue_id, queue_offset=0))
        records += decode_all(reply.records) if isinstance(reply, c.Pulled) else []
    return sorted(records, key=lambda record: record.physical_offset)


def lines_of(record: CommitLogRecord) -> list[list[str]]:
    text = record.body.decode()
    assert text.endswith("\x02")
    return [line.split("\x01") for line in text[:-1].split("\x02")]


def traced(cluster: VirtualCluster, trace: AsyncTraceDispatcher) -> MQClientInstance:
    return MQClientInstance(NAMESRV, clock=cluster.loop, event_listener=trace)


def test_a_message_is_traced_from_its_send_to_its_consumption() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        trace = AsyncTraceDispatcher(instance=instance_of(cluster))
        instance, inbox = traced(cluster, trace), Inbox(fail=lambda message: message.body == b"2")
        consumer = DefaultMQPushConsumer("cg", instance=instance)
        consumer.subscribe("orders")
        consumer.register_message_listener(inbox)
        async with trace, DefaultMQProducer("pg", instance=instance) as producer, consumer:
            await asyncio.sleep(2)
            begin_ms = cluster.loop.now().wall_ms
            first = await producer.send(Message("orders", b"1", "A", ["k1", "k2"]))
            second = await producer.send(Message("orders", b"2"))
            await inbox.until(2)
        [record] = stored_traces(broker)
        assert message_properties.find(record.properties, "KEYS").split() == [first.msg_id, "k1", "k2", second.msg_id]
        by_kind: dict[str, list[list[str]]] = {}
        for kind, *fields in lines_of(record):
            by_kind.setdefault(kind, []).append(fields)
        for sent, named, line in ((first, ["A", "k1 k2"], 0), (second, ["null", "null"], 1)):
            where = [sent.msg_id, *named, broker.address, "1", "0", "0", sent.offset_msg_id, "true"]
            assert by_kind["Pub"][line] == [str(begin_ms), "DefaultRegion", "pg", "orders", *where]
        before, after = by_kind["SubBefore"], by_kind["SubAfter"]
        assert [line[:3] + line[4:] for line in before] == [
            [str(begin_ms), "DefaultRegion", "cg", first.msg_id, "0", "k1 k2"],
            [str(begin_ms), "DefaultRegion", "cg", second.msg_id, "0", "null"],
        ]
        requests = [line[3] for line in before]
        assert len(set(requests)) == 2 and [line[0] for line in after] == requests
        assert [line[1:] for line in after] == [
            [first.msg_id, "0", "true", "k1 k2", "0", str(begin_ms), "cg"],
            [second.msg_id, "0", "false", "null", "4", str(begin_ms), "cg"],
        ]
        assert begin_ms > WALL_MS and trace.discarded == 0

    run_virtually(story)


def test_each_message_of_a_batch_has_a_line_and_one_that_was_not_stored_has_none() -> None:
    def event(msg_id: str, offset_msg_id: str, properties: str = "") -> MessageSent:
        return MessageSent(
            0, "pg", "T", None, msg_id, offset_msg_id, "FLUSH_DISK_TIMEOUT", "", 1, 9, 7_000_000, properties
        )

    lines = [trace.text.rstrip("\x02").split("\x01") for trace in traces_of_send(event("a,b", "x,y"), 1000)]
    assert [[line[1], line[5], line[8], *line[10:]] for line in lines] == [
        ["993", "a", "null", "7", "0", "x", "false"],
        ["993", "b", "null", "7", "0", "y", "false"],
    ]
    assert traces_of_send(event("a", ""), 1000) == []
    for text, kind in (("TRAN_MSG\x01true\x02", "1"), ("DELAY\x013\x02", "3")):
        [trace] = traces_of_send(event("a", "x", text), 1000)
        assert trace.text.split("\x01")[11] == kind


def test_traces_are_sent_by_topic_and_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_trace_dispatcher, "MAX_TRACES", 3)

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        for topic in ("orders", "others"):
            cluster.create_topic(topic, 1)
        trace = AsyncTraceDispatcher(instance=instance_of(cluster))
        async with trace, DefaultMQProducer("pg", instance=traced(cluster, trace)) as producer:
            for topic in ("orders", "orders", "others", "orders", "others"):
                await producer.send(Message(topic, b"x"))
        topics = [[line[4] for line in lines_of(record)] for record in stored_traces(broker)]
        assert topics == [["orders"] * 3, ["others"], ["others"]]

    run_virtually(story)


def test_traces_that_cannot_be_sent_are_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(async_trace_dispatcher, "MAX_WAITING", 5)

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        trace = AsyncTraceDispatcher(instance=instance_of(cluster))
        async with DefaultMQProducer("pg", instance=traced(cluster, trace)) as producer:
            for _ in range(6):
                await producer.send(Message("orders", b"x"))
            assert trace.discarded == 1
            broker.refuse[SEND] = 13
            async with trace:
                await asyncio.sleep(1)
            assert (trace.discarded, stored_traces(broker)) == (6, [])
            broker.refuse.clear()
            broker.ignore.add(SEND)
            await producer.send_batch([Message("orders", b"x")] * 3)
            begin_s = cluster.loop.time()
            async with trace:
                pass
            assert (trace.discarded, cluster.loop.time() - begin_s) == (9, pytest.approx(5, abs=0.1))

    run_virtually(story)
    assert caplog.text.count("message traces are lost") == 1
