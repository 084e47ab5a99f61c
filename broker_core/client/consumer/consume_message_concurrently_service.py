"""Calls the listener for messages, many at once, and sees to those that it could not consume."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, get_args

from broker_core.client.consumer.consume_executor import ConsumeExecutor
from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.message import MessageExt
from broker_core.clock import Clock
from broker_core.commands import MessageQueue
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

ConsumeConcurrentlyStatus = Literal["CONSUME_SUCCESS", "RECONSUME_LATER"]
STATUSES = (None, *get_args(ConsumeConcurrentlyStatus))
CONSUME_LATER_SECONDS = 5.0
"""Pause before a message is consumed again here, because no broker took it back."""
EXPIRED_DELAY_LEVEL = 3
MAX_EXPIRED = 16
"""Messages of a queue that are sent back in one round because their listener does not return."""


class ConsumeConcurrentlyContext:
    """RocketMQ's ConsumeConcurrentlyContext; the listener may change the last two.

    ``delay_level_when_next_consume``: 0, the broker decides; -1, to the dead letter queue; 1 to 18, this delay.
    ``ack_index``: of several messages, the index of the last that was consumed; all, unless it is set.
    """

    __slots__ = ("ack_index", "delay_level_when_next_consume", "message_queue")

    def __init__(self, message_queue: MessageQueue) -> None:
        self.message_queue = message_queue
        self.delay_level_when_next_consume = 0
        self.ack_index = 1 << 31


MessageListener = Callable[
    [list[MessageExt], ConsumeConcurrentlyContext],
    ConsumeConcurrentlyStatus | Awaitable[ConsumeConcurrentlyStatus | None] | None,
]
"""A function or a coroutine function. The messages are consumed if it returns CONSUME_SUCCESS or None; they fail if it
raises, or returns anything else.

An awaitable that a function returns is awaited on the event loop; its result is the status.
"""


class Owner(Protocol):
    """A push consumer, as far as this service needs one."""

    group: str

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        """Have the message delivered again later. Returns whether a broker accepted it."""

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Everything before ``offset`` was consumed."""

    def consumed(self, queue: MessageQueue, messages: list[MessageExt], consumed: int) -> None:
        """The listener has returned; ``consumed`` of the messages, counted from the first, were consumed."""


class ConsumeRequest:
    """RocketMQ's ConsumeRequest: messages for one call of the listener."""

    __slots__ = ("_clock", "consumed", "context", "message_queue", "messages", "process_queue", "was_called")

    def __init__(
        self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue, clock: Clock
    ) -> None:
        self.messages = messages
        self.process_queue = process_queue
        self.message_queue = queue
        self.context = ConsumeConcurrentlyContext(queue)
        self.consumed = 0
        """How many of the messages, counted from the first, were consumed."""
        self.was_called = False
        self._clock = clock

    def begin(self) -> bool:
        """Note when the listener is called. Returns False if the queue belongs to another client by now."""
        now_ns = self._clock.mono_ns()
        for message in self.messages:
            message.consume_started_ns = now_ns
        self.was_called = not self.process_queue.dropped
        return self.was_called

    def set_status(self, status: object) -> None:
        """Note what the listener returned. TypeError if that is no status, or if its context has no integers."""
        if status not in STATUSES:
            raise TypeError(f"a listener must return None, 'CONSUME_SUCCESS' or 'RECONSUME_LATER', not {status!r}")
        context = self.context
        if not isinstance(context.ack_index, int) or not isinstance(context.delay_level_when_next_consume, int):
            raise TypeError(
                f"the listener must set integers, not ack_index={context.ack_index!r} and "
                f"delay_level_when_next_consume={context.delay_level_when_next_consume!r}"
            )
        self.consumed = 0 if status == "RECONSUME_LATER" else max(0, context.ack_index + 1)


class ConsumeMessageConcurrentlyService:
    """RocketMQ's ConsumeMessageConcurrentlyService.

    A coroutine function is called on the event loop, up to ``threads`` at once. Any other listener is called in
    threads of its own, which never keep the process alive.
    """

    def __init__(self, owner: Owner, listener: MessageListener, clock: Clock, *, threads: int, batch_max: int) -> None:
        self._owner = owner
        self._clock = clock
        self._batch_max = batch_max
        self._loop = asyncio.get_running_loop()
        self.executor = ConsumeExecutor(owner.group, listener, threads, self._finish)
        self.unfinished = 0
        """Requests that wait, whose listener has not returned, or whose messages are being sent back."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopped = False

    def submit_consume_request(
        self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Have the listener called, with at most ``batch_max`` messages in each call."""
        if self._stopped:
            return
        for start in range(0, len(messages), self._batch_max):
            batch = messages[start : start + self._batch_max]
            self.unfinished += 1
            self._idle.clear()
            self.executor.execute(ConsumeRequest(batch, process_queue, queue, self._clock))

    async def stop(self, wait_s: float) -> bool:
        """Take no more messages and wait for the listener. Returns False if it did not return in this time."""
        self._stopped = True
        try:
            async with asyncio.timeout(wait_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        finally:
            self.executor.stop()
        return True

    # --- Results ----------------------------------------------------------------------------------------------

    def _finish(self, request: ConsumeRequest) -> None:
        """RocketMQ's processConsumeResult."""
        if request.was_called:
            self._owner.consumed(request.message_queue, request.messages, min(request.consumed, len(request.messages)))
        if not request.process_queue.dropped:
            failed = request.messages[request.consumed :]
            if failed:  # the request is finished when they are sent back
                start_task(self._send_back(request, failed), f"send messages of {self._owner.group} back")
                return
            self._commit(request.process_queue, request.message_queue, request.messages)
        self._end_request()

    def _end_request(self) -> None:
        self.unfinished -= 1
        if not self.unfinished:
            self._idle.set()

    async def _send_back(self, request: ConsumeRequest, failed: list[MessageExt]) -> None:
        """Have failed messages delivered later. Those that no broker takes back are consumed again here."""
        level = request.context.delay_level_when_next_consume
        if not isinstance(level, int):  # set_status has reported it, or the listener raised anyway
            level = 0
        work, queue = request.process_queue, request.message_queue
        kept = []
        try:
            for message in failed:
                if message in work and not await self._try_send_back(message, level):
                    message.reconsume_times += 1
                    kept.append(message)
            self._commit(work, queue, [message for message in request.messages if message not in kept])
        finally:
            self._end_request()
        if kept and not work.dropped:
            self._loop.call_later(CONSUME_LATER_SECONDS, self.submit_consume_request, kept, work, queue)

    async def _try_send_back(self, message: MessageExt, level: int) -> bool:
        """Have a message delivered later. Returns False if no broker took it back, for whatever reason."""
        try:
            return await self._owner.send_message_back(message, level)
        except Exception:  # a stored message can have properties that cannot be written again
            log.exception("%s of group %s could not be sent back", message, self._owner.group)
            return False

    def _commit(self, process_queue: ProcessQueue, queue: MessageQueue, messages: list[MessageExt]) -> None:
        offset = process_queue.remove(messages)
        if offset is not None and not process_queue.dropped:
            self._owner.commit(queue, offset)

    async def clean_expired(self, queues: dict[MessageQueue, ProcessQueue], timeout_ns: int) -> None:
        """Send messages back whose listener was called too long ago, so that they do not stop their queues."""
        for queue, work in list(queues.items()):
            for message in work.expired(self._clock.mono_ns(), timeout_ns, MAX_EXPIRED):
                log.warning("the listener of group %s has not returned; %s is sent back", self._owner.group, message)
                if await self._try_send_back(message, EXPIRED_DELAY_LEVEL):
                    self._commit(work, queue, [message])
