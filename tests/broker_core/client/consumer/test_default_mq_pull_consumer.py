"""Pulls by hand at real engines, on a virtual clock."""

import asyncio

import pytest

from broker_core.client import DefaultMQPullConsumer, Message, MessageQueue, MQBrokerException, MQClientException
from tests.fakes.client import instance_of, producer_of, pull_consumer_of
from tests.fakes.virtual_cluster import PULL, UPDATE_OFFSET, VirtualBroker, VirtualCluster, run_virtually

QUEUE = MessageQueue(topic="orders", broker_name="a", queue_id=0)


async def filled(cluster: VirtualCluster, count: int) -> VirtualBroker:
    broker = cluster.add_broker()
    cluster.create_topic("orders", 1)
    async with producer_of(cluster) as producer:
        for n in range(count):
            await producer.send(Message("orders", b"%d" % n, "even" if n % 2 == 0 else "odd"))
    return broker


def test_a_pull_says_what_there_is() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await filled(cluster, 5)
        async with pull_consumer_of(cluster) as consumer:
            assert await consumer.fetch_subscribe_message_queues("orders") == [QUEUE]
            result = await consumer.pull(QUEUE, "*", 0, 3)
            assert [message.body for message in result.messages] == [b"0", b"1", b"2"]
            assert result[:4] == ("FOUND", 3, 0, 5)
            odd = await consumer.pull(QUEUE, "odd", 0, 32)
            assert [message.body for message in odd.messages] == [b"1", b"3"]
            assert (await consumer.pull(QUEUE, "none", 0, 32))[:2] == ("NO_MATCHED_MSG", 5)
            assert (await consumer.pull(QUEUE, "*", 5, 32))[:2] == ("NO_NEW_MSG", 5)
            assert (await consumer.pull(QUEUE, "*", 99, 32))[:2] == ("OFFSET_ILLEGAL", 5)
            assert (await consumer.min_offset(QUEUE), await consumer.max_offset(QUEUE)) == (0, 5)
            assert await consumer.search_offset(QUEUE, 0) == 0

    run_virtually(story)


def test_a_pull_that_finds_nothing_may_be_held() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = await filled(cluster, 1)
        async with pull_consumer_of(cluster) as consumer, producer_of(cluster) as producer:
            begin = cluster.loop.time()
            assert (await consumer.pull_block_if_not_found(QUEUE, "*", 1, 32)).status == "NO_NEW_MSG"
            assert cluster.loop.time() - begin == pytest.approx(20, abs=0.1)
            pull = asyncio.ensure_future(consumer.pull_block_if_not_found(QUEUE, "*", 1, 32))
            await asyncio.sleep(3)
            await producer.send(Message("orders", b"woken"))
            assert [message.body for message in (await pull).messages] == [b"woken"]
            assert [request.ext_fields["sysFlag"] for request in broker.sent(PULL)] == ["6", "6"]
            broker.ignore.add(PULL)
            begin = cluster.loop.time()
            with pytest.raises(TimeoutError):
                await consumer.pull_block_if_not_found(QUEUE, "*", 2, 32)
            assert cluster.loop.time() - begin == pytest.approx(30, abs=0.1)
            begin = cluster.loop.time()
            with pytest.raises(TimeoutError):
                await consumer.pull(QUEUE, "*", 2, 32)
            assert cluster.loop.time() - begin == pytest.approx(10, abs=0.1)

    run_virtually(story)


def test_the_program_keeps_the_offsets() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = await filled(cluster, 3)
        async with pull_consumer_of(cluster) as consumer:
            assert await consumer.fetch_consume_offset(QUEUE) is None
            await consumer.pull(QUEUE, "*", 0, 32)
            await asyncio.sleep(60)
            assert broker.sent(UPDATE_OFFSET) == []
            consumer.update_consume_offset(QUEUE, 2)
            assert await consumer.fetch_consume_offset(QUEUE) == 2
            assert await consumer.fetch_consume_offset(QUEUE, from_store=True) is None
            await asyncio.sleep(6)
            assert broker.offset("g", "orders", 0) == 2
            consumer.update_consume_offset(QUEUE, 3)
        assert broker.offset("g", "orders", 0) == 3

    run_virtually(story)


def test_a_message_is_sent_back() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = await filled(cluster, 1)
        async with pull_consumer_of(cluster) as consumer:
            result = await consumer.pull(QUEUE, "*", 0, 32)
            await consumer.send_message_back(result.messages[0], -1)
        assert broker.engine.queue_view("%DLQ%g", 0).max_offset == 1

    run_virtually(story)


def test_set_up_and_pulls_that_are_wrong() -> None:
    async def story(cluster: VirtualCluster) -> None:
        await filled(cluster, 1)
        instance = instance_of(cluster)
        times = {"broker_suspend_max_time_millis": 30_000}
        with pytest.raises(MQClientException, match="must be greater than broker_suspend_max_time_millis"):
            DefaultMQPullConsumer("g", instance=instance, **times)
        consumer = DefaultMQPullConsumer("g", instance=instance)
        with pytest.raises(MQClientException, match="not running"):
            await consumer.pull(QUEUE, "*", 0, 32)
        async with consumer:
            with pytest.raises(MQClientException, match="running already"):
                await consumer.start()
            for arguments, problem in (
                ((QUEUE, "*", -1, 32), "offset"),
                ((QUEUE, "*", 0, 0), "max_nums"),
                ((QUEUE, "||", 0, 1), "contains no tag"),
                ((MessageQueue(topic="a b", broker_name="a", queue_id=0), "*", 0, 1), "topic"),
                ((MessageQueue(topic="orders", broker_name="b", queue_id=0), "*", 0, 1), "master of broker 'b'"),
            ):
                with pytest.raises(MQClientException, match=problem):
                    await consumer.pull(*arguments)
            with pytest.raises(MQBrokerException):
                await consumer.pull(MessageQueue(topic="orders", broker_name="a", queue_id=9), "*", 0, 1)

    run_virtually(story)
