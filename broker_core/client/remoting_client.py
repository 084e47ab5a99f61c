"""RocketMQ's NettyRemotingClient: a connection to one server, opened when it is needed.

answer = await client.invoke(RequestCode.REGISTER_BROKER, fields, body, timeout_s=3)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import NamedTuple, cast

from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand, RemotingProtocolError
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)

CONNECT_SECONDS = 3.0
MAX_CALLS = 65_535
"""Requests that may wait for their answers on one connection. A consumer has a held pull for each of its queues."""

TURN_BYTES = 64 << 10
"""Bytes of the requests that may wait for the end of a turn. Requests with more are sent at once."""

_epochs = count(1)

OnRequest = Callable[[RemotingCommand], "RemotingCommand | Awaitable[RemotingCommand] | None"]
"""Handles a request of the server; returns the answer, or what will be the answer, or None if there is none."""


class RemotingClient:
    """A connection to ``host``:``port``. Calls may overlap. Every failure is an OSError, which TimeoutError is too.

    ``unmatched_answers`` counts answers that nobody waits for: they came late, twice, or were never asked for.
    """

    def __init__(
        self,
        host: str,
        port: int,
        on_request: OnRequest | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> None:
        """``on_open`` is called each time that a connection is open, before anything is sent on it."""
        self.host = host
        self.port = port
        self.unmatched_answers = 0
        self.on_request = on_request
        self._on_open = on_open
        self.epoch = 0
        """Another number after each opening and each end of the connection: the server knows what it was sent since."""
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        """The attempt to connect, which all callers share."""
        self._opaque = 0

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closing

    async def invoke(
        self, code: int, ext_fields: dict[str, str], body: bytes = b"", *, timeout_s: float = 3.0
    ) -> RemotingCommand:
        """Send a request and return its answer, within ``timeout_s`` from now, also if a connection is opened first.

        If none comes in time and nothing else was received since the request was sent, the connection is closed. (Java
        closes it in any case, and all other calls on it fail.)
        """
        connection = self._connection
        if connection is None or connection.is_closing or not connection.writable.is_set():
            loop = asyncio.get_running_loop()
            begin_s = loop.time()
            connection = await self._writable_connection(timeout_s)
            timeout_s -= loop.time() - begin_s
        return await connection.call(self._request(code, ext_fields, body), timeout_s)

    def begin(
        self, code: int, ext_fields: dict[str, str], body: bytes = b"", *, timeout_s: float
    ) -> "asyncio.Future[RemotingCommand]":
        """Send a request; returns the future of its answer. On an open connection this takes no task."""
        if self._connection is not None and self.connected and self._connection.writable.is_set():
            return self._connection.call(self._request(code, ext_fields, body), timeout_s)
        return start_task(
            self.invoke(code, ext_fields, body, timeout_s=timeout_s), f"request {code}", expected=(OSError,)
        )

    async def oneway(self, code: int, ext_fields: dict[str, str], body: bytes = b"") -> None:
        """Send a request that has no answer."""
        connection = await self._writable_connection(CONNECT_SECONDS)
        connection.write(self._request(code, ext_fields, body, oneway=True))

    async def wait_closed(self) -> None:
        """Return when the connection has ended; at once if there is none."""
        if self._connection is not None:
            await self._connection.ended.wait()

    async def close(self) -> None:
        """Close the connection; calls that wait for one fail. A later call opens a new one."""
        await end_task(self._connecting)
        if self._connection is not None:
            self._connection.close("the client was closed")
            await self._connection.ended.wait()

    def _request(self, code: int, ext_fields: dict[str, str], body: bytes, *, oneway: bool = False) -> RemotingCommand:
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return RemotingCommand.request(code, ext_fields, body, opaque=self._opaque, oneway=oneway)

    async def _writable_connection(self, timeout_s: float) -> "_Connection":
        """An open connection whose server reads what is sent. OSError if there is none within ``timeout_s``."""
        connection = self._connection
        if connection is None or connection.is_closing:
            begin_s = asyncio.get_running_loop().time()
            connection = await self._connect(timeout_s)
            timeout_s -= asyncio.get_running_loop().time() - begin_s
        if not connection.writable.is_set():
            await connection.wait_writable(timeout_s)
        return connection

    async def _connect(self, timeout_s: float) -> "_Connection":
        """Wait for the attempt to connect that is under way, or begin one.

        One attempt fails for all callers at once: with an attempt for each, the last of many would wait for minutes.
        """
        if self._connecting is None or self._connecting.done():
            name = f"connect to {self.host}:{self.port}"
            self._connecting = start_task(self._open(), name, expected=(OSError,))
        attempt = self._connecting
        await asyncio.wait([attempt], timeout=timeout_s)
        if not attempt.done():
            raise TimeoutError(f"no connection within {timeout_s:g} s")
        if attempt.cancelled():
            raise ConnectionError("the client was closed")
        return attempt.result()

    async def _open(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(lambda: _Connection(self), self.host, self.port)
        except TimeoutError:
            raise TimeoutError(f"no connection within {CONNECT_SECONDS:g} s") from None
        except (OverflowError, UnicodeError) as error:  # an impossible port or host name
            raise OSError(str(error)) from error
        self._connection = connection
        self.epoch = next(_epochs)
        if self._on_open is not None:
            self._on_open()
        return connection


class _ResponseFuture(NamedTuple):
    """RocketMQ's ResponseFuture. ``reads`` is how often the connection had received bytes when the request was sent."""

    answer: "asyncio.Future[RemotingCommand]"
    timer: asyncio.TimerHandle
    reads: int


class _Connection(asyncio.Protocol):
    """One connection, with the calls that wait for answers on it, by opaque."""

    def __init__(self, owner: RemotingClient) -> None:
        self.ended = asyncio.Event()
        self.writable = asyncio.Event()
        """Not set while the server does not read what was sent."""
        self.writable.set()
        self._owner = owner
        self._calls: dict[int, _ResponseFuture] = {}
        self._decoder = FrameDecoder()
        self._close_reason = "the server closed the connection"
        self._reads = 0
        self._unsent: list[bytes] = []
        self._unsent_size = 0
        self._flushes_soon = False
        self._loop = asyncio.get_running_loop()

    _transport: asyncio.Transport

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def call(self, request: RemotingCommand, timeout_s: float) -> "asyncio.Future[RemotingCommand]":
        """Send a request. The future of its answer fails with an OSError."""
        if len(self._calls) >= MAX_CALLS:
            raise OSError(f"{MAX_CALLS} calls wait for their answers; no more are accepted")
        self.write(request)
        answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
        timer = self._loop.call_later(timeout_s, self._expire, request.opaque, timeout_s)
        self._calls[request.opaque] = _ResponseFuture(answer, timer, self._reads)
        return answer

    async def wait_writable(self, timeout_s: float) -> None:
        """Return when the server has read what was sent. TimeoutError if it has not, in this time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.writable.wait()
        except TimeoutError:
            raise TimeoutError(f"the server has not read what was sent to it for {timeout_s:.3g} s") from None

    def _expire(self, opaque: int, timeout_s: float) -> None:
        call = self._calls.pop(opaque)
        remark = f"no answer within {timeout_s:.3g} s"
        if not call.answer.done():
            call.answer.set_exception(TimeoutError(remark))
            if call.reads == self._reads:
                self.close(remark)

    def write(self, request: RemotingCommand) -> None:
        """Send a request. OSError if it does not fit into a frame or the connection has ended.

        Of the requests of one turn of the event loop, the first are sent at once. Those that follow, of other tasks,
        are sent together at its end: a call of the system takes longer than everything else about a request.
        """
        if self.is_closing:
            raise ConnectionError(self._close_reason)
        try:
            frame = request.encode()
        except ValueError as error:
            raise OSError(str(error)) from error
        if self._flushes_soon:
            self._unsent.append(frame)
            self._unsent_size += len(frame)
            if self._unsent_size >= TURN_BYTES:  # of a task that sends one-way requests and never waits, say
                self._send_unsent()
            return
        self._transport.write(frame)
        if self._calls:  # a task that is alone needs no end of the turn
            self._flushes_soon = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """The end of a turn."""
        self._flushes_soon = False
        self._send_unsent()

    def _send_unsent(self) -> None:
        if self._unsent and not self.is_closing:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()
        self._unsent_size = 0

    def close(self, reason: str) -> None:
        """Close the connection; the calls that wait fail with ``reason``."""
        self._send_unsent()
        self._close_reason = reason
        self._transport.abort()

    # --- for asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        self._reads += 1
        try:
            commands = self._decoder.feed(data)
        except RemotingProtocolError as error:
            self._take(error.commands)
            self.close(f"the server does not speak RocketMQ's protocol: {error}")
            return
        self._take(commands)

    def _take(self, commands: list[RemotingCommand]) -> None:
        """Pass answers to their calls, and requests of the server to ``on_request``."""
        for command in commands:
            if not command.is_response:
                self._take_request(command)
                continue
            call = self._calls.pop(command.opaque, None)
            if call is not None:
                call.timer.cancel()
            if call is not None and not call.answer.done():
                call.answer.set_result(command)
                continue
            self._owner.unmatched_answers += 1
            if self._owner.unmatched_answers == 1:
                log.warning(
                    "%s:%d sent an answer (opaque %d) that nobody waits for; more of them are only counted",
                    self._owner.host,
                    self._owner.port,
                    command.opaque,
                )

    def _take_request(self, request: RemotingCommand) -> None:
        if self._owner.on_request is None:
            return
        answer = self._owner.on_request(request)
        if isinstance(answer, RemotingCommand):
            self._answer(request, answer)
        elif answer is not None:
            start_task(self._answer_later(request, answer), f"answer request {request.code}")

    async def _answer_later(self, request: RemotingCommand, answer: Awaitable[RemotingCommand]) -> None:
        self._answer(request, await answer)

    def _answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        if request.is_oneway or self.is_closing:
            return
        try:
            self._transport.write(answer.encode())
        except ValueError as error:  # it does not fit into a frame
            self._transport.write(request.response(1, f"the answer cannot be sent: {error}").encode())

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.epoch = next(_epochs)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.timer.cancel()
            if not call.answer.done():
                call.answer.set_exception(ConnectionError(str(error) if error else self._close_reason))
        self.writable.set()
        self.ended.set()
