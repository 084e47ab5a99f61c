"""The engine port of one web process, over any transport that carries bytes.

It batches by itself: while one batch is being sent, commands gather for the next one (``pump.py``). Held pulls delay
no batch, because every command has its own future. Every command ends: with its reply, at its deadline, when the engine
is lost, or when its caller is cancelled.
"""

import asyncio
import itertools
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from bridge import wire
from bridge.calls import SENT, Call, Calls, OnHeld, fail
from bridge.limits import Limits
from bridge.port import PortTimeout, PortUnavailable, Watcher, raise_failed
from bridge.pump import Pump
from bridge.transport import Transport, TransportFull
from bridge.watchers import Watchers
from broker_core.clock import Clock, SystemClock
from broker_core.commands import (
    NOTICE_ID,
    CancelPull,
    CloseConnection,
    Command,
    Failed,
    Held,
    Notice,
    PopMessage,
    PullMessage,
    Reply,
)
from broker_core.errors import RequestError
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)


def _time_out(call: Call, timeout_ms: int) -> None:
    call.fail(
        PortTimeout(
            f"the broker's engine did not answer within {timeout_ms} ms; the command may or may not have been executed"
        )
    )


def _hold_ms(command: Command) -> int:
    """How long the engine may hold a command, ms."""
    if isinstance(command, PullMessage):
        return command.suspend_timeout_ms
    return command.poll_ms if isinstance(command, PopMessage) else 0


def _found_no_room(reply: Reply) -> bool:
    """Whether the engine had no room for the answer."""
    return isinstance(reply, Failed) and reply.kind == "no_room"


class Turn:
    """Holds a lock for a block, or until ``end``."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self.lasts = False

    async def __aenter__(self) -> "Turn":
        await self._lock.acquire()
        self.lasts = True
        return self

    def end(self) -> None:
        if self.lasts:
            self.lasts = False
            self._lock.release()

    async def __aexit__(self, *error: object) -> None:
        self.end()


def _ignore(notice: Notice) -> None:
    """Drop a notice: the default of ``on_notice``."""


class BatchingConnection:
    """A PortConnection: one client of the broker."""

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
    """An EnginePort. It belongs to one event loop; no method may be called from another thread."""

    def __init__(self, transport: Transport, *, limits: Limits | None = None, clock: Clock | None = None) -> None:
        self.limits = limits or Limits()
        self.malformed = 0
        self._transport = transport
        self._clock = clock or SystemClock()
        self._name = uuid.uuid4().hex
        self._watchers = Watchers(self._watching_changed)
        self._connection_numbers = itertools.count(wire.PROCESS + 1)
        self._process_connection = BatchingConnection(self, wire.PROCESS)
        self._calls = Calls(self.limits)
        self._connections: dict[int, BatchingConnection] = {}
        self._unreported_closed: set[int] = set()
        self._number = 0  # of the last batch, sent or being sent
        self._number_sent = 0  # of the last batch that was sent
        self._first = 0  # first batch that reached the current engine
        self._away_reason = "the broker's engine has not answered yet"  # why it cannot be called; empty if it can
        self._is_silent = False
        """The engine is away because it does not answer: the reason says for how long."""
        self._heard_ns = 0
        self._pump = Pump(self._send_next)
        self._alive_task: asyncio.Task[None] | None = None
        self._heartbeat_due = asyncio.Event()
        self._heard = asyncio.Event()
        self._engine_left = asyncio.Event()
        self._reading_again = asyncio.Lock()
        """Readers whose answers found no room ask again one after the other."""

    # --- Starting and stopping ---

    async def start(self) -> None:
        """Begin, and wait a moment for the engine. Until it answers, calls are refused."""
        await self._transport.start(self._on_message, self._lost)
        self._alive_task = start_task(self._send_heartbeats(), "report to the engine that this web process is alive")
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.start_wait_ms / 1000):
                await self._heard.wait()

    async def stop(self) -> None:
        """End all calls with PortUnavailable, tell the engine, stop the transport."""
        await end_task(self._alive_task)
        self._away_reason = "this web process is stopping"
        self._calls.fail_all(self._unavailable)
        await self._pump.stop()
        await self._try_send(wire.encode_to_engine(wire.Bye(self._name)))
        await self._transport.stop()

    async def last_replies(self) -> None:
        """For an engine that stops together with this process: wait until it has answered its held pulls."""
        if len(self._calls) and not self._away_reason:
            self._engine_left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.drain_ms / 1000):
                    await self._engine_left.wait()

    async def _send_heartbeats(self) -> None:
        """Report periodically that this process is alive and what it watches; notice an engine that does not answer."""
        while True:
            self._heartbeat_due.clear()
            alive = wire.Alive(
                self._name, self._transport.reply_to, self._number_sent, self._watchers.deltas, self._watchers.events
            )
            await self._try_send(wire.encode_to_engine(alive))
            silence_ms = (self._clock.mono_ns() - self._heard_ns) // 1_000_000
            if silence_ms > self.limits.engine_silence_ms and (self._is_silent or not self._away_reason):
                reason = f"the broker's engine has not answered for {silence_ms / 1000:.0f} s"
                if self._is_silent:
                    self._away_reason = reason
                else:
                    self._lost(reason)
                    self._is_silent = True
            if self._unreported_closed:
                self._pump.wake()
            pause_ms = self.limits.away_alive_ms if self._away_reason else self.limits.alive_ms
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):  # wait_for may swallow a cancellation before 3.12
                    await self._heartbeat_due.wait()

    async def _try_send(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self.limits.alive_ms / 1000):
                await self._transport.send(data)
        except Exception as error:
            log.debug("a heartbeat could not be sent: %s", error)

    # --- Calls ---

    @property
    def answered_ms(self) -> int | None:
        if not self._heard.is_set():
            return None
        now = self._clock.now()
        return now.wall_ms - (now.mono_ns - self._heard_ns) // 1_000_000

    async def call(self, command: Command, *, timeout_ms: int | None = None) -> Reply:
        return await self._process_connection.call(command, timeout_ms=timeout_ms)

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
        """Send one command of one connection and return its reply."""
        if timeout_ms is None:
            timeout_ms = self.limits.call_timeout_ms
            timeout_ms += _hold_ms(command)
        reply = await self._call_once(connection, request_id, command, timeout_ms, on_held)
        if _found_no_room(reply):
            again = partial(self._call_once, connection, request_id, command, timeout_ms)
            with suppress(TimeoutError):
                reply = await self._read_again(reply, again, on_held)
        return raise_failed(reply)

    async def _read_again(
        self, reply: Reply, call: Callable[[OnHeld], Awaitable[Reply]], on_held: OnHeld | None
    ) -> Reply:
        """Repeat a call until there is room for its answer, in turn with other readers. TimeoutError if there is none.

        A pull that is held this time waits for a message and no longer for room, so the next reader has its turn.
        """
        while _found_no_room(reply):
            async with asyncio.timeout(self.limits.room_wait_ms / 1000) as limit, Turn(self._reading_again) as turn:

                def held(hold: Held, turn: Turn = turn, limit: asyncio.Timeout = limit) -> None:
                    turn.end()
                    limit.reschedule(None)
                    if on_held is not None:
                        on_held(hold)

                while _found_no_room(reply) and turn.lasts:
                    reply = await call(held)
                    if isinstance(reply, Failed) and turn.lasts:
                        await asyncio.sleep(reply.retry_after_ms / 1000)
        return reply

    async def _call_once(
        self,
        connection: BatchingConnection,
        request_id: int,
        command: Command,
        timeout_ms: int,
        on_held: OnHeld | None,
    ) -> Reply:
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
            may_wait=isinstance(command, PopMessage),
        )
        if self._away_reason:
            raise self._unavailable()
        self._calls.add(call)
        self._pump.wake()
        connection.calls.add(call)
        timer = loop.call_later(timeout_ms / 1000, _time_out, call, timeout_ms)
        try:
            return await future
        finally:
            timer.cancel()
            self._end_call(connection, call)

    def _end_call(self, connection: BatchingConnection, call: Call) -> None:
        """Close a call. If it may be held and was sent, and has no answer, the engine is told to release its hold."""
        connection.calls.discard(call)
        answered = self._calls.end(call)
        if call.may_wait and call.batch and not answered and not connection.closed and not self._away_reason:
            cancel = wire.encode_command(CancelPull(request_id=call.request_id))
            if self._calls.add_unanswered(Call(call.connection, 0, cancel, call.deadline_ms, False, None, None)):
                self._pump.wake()

    def closed(self, connection: BatchingConnection) -> None:
        """End the calls of a closed connection, and report it to the engine, which releases its holds."""
        self._connections.pop(connection.number, None)
        fail(connection.calls, lambda: PortUnavailable("the connection to the broker was closed", retry_after_ms=0))
        if connection.sent and len(self._unreported_closed) < self.limits.closings:
            self._unreported_closed.add(connection.number)
            self._pump.wake()

    # --- Sending ---

    async def _send_next(self) -> bool:
        calls = self._calls.take_batch()
        closed_numbers = self._unreported_closed
        if not calls and not closed_numbers:
            return False
        self._unreported_closed = set()
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
                list(closed_numbers),
                [(call.connection, call.request_id, call.deadline_ms, call.raw) for call in calls],
            )
        )
        for call in calls:
            call.raw = SENT
        try:
            await self._transport.send(data)
        except Exception as error:
            self._fail_unsent(calls, closed_numbers, error)
        else:
            self._number_sent = self._number
        return self._calls.is_waiting

    def _fail_unsent(self, calls: list[Call], closed_numbers: set[int], error: Exception) -> None:
        self._unreported_closed |= closed_numbers
        if isinstance(error, TransportFull):
            remark = "the channel to the broker's engine is full; try again in a moment"
        else:
            remark = f"the broker's engine cannot be reached: {error}"
        fail(calls, lambda: PortUnavailable(remark))

    # --- Receiving ---

    def _on_message(self, data: bytes) -> None:
        try:
            message = wire.decode_to_web(data, self.limits.message_bytes)
        except wire.MalformedMessage as error:
            self.malformed += 1
            log.warning("a message of the engine is ignored: %s", error)
            return
        self._heard_ns = self._clock.mono_ns()
        self._heard.set()
        if self._away_reason:
            self._away_reason, self._is_silent = "", False
            self._watchers.lost("the broker's engine answers again")
        if message.first > self._first:
            self._first = message.first
            self._calls.fail_sent("the broker's engine was restarted", before_batch=message.first)
        for connection, request_id, reply in message.replies:
            self._answer(connection, request_id, reply)
        self._watchers.on_message(message)
        if message.leaving:
            self._lost("the broker's engine is stopping")
            self._engine_left.set()

    def _answer(self, connection: int, request_id: int, reply: Reply) -> None:
        call = self._calls.get(connection, request_id)
        if call is None or call.future is None:  # its caller was cancelled, or it is a notice
            if request_id == NOTICE_ID and isinstance(reply, Notice):
                self._notify(connection, reply)
            return
        if not isinstance(reply, Held):
            self._calls.answer(call)
            if not call.future.done():
                call.future.set_result(reply)
        elif call.on_held is not None and not call.future.done():
            try:
                call.on_held(reply)
            except Exception:
                log.exception("the on_held callback of a call failed")

    def _notify(self, number: int, notice: Notice) -> None:
        connection = self._connections.get(number)
        if connection is not None:
            try:
                connection.on_notice(notice)
            except Exception:
                log.exception("the on_notice callback of a connection failed")

    # --- Loss ---

    def _lost(self, reason: str) -> None:
        """Note that the engine cannot be called for now, and end all calls."""
        self._away_reason, self._is_silent = reason, False
        self._calls.fail_sent(reason)
        self._calls.fail_all(self._unavailable)
        self._watchers.lost(reason)
        self._heartbeat_due.set()

    def _unavailable(self) -> PortUnavailable:
        return PortUnavailable(self._away_reason)

    # --- Watching ---

    def watch(self, watcher: Watcher, *, deltas: bool = False, events: bool = False) -> Callable[[], None]:
        return self._watchers.add(watcher, deltas=deltas, events=events)

    def _watching_changed(self) -> None:
        self._heartbeat_due.set()
