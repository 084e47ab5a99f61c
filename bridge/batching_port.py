"""The engine port of one web process, over any transport that carries bytes.

It batches by itself: while one send is under way, commands gather into the next one (``pump.py``). Held pulls do not
hold a batch back, since every command has a future of its own. Every command ends: with its reply, its deadline,
the loss of the engine, or because its caller went away.
"""

import asyncio
import itertools
import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Raw

from bridge import wire
from bridge.limits import Limits
from bridge.port import PortTimeout, PortUnavailable, Watcher, raise_failed
from bridge.pump import Pump
from bridge.transport import Transport, TransportFull
from bridge.watchers import Watchers
from broker_core.clock import Clock, SystemClock
from broker_core.codes import ResponseCode
from broker_core.commands import (
    NOTICE_ID,
    CancelPull,
    CloseConnection,
    Command,
    Held,
    Notice,
    PullMessage,
    Reply,
)
from broker_core.errors import BrokerError, RequestError
from broker_core.server.tasks import end_task, start_task

log = logging.getLogger(__name__)
_SENT = Raw(b"")
OnHeld = Callable[[Held], None]


class Call:
    """One command on its way. ``batch`` is 0 until it is sent; ``future`` None when nobody waits for the reply."""

    __slots__ = ("batch", "connection", "deadline_ms", "future", "is_pull", "on_held", "raw", "request_id", "size")

    def __init__(
        self,
        connection: int,
        request_id: int,
        raw: Raw,
        deadline_ms: int,
        is_pull: bool,
        future: "asyncio.Future[Reply] | None",
        on_held: OnHeld | None,
    ) -> None:
        self.connection = connection
        self.request_id = request_id
        self.raw = raw  # empty after it was sent
        self.size = len(raw)
        self.deadline_ms = deadline_ms
        self.is_pull = is_pull
        self.future = future
        self.on_held = on_held
        self.batch = 0

    def wanted(self) -> bool:
        return self.future is None or not self.future.done()

    def fail(self, error: BrokerError) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)


def _time_out(call: Call, timeout_ms: int) -> None:
    call.fail(
        PortTimeout(
            f"the broker's engine did not answer within {timeout_ms} ms; what was asked may or may not have been done"
        )
    )


def _ignore(notice: Notice) -> None:
    """What is done with notices until somebody wants them."""


class BatchingConnection:
    """One client of the broker, as one web process sees it."""

    def __init__(self, port: "BatchingPort", number: int) -> None:
        self._port = port
        self.number = number
        self.on_notice: Callable[[Notice], None] = _ignore
        self.calls: set[Call] = set()
        self.sent = False
        self.closed = False
        self._request_ids = itertools.count(1)

    def next_request_id(self) -> int:
        return next(self._request_ids)

    async def call(
        self,
        command: Command,
        *,
        timeout_ms: int | None = None,
        on_held: OnHeld | None = None,
        request_id: int | None = None,
    ) -> Reply:
        if self.closed:
            raise PortUnavailable("this connection to the broker was closed", retry_after_ms=0)
        if isinstance(command, CloseConnection):
            raise RequestError("a connection is closed by its own close()")
        return await self._port.call_on(self, request_id or self.next_request_id(), command, timeout_ms, on_held)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._port.closed(self)


class BatchingPort:
    """An EnginePort. Belongs to one event loop; nothing here may be called from a thread."""

    def __init__(self, transport: Transport, *, limits: Limits | None = None, clock: Clock | None = None) -> None:
        self.limits = limits or Limits()
        self.malformed = 0
        self._transport = transport
        self._clock = clock or SystemClock()
        self._name = uuid.uuid4().hex
        self._watchers = Watchers(self._watching_changed)
        self._connection_numbers = itertools.count(wire.PROCESS + 1)
        self._process = BatchingConnection(self, wire.PROCESS)
        self._calls: dict[tuple[int, int], Call] = {}
        self._call_bytes = 0
        self._waiting: deque[Call] = deque()
        self._waiting_bytes = 0
        self._connections: dict[int, BatchingConnection] = {}
        self._closings: set[int] = set()
        self._number = 0  # of the batch sent last, or under way
        self._number_sent = 0  # of the batch sent last
        self._first = 0  # first batch that reached the engine as it is now
        self._away = "the broker's engine has not answered yet"  # why it cannot be asked; empty: it can
        self._heard_ns = 0
        self._pump = Pump(self._send_next)
        self._alive_task: asyncio.Task[None] | None = None
        self._alive_now = asyncio.Event()
        self._heard = asyncio.Event()
        self._left = asyncio.Event()

    # --- Life ---

    async def start(self) -> None:
        """Begin, and wait a little for the engine; without one, calls are refused until it is there."""
        await self._transport.start(self._on_message, self._lost)
        self._alive_task = start_task(self._say_alive(), "report to the engine that this web process is alive")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.start_wait_ms / 1000):
                await self._heard.wait()

    async def stop(self) -> None:
        """End all calls with PortUnavailable, tell the engine, stop the transport."""
        await end_task(self._alive_task)
        self._away = "this web process is stopping"
        _fail(self._calls.values(), self._unavailable)
        await self._pump.stop()
        await self._try_send(wire.encode_to_engine(wire.Bye(self._name)))
        await self._transport.stop()

    async def last_replies(self) -> None:
        """For an engine that stops together with this process: wait until it has answered what it holds."""
        if self._calls and not self._away:
            self._left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.drain_ms / 1000):
                    await self._left.wait()

    async def _say_alive(self) -> None:
        """Every few seconds: I am here, this I want to watch; and notice when the engine does not answer."""
        while True:
            self._alive_now.clear()
            alive = wire.Alive(
                self._name, self._transport.reply_to, self._number_sent, self._watchers.deltas, self._watchers.events
            )
            await self._try_send(wire.encode_to_engine(alive))
            silence_ms = (self._clock.mono_ns() - self._heard_ns) // 1_000_000
            if silence_ms > self.limits.engine_silence_ms and not self._away:
                self._lost(f"the broker's engine has not answered for {silence_ms / 1000:.0f} s")
            if self._closings:
                self._pump.wake()
            pause_ms = self.limits.away_alive_ms if self._away else self.limits.alive_ms
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):  # wait_for may swallow a cancellation before 3.12
                    await self._alive_now.wait()

    async def _try_send(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self.limits.alive_ms / 1000):
                await self._transport.send(data)
        except Exception as error:
            log.debug("a sign of life could not be sent: %s", error)

    # --- Calls ---

    async def call(self, command: Command, *, timeout_ms: int | None = None) -> Reply:
        return await self._process.call(command, timeout_ms=timeout_ms)

    def connection(self) -> BatchingConnection:
        connection = BatchingConnection(self, next(self._connection_numbers))
        self._connections[connection.number] = connection
        return connection

    async def call_on(
        self,
        connection: BatchingConnection,
        request_id: int,
        command: Command,
        timeout_ms: int | None,
        on_held: OnHeld | None,
    ) -> Reply:
        """One command of one connection, from encoding to reply."""
        if timeout_ms is None:
            timeout_ms = self.limits.call_timeout_ms
            timeout_ms += command.suspend_timeout_ms if isinstance(command, PullMessage) else 0
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        call = Call(
            connection.number,
            request_id,
            wire.encode_command(command),
            self._clock.now().wall_ms + timeout_ms,
            isinstance(command, PullMessage),
            future,
            on_held,
        )
        self._admit(call)
        self._calls[call.connection, request_id] = call
        self._call_bytes += call.size
        connection.calls.add(call)
        timer = loop.call_later(timeout_ms / 1000, _time_out, call, timeout_ms)
        try:
            return raise_failed(await future)
        finally:
            timer.cancel()
            self._forget(connection, call)

    def _admit(self, call: Call) -> None:
        if self._away:
            raise self._unavailable()
        size = call.size
        if size + 1024 > self.limits.message_bytes:
            raise RequestError(
                f"a command of {size} bytes is too large for the way to the engine", code=ResponseCode.MESSAGE_ILLEGAL
            )
        if (call.connection, call.request_id) in self._calls:
            raise RequestError(f"request id {call.request_id} is in use on this connection")
        if len(self._calls) >= self.limits.calls or (self._calls and self._call_bytes + size > self.limits.call_bytes):
            raise PortUnavailable(f"{len(self._calls)} calls of this web process wait for an answer; no more are taken")
        if self._is_full(size):
            self._drop_unwanted()
        if self._is_full(size):
            raise PortUnavailable("the way to the broker's engine is full; try again in a moment")
        self._enqueue(call)

    def _is_full(self, size: int) -> bool:
        return len(self._waiting) >= self.limits.waiting_count or (
            bool(self._waiting) and self._waiting_bytes + size > self.limits.waiting_bytes
        )

    def _drop_unwanted(self) -> None:
        self._waiting = deque(call for call in self._waiting if call.wanted())
        self._waiting_bytes = sum(call.size for call in self._waiting)

    def _enqueue(self, call: Call) -> None:
        self._waiting.append(call)
        self._waiting_bytes += call.size
        self._pump.wake()

    def _forget(self, connection: BatchingConnection, call: Call) -> None:
        """The call is over. A pull that nobody waits for any more is taken out of the pullRequestTable."""
        connection.calls.discard(call)
        self._call_bytes -= call.size
        answered = self._calls.pop((call.connection, call.request_id), None) is None
        abandoned = call.is_pull and call.batch and not answered and not connection.closed and not self._away
        if abandoned and not self._is_full(64):
            self._enqueue(
                Call(
                    call.connection,
                    0,
                    wire.encode_command(CancelPull(request_id=call.request_id)),
                    call.deadline_ms,
                    False,
                    None,
                    None,
                )
            )

    def closed(self, connection: BatchingConnection) -> None:
        """A client is gone: its calls end here, and at the engine what it holds."""
        self._connections.pop(connection.number, None)
        _fail(connection.calls, lambda: PortUnavailable("the connection to the broker was closed", retry_after_ms=0))
        if connection.sent and len(self._closings) < self.limits.closings:
            self._closings.add(connection.number)
            self._pump.wake()

    # --- Sending ---

    def _take(self) -> list[Call]:
        limits, waiting = self.limits, self._waiting
        calls: list[Call] = []
        size = 0
        while waiting and len(calls) < limits.batch_count and size < limits.batch_bytes:
            call = waiting.popleft()
            self._waiting_bytes -= call.size
            if call.wanted():
                calls.append(call)
                size += call.size
        return calls

    async def _send_next(self) -> bool:
        calls = self._take()
        closings = self._closings
        if not calls and not closings:
            return False
        self._closings = set()
        self._number += 1
        for call in calls:
            call.batch = self._number
            connection = self._connections.get(call.connection)
            if connection is not None:
                connection.sent = True
        data = wire.encode_to_engine(
            wire.EncodedRequests(
                self._name,
                self._transport.reply_to,
                self._number,
                list(closings),
                [(call.connection, call.request_id, call.deadline_ms, call.raw) for call in calls],
            )
        )
        for call in calls:
            call.raw = _SENT
        try:
            await self._transport.send(data)
        except Exception as error:
            self._not_sent(calls, closings, error)
        else:
            self._number_sent = self._number
        return bool(self._waiting)

    def _not_sent(self, calls: list[Call], closings: set[int], error: Exception) -> None:
        self._closings |= closings
        if isinstance(error, TransportFull):
            remark = "the way to the broker's engine is full; try again in a moment"
        else:
            remark = f"the broker's engine cannot be reached: {error}"
        _fail(calls, lambda: PortUnavailable(remark))

    # --- Receiving ---

    def _on_message(self, data: bytes) -> None:
        try:
            message = wire.decode_to_web(data, self.limits.message_bytes)
        except wire.MalformedMessage as error:
            self.malformed += 1
            log.warning("passed over: %s", error)
            return
        self._heard_ns = self._clock.mono_ns()
        self._heard.set()
        if self._away:
            self._away = ""
            self._watchers.lost("the broker's engine answers again")
        if message.first > self._first:
            self._first = message.first
            self._end_lost_calls()
        for connection, request_id, reply in message.replies:
            self._answer(connection, request_id, reply)
        self._watchers.on_message(message)
        if message.leaving:
            self._lost("the broker's engine is stopping")
            self._left.set()

    def _answer(self, connection: int, request_id: int, reply: Reply) -> None:
        call = self._calls.get((connection, request_id))
        if call is None or call.future is None:  # its caller is gone, or it is no answer at all
            if request_id == NOTICE_ID and isinstance(reply, Notice):
                self._notify(connection, reply)
            return
        if not isinstance(reply, Held):
            del self._calls[connection, request_id]
            if not call.future.done():
                call.future.set_result(reply)
        elif call.on_held is not None and not call.future.done():
            try:
                call.on_held(reply)
            except Exception:
                log.exception("telling a client of its hold failed")

    def _notify(self, number: int, notice: Notice) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            try:
                connection.on_notice(notice)
            except Exception:
                log.exception("telling a client what the engine said failed")

    # --- Loss ---

    def _end_lost_calls(self) -> None:
        """What an engine was asked that is no more (or has forgotten this process) is not going to be answered."""
        _fail_sent(
            [call for call in self._calls.values() if 0 < call.batch < self._first], "the broker's engine was restarted"
        )

    def _lost(self, reason: str) -> None:
        """There is no engine for now."""
        self._away = reason
        _fail_sent([call for call in self._calls.values() if call.batch], reason)
        _fail(self._calls.values(), self._unavailable)
        self._watchers.lost(reason)
        self._alive_now.set()

    def _unavailable(self) -> PortUnavailable:
        return PortUnavailable(self._away)

    # --- Watching ---

    def watch(self, watcher: Watcher, *, deltas: bool = False, events: bool = False) -> Callable[[], None]:
        return self._watchers.add(watcher, deltas=deltas, events=events)

    def _watching_changed(self) -> None:
        self._alive_now.set()


def _fail(calls: Iterable[Call], error: Callable[[], BrokerError]) -> None:
    for call in calls:
        call.fail(error())


def _fail_sent(calls: list[Call], reason: str) -> None:
    """A pull changes nothing and can be repeated at once; of anything else nobody knows whether it was done."""
    _fail([call for call in calls if call.is_pull], lambda: PortUnavailable(reason))
    _fail(
        [call for call in calls if not call.is_pull],
        lambda: PortTimeout(f"{reason}; what was asked may or may not have been done"),
    )
