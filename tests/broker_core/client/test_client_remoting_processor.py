"""What brokers ask a client."""

import asyncio
from typing import Any

import pytest

from broker_core.client import DefaultMQPushConsumer, Message
from broker_core.client.client_remoting_processor import ClientRemotingProcessor
from broker_core.commands import MessageQueue
from broker_core.formats.commit_log_record import encode
from broker_core.remoting import fastjson
from broker_core.remoting.remoting_command import RemotingCommand
from tests.fakes.client import Inbox, consumer_of, producer_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually

ORDERS = MessageQueue(topic="orders", broker_name="a", queue_id=0)


def ask(consumer: DefaultMQPushConsumer, code: int, fields: dict[str, str], body: bytes = b"") -> Any:
    request = RemotingCommand.request(code, fields, body, opaque=7)
    answer = ClientRemotingProcessor(consumer.instance).process_request("h:1", request)
    assert answer is None or (answer.opaque == 7 and answer.is_response)
    return answer


def test_running_info_and_status() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox, tags="A") as consumer:
            await producer.send(Message("orders", b"1", "A"))
            await inbox.until(1)
            inbox.open.clear()
            await producer.send(Message("orders", b"2", "A"))
            await inbox.until(2)
            info = fastjson.decode(ask(consumer, 307, {"consumerGroup": "g"}).body)
            mine: Any = info["mqTable"]
            assert mine[ORDERS]["cachedMsgCount"] == 1 and mine[ORDERS]["cachedMsgMinOffset"] == 1
            assert mine[ORDERS]["commitOffset"] == 1 and mine[ORDERS]["droped"] is False
            assert cluster.loop.now().wall_ms - 10_000 < mine[ORDERS]["lastPullTimestamp"] <= cluster.loop.now().wall_ms
            subscriptions: Any = info["subscriptionSet"]
            assert {data["topic"]: data["subString"] for data in subscriptions} == {"orders": "A", "%RETRY%g": "*"}
            status = fastjson.decode(ask(consumer, 221, {"group": "g", "topic": "orders"}).body)
            assert status == {"messageQueueTable": {ORDERS: 1}}
            inbox.open.set()
            for code, field in ((307, "consumerGroup"), (221, "group")):
                refused = ask(consumer, code, {field: "other"})
                assert (refused.code, "no consumer of group 'other'" in refused.remark) == (1, True)

    run_virtually(story)


def test_requests_that_are_not_served_are_refused() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        consumer = consumer_of(cluster, Inbox())
        assert ask(consumer, 12345, {}).code == 3
        assert ask(consumer, 40, {"consumerGroup": "g"}) is None

    run_virtually(story)


def test_checks_of_transactions_that_nobody_can_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        consumer = consumer_of(cluster, Inbox())
        where = {"tranStateTableOffset": "0", "commitLogOffset": "0"}
        text = "PGROUP\x01nobody\x02"
        record = encode(topic="T", queue_id=0, queue_offset=0, physical_offset=0, body=b"x", properties=text)
        for fields, body in (({}, record), (where, b""), (where, record + record), (where, record[:-1])):
            assert ask(consumer, 39, fields, body) is None
            assert "that cannot be read" in caplog.text
            caplog.clear()
        ask(consumer, 39, where, record)
        assert "h:1 asked group 'nobody'" in caplog.text

    run_virtually(story)


def test_a_reset_of_offsets() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox) as consumer:
            for n in range(3):
                await producer.send(Message("orders", b"%d" % n))
            await inbox.until(3)
            for body in (b"{", b"{}", b'{"offsetTable":5}', fastjson.encode({"offsetTable": {"x": 1}})):
                assert ask(consumer, 220, {"group": "g"}, body) is None
            elsewhere = MessageQueue(topic="orders", broker_name="a", queue_id=9)
            table = {ORDERS: 1, elsewhere: 0}
            ask(consumer, 220, {"group": "other"}, fastjson.encode({"offsetTable": table}))
            ask(consumer, 220, {"group": "g"}, fastjson.encode({"offsetTable": table}))
            assert await inbox.until(5) == [b"0", b"1", b"2", b"1", b"2"]
        assert broker.offset("g", "orders", 0) == 3

    run_virtually(story)


def test_a_broker_relays_an_administrators_question() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with consumer_of(cluster, Inbox(), client_id="me") as consumer, producer_of(cluster) as producer:
            connection = producer.instance.api.connection(broker.address)
            answer = await connection.invoke(307, {"consumerGroup": "g", "clientId": "me", "jstackEnable": "false"})
            assert answer.code == 0
            assert set(fastjson.decode(answer.body)["mqTable"]) == set(consumer.rebalance.process_queues)  # type: ignore[arg-type]
            await asyncio.sleep(0)

    run_virtually(story)
