"""Calls the listener for messages in the order of their queues, one call for a queue at a time.

A queue is consumed while its broker's lock is held. A message that fails is consumed again before those behind it.
"""

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

ConsumeOrderlyStatus = Literal["SUCCESS", "SUSPEND_CURRENT_QUEUE_A_MOMENT"]
STATUSES = (None, *get_args(ConsumeOrderlyStatus))
SUSPEND_MILLIS = (10, 30_000)
"""The limits of a pause of a queue."""


class ConsumeOrderlyContext:
    """RocketMQ's ConsumeOrderlyContext.

    ``suspend_current_queue_time_millis``: the pause after SUSPEND_CURRENT_QUEUE_A_MOMENT; -1, as the consumer's option
    of this name says. RocketMQ limits it to 10 to 30000 ms.
    """

    __slots__ = ("message_queue", "suspend_current_queue_time_millis")

    def __init__(self, message_queue: MessageQueue) -> None:
        self.message_queue = message_queue
        self.suspend_current_queue_time_millis = -1


MessageListenerOrderly = Callable[
    [list[MessageExt], ConsumeOrderlyContext], ConsumeOrderlyStatus | Awaitable[ConsumeOrderlyStatus | None] | None
]
"""A function or a coroutine function. The messages are consumed if it returns SUCCESS or None; they fail if it raises,
or returns anything else."""


class Owner(Protocol):
    """A push consumer, as far as this service needs one."""

    group: str

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        """Have the broker move a message to the dead letter queue (-1). Returns whether it did."""

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Everything before ``offset`` was consumed."""

    def consumed(self, queue: MessageQueue, messages: list[MessageExt], consumed: int) -> None:
        """The listener has returned; ``consumed`` of the messages, counted from the first, were consumed."""

    def release(self, queue: MessageQueue) -> None:
        """The listener has returned for a queue that was given up meanwhile."""


class _ConsumeRequest:
    """RocketMQ's ConsumeRequest: the first messages of a queue, for one call of the listener."""

    __slots__ = ("_clock", "context", "message_queue", "messages", "process_queue", "status", "was_called")

    def __init__(
        self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue, clock: Clock
    ) -> None:
        self.messages = messages
        self.process_queue = process_queue
        self.message_queue = queue
        self.context = ConsumeOrderlyContext(queue)
        self.was_called = False
        self.status: ConsumeOrderlyStatus = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
        self._clock = clock

    def begin(self) -> bool:
        """Note when the listener is called. Returns False if the queue may not be consumed now."""
        now_ns = self._clock.mono_ns()
        for message in self.messages:
            message.consume_started_ns = now_ns
        self.was_called = self.process_queue.may_consume(now_ns)
        return self.was_called

    def set_status(self, status: object) -> None:
        """Note what the listener returned. TypeError if that is no status, or if it set a pause that is no integer."""
        if status not in STATUSES:
            raise TypeError(
                f"a listener that consumes in order must return None, 'SUCCESS' or 'SUSPEND_CURRENT_QUEUE_A_MOMENT', "
                f"not {status!r}"
            )
        pause = self.context.suspend_current_queue_time_millis
        if not isinstance(pause, int):
            raise TypeError(f"suspend_current_queue_time_millis must be an integer, not {pause!r}")
        if status != "SUSPEND_CURRENT_QUEUE_A_MOMENT":
            self.status = "SUCCESS"


class ConsumeMessageOrderlyService:
    """RocketMQ's ConsumeMessageOrderlyService.

    Up to ``threads`` queues are consumed at once. ``max_reconsume_times`` failures of a message are allowed, without
    end if it is below 0; then the message goes to the dead letter queue and the queue goes on.
    """

    def __init__(
        self,
        owner: Owner,
        listener: MessageListenerOrderly,
        clock: Clock,
        *,
        threads: int,
        batch_max: int,
        max_reconsume_times: int,
        suspend_millis: int,
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._batch_max = batch_max
        self._max_reconsume_times = max_reconsume_times
        self._suspend_millis = suspend_millis
        self._loop = asyncio.get_running_loop()
        self.executor = ConsumeExecutor(owner.group, listener, threads, self._finish)
        self.unfinished = 0
        """Queues whose listener was called and has not returned, or whose messages are being given up."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopped = False

    def submit_consume_request(
        self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Have the listener called for the first messages of a queue, unless it is at work there or pauses.

        ``messages`` are in the process queue already. Without a lock that is relied on, nothing happens until the queue
        is taken again.
        """
        work = process_queue
        if work.consuming or work.suspended or self._stopped or not work.may_consume(self._clock.mono_ns()):
            return
        batch = process_queue.first_messages(self._batch_max)
        if batch:
            process_queue.consuming = True
            self.unfinished += 1
            self._idle.clear()
            self.executor.execute(_ConsumeRequest(batch, process_queue, queue, self._clock))

    async def stop(self, wait_s: float) -> bool:
        """Call no more listeners and wait for those that were called. Returns False if one did not return in time."""
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

    def _finish(self, request: _ConsumeRequest) -> None:
        """RocketMQ's processConsumeResult."""
        if request.was_called:
            consumed = len(request.messages) if request.status == "SUCCESS" else 0
            self._owner.consumed(request.message_queue, request.messages, consumed)
        if not request.was_called or not request.process_queue.may_consume(self._clock.mono_ns()):
            self._end(request)  # the messages come again, here or from the next owner of the lock
        elif request.status == "SUCCESS":
            self._commit(request, request.messages)
            self._end(request)
        elif any(self._failed_too_often(message) for message in request.messages):
            start_task(self._give_up(request), f"give up messages of {self._owner.group}")
        else:
            self._suspend(request)

    def _failed_too_often(self, message: MessageExt) -> bool:
        return 0 <= self._max_reconsume_times <= message.reconsume_times

    async def _give_up(self, request: _ConsumeRequest) -> None:
        """RocketMQ's checkReconsumeTimes: messages that failed too often go to the dead letter queue."""
        gone = []
        try:
            for message in request.messages:
                if not self._failed_too_often(message) or not await self._try_dead_letter_queue(message):
                    break  # the messages behind it wait for this one
                gone.append(message)
        finally:
            if not request.process_queue.dropped:
                self._commit(request, gone)
            request.messages = request.messages[len(gone) :]
            if request.messages:
                self._suspend(request)
            else:
                self._end(request)

    async def _try_dead_letter_queue(self, message: MessageExt) -> bool:
        try:
            return await self._owner.send_message_back(message, -1)
        except Exception:  # a stored message can have properties that cannot be written again
            log.exception("%s of group %s could not be given up", message, self._owner.group)
            return False

    def _suspend(self, request: _ConsumeRequest) -> None:
        """Pause the queue; then its first messages are consumed again."""
        for message in request.messages:
            message.reconsume_times += 1
        pause = request.context.suspend_current_queue_time_millis
        if not isinstance(pause, int) or pause == -1:
            pause = self._suspend_millis
        low, high = SUSPEND_MILLIS
        request.process_queue.suspended = True
        self._loop.call_later(min(max(pause, low), high) / 1000, self._resume, request)
        self._end(request)

    def _resume(self, request: _ConsumeRequest) -> None:
        request.process_queue.suspended = False
        self.submit_consume_request([], request.process_queue, request.message_queue)

    def _commit(self, request: _ConsumeRequest, messages: list[MessageExt]) -> None:
        offset = request.process_queue.remove(messages)
        if offset is not None:
            self._owner.commit(request.message_queue, offset)

    def _end(self, request: _ConsumeRequest) -> None:
        """The listener is not at work at the queue any more: call it for the next messages, if there are any."""
        work, queue = request.process_queue, request.message_queue
        work.consuming = False
        self.unfinished -= 1
        if not self.unfinished:
            self._idle.set()
        if work.dropped:
            self._owner.release(queue)
        else:
            self.submit_consume_request([], work, queue)
