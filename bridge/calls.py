"""The calls of one web process: those without an answer yet, and of these the ones that wait to be sent."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Raw

from bridge.limits import Limits
from bridge.port import PortTimeout, PortUnavailable
from broker_core.commands import Held, Reply
from broker_core.errors import BrokerError, RequestError, TooLargeError

SENT = Raw(b"")
OnHeld = Callable[[Held], None]
HEAD_BYTES = 1024
"""More than a message contains besides one command."""


class Call:
    """One command under way. ``batch`` is 0 until it is sent; ``future`` is None if nobody waits for the reply.

    The engine may hold a command that ``may_wait``. A pull also changes nothing; a pop changes what is invisible.
    """

    __slots__ = (
        "batch",
        "connection",
        "deadline_ms",
        "future",
        "is_pull",
        "may_wait",
        "on_held",
        "raw",
        "request_id",
        "size",
    )

    def __init__(
        self,
        connection: int,
        request_id: int,
        raw: Raw,
        deadline_ms: int,
        is_pull: bool,
        future: asyncio.Future[Reply] | None,
        on_held: OnHeld | None,
        *,
        may_wait: bool = False,
    ) -> None:
        self.connection = connection
        self.request_id = request_id
        self.raw = raw  # empty after it was sent
        self.size = len(raw)
        self.deadline_ms = deadline_ms
        self.is_pull = is_pull
        self.may_wait = may_wait or is_pull
        self.future = future
        self.on_held = on_held
        self.batch = 0

    @property
    def is_wanted(self) -> bool:
        return self.future is None or not self.future.done()

    def fail(self, error: BrokerError) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


class Calls:
    """Open calls by (connection, request id), and the queue of those to be sent; both are limited."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[tuple[int, int], Call] = {}
        self._open_bytes = 0
        self._waiting: deque[Call] = deque()
        self._waiting_bytes = 0

    def __len__(self) -> int:
        """Number of open calls."""
        return len(self._open)

    @property
    def is_waiting(self) -> bool:
        """Whether a call waits to be sent."""
        return bool(self._waiting)

    def get(self, connection: int, request_id: int) -> Call | None:
        """An open call."""
        return self._open.get((connection, request_id))

    # --- Adding and ending calls ---

    def add(self, call: Call) -> None:
        """Open a call and queue it. Raises RequestError for the caller's faults, PortUnavailable at a limit."""
        limits, size = self._limits, call.size
        if size + HEAD_BYTES > limits.message_bytes:
            raise TooLargeError(f"a command of {size} bytes is too large to be sent to the engine")
        if (call.connection, call.request_id) in self._open:
            raise RequestError(f"request id {call.request_id} is in use on this connection")
        if len(self._open) >= limits.calls or (self._open and self._open_bytes + size > limits.call_bytes):
            raise PortUnavailable(
                f"{len(self._open)} calls of this web process wait for an answer; no more are accepted"
            )
        if self._is_full(size):
            self._drop_unwanted()
        if self._is_full(size):
            raise PortUnavailable("too many commands wait to be sent to the broker's engine; try again in a moment")
        self._enqueue(call)
        self._open[call.connection, call.request_id] = call
        self._open_bytes += size

    def add_unanswered(self, call: Call) -> bool:
        """Queue a call for which nobody waits. Returns False if the queue is full."""
        if self._is_full(call.size):
            return False
        self._enqueue(call)
        return True

    def answer(self, call: Call) -> None:
        """Note that a call is answered; its caller still has to ``end`` it."""
        del self._open[call.connection, call.request_id]

    def end(self, call: Call) -> bool:
        """Close a call. Returns whether it was answered."""
        self._open_bytes -= call.size
        return self._open.pop((call.connection, call.request_id), None) is None

    def _is_full(self, size: int) -> bool:
        return len(self._waiting) >= self._limits.waiting_count or (
            bool(self._waiting) and self._waiting_bytes + size > self._limits.waiting_bytes
        )

    def _drop_unwanted(self) -> None:
        self._waiting = deque(call for call in self._waiting if call.is_wanted)
        self._waiting_bytes = sum(call.size for call in self._waiting)

    def _enqueue(self, call: Call) -> None:
        self._waiting.append(call)
        self._waiting_bytes += call.size

    def take_batch(self) -> list[Call]:
        """Take the calls of the next batch out of the queue."""
        limits, waiting = self._limits, self._waiting
        calls: list[Call] = []
        size = 0
        while waiting and len(calls) < limits.batch_count and size < limits.batch_bytes:
            call = waiting.popleft()
            self._waiting_bytes -= call.size
            if call.is_wanted:
                calls.append(call)
                size += call.size
        return calls

    # --- Failing calls ---

    def fail_all(self, error: Callable[[], BrokerError]) -> None:
        """End every open call with an error."""
        fail(self._open.values(), error)

    def fail_sent(self, reason: str, before_batch: int = 1 << 63) -> None:
        """End the calls that were sent in a batch before ``before_batch``, because no answer will come.

        A pull changes nothing and can be repeated at once. Any other command may or may not have been executed.
        """
        sent = [call for call in self._open.values() if 0 < call.batch < before_batch]
        fail([call for call in sent if call.is_pull], lambda: PortUnavailable(reason))
        fail(
            [call for call in sent if not call.is_pull],
            lambda: PortTimeout(f"{reason}; the command may or may not have been executed"),
        )


def fail(calls: Iterable[Call], error: Callable[[], BrokerError]) -> None:
    """End calls with an error, each with one of its own."""
    for call in calls:
        call.fail(error())
