"""Calls a listener for the messages of topics, which a group's members share.

async def listener(messages, context):
    print(messages[0].body)

consumer = DefaultMQPushConsumer("my-consumers", namesrv_addr="127.0.0.1:9876")
consumer.subscribe("orders", "TagA || TagB")
consumer.register_message_listener(listener)
async with consumer:
    ...

broker <--pull-- PullMessageService <--PullRequest-- RebalanceImpl       which queues, from where
   '----answer---> on_pull ---> ProcessQueue ---> ConsumeMessageConcurrentlyService ---> listener
                      '--------PullRequest----> PullMessageService       the next pull of the same queue
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from broker_core.client.client_config import (
    DEFAULT_MAX_RECONSUME_TIMES,
    ConsumeFromWhere,
    ConsumerConfig,
    read_config,
)
from broker_core.client.consumer.consume_message_concurrently_service import (
    ConsumeMessageConcurrentlyService,
    MessageListener,
)
from broker_core.client.consumer.consume_message_orderly_service import (
    ConsumeMessageOrderlyService,
    MessageListenerOrderly,
)
from broker_core.client.consumer.local_file_offset_store import LocalFileOffsetStore
from broker_core.client.consumer.pull_api_wrapper import PullAPIWrapper
from broker_core.client.consumer.pull_message_service import PullMessageService, PullRequest
from broker_core.client.consumer.pull_result import delay_after_error, next_pull
from broker_core.client.consumer.rebalance_impl import RETRY_PREFIX, RebalanceImpl
from broker_core.client.consumer.remote_broker_offset_store import RemoteBrokerOffsetStore
from broker_core.client.message import MAX_RECONSUME_TIMES, RECONSUME_TIME, MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.client.producer.default_mq_producer import DefaultMQProducer
from broker_core.commands import ConsumerData, MessageQueue, SubscriptionData
from broker_core.consumers.allocate_message_queue import Allocate, allocate_averagely
from broker_core.errors import RequestError
from broker_core.filters.tags import parse_client_subscription
from broker_core.formats.message_properties import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.remoting.requests.consumer import ConsumerSendMsgBackRequestHeader
from broker_core.tasks import end_task, start_task
from broker_core.topics import validate_group, validate_topic

if TYPE_CHECKING:
    from broker_core.client.consumer.mq_consumer_inner import OffsetStore

log = logging.getLogger(__name__)

INNER_PRODUCER_GROUP = "CLIENT_INNER_PRODUCER"
FLOW_CONTROL_DELAY_MS = 50
SUSPENDED_DELAY_MS = 1000
UNLOCKED_DELAY_MS = 3000
FIRST_LOCK_SECONDS = 1.0
LOCK_SECONDS = 20.0
"""Between two renewals of the locks of queues that are consumed in order."""
FIRST_RETRY_LEVEL = 3
DEFAULT_TIMESTAMP_AGE_MS = 30 * 60_000
MAX_OFFSET = (1 << 63) - 1
MINUTE_NS = 60 * 1_000_000_000


class DefaultMQPushConsumer:
    """RocketMQ's DefaultMQPushConsumer.

    ``options`` are those of ``ConsumerConfig``. ``allocate`` is the strategy by which the group's members share queues;
    all of them must use the same.
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
        try:
            self.group = validate_group(group)
        except RequestError as error:
            raise MQClientException(error.remark) from error
        self.config = read_config(ConsumerConfig, options)
        self.broadcasting = self.config.message_model == "BROADCASTING"
        self.instance = instance or MQClientInstance(namesrv_addr, instance_name="DEFAULT" if self.broadcasting else "")
        self.allocate = allocate
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.orderly = False
        self.offset_store: OffsetStore = (
            LocalFileOffsetStore(self.config.local_offset_store_dir, self.instance.client_id, group)
            if self.broadcasting
            else RemoteBrokerOffsetStore(self.instance, group)
        )
        self.rebalance = RebalanceImpl(self)
        self.pull_service = PullMessageService(self.pull_message)
        self.running = False
        self.suspended = False
        self.consume_timestamp_ms = 0
        self.started_ms = 0
        self.started = False
        """Whether ``start`` has returned: queues are taken later only if they are new or could not be taken before."""
        self._listener: MessageListener | MessageListenerOrderly | None = None
        self._pulls = PullAPIWrapper(self.instance, group)
        self._failing: set[MessageQueue] = set()
        self._repeated: list[asyncio.Task[None]] = []
        self._shutdown_task: asyncio.Task[None] | None = None

    _consume_service: ConsumeMessageConcurrentlyService | ConsumeMessageOrderlyService
    _inner_producer: DefaultMQProducer

    # --- Set-up and life --------------------------------------------------------------------------------------

    def subscribe(self, topic: str, sub_expression: str = "*") -> None:
        """Consume a topic: all messages, or those with a tag of ``TagA || TagB``. Call this before ``start``."""
        self._require_stopped()
        try:
            validate_topic(topic)
            parse_client_subscription(sub_expression)
        except RequestError as error:
            raise MQClientException(error.remark) from error
        version = self.instance.clock.now().wall_ms
        self.subscriptions[topic] = SubscriptionData(topic=topic, sub_string=sub_expression, sub_version=version)

    def register_message_listener(
        self, listener: MessageListener | MessageListenerOrderly, *, orderly: bool = False
    ) -> None:
        """Have ``listener(messages, context)`` called. Call this before ``start``.

        ``orderly``: the messages of a queue are consumed one after the other, in their order.
        """
        self._require_stopped()
        self._listener = listener
        self.orderly = orderly

    def _require_stopped(self) -> None:
        if self.running:
            raise MQClientException("the consumer is running already; do this before start()")
        if self._shutdown_task is not None and not self._shutdown_task.done():
            raise MQClientException("the consumer is still being shut down; wait for shutdown() first")

    async def start(self) -> None:
        """Join the group. When this returns, every message that is sent from now on will be consumed.

        A queue that is new, or whose broker does not report the group's offset now, is taken later. A new group that
        begins at the last offset then reads it from the time of this start, by the broker's clock.

        Raises MQClientException without a listener or a subscription, and if no name server answers.
        """
        self._require_stopped()
        if self._listener is None or not self.subscriptions:
            raise MQClientException("a consumer needs subscribe() and register_message_listener() before start()")
        clock, config = self.instance.clock, self.config
        self.started_ms = clock.now().wall_ms
        self.consume_timestamp_ms = self.started_ms - DEFAULT_TIMESTAMP_AGE_MS
        if config.consume_timestamp is not None:
            self.consume_timestamp_ms = config.consume_timestamp
        if isinstance(self.offset_store, LocalFileOffsetStore):
            self.offset_store.load()
        else:
            retry_topic = RETRY_PREFIX + self.group
            self.subscriptions[retry_topic] = SubscriptionData(topic=retry_topic, sub_version=self.started_ms)
        self._consume_service = self._make_consume_service(self._listener)
        self._inner_producer = DefaultMQProducer(INNER_PRODUCER_GROUP, instance=self.instance)
        await self.instance.register_consumer(self.group, self)
        self.running = True
        try:
            await self._join()
        except BaseException:
            await self.shutdown()
            raise

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
        for topic in self.subscriptions:
            await self.instance.update_topic_route(topic)
        await self.instance.send_heartbeats()
        self.pull_service.start()
        if not self.orderly:
            self._repeated = [start_task(self._clean_expired(), f"clean expired messages of {self.group}")]
        elif not self.broadcasting:
            self._repeated = [start_task(self._renew_locks(), f"renew the locks of {self.group}")]
        is_complete = await self.rebalance.do_rebalance()
        self.started = True
        if not is_complete:
            self.instance.rebalance_service.wakeup()

    async def shutdown(self) -> None:
        """Finish what the listener has begun, commit, and leave the group.

        A listener that has not returned after ``await_termination_millis_when_shutdown`` is left alone; its messages
        come again. If the caller is cancelled, the work goes on; another call waits for it.
        """
        if self.running:
            self.running = self.started = False
            self._shutdown_task = start_task(self._leave(), f"shut down the consumer of {self.group}")
        if self._shutdown_task is not None:
            await asyncio.shield(self._shutdown_task)

    async def _leave(self) -> None:
        await self.pull_service.stop()
        for task in self._repeated:
            await end_task(task)
        if not await self._consume_service.stop(self.config.await_termination_millis_when_shutdown / 1000):
            log.warning("the listener of group %s has not returned; its messages come again", self.group)
        await self.rebalance.give_up_all()
        await self._inner_producer.shutdown()
        await self.instance.unregister(consumer_group=self.group)

    async def __aenter__(self) -> "DefaultMQPushConsumer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    def suspend(self) -> None:
        """Pull no more messages until ``resume``; those that were pulled are consumed."""
        self.suspended = True

    def resume(self) -> None:
        self.suspended = False

    # --- Pulls ------------------------------------------------------------------------------------------------

    def pull_message(self, request: PullRequest) -> None:
        """Send the next pull of a queue, unless it must wait. The request always comes back to ``pull_service``."""
        work, queue, config = request.process_queue, request.message_queue, self.config
        work.last_pull_ns = self.instance.clock.mono_ns()
        if self.suspended:
            self.pull_service.execute_pull_request_later(request, SUSPENDED_DELAY_MS)
            return
        if not work.may_consume(work.last_pull_ns):
            self.pull_service.execute_pull_request_later(request, UNLOCKED_DELAY_MS)
            return
        max_bytes = config.pull_threshold_size_for_queue << 20
        max_span = MAX_OFFSET if self.orderly else config.consume_concurrently_max_span
        if work.flow_control(config.pull_threshold_for_queue, max_bytes, max_span):
            self.pull_service.execute_pull_request_later(request, FLOW_CONTROL_DELAY_MS)
            return
        try:
            answer = self._pulls.pull_kernel_impl(
                queue,
                self.subscriptions[queue.topic],
                request.next_offset,
                max_msg_nums=config.pull_batch_size,
                max_msg_bytes=config.pull_batch_size_in_bytes,
                commit_offset=0 if self.broadcasting else self.offset_store.read_memory(queue),
            )
        except (OSError, MQClientException) as error:
            self._pull_failed(request, error)
            return
        answer.add_done_callback(lambda answer: self.on_pull(request, answer))

    def on_pull(self, request: PullRequest, answer: "asyncio.Future[RemotingCommand]") -> None:
        """RocketMQ's PullCallback: the answer to a pull, or why there is none."""
        error = None if answer.cancelled() else answer.exception()
        if request.process_queue.dropped or not self.running or answer.cancelled():
            return
        queue = request.message_queue
        if error is None:
            try:
                self._take_answer(request, answer.result())
            except Exception as problem:  # whatever it is, the pull request must not be lost
                error = problem
        if error is not None:
            self._pull_failed(request, error)
        elif queue in self._failing:
            self._failing.discard(queue)
            log.info("group %s pulls %s again", self.group, queue)

    def _take_answer(self, request: PullRequest, answer: RemotingCommand) -> None:
        queue, work = request.message_queue, request.process_queue
        result = self._pulls.process_pull_result(queue, self.subscriptions[queue.topic], answer)
        step = next_pull(request.next_offset, result)
        if step.reset:
            log.warning("offset %d of %s is illegal; the queue begins at %d", request.next_offset, queue, step.offset)
            work.dropped = True  # nothing that is being consumed may commit
            start_task(self.rebalance.restart_from(queue, step.offset), "begin a queue at its right offset")
            return
        request.next_offset = step.offset
        if result.messages:
            self._consume_service.submit_consume_request(work.put(result.messages), work, queue)
        elif step.correct_offset and not len(work):
            self.offset_store.update_offset(queue, step.offset, increase_only=True)
        if step.delay_ms:
            log.warning("%s answered offset %d to a pull from there or later", queue, step.offset)
            self.pull_service.execute_pull_request_later(request, step.delay_ms)
        else:
            self.pull_service.execute_pull_request_immediately(request)

    def _pull_failed(self, request: PullRequest, error: BaseException) -> None:
        """Pull again later. Of the failures of a queue, the first is logged."""
        if request.message_queue not in self._failing:
            self._failing.add(request.message_queue)
            cause = None if isinstance(error, (OSError, MQClientException)) else error
            log.warning(
                "group %s cannot pull %s: %s; trying again", self.group, request.message_queue, error, exc_info=cause
            )
        self.pull_service.execute_pull_request_later(request, delay_after_error(error))

    # --- For the services and the client ----------------------------------------------------------------------

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Everything before ``offset`` was consumed."""
        self.offset_store.update_offset(queue, offset, increase_only=True)

    def release(self, queue: MessageQueue) -> None:
        """In order: the listener has returned for a queue that was given up meanwhile."""
        start_task(self.rebalance.release(queue), f"unlock a queue of {self.group}")

    async def do_rebalance(self) -> bool:
        """Take and give up queues. Returns False if something has to be tried again soon."""
        return await self.rebalance.do_rebalance()

    async def reset_offset(self, queue: MessageQueue, offset: int) -> None:
        """Consume a queue from this offset, if it is one of this consumer."""
        await self.rebalance.restart_from(queue, offset)

    async def persist_offsets(self) -> None:
        """Store the offsets that have changed: at the brokers, or in broadcasting in the file."""
        await self.offset_store.persist(list(self.rebalance.process_queues))

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        """Have a message delivered again later. Returns whether a broker accepted it.

        If its broker does not take it back, it is sent to the group's retry topic as a new message. In broadcasting it
        does not come again: it is lost for this consumer.
        """
        if self.broadcasting:
            log.warning("%s failed, and in broadcasting it does not come again to group %s", message, self.group)
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

    @property
    def consume_from_where(self) -> ConsumeFromWhere:
        return self.config.consume_from_where

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say about this consumer."""
        return ConsumerData(
            group=self.group,
            message_model=self.config.message_model,
            consume_from_where=self.config.consume_from_where,
            subscriptions=list(self.subscriptions.values()),
        )

    def running_info(self) -> dict[str, Any]:
        """RocketMQ's ConsumerRunningInfo, without consumption figures by topic."""
        now = self.instance.clock.now()
        table = {
            queue: work.info()
            | {
                "commitOffset": max(0, self.offset_store.read_memory(queue)),
                "lastPullTimestamp": now.wall_ms - (now.mono_ns - work.last_pull_ns) // 1_000_000,
            }
            for queue, work in self.rebalance.process_queues.items()
        }
        return {
            "mqTable": table,
            "mqPopTable": {},
            "properties": {
                "PROP_CONSUMEORDERLY": "true" if self.orderly else "false",
                "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                "PROP_CONSUMER_START_TIMESTAMP": str(self.started_ms),
                "PROP_THREADPOOL_CORE_SIZE": str(self.config.consume_thread_max),
            },
            "statusTable": {},
            "subscriptionSet": [
                {
                    "topic": data.topic,
                    "subString": data.sub_string,
                    "subVersion": data.sub_version,
                    "expressionType": data.expression_type,
                }
                for data in self.subscriptions.values()
            ],
            "userConsumerInfo": {},
        }
