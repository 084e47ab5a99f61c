"""Calls a listener, several times at once: on the event loop if it is a coroutine function, else in threads."""

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, Protocol

from broker_core.client.message import MessageExt
from broker_core.tasks import start_task

log = logging.getLogger(__name__)

CALLS_PER_TURN = 64
"""Calls of a coroutine listener that never waits, before others may use the event loop."""


class Call(Protocol):
    """One call of the listener."""

    messages: list[MessageExt]
    context: Any

    def begin(self) -> bool:
        """Note that the listener is called now. Returns False if the messages are not to be consumed any more."""

    def set_status(self, status: Any) -> None:
        """Note what the listener returned. TypeError if it is nothing that a listener may return."""


class ConsumeExecutor:
    """RocketMQ's consumeExecutor, for the listener of ``group``; at most ``threads`` calls are under way.

    ``finish(call)`` is called on the event loop after each call, also after one that failed or was not begun. Threads
    never keep the process alive.
    """

    def __init__(self, group: str, listener: Callable[..., Any], threads: int, finish: Callable[[Any], None]) -> None:
        self._group = group
        self._listener = listener
        self._max_workers = threads
        self._finish = finish
        self._loop = asyncio.get_running_loop()
        self._is_coroutine = inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
            getattr(listener, "__call__", None)  # noqa: B004  # an object with a coroutine method __call__
        )
        self._waiting: deque[Call] = deque()
        self._to_threads: SimpleQueue[Call | None] = SimpleQueue()
        self._from_threads: deque[Call] = deque()
        self._scheduled = False
        self._workers = 0
        self._on_loop: set[asyncio.Task[None]] = set()
        self.unfinished = 0
        """Calls that wait or whose listener has not returned."""

    def execute(self, call: Call) -> None:
        """Have the listener called."""
        self.unfinished += 1
        if self._is_coroutine:
            self._waiting.append(call)
        else:
            self._to_threads.put(call)
        if self._workers < min(self._max_workers, self.unfinished):
            if self._is_coroutine:
                task = start_task(self._work_on_loop(), f"consume messages of {self._group}")
                self._on_loop.add(task)
                task.add_done_callback(self._on_loop.discard)
            else:
                name = f"consume-{self._group}-{self._workers + 1}"
                threading.Thread(target=self._work_in_thread, name=name, daemon=True).start()
            self._workers += 1  # not if the system refuses another thread

    def stop(self) -> None:
        """Let the threads end after the calls that wait now."""
        for _ in range(self._max_workers):
            self._to_threads.put(None)

    def abort(self) -> None:
        """Cancel the calls of a coroutine listener. Threads cannot be cancelled."""
        self._waiting.clear()
        for task in self._on_loop:
            task.cancel()

    async def _work_on_loop(self) -> None:
        try:
            while self._waiting:
                call = self._waiting.popleft()
                if call.begin():
                    try:
                        call.set_status(await self._listener(call.messages, call.context))
                    except (Exception, asyncio.CancelledError, SystemExit):  # sys.exit() would end the event loop
                        self._log_failure(call)
                        task = asyncio.current_task()
                        if task is not None and task.cancelling():  # the event loop ends; call no more listeners
                            raise
                self._end(call)
                if not self.unfinished % CALLS_PER_TURN:
                    await asyncio.sleep(0)
        finally:
            self._workers -= 1

    def _work_in_thread(self) -> None:
        while (call := self._to_threads.get()) is not None:
            if call.begin():
                try:
                    status: Any = self._listener(call.messages, call.context)
                    if inspect.isawaitable(status):
                        status = asyncio.run_coroutine_threadsafe(_await_status(status), self._loop).result()
                    call.set_status(status)
                except BaseException:  # also sys.exit(): this thread has other messages to consume
                    self._log_failure(call)
            self._from_threads.append(call)
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
            self._end(results.popleft())

    def _end(self, call: Call) -> None:
        self.unfinished -= 1
        self._finish(call)

    def _log_failure(self, call: Call) -> None:
        log.exception("the listener of group %s failed; %s comes again", self._group, call.messages[0])


async def _await_status(status: Awaitable[Any]) -> Any:
    return await status
