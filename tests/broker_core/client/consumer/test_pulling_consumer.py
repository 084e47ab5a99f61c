"""What both consumers that pull in the background do alike."""

import asyncio
from typing import Any

import pytest

from broker_core.client import MessageQueue, MQBrokerException, MQClientException
from broker_core.codes import RequestCode
from tests.fakes.client import Inbox, consumer_of, lite_consumer_of
from tests.fakes.virtual_cluster import NAMESRV, VirtualCluster, run_virtually


def push_of(cluster: VirtualCluster) -> Any:
    return consumer_of(cluster, Inbox())


def lite_of(cluster: VirtualCluster) -> Any:
    consumer = lite_consumer_of(cluster)
    consumer.subscribe("orders")
    return consumer


@pytest.mark.parametrize("make", [push_of, lite_of])
def test_a_start_that_fails_leaves_nothing_and_can_be_repeated(make: Any) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 2)
        consumer = make(cluster)
        server = cluster.loop.servers.pop(NAMESRV)
        with pytest.raises(MQClientException, match="no name server answers"):
            await consumer.start()
        assert (consumer.running, consumer.instance.consumers) == (False, {})
        cluster.loop.servers[NAMESRV] = server
        async with consumer:
            assert (consumer.started, len(consumer.rebalance.process_queues)) == (True, 3)
            for change in (lambda: consumer.subscribe("others"), lambda: consumer._require_stopped()):
                with pytest.raises(MQClientException, match="running already"):
                    change()
        assert (consumer.started, consumer.rebalance.process_queues) == (False, {})

    run_virtually(story)


@pytest.mark.parametrize("make", [push_of, lite_of])
def test_a_refused_expression_leaves_nothing_at_the_broker(make: Any) -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 2)
        consumer = make(cluster)
        consumer.subscribe("orders", "size >", "SQL92")
        with pytest.raises(MQBrokerException, match=r"answered SUBSCRIPTION_PARSE_FAILED \(23\): 'size >' is no"):
            await consumer.start()
        assert (consumer.running, consumer.instance.consumers) == (False, {})
        assert [request.code for request in broker.requests] == [RequestCode.CHECK_CLIENT_CONFIG]
        assert [link.is_closing() for link in broker.links] == [True]
        consumer.subscribe("orders", "size > 3", "SQL92")
        async with consumer:  # a broker creates the retry topic with the group, and its queue is taken at once
            assert len(consumer.rebalance.process_queues) == 3

    run_virtually(story)


@pytest.mark.parametrize("make", [push_of, lite_of])
def test_a_listener_learns_which_queues_a_rebalance_assigns(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 4)
        told: list[tuple[str, int, list[int]]] = []

        def listener(topic: str, queues: list[MessageQueue], assigned: list[MessageQueue]) -> None:
            told.append((topic, len(queues), [queue.queue_id for queue in assigned]))
            raise ValueError("it is logged, and no more")

        consumer = make(cluster)
        consumer.register_message_queue_listener(listener)
        async with consumer:
            assert told == [("orders", 4, [0, 1, 2, 3])]
            await asyncio.sleep(60)
            assert len(told) == 1
            async with make(cluster):
                await asyncio.sleep(5)
                assert (len(told), len(told[1][2])) == (2, 2)
            await asyncio.sleep(5)
            assert told[2:] == [("orders", 4, [0, 1, 2, 3])]

    run_virtually(story)
    assert caplog.text.count("the message queue listener of group g failed at topic orders") == 3


def test_queues_that_the_program_assigns_are_not_reported() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 4)
        consumer, told = lite_consumer_of(cluster), []
        consumer.register_message_queue_listener(lambda *changed: told.append(changed))
        consumer.assign([MessageQueue(topic="orders", broker_name="a", queue_id=0)])
        async with consumer:
            assert (len(consumer.rebalance.process_queues), told) == (1, [])

    run_virtually(story)
