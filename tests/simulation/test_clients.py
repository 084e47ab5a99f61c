"""Producers, consumers and brokers, which join, leave, are killed and come back in any order, on one virtual clock.

What a producer was acknowledged is consumed at least once. A group's offset never passes a message whose listener has
not returned. Nothing hangs and no task is left: when the disturbances are over, everything is consumed.
"""

import asyncio
import contextlib
import logging
import random

import pytest

from broker_core.client import DefaultMQPushConsumer, Message, MessageExt, MQClientException
from broker_core.codes import RequestCode, ResponseCode
from broker_core.tasks import end_task
from tests.fakes.client import consumer_of, producer_of
from tests.fakes.virtual_cluster import VirtualCluster, run_virtually

QUEUES = 3
STEPS = 40
CALM_SECONDS = 600
"""Failed messages come again after 10 s, 30 s, 1 min and so on."""
REFUSABLE = (
    RequestCode.PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.HEART_BEAT,
    RequestCode.SEND_MESSAGE_V2,
)


class World:
    """One schedule. ``seen`` are the bodies that were consumed, ``finished`` the offsets whose listener returned."""

    def __init__(self, cluster: VirtualCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self.brokers = [cluster.add_broker("a"), cluster.add_broker("b")]
        cluster.create_topic("orders", QUEUES)
        self.dead: set[int] = set()
        self.consumers: list[DefaultMQPushConsumer] = []
        self.producer = producer_of(cluster)
        self.acknowledged: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.finished: dict[tuple[str, int], set[int]] = {}
        self.number = 0

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
            consumer = consumer_of(
                self.cluster,
                self.listener,
                client_id=f"c{self.number}-{len(self.consumers)}-{self.random.random()}",
                consume_from_where="CONSUME_FROM_FIRST_OFFSET",
                pull_threshold_for_queue=self.random.choice((1, 10, 1000)),
            )
            await consumer.start()
            self.consumers.append(consumer)

    async def leave(self) -> None:
        if self.consumers:
            await self.consumers.pop(self.random.randrange(len(self.consumers))).shutdown()

    async def crash(self) -> None:
        """A consumer's process ends: nothing is committed, and nobody says goodbye."""
        if self.consumers:
            consumer = self.consumers.pop(self.random.randrange(len(self.consumers)))
            consumer.running = False
            await consumer.pull_service.stop()
            for task in (consumer._clean_task, *consumer.instance._tasks):
                await end_task(task)
            for work in consumer.rebalance.process_queues.values():
                work.dropped = True
            await consumer.instance.api.close()

    async def kill_broker(self) -> None:
        """At most one is dead."""
        if not self.dead:
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
        """The listener has returned for every message before the group's offset."""
        for index, broker in enumerate(self.brokers):
            if index in self.dead:
                continue
            for queue_id in range(QUEUES):
                offset = broker.offset("g", "orders", queue_id) or 0
                passed_over = set(range(offset)) - self.finished.get((broker.name, queue_id), set())
                assert not passed_over, f"{broker.name}{queue_id}: {offset} was committed, without {passed_over}"


async def story(cluster: VirtualCluster, seed: int) -> None:
    world = World(cluster, seed)
    await world.producer.start()
    await world.join()
    steps = (world.send, world.send, world.join, world.leave, world.crash, world.kill_broker, world.revive_broker)
    disturbances = (world.cut_connections, world.lose_answers, world.refuse, world.calm)
    for _ in range(STEPS):
        with contextlib.suppress(MQClientException):  # a start or a send that was disturbed says so
            await world.random.choice(steps + disturbances)()
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
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    logging.getLogger("broker_core.client").setLevel(logging.ERROR)
    try:
        run_virtually(lambda cluster: story(cluster, seed), seed)
    finally:
        logging.getLogger("broker_core.client").setLevel(logging.NOTSET)
