"""Which queues are given up and taken, and that giving up commits."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.client import DefaultMQPushConsumer, Message, MessageExt
from broker_core.client.consumer.process_queue import PULL_MAX_IDLE_NS, ProcessQueue
from broker_core.client.consumer.rebalance_impl import compare
from broker_core.codes import RequestCode, ResponseCode
from broker_core.commands import GetConsumerListByGroup, MessageQueue
from tests.fakes.client import Inbox, consumer_of, lite_consumer_of, producer_of
from tests.fakes.engine import context_of
from tests.fakes.virtual_cluster import NAMESRV, VirtualBroker, VirtualCluster, run_virtually

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
            consumer.pull_service._pull_message = consumer.pulls.pull_message
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


def test_the_offset_of_a_new_group_is_stored_before_start_returns() -> None:
    """The member that gets the queue next may ask for it before this one has committed anything."""

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"old"))
            broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.QUERY_NOT_FOUND
            async with consumer_of(cluster, Inbox()):
                assert broker.offset("g", "orders", 0) == 1

    run_virtually(story)


def test_a_message_that_arrives_between_the_questions_for_an_offset_is_consumed() -> None:
    """As at RocketMQ, which has no offset of a new group: the client asks for the queue's end, too."""

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.QUERY_NOT_FOUND
        inbox = Inbox()
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"old"))
            consumer = consumer_of(cluster, inbox)
            api = consumer.instance.api
            query_consumer_offset = api.query_consumer_offset

            async def query_and_send(address: str, group: str, queue: MessageQueue, **options: Any) -> int | None:
                offset = await query_consumer_offset(address, group, queue, **options)
                if queue.topic == "orders":
                    await producer.send(Message("orders", b"in between"))
                return offset

            api.query_consumer_offset = query_and_send  # type: ignore[method-assign]
            async with consumer:
                await producer.send(Message("orders", b"later"))
                assert await inbox.until(2) == [b"in between", b"later"]

    run_virtually(story)


def test_queues_that_are_taken_after_the_start_are_read_from_its_time() -> None:
    """Of a new queue, and of one whose broker did not answer, no message is missed that was sent since the start."""

    async def story(cluster: VirtualCluster) -> None:
        broker, later = cluster.add_broker("a"), cluster.add_broker("b")
        cluster.create_topic("orders", 1, [broker])
        inbox = Inbox()
        async with producer_of(cluster) as producer:
            await producer.send(Message("orders", b"old"))
            await asyncio.sleep(1)
            broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.SYSTEM_BUSY
            async with consumer_of(cluster, inbox) as consumer:
                await producer.send(Message("orders", b"1"))
                broker.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.QUERY_NOT_FOUND
                later.refuse[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.QUERY_NOT_FOUND
                cluster.create_topic("orders", 1, [later])
                await producer.instance.update_topic_route("orders")
                queue = MessageQueue(topic="orders", broker_name="b", queue_id=0)
                await producer.send(Message("orders", b"2"), queue=queue)
                await asyncio.sleep(31)
                assert await inbox.until(2) == [b"1", b"2"]
                assert len(consumer.rebalance.process_queues) == 3

    run_virtually(story)


class Ordered:
    """A coroutine listener of several consumers, which takes ``seconds``. It notes calls for one queue at a time."""

    def __init__(self, seconds: float = 0) -> None:
        self.bodies: list[bytes] = []
        self.seconds = seconds
        self.at_work: set[MessageQueue] = set()

    async def __call__(self, messages: list[MessageExt], context: object) -> None:
        queue = messages[0].message_queue
        assert queue not in self.at_work
        self.at_work.add(queue)
        await asyncio.sleep(self.seconds)
        self.at_work.discard(queue)
        self.bodies += [message.body for message in messages]


def orderly_consumer_of(cluster: VirtualCluster, listener: Any, **options: Any) -> DefaultMQPushConsumer:
    consumer = consumer_of(cluster, None, consume_from_where="CONSUME_FROM_FIRST_OFFSET", **options)
    consumer.register_message_listener(listener, orderly=True)
    return consumer


def locked_for(broker: VirtualBroker, queue_id: int = 0) -> str | None:
    return context_of(broker.engine).locks.owner("g", "orders", queue_id)


def test_queues_are_locked_before_they_are_consumed_in_order() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        locks = context_of(broker.engine).locks
        locks.try_lock("g", "orders", 0, "another", cluster.loop.mono_ns())
        listener = Ordered()
        async with producer_of(cluster) as producer, orderly_consumer_of(cluster, listener, client_id="c"):
            for n in range(5):
                await producer.send(Message("orders", b"%d" % n))
            await asyncio.sleep(30)
            assert listener.bodies == []
            locks.unlock("g", "orders", 0, "another")
            await asyncio.sleep(2)
            assert listener.bodies == [b"%d" % n for n in range(5)]
            await asyncio.sleep(300)
            assert locked_for(broker) == "c"  # renewed
        assert locked_for(broker) is None
        assert broker.offset("g", "orders", 0) == 5

    run_virtually(story)


def test_a_queue_changes_its_owner_when_the_listener_has_returned() -> None:
    """No other member calls its listener for the queue before that, also if this takes minutes."""

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 2)
        listener = Ordered(seconds=100)
        queue = MessageQueue(topic="orders", broker_name="a", queue_id=1)
        async with producer_of(cluster) as producer, orderly_consumer_of(cluster, listener, client_id="c1") as first:
            for n in range(3):
                await producer.send(Message("orders", b"%d" % n), queue=queue)
            await asyncio.sleep(2)
            async with orderly_consumer_of(cluster, listener, client_id="c2") as second:
                await asyncio.sleep(95)
                assert queue not in first.rebalance.process_queues
                assert queue not in second.rebalance.process_queues
                assert locked_for(broker, 1) == "c1"  # and renewed, or it would have ended by now
                listener.seconds = 1
                await asyncio.sleep(10)
                assert queue in second.rebalance.process_queues and locked_for(broker, 1) == "c2"
                assert listener.bodies == [b"0", b"0", b"1", b"2"]

    run_virtually(story)


def test_a_lock_that_is_lost_ends_the_consumption_without_a_commit() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        listener = Ordered(seconds=3)
        async with producer_of(cluster) as producer, orderly_consumer_of(cluster, listener, client_id="c"):
            for n in range(20):
                await producer.send(Message("orders", b"%d" % n))
            await asyncio.sleep(22)
            locks, now_ns = context_of(broker.engine).locks, cluster.loop.mono_ns()
            locks.unlock("g", "orders", 0, "c")
            locks.try_lock("g", "orders", 0, "another", now_ns)
            await asyncio.sleep(19)  # the next renewal fails, while the listener is at work
            assert listener.at_work
            context_of(broker.engine).offsets.commit("g", "orders", 0, 15)  # what the new owner has consumed
            await asyncio.sleep(30)
            calls = len(listener.bodies)
            assert broker.offset("g", "orders", 0) == 15
            locks.unlock("g", "orders", 0, "another")
            await asyncio.sleep(30)
            assert listener.bodies[calls:] == [b"%d" % n for n in range(15, 20)]

    run_virtually(story)


def test_locks_that_cannot_be_renewed_are_not_relied_on() -> None:
    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 1)
        listener = Ordered(seconds=1)
        async with producer_of(cluster) as producer, orderly_consumer_of(cluster, listener, client_id="c"):
            await asyncio.sleep(22)
            broker.refuse[RequestCode.LOCK_BATCH_MQ] = ResponseCode.SYSTEM_BUSY
            for n in range(50):
                await producer.send(Message("orders", b"%d" % n))
            await asyncio.sleep(60)
            assert len(set(listener.bodies)) < 32
            consumed = len(listener.bodies)
            await asyncio.sleep(60)
            assert len(listener.bodies) == consumed
            broker.refuse.clear()
            await asyncio.sleep(90)
            assert list(dict.fromkeys(listener.bodies)) == [b"%d" % n for n in range(50)]

    run_virtually(story)


@pytest.mark.parametrize("mode", ["subscribe", "assign"])
def test_a_topic_whose_route_is_unknown_does_not_stop_the_others(mode: str) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 4)
        queues = [MessageQueue(topic="orders", broker_name="a", queue_id=number) for number in range(4)]
        missing = MessageQueue(topic="missing", broker_name="a", queue_id=0)
        leaves, stays = (lite_consumer_of(cluster, client_id=name) for name in "xy")
        for consumer in (leaves, stays):
            if mode == "subscribe":
                consumer.subscribe("missing")
                consumer.subscribe("orders")
            else:
                consumer.assign([missing, *queues[:2]])
            await consumer.start()
        await asyncio.sleep(30)
        assert len(stays.assignment()) == 2
        del cluster.loop.servers[NAMESRV]
        await stays.instance.api.connection(NAMESRV).close()
        await leaves.shutdown()
        if mode == "assign":
            stays.assign([missing, *queues])
        await asyncio.sleep(60)
        assert set(stays.assignment()) == set(queues)
        await stays.shutdown()

    run_virtually(story)


def test_a_list_of_members_without_this_one_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(cluster: VirtualCluster) -> None:
        cluster.add_broker()
        cluster.create_topic("orders", 4)
        async with consumer_of(cluster, Inbox(), client_id="c1") as consumer:
            held = dict(consumer.rebalance.process_queues)
            ids: list[str] = []

            async def members(topic: str, group: str) -> list[str]:
                return ids

            monkeypatch.setattr(consumer.instance, "find_consumer_id_list", members)
            for wrong in ([], ["c0", "c2"]):
                ids[:] = wrong
                assert not await consumer.rebalance.do_rebalance()
                assert (consumer.rebalance.process_queues, any(work.dropped for work in held.values())) == (held, False)
            ids[:] = ["c1", "c2"]
            assert await consumer.rebalance.do_rebalance()
            assert len(consumer.rebalance.process_queues) == 3

    run_virtually(story)


@pytest.mark.parametrize("down_s", [0, 0.9, 4, 11])
def test_members_keep_their_queues_when_their_broker_is_restarted(down_s: float) -> None:
    """A broker that was just started knows no member. Each one registers when it connects again, and nobody believes a
    list without itself."""

    async def story(cluster: VirtualCluster) -> None:
        broker = cluster.add_broker()
        cluster.create_topic("orders", 4)
        first, second = (consumer_of(cluster, Inbox(), client_id=name) for name in ("c1", "c2"))
        async with first:
            await asyncio.sleep(7)  # their timers are not in step
            async with second:
                await asyncio.sleep(5)
                held = {**first.rebalance.process_queues, **second.rebalance.process_queues}
                assert len(held) == 5
                broker.kill()
                await asyncio.sleep(down_s)
                broker.start()
                await asyncio.sleep(1.1)  # a pull is repeated after 1 s, but heartbeats every 30 s
                answer = broker.ask(GetConsumerListByGroup(group="g"))
                assert sorted(answer.client_ids) == ["c1", "c2"]  # type: ignore[attr-defined]
                await asyncio.sleep(70)
                assert not any(work.dropped for work in held.values())
                assert held == {**first.rebalance.process_queues, **second.rebalance.process_queues}

    run_virtually(story)
