"""Which queues a consumer has: those that it must give up, those that it takes, and where it begins to read them."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_message_service import PullRequest
from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue

if TYPE_CHECKING:
    from broker_core.client.consumer.default_mq_push_consumer import DefaultMQPushConsumer

log = logging.getLogger(__name__)

RETRY_PREFIX = "%RETRY%"
FIRST_PULL_DELAY_MS = 500
"""Between a rebalance and the first pull of a new queue: its last owner commits in this time."""


class Changes(NamedTuple):
    """What a rebalance changes. A queue whose pull was lost is in both: it is given up and taken again."""

    dropped: list[MessageQueue]
    added: list[MessageQueue]


def compare(assigned: Collection[MessageQueue], held: Mapping[MessageQueue, ProcessQueue], now_ns: int) -> Changes:
    """The changes from the queues that a consumer holds to those that are assigned to it."""
    dropped = [queue for queue, work in held.items() if queue not in assigned or work.is_pull_expired(now_ns)]
    return Changes(dropped, [queue for queue in assigned if queue not in held or queue in dropped])


class RebalanceImpl:
    """RocketMQ's RebalancePushImpl. ``process_queues`` are the consumer's queues now."""

    def __init__(self, consumer: "DefaultMQPushConsumer") -> None:
        self._consumer = consumer
        self._turn = asyncio.Lock()
        self.process_queues: dict[MessageQueue, ProcessQueue] = {}

    async def do_rebalance(self) -> bool:
        """Take and give up queues of all topics. Returns False if something has to be tried again soon."""
        async with self._turn:
            finished = True
            for topic in self._consumer.subscriptions:
                finished &= await self._rebalance_topic(topic)
            return finished

    async def _rebalance_topic(self, topic: str) -> bool:
        consumer, instance = self._consumer, self._consumer.instance
        queues = instance.subscribed_queues(topic)
        if queues is None:
            if not await instance.update_topic_route(topic):
                if not topic.startswith(RETRY_PREFIX):
                    log.warning("group %s subscribes to topic %s, which no name server knows", consumer.group, topic)
                return True
            queues = instance.subscribed_queues(topic) or []
        try:
            members = await instance.find_consumer_id_list(topic, consumer.group)
        except MQClientException as error:
            log.warning("group %s keeps its queues of %s: %s", consumer.group, topic, error)
            return False
        assigned = consumer.allocate(queues, members, instance.client_id) if queues else []
        return await self._update(topic, dict.fromkeys(assigned))

    async def _update(self, topic: str, assigned: Collection[MessageQueue]) -> bool:
        held = {queue: work for queue, work in self.process_queues.items() if queue.topic == topic}
        changes = compare(assigned, held, self._consumer.instance.clock.mono_ns())
        await self.give_up(changes.dropped)
        results = await asyncio.gather(*(self._take(queue) for queue in changes.added))
        return all(results)

    async def give_up(self, queues: Collection[MessageQueue]) -> None:
        """Stop consuming these queues, and commit what was consumed of them."""
        for queue in queues:
            self.process_queues.pop(queue).dropped = True
        store = self._consumer.offset_store
        await store.persist(queues)
        for queue in queues:
            store.remove_offset(queue)
        if queues:
            log.info("group %s gave up %d queues", self._consumer.group, len(queues))

    async def give_up_all(self) -> None:
        """The consumer ends."""
        async with self._turn:
            await self.give_up(list(self.process_queues))

    async def restart_from(self, queue: MessageQueue, offset: int) -> None:
        """The broker says that the group's offset is another one: give the queue up, and take it again from there."""
        async with self._turn:
            if queue not in self.process_queues:
                return
            self._consumer.offset_store.update_offset(queue, offset)
            await self.give_up([queue])
        self._consumer.instance.rebalance_service.wakeup()

    async def _take(self, queue: MessageQueue) -> bool:
        """Begin to pull a queue. Returns False if its offset cannot be found now."""
        consumer = self._consumer
        try:
            offset = await self._compute_pull_from_where(queue)
        except (OSError, MQClientException) as error:
            log.warning("group %s cannot find its offset of %s yet: %s", consumer.group, queue, error)
            return False
        if not consumer.running:
            return True
        work = self.process_queues[queue] = ProcessQueue(consumer.instance.clock.mono_ns())
        consumer.pull_service.execute_pull_request_later(PullRequest(queue, work, offset), FIRST_PULL_DELAY_MS)
        return True

    async def _compute_pull_from_where(self, queue: MessageQueue) -> int:
        """The group's offset; for a new group, the one that ``consume_from_where`` asks for.

        The offset that a new group begins at is noted at once, so that a restart begins there too, whatever has
        arrived since.
        """
        consumer, api = self._consumer, self._consumer.instance.api
        stored = await consumer.offset_store.read_store(queue)
        if stored is not None:
            return stored
        if queue.topic.startswith(RETRY_PREFIX) or consumer.config.consume_from_where == "CONSUME_FROM_FIRST_OFFSET":
            return 0
        address = consumer.instance.broker_address(queue.broker_name)
        if consumer.config.consume_from_where == "CONSUME_FROM_TIMESTAMP":
            offset = await api.search_offset(address, queue, consumer.consume_timestamp_ms)
        else:
            offset = await api.get_max_offset(address, queue)
        consumer.offset_store.update_offset(queue, offset)
        return offset
