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
from typing import Any, Literal

from broker_core.client.client_config import (
    LitePullConsumerConfig,
    check_suspend_times,
    read_config,
)
from broker_core.client.consumer.filter_api import build_subscription_data
from broker_core.client.consumer.local_file_offset_store import LocalFileOffsetStore
from broker_core.client.consumer.message_selector import MessageSelector
from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.consumer.pull_api_wrapper import PullOptions
from broker_core.client.consumer.pulling_consumer import FLOW_CONTROL_DELAY_MS, SUSPENDED_DELAY_MS, PullingConsumer
from broker_core.client.consumer.rebalance_impl import RETRY_PREFIX
from broker_core.client.message import MessageExt
from broker_core.client.mq_client_exception import MQClientException
from broker_core.client.mq_client_instance import MQClientInstance
from broker_core.codes import RequestCode
from broker_core.commands import MessageQueue
from broker_core.consumers.allocate_message_queue import Allocate, allocate_averagely
from broker_core.remoting.requests.pull import LITE_PULL, SUBSCRIPTION

MAX_QUEUES = 10_000
"""How many queues ``assign`` accepts."""


class DefaultLitePullConsumer(PullingConsumer):
    """RocketMQ's DefaultLitePullConsumer. ``options`` are those of ``LitePullConsumerConfig``.

    Either ``subscribe``: the group's members share the queues of topics. Or ``assign``: the program names its queues.
    Messages that ``poll`` has returned are committed by a later ``poll`` (``auto_commit``), or by ``commit``.
    """

    consume_type = "CONSUME_ACTIVELY"

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
        self.config = config = read_config(LitePullConsumerConfig, options)
        check_suspend_times(config)
        pull_options = PullOptions(
            config.pull_batch_size,
            None,
            config.broker_suspend_max_time_millis,
            config.consumer_timeout_millis_when_suspend,
            SUBSCRIPTION | LITE_PULL,
            RequestCode.LITE_PULL_MESSAGE,
        )
        super().__init__(group, config, pull_options, namesrv_addr=namesrv_addr, instance=instance, allocate=allocate)
        self._mode: Literal["", "subscribe", "assign"] = ""
        self._assigned: dict[MessageQueue, None] = {}
        self._paused: set[MessageQueue] = set()
        self._pulled: deque[tuple[MessageQueue, ProcessQueue, list[MessageExt]]] = deque()
        """RocketMQ's consumeRequestCache: what waits for ``poll``."""
        self._has_pulled = asyncio.Event()
        self._polled: dict[MessageQueue, tuple[ProcessQueue, int]] = {}
        """The offset behind the last message that ``poll`` has returned."""
        self._next_commit_ns = 0

    # --- Set-up and life --------------------------------------------------------------------------------------

    def subscribe(self, topic: str, sub_expression: str | MessageSelector = "*", expression_type: str = "TAG") -> None:
        """Share the queues of a topic with the group's other members. Call this before ``start``."""
        self._require_stopped()
        self._set_mode("subscribe")
        super().subscribe(topic, sub_expression, expression_type)

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

    @property
    def _shares_queues(self) -> bool:
        return self._mode == "subscribe"

    def _require_running(self) -> None:
        if not self.running:
            raise MQClientException("the consumer is not running; call start() first")

    async def start(self) -> None:
        """Join the group. Without a subscription, the consumer reads nothing before ``assign``.

        MQClientException if no name server answers for a topic.
        """
        self._require_stopped()
        self._next_commit_ns = self.instance.clock.mono_ns() + self.config.auto_commit_interval_millis * 1_000_000
        await self._start()

    async def shutdown(self) -> None:
        """Store the offsets that were committed, and leave the group.

        What ``poll`` has returned since the last commit comes again, unless ``commit`` is called before. If the caller
        is cancelled, the work goes on; another call waits for it.
        """
        await super().shutdown()

    async def _leave(self) -> None:
        await self.pull_service.stop()
        await self.rebalance.give_up_all()
        self._pulled.clear()
        self._polled.clear()
        self._has_pulled.set()
        await self.instance.unregister(consumer_group=self.group)

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
            return SUSPENDED_DELAY_MS
        is_full = len(self._pulled) * config.pull_batch_size > config.pull_threshold_for_all
        return FLOW_CONTROL_DELAY_MS if is_full or self._is_full(process_queue, config.consume_max_span) else 0

    def correct_offset(self, queue: MessageQueue, offset: int) -> None:
        """Nothing before ``offset`` is wanted. What was polled and not committed is not passed over."""
        if queue not in self._polled:
            self.offset_store.update_offset(queue, offset, increase_only=True)

    def take_messages(self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue) -> None:
        """New messages are in the process queue: give them to ``poll``."""
        if messages:
            self._pulled.append((queue, process_queue, messages))
            self._has_pulled.set()

    async def do_rebalance(self) -> bool:
        """Take and give up queues. Returns False if something has to be tried again soon."""
        if self._mode == "assign":
            return await self.rebalance.assign(self._assigned)
        return await super().do_rebalance()
