"""Calls a listener for the messages of topics, which a group's members share.

async def listener(messages, context):
    print(messages[0].body)

consumer = DefaultMQPushConsumer("my-consumers", namesrv_addr="127.0.0.1:9876")
consumer.subscribe("orders", "TagA || TagB")
consumer.register_message_listener(listener)
async with consumer:
    ...

broker <--pull-- PullMessageService <--PullRequest-- RebalanceImpl       which queues, from where
   '----answer---> PullLoop ---> ProcessQueue ---> ConsumeMessageConcurrentlyService ---> listener
                      '--------PullRequest----> PullMessageService       the next pull of the same queue
"""

import asyncio
import logging
from typing import Any

from broker_core.client.client_config import (
    DEFAULT_MAX_RECONSUME_TIMES,
    ConsumerConfig,
    read_config,
)
from broker_core.client.client_events import MessagesConsumed
from broker_core.client.consumer.consume_message_concurrently_service import (
    ConsumeMessageConcurrentlyService,
    MessageListener,
)
from broker_core.client.consumer.consume_message_directly import consume_message_directly
from broker_core.client.consumer.consume_message_orderly_service import (
    ConsumeMessageOrderlyService,
    MessageListenerOrderly,
)
from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_api_wrapper import PullOptions
from broker_core.client.consumer.pulling_consumer import FLOW_CONTROL_DELAY_MS, SUSPENDED_DELAY_MS, PullingConsumer
from broker_core.client.consumer.rebalance_impl import RETRY_PREFIX
from broker_core.client.message import MAX_RECONSUME_TIMES, RECONSUME_TIME, MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.client.producer.default_mq_producer import DefaultMQProducer
from broker_core.commands import MessageQueue
from broker_core.consumers.allocate_message_queue import Allocate, allocate_averagely
from broker_core.formats.message_properties import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC
from broker_core.remoting.requests.consumer import ConsumerSendMsgBackRequestHeader
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
UNLOCKED_DELAY_MS = 3000
FIRST_LOCK_SECONDS = 1.0
LOCK_SECONDS = 20.0
"""Between two renewals of the locks of queues that are consumed in order."""
FIRST_RETRY_LEVEL = 3
MAX_OFFSET = (1 << 63) - 1
MINUTE_NS = 60 * 1_000_000_000


class DefaultMQPushConsumer(PullingConsumer):
    """RocketMQ's DefaultMQPushConsumer.

    ``options`` are those of ``ConsumerConfig``. ``allocate`` is the strategy by which the group's members share queues;
    all of them must use the same.
    """

    consume_type = "CONSUME_PASSIVELY"

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
        self.config = config = read_config(ConsumerConfig, options)
        pull_options = PullOptions(config.pull_batch_size, config.pull_batch_size_in_bytes)
        super().__init__(group, config, pull_options, namesrv_addr=namesrv_addr, instance=instance, allocate=allocate)
        self.consume_threads = config.consume_thread_max
        self.suspended = False
        self._listener: MessageListener | MessageListenerOrderly | None = None
        self._repeated: list[asyncio.Task[None]] = []

    _consume_service: ConsumeMessageConcurrentlyService | ConsumeMessageOrderlyService
    _inner_producer: DefaultMQProducer

    # --- Set-up and life --------------------------------------------------------------------------------------

    def register_message_listener(
        self, listener: MessageListener | MessageListenerOrderly, *, orderly: bool = False
    ) -> None:
        """Have ``listener(messages, context)`` called. Call this before ``start``.

        ``orderly``: the messages of a queue are consumed one after the other, in their order.
        """
        self._require_stopped()
        self._listener = listener
        self.orderly = orderly

    async def start(self) -> None:
        """Join the group. When this returns, every message that is sent from now on will be consumed.

        A queue that is new, or whose broker does not report the group's offset now, is taken later. A new group that
        begins at the last offset then reads it from the time of this start, by the broker's clock.

        Raises MQClientException without a listener or a subscription, and if no name server answers.
        """
        self._require_stopped()
        if self._listener is None or not self.subscriptions:
            raise MQClientException("a consumer needs subscribe() and register_message_listener() before start()")
        self._consume_service = self._make_consume_service(self._listener)
        self._inner_producer = DefaultMQProducer(INNER_PRODUCER_GROUP, instance=self.instance)
        await self._start()

    def _make_consume_service(self, listener: Any) -> ConsumeMessageConcurrentlyService | ConsumeMessageOrderlyService:
        config, clock = self.config, self.instance.clock
        threads, batch_max = config.consume_thread_max, config.consume_message_batch_max_size
        if not self.orderly:
            return ConsumeMessageConcurrentlyService(self, listener, clock, threads=threads, batch_max=batch_max)
        return ConsumeMessageOrderlyService(
            self,
            listener,
            clock,
            threads=threads,
            batch_max=batch_max,
            max_reconsume_times=config.max_reconsume_times,
            suspend_millis=config.suspend_current_queue_time_millis,
        )

    async def _join(self) -> None:
        if INNER_PRODUCER_GROUP not in self.instance.producer_groups:
            await self._inner_producer.start()
        if not self.orderly:
            self._repeated = [start_task(self._clean_expired(), f"clean expired messages of {self.group}")]
        elif not self.broadcasting:
            self._repeated = [start_task(self._renew_locks(), f"renew the locks of {self.group}")]
        await super()._join()

    async def shutdown(self) -> None:
        """Finish what the listener has begun, commit, and leave the group.

        A listener that has not returned after ``await_termination_millis_when_shutdown`` is left alone; its messages
        come again. If the caller is cancelled, the work goes on; another call waits for it.
        """
        await super().shutdown()

    async def _leave(self) -> None:
        await self.pull_service.stop()
        for task in self._repeated:
            await end_task(task)
        if not await self._consume_service.stop(self.config.await_termination_millis_when_shutdown / 1000):
            log.warning("the listener of group %s has not returned; its messages come again", self.group)
        await self.rebalance.give_up_all()
        await self._inner_producer.shutdown()
        await self.instance.unregister(consumer_group=self.group)

    def suspend(self) -> None:
        """Pull no more messages until ``resume``; those that were pulled are consumed."""
        self.suspended = True

    def resume(self) -> None:
        self.suspended = False

    # --- Pulls ------------------------------------------------------------------------------------------------

    def pull_delay_ms(self, queue: MessageQueue, process_queue: ProcessQueue) -> int:
        """How long the next pull of a queue must wait; 0 if it may be sent now."""
        if self.suspended:
            return SUSPENDED_DELAY_MS
        if self.orderly and not process_queue.may_consume(self.instance.clock.mono_ns()):
            return UNLOCKED_DELAY_MS
        max_span = MAX_OFFSET if self.orderly else self.config.consume_concurrently_max_span
        return FLOW_CONTROL_DELAY_MS if self._is_full(process_queue, max_span) else 0

    def take_messages(self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue) -> None:
        """New messages are in the process queue: have the listener called."""
        self._consume_service.submit_consume_request(messages, process_queue, queue)

    def correct_offset(self, queue: MessageQueue, offset: int) -> None:
        """Everything before ``offset`` was consumed, or is not wanted."""
        self.offset_store.update_offset(queue, offset, increase_only=True)

    # --- For the services and the client ----------------------------------------------------------------------

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Everything before ``offset`` was consumed."""
        self.offset_store.update_offset(queue, offset, increase_only=True)

    def consumed(self, queue: MessageQueue, messages: list[MessageExt], consumed: int) -> None:
        """The listener has returned; ``consumed`` of the messages, counted from the first, were consumed."""
        if self.instance.events.listener is not None:
            now_ns = self.instance.clock.mono_ns()
            began_ns = messages[0].consume_started_ns
            self.instance.events.emit(
                MessagesConsumed(now_ns, self.group, queue, messages, consumed, now_ns - began_ns)
            )

    async def consume_message_directly(self, message: MessageExt) -> dict[str, Any] | None:
        """RocketMQ's ConsumeMessageDirectlyResult of one call of the listener, beside its other calls."""
        assert self._listener is not None  # start() requires one
        return await consume_message_directly(self._listener, message, self.instance.clock, orderly=self.orderly)

    def release(self, queue: MessageQueue) -> None:
        """In order: the listener has returned for a queue that was given up meanwhile."""
        start_task(self.rebalance.release(queue), f"unlock a queue of {self.group}")

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        """Have a message delivered again later. Returns whether a broker accepted it.

        If its broker does not take it back, it is sent to the group's retry topic as a new message. In broadcasting it
        does not come again: it is lost for this consumer.
        """
        if self.broadcasting:
            log.warning("%s failed; in broadcasting it is not delivered to group %s again", message, self.group)
            return True
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.record.physical_offset,
            group=self.group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            max_reconsume_times=self._max_reconsume_times,
        )
        api = self.instance.api
        try:
            address = self.instance.broker_address(message.broker_name)
            await api.consumer_send_message_back(address, header)
            return True
        except (OSError, MQClientException) as error:
            log.warning("%s does not take %s back: %s", message.broker_name, message, error)
        if delay_level < 0:  # only the broker itself moves messages to the dead letter queue
            return False
        try:
            await self._send_to_retry_topic(message)
        except MQClientException as error:
            log.warning("%s could not be sent to the retry topic: %s", message, error)
            return False
        return True

    async def _send_to_retry_topic(self, message: MessageExt) -> None:
        times, record = message.reconsume_times, message.record
        origin = {RETRY_TOPIC: message.topic, ORIGIN_MESSAGE_ID: message.msg_id}
        properties = (origin | message.properties) | {
            RECONSUME_TIME: str(times + 1),
            MAX_RECONSUME_TIMES: str(self._max_reconsume_times),
            DELAY: str(FIRST_RETRY_LEVEL + times),
        }
        await self._inner_producer.send_again(
            RETRY_PREFIX + self.group, properties, record.body, record.flag, record.sys_flag & 0x701
        )

    @property
    def _max_reconsume_times(self) -> int:
        times = self.config.max_reconsume_times
        return DEFAULT_MAX_RECONSUME_TIMES if times < 0 else times

    async def _clean_expired(self) -> None:
        service = self._consume_service
        assert isinstance(service, ConsumeMessageConcurrentlyService)
        timeout_ns = self.config.consume_timeout * MINUTE_NS
        while True:
            await asyncio.sleep(self.config.consume_timeout * 60)
            await service.clean_expired(self.rebalance.process_queues, timeout_ns)

    async def _renew_locks(self) -> None:
        await asyncio.sleep(FIRST_LOCK_SECONDS)
        while True:
            await self.rebalance.lock_all()
            await asyncio.sleep(LOCK_SECONDS)
