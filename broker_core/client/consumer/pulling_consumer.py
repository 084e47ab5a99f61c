"""What a push consumer and a lite pull consumer have in common: they pull their queues in the background."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker_core.client.client_config import ConsumeFromWhere, ConsumerConfig, LitePullConsumerConfig, check_group
from broker_core.client.consumer.consumer_running_info import consumer_running_info
from broker_core.client.consumer.filter_api import build_subscription_data
from broker_core.client.consumer.group_subscriptions import check_same_subscriptions
from broker_core.client.consumer.local_file_offset_store import LocalFileOffsetStore
from broker_core.client.consumer.message_selector import MessageSelector
from broker_core.client.consumer.offset_stores import offset_store_of
from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_api_wrapper import PullOptions
from broker_core.client.consumer.pull_loop import PullLoop
from broker_core.client.consumer.pull_message_service import PullMessageService
from broker_core.client.consumer.rebalance_impl import RETRY_PREFIX, RebalanceImpl
from broker_core.client.message import MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.commands import ConsumerData, ConsumeType, MessageQueue, SubscriptionData
from broker_core.consumers.allocate_message_queue import Allocate
from broker_core.tasks import start_task

if TYPE_CHECKING:
    from typing import Self

    from broker_core.client.consumer.mq_consumer_inner import OffsetStore

log = logging.getLogger(__name__)

MessageQueueListener = Callable[[str, list[MessageQueue], list[MessageQueue]], None]
"""RocketMQ's MessageQueueListener: a topic, all its queues, and those that are assigned to this consumer now."""

FLOW_CONTROL_DELAY_MS = 50
SUSPENDED_DELAY_MS = 1000
DEFAULT_TIMESTAMP_AGE_MS = 30 * 60_000


class PullingConsumer(ABC):
    """An MQConsumerInner with RebalanceImpl, PullMessageService and PullLoop."""

    consume_type: ConsumeType
    consume_threads = 0
    """Calls of a listener at once."""

    def __init__(
        self,
        group: str,
        config: ConsumerConfig | LitePullConsumerConfig,
        pull_options: PullOptions,
        *,
        namesrv_addr: str,
        instance: MQClientInstance | None,
        allocate: Allocate,
    ) -> None:
        self.group = check_group(group, "DEFAULT_CONSUMER")
        self.broadcasting = config.message_model == "BROADCASTING"
        self.orderly = False
        """Queues are locked; not in broadcasting."""
        self.instance = instance or MQClientInstance(namesrv_addr, instance_name="DEFAULT" if self.broadcasting else "")
        self.allocate = allocate
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.offset_store: OffsetStore = offset_store_of(config, self.instance, group)
        self.rebalance = RebalanceImpl(self)
        self.pull_options = pull_options
        self.pulls = PullLoop(self)
        self.pull_service = PullMessageService(self.pulls.pull_message)
        self.running = False
        self.started = False
        """Whether ``start`` has returned: queues are taken later only if they are new or could not be taken before."""
        self.started_ms = 0
        self.consume_timestamp_ms = 0
        self._config = config
        self._message_queue_listener: MessageQueueListener | None = None
        self._shutdown_task: asyncio.Task[None] | None = None

    # --- Set-up and life --------------------------------------------------------------------------------------

    def subscribe(self, topic: str, sub_expression: str | MessageSelector = "*", expression_type: str = "TAG") -> None:
        """Share the queues of a topic with the group's other members. Call this before ``start``.

        All messages, or those with a tag of ``TagA || TagB``. ``MessageSelector.by_sql("color = 'red' AND size > 3")``,
        or this text with ``expression_type`` SQL92: a condition on properties. The broker must support it; ``start``
        asks.
        """
        self._require_stopped()
        version = self.instance.clock.now().wall_ms
        self.subscriptions[topic] = build_subscription_data(topic, sub_expression, version, expression_type)

    def register_message_queue_listener(self, listener: MessageQueueListener) -> None:
        """Have ``listener(topic, all_queues, assigned)`` called when a rebalance has changed this consumer's queues.

        It is called on the event loop, and must not wait for anything. Queues that the program assigns itself, and
        those of the retry topic, are not reported.
        """
        self._message_queue_listener = listener

    def _require_stopped(self) -> None:
        if self.running:
            raise MQClientException("the consumer is running already; do this before start()")
        if self._shutdown_task is not None and not self._shutdown_task.done():
            raise MQClientException("the consumer is still being shut down; wait for shutdown() first")

    async def _start(self) -> None:
        self.started_ms = self.instance.clock.now().wall_ms
        timestamp_ms = self._config.consume_timestamp
        self.consume_timestamp_ms = self.started_ms - DEFAULT_TIMESTAMP_AGE_MS if timestamp_ms is None else timestamp_ms
        if isinstance(self.offset_store, LocalFileOffsetStore):
            self.offset_store.load()
        elif self._shares_queues:
            retry_topic = RETRY_PREFIX + self.group
            self.subscriptions[retry_topic] = SubscriptionData(topic=retry_topic, sub_version=self.started_ms)
        async with self.instance.starting():
            await self._check_filters()
            if self._shares_queues:
                check_same_subscriptions(self)
            await self.instance.register_consumer(self.group, self)
            self.running = True
        try:
            await self._join()
        except BaseException:
            await self.shutdown()
            raise

    @property
    def _shares_queues(self) -> bool:
        """Whether its topics are subscribed to. Else the program names its queues."""
        return True

    async def _check_filters(self) -> None:
        """Ask the brokers about SQL92 expressions before any of them knows the group: one that is refused leaves
        neither a group nor offsets behind.
        """
        filtered = [data for data in self.subscriptions.values() if data.expression_type != "TAG"]
        for data in filtered:
            await self.instance.update_topic_route(data.topic)
        await self.instance.check_client_in_broker(self.group, filtered)

    async def _join(self) -> None:
        retry_topic = RETRY_PREFIX + self.group
        for topic in self.subscriptions:
            if topic != retry_topic:
                await self.instance.update_topic_route(topic)
        await self.instance.send_heartbeats()
        if retry_topic in self.subscriptions:  # a broker creates it when it hears of the group for the first time
            await self.instance.update_topic_route(retry_topic)
        self.pull_service.start()
        is_complete = await self.do_rebalance()
        self.started = True
        if not is_complete:
            self.instance.rebalance_service.wakeup()

    async def shutdown(self) -> None:
        """Leave the group. If the caller is cancelled, the work goes on; another call waits for it."""
        if self.running:
            self.running = self.started = False
            self._shutdown_task = start_task(self._leave(), f"shut down the consumer of {self.group}")
        if self._shutdown_task is not None:
            await asyncio.shield(self._shutdown_task)

    @abstractmethod
    async def start(self) -> None:
        """Join the group."""

    @abstractmethod
    async def _leave(self) -> None: ...

    async def __aenter__(self) -> "Self":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # --- For the loop and the client --------------------------------------------------------------------------

    @abstractmethod
    def pull_delay_ms(self, queue: MessageQueue, process_queue: ProcessQueue) -> int:
        """How long the next pull of a queue must wait; 0 if it may be sent now."""

    @abstractmethod
    def take_messages(self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue) -> None:
        """New messages are in the process queue."""

    @abstractmethod
    def correct_offset(self, queue: MessageQueue, offset: int) -> None:
        """The subscription wants nothing before ``offset``, and the process queue is empty."""

    def _is_full(self, process_queue: ProcessQueue, max_span: int) -> bool:
        config = self._config
        max_bytes = config.pull_threshold_size_for_queue << 20
        return bool(process_queue.flow_control(config.pull_threshold_for_queue, max_bytes, max_span))

    async def do_rebalance(self) -> bool:
        """Take and give up queues. Returns False if something has to be tried again soon."""
        return await self.rebalance.do_rebalance()

    def message_queue_changed(self, topic: str, queues: list[MessageQueue], assigned: list[MessageQueue]) -> None:
        """A rebalance has changed the queues of a topic that are ``assigned`` to this consumer."""
        if self._message_queue_listener is None or topic.startswith(RETRY_PREFIX):
            return
        try:
            self._message_queue_listener(topic, queues, assigned)
        except Exception:
            log.exception("the message queue listener of group %s failed at topic %s", self.group, topic)

    async def reset_offset(self, queue: MessageQueue, offset: int) -> None:
        """Consume a queue from this offset, if it is one of this consumer."""
        await self.rebalance.restart_from(queue, offset)

    async def persist_offsets(self) -> None:
        """Store the offsets that have changed: at the brokers, or in broadcasting in the file."""
        await self.offset_store.persist(list(self.rebalance.process_queues))

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        """Where a new group begins."""
        return self._config.consume_from_where

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say about this consumer."""
        return ConsumerData(
            group=self.group,
            consume_type=self.consume_type,
            message_model=self._config.message_model,
            consume_from_where=self.consume_from_where,
            subscriptions=list(self.subscriptions.values()),
        )

    async def consume_message_directly(self, message: MessageExt) -> dict[str, Any] | None:
        """None: there is no listener."""
        return None

    def running_info(self) -> dict[str, Any]:
        """RocketMQ's ConsumerRunningInfo, without consumption figures by topic."""
        return consumer_running_info(self, self.consume_type, self.consume_threads)
