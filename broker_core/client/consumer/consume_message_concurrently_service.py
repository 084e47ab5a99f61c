"""Calls the listener for messages, many at once, and sees to those that it could not consume."""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, Literal, Protocol

from broker_core.client.consumer.process_queue import ProcessQueue
from broker_core.client.message import MessageExt
from broker_core.clock import Clock
from broker_core.commands import MessageQueue
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

ConsumeConcurrentlyStatus = Literal["CONSUME_SUCCESS", "RECONSUME_LATER"]
CONSUME_LATER_SECONDS = 5.0
"""Pause before a message is consumed again here, because no broker took it back."""
CALLS_PER_TURN = 64
"""Calls of a coroutine listener that never waits, before others may use the event loop."""
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
"""A function or a coroutine function. The messages are consumed unless it raises or returns RECONSUME_LATER.

An awaitable that a function returns is awaited on the event loop; its result is the status.
"""


class Owner(Protocol):
    """A push consumer, as far as this service needs one."""

    group: str

    async def send_message_back(self, message: MessageExt, delay_level: int) -> bool:
        """Have the message delivered again later. Returns whether a broker accepted it."""

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Everything before ``offset`` was consumed."""


class ConsumeRequest:
    """RocketMQ's ConsumeRequest: messages for one call of the listener."""

    __slots__ = ("consumed", "context", "message_queue", "messages", "process_queue")

    def __init__(self, messages: list[MessageExt], process_queue: ProcessQueue, queue: MessageQueue) -> None:
        self.messages = messages
        self.process_queue = process_queue
        self.message_queue = queue
        self.context = ConsumeConcurrentlyContext(queue)
        self.consumed = 0
        """How many of the messages, counted from the first, were consumed."""

    def set_status(self, status: object) -> None:
        """Note what the listener returned. TypeError if it wrote something else than integers into its context."""
        context = self.context
        if not isinstance(context.ack_index, int) or not isinstance(context.delay_level_when_next_consume, int):
            raise TypeError(
                f"the listener must set integers, not ack_index={context.ack_index!r} and "
                f"delay_level_when_next_consume={context.delay_level_when_next_consume!r}"
            )
        self.consumed = 0 if status == "RECONSUME_LATER" else max(0, context.ack_index + 1)


async def _await_status(status: Awaitable[Any]) -> Any:
    return await status


class ConsumeMessageConcurrentlyService:
    """RocketMQ's ConsumeMessageConcurrentlyService.

    A coroutine function is called on the event loop, up to ``threads`` at once. Any other listener is called in
    threads of its own, which never keep the process alive.
    """

    def __init__(self, owner: Owner, listener: MessageListener, clock: Clock, *, threads: int, batch_max: int) -> None:
        self._owner = owner
        self._listener = listener
        self._clock = clock
        self._max_workers = threads
        self._batch_max = batch_max
        self._loop = asyncio.get_running_loop()
        self._is_coroutine = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
            getattr(listener, "__call__", None)  # noqa: B004  # an object with a coroutine method __call__
        )
        self._waiting: deque[ConsumeRequest] = deque()
        self._to_threads: SimpleQueue[ConsumeRequest | None] = SimpleQueue()
        self._from_threads: deque[ConsumeRequest] = deque()
        self._scheduled = False
        self._workers = 0
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
            request = ConsumeRequest(messages[start : start + self._batch_max], process_queue, queue)
            self.unfinished += 1
            if self._is_coroutine:
                self._waiting.append(request)
            else:
                self._to_threads.put(request)
        self._idle.clear()
        while self._workers < min(self._max_workers, self.unfinished):
            if self._is_coroutine:
                start_task(self._work_on_loop(), f"consume messages of {self._owner.group}")
            else:
                name = f"consume-{self._owner.group}-{self._workers + 1}"
                threading.Thread(target=self._work_in_thread, name=name, daemon=True).start()
            self._workers += 1  # not if the system refuses another thread

    async def stop(self, wait_s: float) -> bool:
        """Take no more messages and wait for the listener. Returns False if it did not return in this time."""
        self._stopped = True
        try:
            async with asyncio.timeout(wait_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        finally:
            for _ in range(self._max_workers):
                self._to_threads.put(None)
        return True

    # --- Calls of the listener --------------------------------------------------------------------------------

    async def _work_on_loop(self) -> None:
        try:
            while self._waiting:
                request = self._waiting.popleft()
                if self._begin(request):
                    try:
                        status = self._listener(request.messages, request.context)
                        request.set_status(await status)  # type: ignore[misc]
                    except (Exception, asyncio.CancelledError):
                        self._log_failure(request)
                        task = asyncio.current_task()
                        if task is not None and task.cancelling():  # the event loop ends; call no more listeners
                            raise
                self._finish(request)
                if not self.unfinished % CALLS_PER_TURN:
                    await asyncio.sleep(0)
        finally:
            self._workers -= 1

    def _work_in_thread(self) -> None:
        while (request := self._to_threads.get()) is not None:
            if self._begin(request):
                try:
                    status: Any = self._listener(request.messages, request.context)
                    if inspect.isawaitable(status):
                        status = asyncio.run_coroutine_threadsafe(_await_status(status), self._loop).result()
                    request.set_status(status)
                except BaseException:  # also sys.exit(): this thread has other messages to consume
                    self._log_failure(request)
            self._from_threads.append(request)
            if not self._scheduled:
                self._scheduled = True
                try:
                    self._loop.call_soon_threadsafe(self._take_from_threads)
                except RuntimeError:  # the loop has ended; nobody waits for this result
                    return

    def _take_from_threads(self) -> None:
        self._scheduled = False  # before the results are taken, so that none is left lying
        results = self._from_threads
        while results:
            self._finish(results.popleft())

    def _begin(self, request: ConsumeRequest) -> bool:
        """Note when the listener is called. Returns False if the queue belongs to another client by now."""
        now_ns = self._clock.mono_ns()
        for message in request.messages:
            message.consume_started_ns = now_ns
        return not request.process_queue.dropped

    def _log_failure(self, request: ConsumeRequest) -> None:
        log.exception("the listener of group %s failed; %s comes again", self._owner.group, request.messages[0])

    # --- Results ----------------------------------------------------------------------------------------------

    def _finish(self, request: ConsumeRequest) -> None:
        """RocketMQ's processConsumeResult."""
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
