"""One call of a listener that an administrator asks for, through a broker."""

import asyncio
import sys
import threading
from typing import Any

import pytest

from broker_core.client import DefaultMQPushConsumer, Message
from broker_core.client.consumer.consume_message_directly import MAX_REMARK, consume_message_directly
from broker_core.client.message import MessageExt, decode_messages
from broker_core.formats.commit_log_record import encode
from broker_core.remoting import fastjson
from tests.fakes.client import Inbox, consumer_of, lite_consumer_of, producer_of
from tests.fakes.clock import VirtualClock
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually


def message() -> MessageExt:
    record = encode(topic="orders", queue_id=0, queue_offset=7, physical_offset=0, body=b"hello")
    return decode_messages(record, "a")[0]


def sleeps(clock: VirtualClock) -> Any:
    async def listener(messages: list[MessageExt], context: Any) -> str:
        assert (messages[0].body, context.message_queue.queue_id) == (b"hello", 0)
        clock.advance(250)
        return "CONSUME_SUCCESS"

    return listener


async def test_the_result_has_the_time_that_the_listener_took() -> None:
    clock = VirtualClock()
    assert await consume_message_directly(sleeps(clock), message(), clock, orderly=False) == {
        "autoCommit": True,
        "consumeResult": "CR_SUCCESS",
        "order": False,
        "remark": "",
        "spentTimeMills": 250,
    }


def fail(*_: Any) -> None:
    raise ValueError("no such order")


async def fail_later(*_: Any) -> None:
    raise ValueError("no such order")


async def later() -> str:
    return "RECONSUME_LATER"


@pytest.mark.parametrize(
    ("listener", "orderly", "result", "remark"),
    [
        (lambda *_: None, False, "CR_SUCCESS", ""),
        (lambda *_: "RECONSUME_LATER", False, "CR_LATER", ""),
        (lambda *_: later(), False, "CR_LATER", ""),
        (lambda *_: "SUCCESS", True, "CR_SUCCESS", ""),
        (lambda *_: "SUSPEND_CURRENT_QUEUE_A_MOMENT", True, "CR_LATER", ""),
        (lambda *_: "SUCCESS", False, "CR_THROW_EXCEPTION", "the listener returned 'SUCCESS', which is no status"),
        (lambda *_: [], False, "CR_THROW_EXCEPTION", "the listener returned [], which is no status"),
        (fail, False, "CR_THROW_EXCEPTION", "ValueError: no such order"),
        (fail_later, True, "CR_THROW_EXCEPTION", "ValueError: no such order"),
        (lambda *_: sys.exit(3), False, "CR_THROW_EXCEPTION", "SystemExit: 3"),
    ],
)
async def test_what_a_listener_returns(listener: Any, orderly: bool, result: str, remark: str) -> None:
    answer = await consume_message_directly(listener, message(), VirtualClock(), orderly=orderly)
    assert (answer["consumeResult"], answer["remark"], answer["order"]) == (result, remark, orderly)


async def test_a_long_error_is_cut_and_a_function_has_a_thread_of_its_own() -> None:
    threads = []

    def listener(*_: Any) -> None:
        threads.append(threading.current_thread())
        raise ValueError("x" * 10_000)

    answer = await consume_message_directly(listener, message(), VirtualClock(), orderly=False)
    assert len(answer["remark"]) == MAX_REMARK
    assert threads[0] is not threading.main_thread() and threads[0].daemon


async def directly(consumer: DefaultMQPushConsumer | Any, tool: Any, address: str, message_id: str) -> Any:
    fields = {"consumerGroup": "g", "clientId": consumer.instance.client_id, "topic": "orders", "msgId": message_id}
    return await tool.instance.api.connection(address).invoke(309, fields, timeout_s=20)


def test_a_tool_has_a_listener_called_and_nothing_is_committed() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox(lambda message: len(inbox.messages) > 1)
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox, client_id="me") as consumer:
            sent = await producer.send(Message("orders", b"1"))
            await inbox.until(1)
            await consumer.persist_offsets()
            answer = await directly(consumer, producer, broker.address, sent.msg_id)
            assert answer.code == 0
            assert fastjson.decode(answer.body)["consumeResult"] == "CR_LATER"
            assert inbox.bodies == [b"1", b"1"] and inbox.messages[1].topic == "orders"
            assert broker.offset("g", "orders", 0) == 1
            await asyncio.sleep(60)
            assert len(inbox.messages) == 2, "it does not come again"

    run_virtually(story)


def test_a_consumer_without_a_listener_and_a_listener_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.client.client_remoting_processor.MAX_DIRECT_CALLS", 1)

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox()
        async with producer_of(cluster) as producer:
            sent = await producer.send(Message("orders", b"1"))
            async with consumer_of(cluster, inbox, client_id="me") as consumer:
                await inbox.until(1)
                inbox.open.clear()
                first = asyncio.ensure_future(directly(consumer, producer, broker.address, sent.msg_id))
                await inbox.until(2)
                busy = await directly(consumer, producer, broker.address, sent.msg_id)
                assert busy.code == 2 and "are being consumed" in busy.remark
                late = await first
                assert late.code == 207 and "10 s" in late.remark
                inbox.open.set()
            lite = lite_consumer_of(cluster, client_id="lite")
            lite.subscribe("orders")
            async with lite:
                refused = await directly(lite, producer, broker.address, sent.msg_id)
                assert refused.code == 1 and "has no listener" in refused.remark

    run_virtually(story)
