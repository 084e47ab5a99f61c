"""Which queues a consumer has: those that it must give up, those that it takes, and where it begins to read them."""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_message_service import PullRequest
from broker_core.client.consumer.queue_locks import QueueLocks
from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue

if TYPE_CHECKING:
    from broker_core.client.consumer.pulling_consumer import PullingConsumer

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
    """RocketMQ's RebalancePushImpl and RebalanceLitePullImpl. ``process_queues`` are the consumer's queues now.

    A consumer in broadcasting mode has all queues; otherwise the members of its group share them.

    A queue that is consumed in order is locked before it is taken, and unlocked when its listener has returned, so that
    no other member calls its listener meanwhile.
    """

    def __init__(self, consumer: "PullingConsumer") -> None:
        self._consumer = consumer
        self._turn = asyncio.Lock()
        self._locks = QueueLocks(consumer.instance, consumer.group)
        self._at_work: dict[MessageQueue, ProcessQueue] = {}
        """Queues that were given up while their listener was at work; their locks are kept until it returns."""
        self.process_queues: dict[MessageQueue, ProcessQueue] = {}

    async def do_rebalance(self) -> bool:
        """Take and give up queues of all topics. Returns False if something has to be tried again soon."""
        async with self._turn:
            finished = True
            for topic in list(self._consumer.subscriptions):
                finished &= await self._try(topic, self._rebalance_topic(topic))
            return finished

    async def assign(self, queues: Collection[MessageQueue]) -> bool:
        """Have these queues and no others. Returns False if one could not be taken yet."""
        async with self._turn:
            finished = True
            for topic in dict.fromkeys(queue.topic for queue in (*queues, *self.process_queues)):
                finished &= await self._try(topic, self._assign_topic(topic, queues))
            return finished

    async def _try(self, topic: str, work: Awaitable[bool]) -> bool:
        """What ``work`` returns; False if it fails, so that the other topics are rebalanced all the same."""
        try:
            return await work
        except (OSError, MQClientException) as error:
            log.warning("group %s could not rebalance topic %s: %s", self._consumer.group, topic, error)
            return False

    async def _assign_topic(self, topic: str, queues: Collection[MessageQueue]) -> bool:
        if self._consumer.instance.subscribed_queues(topic) is None:
            await self._consumer.instance.update_topic_route(topic)
        return await self._update(topic, [queue for queue in queues if queue.topic == topic])

    async def _rebalance_topic(self, topic: str) -> bool:
        consumer, instance = self._consumer, self._consumer.instance
        queues = instance.subscribed_queues(topic)
        if queues is None:
            if not await instance.update_topic_route(topic):
                if not topic.startswith(RETRY_PREFIX):
                    log.warning("group %s subscribes to topic %s, which no name server knows", consumer.group, topic)
                return True
            queues = instance.subscribed_queues(topic) or []
        if consumer.broadcasting:
            return await self._update(topic, queues, queues)
        try:
            members = await instance.find_consumer_id_list(topic, consumer.group)
        except MQClientException as error:
            log.warning("group %s keeps its queues of %s: %s", consumer.group, topic, error)
            return False
        if instance.client_id not in members:  # a broker that was restarted lists those that have come back so far
            log.info("group %s keeps its queues of %s: its broker does not list this member yet", consumer.group, topic)
            return False
        assigned = consumer.allocate(queues, members, instance.client_id) if queues else []
        return await self._update(topic, assigned, queues)

    async def _update(
        self, topic: str, queues: Iterable[MessageQueue], every_queue: list[MessageQueue] | None = None
    ) -> bool:
        """RocketMQ's updateProcessQueueTableInRebalance. Returns False if a queue could not be taken yet.

        ``every_queue`` of the topic, if this is a rebalance, which is reported.
        """
        assigned = dict.fromkeys(queues)
        held = {queue: work for queue, work in self.process_queues.items() if queue.topic == topic}
        changes = compare(assigned, held, self._consumer.instance.clock.mono_ns())
        await self.give_up(changes.dropped)
        begin_ns = self._consumer.instance.clock.mono_ns()
        free = [queue for queue in changes.added if queue not in self._at_work]
        if self._needs_locks:
            locked = await self._locks.lock(free)
            free = [queue for queue in free if locked.get(queue)]
        results = await asyncio.gather(*(self._take(queue, begin_ns) for queue in free))
        if every_queue is not None and (changes.dropped or any(results)):
            self._consumer.message_queue_changed(topic, every_queue, list(assigned))
        return all(results) and len(free) == len(changes.added)

    # --- Giving up --------------------------------------------------------------------------------------------

    async def give_up(self, queues: Collection[MessageQueue]) -> None:
        """Stop consuming these queues, and commit what was consumed of them."""
        if not queues:
            return
        idle = self._drop(queues)
        store = self._consumer.offset_store
        await store.persist(queues)
        for queue in queues:
            store.remove_offset(queue)
        if self._needs_locks:
            await self._locks.unlock(idle)
        log.info("group %s gave up %d queues", self._consumer.group, len(queues))

    def _drop(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Take queues out of the table. Returns those whose listener is not at work."""
        idle = []
        for queue in queues:
            work = self.process_queues.pop(queue)
            work.dropped = True
            if work.consuming:
                self._at_work[queue] = work
            else:
                idle.append(queue)
        return idle

    async def give_up_all(self) -> None:
        """Stop consuming all queues, because the consumer shuts down."""
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

    # --- Taking -----------------------------------------------------------------------------------------------

    async def _take(self, queue: MessageQueue, locked_ns: int) -> bool:
        """Begin to pull a queue. Returns False if its offset cannot be found now."""
        consumer = self._consumer
        try:
            offset = await self._compute_pull_from_where(queue)
        except (OSError, MQClientException) as error:
            log.warning("group %s cannot find its offset of %s yet: %s", consumer.group, queue, error)
            return False
        if not consumer.running:
            return True
        self._begin(queue, offset, locked_ns, FIRST_PULL_DELAY_MS)
        return True

    def _begin(self, queue: MessageQueue, offset: int, now_ns: int, delay_ms: int) -> ProcessQueue:
        """Pull a queue from this offset. ``now_ns``: when it was locked, if queues are locked."""
        work = self.process_queues[queue] = ProcessQueue(now_ns, needs_lock=self._needs_locks)
        self._consumer.pull_service.execute_pull_request_later(PullRequest(queue, work, offset), delay_ms)
        return work

    async def seek(self, queue: MessageQueue, offset: int) -> ProcessQueue:
        """Go on from another offset; what was pulled is forgotten. MQClientException if the queue was given up."""
        async with self._turn:
            work = self.process_queues.get(queue)
            if work is None:
                raise MQClientException(f"{queue} is not a queue of this consumer any more")
            work.dropped = True
            return self._begin(queue, offset, self._consumer.instance.clock.mono_ns(), 0)

    async def _compute_pull_from_where(self, queue: MessageQueue) -> int:
        """The group's offset; for a new group, the one that ``consume_from_where`` asks for.

        The offset at which a new group begins is stored at once, so that a restart, or the next owner of the queue,
        begins there too, whatever has arrived since. That includes 0: brokers report it for a queue whose first
        message is in memory, without storing it, and report nothing once that message is no longer there. A queue that
        is taken only after ``start`` has returned, because it is new or its broker did not answer, is read from the
        time of the start instead of from its end.

        The end is asked for before the group's offset, unlike in RocketMQ's client: a message that arrives between the
        two answers is consumed.
        """
        consumer, api = self._consumer, self._consumer.instance.api
        address = consumer.instance.broker_address(queue.broker_name)
        where = consumer.consume_from_where
        if queue.topic.startswith(RETRY_PREFIX):
            where = "CONSUME_FROM_FIRST_OFFSET"
        begin = None
        if where == "CONSUME_FROM_LAST_OFFSET" and not consumer.started:
            begin = await api.get_max_offset(address, queue)
        stored = await consumer.offset_store.read_store(queue)
        if stored is not None:
            if stored == 0:
                await consumer.offset_store.store_now(queue, 0)
            return stored
        if where == "CONSUME_FROM_FIRST_OFFSET":
            return 0
        if begin is None:
            from_time = where == "CONSUME_FROM_TIMESTAMP"
            begin_ms = consumer.consume_timestamp_ms if from_time else consumer.started_ms
            begin = await api.search_offset(address, queue, begin_ms)
        await consumer.offset_store.store_now(queue, begin)
        return begin

    # --- Locks ------------------------------------------------------------------------------------------------

    @property
    def _needs_locks(self) -> bool:
        return self._consumer.orderly and not self._consumer.broadcasting

    async def lock_all(self) -> None:
        """RocketMQ's lockAll: renew the locks.

        A queue that is locked for another by now, or whose lock was not renewed in time, is given up without a commit,
        since its new owner has its own offset, and taken again.
        """
        async with self._turn:
            now_ns = self._consumer.instance.clock.mono_ns()
            locked = await self._locks.lock([*self.process_queues, *self._at_work])
            lost = []
            for queue, work in self.process_queues.items():
                if locked.get(queue) is False or (queue in locked and work.is_lock_expired(now_ns)):
                    lost.append(queue)
                elif queue in locked:
                    work.last_lock_ns = now_ns
            self._drop(lost)
            for queue in lost:
                self._consumer.offset_store.remove_offset(queue)
        if lost:
            log.warning("group %s lost the locks of %d queues and takes them again", self._consumer.group, len(lost))
            self._consumer.instance.rebalance_service.wakeup()

    async def release(self, queue: MessageQueue) -> None:
        """The listener has returned for a queue that was given up meanwhile: another member may have it now."""
        async with self._turn:  # a lock that was just taken again must not be released
            work = self._at_work.pop(queue, None)
            if work is not None and self._needs_locks and self._consumer.running:
                await self._locks.unlock([queue])
