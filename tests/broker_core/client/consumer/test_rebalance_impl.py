"""Which queues are given up and taken, and that giving up commits."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from broker_core.client import Message
from broker_core.client.consumer.process_queue import PULL_MAX_IDLE_NS, ProcessQueue
from broker_core.client.consumer.rebalance_impl import compare
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import MessageQueue
from tests.fakes.client import Inbox, consumer_of, producer_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually

QUEUES = st.sets(st.integers(0, 9).map(lambda n: MessageQueue(topic="T", broker_name="a", queue_id=n)))


@given(assigned=QUEUES, fresh=QUEUES, expired=QUEUES)
def test_the_changes_lead_to_what_is_assigned(
    assigned: set[MessageQueue], fresh: set[MessageQueue], expired: set[MessageQueue]
) -> None:
    held = {queue: ProcessQueue(0) for queue in expired} | {queue: ProcessQueue(1) for queue in fresh}
    changes = compare(assigned, held, PULL_MAX_IDLE_NS + 1)
    assert set(held) - set(changes.dropped) | set(changes.added) == assigned
    assert set(changes.dropped) == set(held) - assigned | expired - fresh
    assert not (set(changes.added) & set(held)) - set(changes.dropped)


def test_without_a_list_of_members_the_queues_stay() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 2)
        async with consumer_of(cluster, Inbox()) as consumer:
            broker.refuse[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = ResponseCode.SYSTEM_ERROR
            assert not await consumer.rebalance.do_rebalance()
            assert len(consumer.rebalance.process_queues) == 3
            await asyncio.sleep(60)
            assert len(consumer.rebalance.process_queues) == 3

    run_virtually(story)


def test_a_queue_whose_offset_cannot_be_found_is_taken_later() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.SYSTEM_BUSY
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox) as consumer:
            await asyncio.sleep(5)
            assert not consumer.rebalance.process_queues
            broker.refuse.clear()
            await asyncio.sleep(1.1)  # an unfinished round is repeated after a second
            assert len(consumer.rebalance.process_queues) == 2
            await producer.send(Message("orders", b"x"))
            await inbox.until(1)

    run_virtually(story)


def test_a_queue_whose_pull_was_lost_is_taken_again() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 1)
        inbox = Inbox()
        async with producer_of(cluster) as producer, consumer_of(cluster, inbox) as consumer:
            consumer.pull_service._pull_message = lambda request: None
            await asyncio.sleep(2)
            consumer.pull_service._pull_message = consumer.pull_message
            await producer.send(Message("orders", b"x"))
            begin = cluster.loop.time()
            await inbox.until(1)
            assert 110 < cluster.loop.time() - begin < 145

    run_virtually(story)


def test_queues_are_taken_in_the_order_in_which_they_are_assigned() -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 16)
        async with consumer_of(cluster, Inbox()) as consumer:
            taken = [queue.queue_id for queue in consumer.rebalance.process_queues if queue.topic == "orders"]
            assert taken == list(range(16))

    run_virtually(story)
