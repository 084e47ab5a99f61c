"""Producers, consumers and brokers, which join, leave, are killed and come back in any order, on one virtual clock.

What a producer was acknowledged is consumed at least once. A group's offset never passes a message whose listener has
not returned. In order, a message is consumed when all before it in its queue were, and as long as locks are not lost no
two members are at work at a queue. Nothing hangs and no task is left: when the disturbances are over, everything is
consumed.
"""

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Any, Literal, get_args

import pytest

from broker_core.client import DefaultLitePullConsumer, DefaultMQPushConsumer, Message, MessageExt, MQClientException
from broker_core.codes import RequestCode, ResponseCode
from broker_core.tasks import end_task, start_task
from tests.fakes.client import consumer_of, lite_consumer_of, producer_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually

if TYPE_CHECKING:
    from broker_core.commands import MessageQueue

Kind = Literal["concurrently", "orderly", "lite"]
QUEUES = 3
STEPS = 40
CALM_SECONDS = 600
"""Failed messages come again after 10 s, 30 s, 1 min and so on."""
REFUSABLE = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.HEART_BEAT,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.SEND_MESSAGE_V2,
)


class World:
    """One schedule. ``seen`` are the bodies that were consumed, ``finished`` the offsets whose listener returned."""

    def __init__(self, cluster: VirtualCluster, seed: int, kind: Kind) -> None:
        self.cluster = cluster
        self.kind = kind
        self.random = random.Random(seed)
        self.brokers = [cluster.add_broker("a"), cluster.add_broker("b")]
        cluster.create_topic("orders", QUEUES)
        self.dead: set[int] = set()
        self.consumers: list[DefaultMQPushConsumer | DefaultLitePullConsumer] = []
        self.readers: dict[DefaultLitePullConsumer, asyncio.Task[None]] = {}
        self.producer = producer_of(cluster)
        self.acknowledged: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.finished: dict[tuple[str, int], set[int]] = {}
        self.errors: list[AssertionError] = []
        self.number = 0
        self.at_work: set[MessageQueue] = set()
        self.exclusive = True
        """In order: no broker has forgotten its locks, and every member could renew its own."""

    async def listener_in_order(self, messages: list[MessageExt], context: object) -> str:
        """The queue's earlier messages were consumed, and nobody else is at work there."""
        message, queue = messages[0], messages[0].message_queue
        finished = self.finished.setdefault((queue.broker_name, queue.queue_id), set())
        if queue.topic == "orders":
            missing = set(range(message.queue_offset)) - finished
            assert not missing, f"{message} came before {missing}"
        assert not (self.exclusive and queue in self.at_work), f"two members are at work at {queue}"
        self.at_work.add(queue)
        try:
            await asyncio.sleep(self.random.choice((0, 0, 0.01, 1, 7)))
        finally:
            self.at_work.discard(queue)
        if self.random.random() < 0.1:
            return "SUSPEND_CURRENT_QUEUE_A_MOMENT"
        if queue.topic == "orders":
            finished.add(message.queue_offset)
        self.seen.add(message.body)
        return "SUCCESS"

    async def listener(self, messages: list[MessageExt], context: object) -> str:
        message = messages[0]
        await asyncio.sleep(self.random.choice((0, 0, 0.01, 1, 7)))
        if message.record.topic == "orders":
            self.finished.setdefault((message.broker_name, message.queue_id), set()).add(message.queue_offset)
        if self.random.random() < 0.1:
            return "RECONSUME_LATER"
        self.seen.add(message.body)
        return "CONSUME_SUCCESS"

    async def send(self) -> None:
        for _ in range(self.random.randint(1, 20)):
            self.number += 1
            body = b"%d" % self.number
            try:
                await self.producer.send(Message("orders", body), timeout_ms=500)
            except MQClientException:
                continue
            self.acknowledged.add(body)

    async def join(self) -> None:
        if len(self.consumers) < 4:
            consumer = self.make_reader() if self.kind == "lite" else self.make_listener()
            await consumer.start()
            self.consumers.append(consumer)
            if isinstance(consumer, DefaultLitePullConsumer):
                self.readers[consumer] = start_task(self.read(consumer), "poll")

    def options(self) -> dict[str, Any]:
        return {
            "client_id": f"c{self.number}-{len(self.consumers)}-{self.random.random()}",
            "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
            "pull_threshold_for_queue": self.random.choice((1, 10, 1000)),
        }

    def make_listener(self) -> DefaultMQPushConsumer:
        orderly = self.kind == "orderly"
        # in order, nobody else may be at work at a queue: its listener, which takes up to 7 s, is waited for
        wait_ms = 10_000 if orderly else 5000
        consumer = consumer_of(self.cluster, None, await_termination_millis_when_shutdown=wait_ms, **self.options())
        listener = self.listener_in_order if orderly else self.listener
        consumer.register_message_listener(self.watched(listener), orderly=orderly)
        return consumer

    def make_reader(self) -> DefaultLitePullConsumer:
        consumer = lite_consumer_of(self.cluster, **self.options())
        consumer.subscribe("orders")
        return consumer

    async def read(self, consumer: DefaultLitePullConsumer) -> None:
        """Poll for messages, which are consumed when the next poll begins."""
        while consumer.running:
            messages = await consumer.poll(1000)
            await asyncio.sleep(self.random.choice((0, 0, 0.01, 1, 7)))
            for message in messages:
                self.finished.setdefault((message.broker_name, message.queue_id), set()).add(message.queue_offset)
                self.seen.add(message.body)

    def watched(self, listener: Any) -> Any:
        """A listener whose own errors end the test: to the consumer they are failures of messages."""

        async def call(messages: list[MessageExt], context: object) -> Any:
            try:
                return await listener(messages, context)
            except AssertionError as error:
                self.errors.append(error)
                raise

        return call

    async def leave(self) -> None:
        if self.consumers:
            await self.consumers.pop(self.random.randrange(len(self.consumers))).shutdown()

    async def crash(self) -> None:
        """A consumer's process ends: nothing is committed, and nobody says goodbye."""
        if self.consumers:
            consumer = self.consumers.pop(self.random.randrange(len(self.consumers)))
            consumer.running = False
            await consumer.pull_service.stop()
            for work in consumer.rebalance.process_queues.values():
                work.dropped = True
            if isinstance(consumer, DefaultLitePullConsumer):
                await end_task(self.readers.pop(consumer))
            else:
                consumer._consume_service.executor.abort()
                for task in consumer._repeated:
                    await end_task(task)
            for task in consumer.instance._tasks:
                await end_task(task)
            await consumer.instance.api.close()

    async def kill_broker(self) -> None:
        """At most one is dead."""
        if not self.dead:
            self.exclusive = False  # a broker that starts knows no locks
            index = self.random.randrange(len(self.brokers))
            self.brokers[index].kill()
            self.dead.add(index)

    async def revive_broker(self) -> None:
        while self.dead:
            self.brokers[self.dead.pop()].start()

    async def cut_connections(self) -> None:
        for broker in self.brokers:
            for link in broker.links:
                if self.random.random() < 0.5:
                    link.abort()

    async def lose_answers(self) -> None:
        for broker in self.brokers:
            for link in broker.links:
                link.drop_answers = self.random.random() < 0.3

    async def refuse(self) -> None:
        broker = self.random.choice(self.brokers)
        broker.refuse = {code: ResponseCode.SYSTEM_BUSY for code in REFUSABLE if self.random.random() < 0.3}

    async def calm(self) -> None:
        for broker in self.brokers:
            broker.refuse.clear()
            for link in broker.links:
                link.drop_answers = False

    def check_offsets(self) -> None:
        """The listener has returned for every message before the group's offset, and has found nothing wrong."""
        assert not self.errors, self.errors
        for index, broker in enumerate(self.brokers):
            if index in self.dead:
                continue
            for queue_id in range(QUEUES):
                offset = broker.offset("g", "orders", queue_id) or 0
                passed_over = set(range(offset)) - self.finished.get((broker.name, queue_id), set())
                assert not passed_over, f"{broker.name}{queue_id}: {offset} was committed, without {passed_over}"


async def story(cluster: VirtualCluster, seed: int, kind: Kind) -> None:
    world = World(cluster, seed, kind)
    await world.producer.start()
    await world.join()
    steps: list[Any] = [world.send, world.send, world.join, world.leave, world.crash]
    if kind != "orderly" or seed % 2:  # of the schedules in order, every other one keeps its locks
        steps += [world.kill_broker, world.revive_broker]
        steps += [world.cut_connections, world.lose_answers, world.refuse, world.calm]
    for _ in range(STEPS):
        with contextlib.suppress(MQClientException):  # a start or a send that was disturbed says so
            await world.random.choice(steps)()
        await asyncio.sleep(world.random.choice((0, 0.1, 1, 10, 31)))
        world.check_offsets()
    await world.calm()
    await world.revive_broker()
    await world.join()
    for _ in range(CALM_SECONDS):
        await asyncio.sleep(1)
        world.check_offsets()
        if world.acknowledged <= world.seen:
            break
    assert world.acknowledged <= world.seen
    for consumer in world.consumers:
        await consumer.shutdown()
    await world.producer.shutdown()
    world.check_offsets()
    await asyncio.sleep(10)  # a listener may have been left alone
    assert not asyncio.all_tasks() - {asyncio.current_task()}


@pytest.mark.seeds(10)
@pytest.mark.parametrize("kind", get_args(Kind))
def test_nothing_acknowledged_is_lost(seed: int, kind: Kind) -> None:
    logging.getLogger("broker_core.client").setLevel(logging.CRITICAL)
    try:
        run_virtually(lambda cluster: story(cluster, seed, kind), seed)
    finally:
        logging.getLogger("broker_core.client").setLevel(logging.NOTSET)
