"""Gives the messages of topics or queues to whoever polls for them.

consumer = DefaultLitePullConsumer("my-readers", namesrv_addr="127.0.0.1:9876")
consumer.subscribe("orders")
async with consumer:
    for message in await consumer.poll():
        print(message.body)
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from broker_core.client.client_config import (
    ConsumeFromWhere,
    LitePullConsumerConfig,
    check_group,
    check_suspend_times,
    read_config,
)
from broker_core.client.consumer.consumer_running_info import consumer_running_info
from broker_core.client.consumer.filter_api import build_subscription_data
from broker_core.client.consumer.group_subscriptions import check_same_subscriptions
from broker_core.client.consumer.local_file_offset_store import LocalFileOffsetStore
from broker_core.client.consumer.offset_stores import offset_store_of
from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_api_wrapper import PullOptions
from broker_core.client.consumer.pull_loop import PullLoop
from broker_core.client.consumer.pull_message_service import PullMessageService
from broker_core.client.consumer.rebalance_impl import RETRY_PREFIX, RebalanceImpl
from broker_core.client.message import MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.codes import RequestCode
from broker_core.commands import ConsumerData, MessageQueue, SubscriptionData
from broker_core.consumers.allocate_message_queue import Allocate, allocate_averagely
from broker_core.remoting.requests.pull import LITE_PULL, SUBSCRIPTION
from broker_core.tasks import start_task

if TYPE_CHECKING:
    from broker_core.client.consumer.mq_consumer_inner import OffsetStore

FLOW_CONTROL_DELAY_MS = 50
PAUSED_DELAY_MS = 1000
DEFAULT_TIMESTAMP_AGE_MS = 30 * 60_000
MAX_QUEUES = 10_000
"""How many queues ``assign`` accepts."""


class DefaultLitePullConsumer:
    """RocketMQ's DefaultLitePullConsumer. ``options`` are those of ``LitePullConsumerConfig``.

    Either ``subscribe``: the group's members share the queues of topics. Or ``assign``: the program names its queues.
    Messages that ``poll`` has returned are committed by a later ``poll`` (``auto_commit``), or by ``commit``.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv_addr: str = "",
        instance: MQClientInstance | None = None,
        allocate: Allocate = allocate_averagely,
        **options: Any,
    ) -> None:
        """``instance``: a client to share; without it, the consumer has its own. MQClientException for bad options."""
        self.group = check_group(group, "DEFAULT_CONSUMER")
        config = self.config = read_config(LitePullConsumerConfig, options)
        check_suspend_times(config)
        self.broadcasting = config.message_model == "BROADCASTING"
        self.orderly = False
        self.instance = instance or MQClientInstance(namesrv_addr, instance_name="DEFAULT" if self.broadcasting else "")
        self.allocate = allocate
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.offset_store: OffsetStore = offset_store_of(config, self.instance, group)
        self.rebalance = RebalanceImpl(self)
        self.pull_options = PullOptions(
            config.pull_batch_size,
            None,
            config.broker_suspend_max_time_millis,
            config.consumer_timeout_millis_when_suspend,
            SUBSCRIPTION | LITE_PULL,
            RequestCode.LITE_PULL_MESSAGE,
        )
        self.pulls = PullLoop(self)
        self.pull_service = PullMessageService(self.pulls.pull_message)
        self.running = False
        self.started = False
        self.started_ms = 0
        self.consume_timestamp_ms = 0
        self._mode: Literal["", "subscribe", "assign"] = ""
        self._assigned: dict[MessageQueue, None] = {}
        self._paused: set[MessageQueue] = set()
        self._pulled: deque[tuple[MessageQueue, ProcessQueue, list[MessageExt]]] = deque()
        """RocketMQ's consumeRequestCache: what waits for ``poll``."""
        self._has_pulled = asyncio.Event()
        self._polled: dict[MessageQueue, tuple[ProcessQueue, int]] = {}
        """The offset behind the last message that ``poll`` has returned."""
        self._next_commit_ns = 0
        self._shutdown_task: asyncio.Task[None] | None = None

    # --- Set-up and life --------------------------------------------------------------------------------------

    def subscribe(self, topic: str, sub_expression: str = "*", expression_type: str = "TAG") -> None:
        """Share the queues of a topic with the group's other members. Call this before ``start``."""
        self._require_stopped()
        self._set_mode("subscribe")
        version = self.instance.clock.now().wall_ms
        self.subscriptions[topic] = build_subscription_data(topic, sub_expression, version, expression_type)

    def assign(self, queues: Iterable[MessageQueue], sub_expression: str = "*") -> None:
        """Read these queues and no others, whatever other members do. May be called while the consumer runs, too."""
        wanted = dict.fromkeys(queues)
        if len(wanted) > MAX_QUEUES:
            raise MQClientException(f"{len(wanted)} queues; at most {MAX_QUEUES} can be assigned")
        self._set_mode("assign")
        version = self.instance.clock.now().wall_ms
        for topic in dict.fromkeys(queue.topic for queue in wanted):
            self.subscriptions[topic] = build_subscription_data(topic, sub_expression, version)
        self._assigned = wanted
        self.instance.rebalance_service.wakeup()

    def _set_mode(self, mode: Literal["subscribe", "assign"]) -> None:
        if self._mode not in ("", mode):
            raise MQClientException("a consumer either subscribes to topics or is assigned queues, not both")
        self._mode = mode

    def _require_stopped(self) -> None:
        if self.running:
            raise MQClientException("the consumer is running already; do this before start()")
        if self._shutdown_task is not None and not self._shutdown_task.done():
            raise MQClientException("the consumer is still being shut down; wait for shutdown() first")

    def _require_running(self) -> None:
        if not self.running:
            raise MQClientException("the consumer is not running; call start() first")

    async def start(self) -> None:
        """Join the group. Without a subscription, the consumer reads nothing before ``assign``.

        MQClientException if no name server answers for a topic.
        """
        self._require_stopped()
        self.started_ms = self.instance.clock.now().wall_ms
        self.consume_timestamp_ms = self.started_ms - DEFAULT_TIMESTAMP_AGE_MS
        if self.config.consume_timestamp is not None:
            self.consume_timestamp_ms = self.config.consume_timestamp
        if isinstance(self.offset_store, LocalFileOffsetStore):
            self.offset_store.load()
        elif self._mode == "subscribe":
            retry_topic = RETRY_PREFIX + self.group
            self.subscriptions[retry_topic] = SubscriptionData(topic=retry_topic, sub_version=self.started_ms)
        if self._mode == "subscribe":
            check_same_subscriptions(self)
        self._next_commit_ns = self.instance.clock.mono_ns() + self.config.auto_commit_interval_millis * 1_000_000
        await self.instance.register_consumer(self.group, self)
        self.running = True
        try:
            await self._join()
        except BaseException:
            await self.shutdown()
            raise

    async def _join(self) -> None:
        for topic in self.subscriptions:
            await self.instance.update_topic_route(topic)
        await self.instance.check_client_in_broker(self.group, self.subscriptions.values())
        await self.instance.send_heartbeats()
        self.pull_service.start()
        is_complete = await self.do_rebalance()
        self.started = True
        if not is_complete:
            self.instance.rebalance_service.wakeup()

    async def shutdown(self) -> None:
        """Store the offsets that were committed, and leave the group.

        What ``poll`` has returned since the last commit comes again, unless ``commit`` is called before. If the caller
        is cancelled, the work goes on; another call waits for it.
        """
        if self.running:
            self.running = self.started = False
            self._shutdown_task = start_task(self._leave(), f"shut down the consumer of {self.group}")
        if self._shutdown_task is not None:
            await asyncio.shield(self._shutdown_task)

    async def _leave(self) -> None:
        await self.pull_service.stop()
        await self.rebalance.give_up_all()
        self._pulled.clear()
        self._polled.clear()
        self._has_pulled.set()
        await self.instance.unregister(consumer_group=self.group)

    async def __aenter__(self) -> "DefaultLitePullConsumer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # --- Messages ---------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The next messages, all of one queue; none if there are none within the timeout.

        With ``auto_commit``, what earlier calls have returned counts as consumed.
        """
        self._require_running()
        if timeout_ms is None:
            timeout_ms = self.config.poll_timeout_millis
        if timeout_ms < 0:
            raise MQClientException("the timeout is 0 ms or more")
        if self.config.auto_commit:
            self._commit_if_due()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.running:
                    messages = self._take_pulled()
                    if messages:
                        return messages
                    self._has_pulled.clear()
                    await self._has_pulled.wait()
        except TimeoutError:
            pass
        return self._take_pulled() if self.running else []

    def _take_pulled(self) -> list[MessageExt]:
        while self._pulled:
            queue, work, messages = self._pulled.popleft()
            if work.dropped:
                continue
            offset = work.remove(messages)
            if offset is not None:
                self._polled[queue] = work, offset
                return messages
        return []

    def _commit_if_due(self) -> None:
        now_ns = self.instance.clock.mono_ns()
        if now_ns >= self._next_commit_ns:
            self._next_commit_ns = now_ns + self.config.auto_commit_interval_millis * 1_000_000
            self._note_polled()

    def _note_polled(self) -> None:
        """Note the offsets of what was polled, as long as the queues are this consumer's."""
        for queue, (work, offset) in self._polled.items():
            if not work.dropped:
                self.offset_store.update_offset(queue, offset)
        self._polled.clear()

    async def commit(self) -> None:
        """Store that everything ``poll`` has returned is consumed; at a broker that does not answer, later."""
        self._require_running()
        self._note_polled()
        await self.persist_offsets()

    # --- Positions --------------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on from this offset. MQClientException if the queue is not this consumer's, or has no such offset."""
        low, high = await self._ends(queue)
        if not low <= offset <= high:
            raise MQClientException(f"{queue} has the offsets {low} to {high}, not {offset}")
        await self._seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on from the first message."""
        await self._seek(queue, (await self._ends(queue))[0])

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message."""
        await self._seek(queue, (await self._ends(queue))[1])

    async def _ends(self, queue: MessageQueue) -> tuple[int, int]:
        self._require_running()
        if queue in self._assigned and queue not in self.rebalance.process_queues:  # it was assigned just now
            await self.do_rebalance()
        if queue not in self.rebalance.process_queues:
            raise MQClientException(f"{queue} is not a queue of this consumer; see assignment()")
        return await self.instance.admin.min_offset(queue), await self.instance.admin.max_offset(queue)

    async def _seek(self, queue: MessageQueue, offset: int) -> None:
        work = await self.rebalance.seek(queue, offset)
        self._polled[queue] = work, offset

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pull no more from these queues until ``resume``; ``poll`` still returns what was pulled."""
        self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        self._paused.difference_update(queues)

    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer has now, without those of its retry topic."""
        return [queue for queue in self.rebalance.process_queues if not queue.topic.startswith(RETRY_PREFIX)]

    async def fetch_message_queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic. MQClientException if it has none."""
        return await self.instance.admin.fetch_subscribe_message_queues(topic)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's offset of a queue; None if it has none."""
        if isinstance(self.offset_store, LocalFileOffsetStore):
            return await self.offset_store.read_store(queue)
        return await self.instance.admin.fetch_group_offset(self.group, queue)

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        return await self.instance.admin.search_offset(queue, timestamp_ms)

    # --- For the loop and the client --------------------------------------------------------------------------

    def pull_delay_ms(self, queue: MessageQueue, process_queue: ProcessQueue) -> int:
        """How long the next pull of a queue must wait; 0 if it may be sent now."""
        config = self.config
        if queue in self._paused:
            return PAUSED_DELAY_MS
        max_bytes = config.pull_threshold_size_for_queue << 20
        if len(self._pulled) * config.pull_batch_size > config.pull_threshold_for_all or process_queue.flow_control(
            config.pull_threshold_for_queue, max_bytes, config.consume_max_span
        ):
            return FLOW_CONTROL_DELAY_MS
        return 0

    def correct_offset(self, queue: MessageQueue, offset: int) -> None:
        """Nothing before ``offset`` is wanted. What was polled and not committed is not passed over."""
        if queue not in self._polled:
            self.offset_store.update_offset(queue, offset, increase_only=True)

    def take_messages(self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue) -> None:
        """New messages are in the process queue: give them to ``poll``."""
        if messages:
            self._pulled.append((queue, process_queue, messages))
            self._has_pulled.set()

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        return self.config.consume_from_where

    async def do_rebalance(self) -> bool:
        """Take and give up queues. Returns False if something has to be tried again soon."""
        if self._mode == "assign":
            return await self.rebalance.assign(self._assigned)
        return await self.rebalance.do_rebalance()

    async def reset_offset(self, queue: MessageQueue, offset: int) -> None:
        """Consume a queue from this offset, if it is one of this consumer."""
        await self.rebalance.restart_from(queue, offset)

    async def persist_offsets(self) -> None:
        """Store the offsets that were committed and have changed."""
        await self.offset_store.persist(list(self.rebalance.process_queues))

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say about this consumer."""
        return ConsumerData(
            group=self.group,
            consume_type="CONSUME_ACTIVELY",
            message_model=self.config.message_model,
            consume_from_where=self.config.consume_from_where,
            subscriptions=list(self.subscriptions.values()),
        )

    def running_info(self) -> dict[str, Any]:
        """RocketMQ's ConsumerRunningInfo, without consumption figures by topic."""
        return consumer_running_info(self, "CONSUME_ACTIVELY", 0)
