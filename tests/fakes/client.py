"""Producers and consumers of a virtual cluster."""

import asyncio
from collections.abc import Callable
from typing import Any

from broker_core.client import (
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPullConsumer,
    DefaultMQPushConsumer,
    MessageExt,
    MQClientInstance,
)
from tests.fakes.virtual_cluster import NAMESRV, VirtualCluster


class Inbox:
    """A coroutine listener that records what it gets. ``fail`` says whether a message fails."""

    def __init__(self, fail: Callable[[MessageExt], bool] = lambda message: False) -> None:
        self.messages: list[MessageExt] = []
        self.contexts: list[Any] = []
        self.changed = asyncio.Event()
        self.fail = fail
        self.open = asyncio.Event()
        """Calls do not return while it is not set."""
        self.open.set()

    async def __call__(self, messages: list[MessageExt], context: Any) -> Any:
        self.messages += messages
        self.contexts.append(context)
        self.changed.set()
        await self.open.wait()
        return "RECONSUME_LATER" if self.fail(messages[0]) else None

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    async def until(self, count: int) -> list[bytes]:
        """Wait for so many messages; returns all bodies."""
        while len(self.messages) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.bodies


def instance_of(cluster: VirtualCluster, client_id: str = "") -> MQClientInstance:
    return MQClientInstance(NAMESRV, client_id=client_id, clock=cluster.loop)


def producer_of(cluster: VirtualCluster, **options: Any) -> DefaultMQProducer:
    return DefaultMQProducer("pg", instance=instance_of(cluster), **options)


def consumer_of(
    cluster: VirtualCluster, listener: Any, *, group: str = "g", tags: str = "*", client_id: str = "", **options: Any
) -> DefaultMQPushConsumer:
    """A consumer of topic ``orders``, not started."""
    consumer = DefaultMQPushConsumer(group, instance=instance_of(cluster, client_id), **options)
    consumer.subscribe("orders", tags)
    consumer.register_message_listener(listener)
    return consumer


def lite_consumer_of(
    cluster: VirtualCluster, *, group: str = "g", client_id: str = "", **options: Any
) -> DefaultLitePullConsumer:
    """A consumer that is neither subscribed nor assigned."""
    return DefaultLitePullConsumer(group, instance=instance_of(cluster, client_id), **options)


def pull_consumer_of(cluster: VirtualCluster, **options: Any) -> DefaultMQPullConsumer:
    return DefaultMQPullConsumer("g", instance=instance_of(cluster), **options)
