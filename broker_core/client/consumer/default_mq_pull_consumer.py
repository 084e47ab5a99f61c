"""Pulls messages by hand: the program names queues and offsets, and keeps the offsets itself.

async with DefaultMQPullConsumer("my-tools", namesrv_addr="127.0.0.1:9876") as consumer:
    for queue in await consumer.fetch_subscribe_message_queues("orders"):
        result = await consumer.pull(queue, "*", await consumer.min_offset(queue), 32)
"""

import asyncio
from typing import TYPE_CHECKING, Any

from broker_core.client.client_config import PullConsumerConfig, check_group, check_suspend_times, read_config
from broker_core.client.consumer.filter_api import build_subscription_data
from broker_core.client.consumer.message_selector import MessageSelector, selected
from broker_core.client.consumer.pull_api_wrapper import PullAPIWrapper, PullOptions
from broker_core.client.consumer.pull_result import PullResult
from broker_core.client.consumer.remote_broker_offset_store import RemoteBrokerOffsetStore
from broker_core.client.message import MessageExt
from broker_core.client.mq_admin_impl import MQAdminImpl
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.commands import ConsumerData, MessageQueue, SubscriptionData
from broker_core.remoting.requests.consumer import ConsumerSendMsgBackRequestHeader
from broker_core.remoting.requests.pull import SUBSCRIPTION
from broker_core.tasks import start_task

if TYPE_CHECKING:
    from broker_core.client.consumer.mq_consumer_inner import OffsetStore

MAX_MSG_NUMS = 1024


class DefaultMQPullConsumer(MQAdminImpl):
    """RocketMQ's DefaultMQPullConsumer. ``options`` are those of ``PullConsumerConfig``.

    The calls raise MQBrokerException if a broker refuses, and an OSError if it does not answer in time.
    """

    def __init__(
        self, group: str, *, namesrv_addr: str = "", instance: MQClientInstance | None = None, **options: Any
    ) -> None:
        """``instance``: a client to share; without it, the consumer has its own. MQClientException for bad options."""
        self.group = check_group(group, "DEFAULT_CONSUMER")
        self.config = read_config(PullConsumerConfig, options)
        check_suspend_times(self.config)
        self.instance = instance or MQClientInstance(namesrv_addr)
        super().__init__(self.instance)
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.offset_store: OffsetStore = RemoteBrokerOffsetStore(self.instance, group)
        self.running = False
        self._started_ms = 0
        self._shutdown_task: asyncio.Task[None] | None = None
        self._pulls = PullAPIWrapper(self.instance, group)

    async def start(self) -> None:
        """Join the group. It is given no queues: each pull names one."""
        if self.running:
            raise MQClientException("the consumer is running already")
        if self._shutdown_task is not None and not self._shutdown_task.done():
            raise MQClientException("the consumer is still being shut down; wait for shutdown() first")
        self._started_ms = self.instance.clock.now().wall_ms
        await self.instance.register_consumer(self.group, self)
        self.running = True

    async def shutdown(self) -> None:
        """Store the offsets that were noted, and leave the group.

        If the caller is cancelled, the work goes on; another call waits for it.
        """
        if self.running:
            self.running = False
            self._shutdown_task = start_task(self._leave(), f"shut down the consumer of {self.group}")
        if self._shutdown_task is not None:
            await asyncio.shield(self._shutdown_task)

    async def _leave(self) -> None:
        await self.persist_offsets()
        await self.instance.unregister(consumer_group=self.group)

    async def __aenter__(self) -> "DefaultMQPullConsumer":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    # --- Pulls ------------------------------------------------------------------------------------------------

    async def pull(
        self,
        queue: MessageQueue,
        sub_expression: str | MessageSelector,
        offset: int,
        max_nums: int,
        *,
        timeout_ms: int | None = None,
        expression_type: str = "TAG",
    ) -> PullResult:
        """Read a queue from an offset on. The answer comes at once, also if there is nothing.

        The next pull begins at the result's ``next_begin_offset``. Its ``status`` is FOUND, NO_NEW_MSG, NO_MATCHED_MSG
        or OFFSET_ILLEGAL.
        """
        timeout = self.config.consumer_pull_timeout_millis if timeout_ms is None else timeout_ms
        return await self._pull(queue, sub_expression, expression_type, offset, PullOptions(max_nums, None, 0, timeout))

    async def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        sub_expression: str | MessageSelector,
        offset: int,
        max_nums: int,
        *,
        expression_type: str = "TAG",
    ) -> PullResult:
        """As ``pull``, but the broker holds the pull until there is a message, up to
        ``broker_suspend_max_time_millis``.
        """
        config = self.config
        options = PullOptions(
            max_nums, None, config.broker_suspend_max_time_millis, config.consumer_timeout_millis_when_suspend
        )
        return await self._pull(queue, sub_expression, expression_type, offset, options)

    async def _pull(
        self,
        queue: MessageQueue,
        selector: str | MessageSelector,
        expression_type: str,
        offset: int,
        options: PullOptions,
    ) -> PullResult:
        self._require_running()
        sub_expression, expression_type = selected(selector, expression_type)
        if offset < 0:
            raise MQClientException("the offset is 0 or more")
        if not 1 <= options.max_msg_nums <= MAX_MSG_NUMS:
            raise MQClientException(f"max_nums is 1 to {MAX_MSG_NUMS}")
        if options.timeout_millis <= 0:
            raise MQClientException("the timeout is 1 ms or more")
        subscription = self.subscriptions.get(queue.topic)
        if subscription is None or (subscription.sub_string, subscription.expression_type) != (
            sub_expression,
            expression_type,
        ):
            version = self.instance.clock.now().wall_ms
            subscription = build_subscription_data(queue.topic, sub_expression, version, expression_type)
            self.subscriptions[queue.topic] = subscription
        await self._address(queue)
        more = options._replace(sys_flag=SUBSCRIPTION)
        answer = await self._pulls.pull_kernel_impl(queue, subscription, offset, more)
        return self._pulls.process_pull_result(queue, subscription, answer, offset)

    # --- Offsets and failed messages --------------------------------------------------------------------------

    async def fetch_consume_offset(self, queue: MessageQueue, from_store: bool = False) -> int | None:
        """The offset that was noted last, or stored last for the group; None if there is none.

        ``from_store``: the stored one, also if another was noted since.
        """
        noted = -1 if from_store else self.offset_store.read_memory(queue)
        return noted if noted >= 0 else await self.fetch_group_offset(self.group, queue)

    def update_consume_offset(self, queue: MessageQueue, offset: int) -> None:
        """Note the group's offset. It is stored every 5 s, by ``persist_offsets`` and by ``shutdown``."""
        self._require_running()
        if offset < 0:
            raise MQClientException("the offset is 0 or more")
        self.offset_store.update_offset(queue, offset)

    async def send_message_back(self, message: MessageExt, delay_level: int = 0) -> None:
        """Have a message delivered again later, in the group's retry topic. -1 moves it to the dead letter queue."""
        self._require_running()
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.record.physical_offset,
            group=self.group,
            delay_level=delay_level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
        )
        address = self.instance.broker_address(message.broker_name)
        await self.instance.api.consumer_send_message_back(address, header)

    def _require_running(self) -> None:
        if not self.running:
            raise MQClientException("the consumer is not running; call start() first")

    # --- For the client ---------------------------------------------------------------------------------------

    async def do_rebalance(self) -> bool:
        """Nothing: the program names its queues."""
        return True

    async def reset_offset(self, queue: MessageQueue, offset: int) -> None:
        """An administrator moved the group: note its offset."""
        self.offset_store.update_offset(queue, offset)

    async def persist_offsets(self) -> None:
        """Store the offsets that were noted and have changed."""
        await self.offset_store.persist(list(self.offset_store.table()))

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say about this consumer."""
        return ConsumerData(
            group=self.group, consume_type="CONSUME_ACTIVELY", subscriptions=list(self.subscriptions.values())
        )

    async def consume_message_directly(self, message: MessageExt) -> dict[str, Any] | None:
        """None: there is no listener."""
        return None

    def running_info(self) -> dict[str, Any]:
        """RocketMQ's ConsumerRunningInfo: it has no queues."""
        return {
            "mqTable": {},
            "mqPopTable": {},
            "properties": {
                "PROP_CONSUMEORDERLY": "false",
                "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            },
            "statusTable": {},
            "subscriptionSet": [],
            "userConsumerInfo": {},
        }
