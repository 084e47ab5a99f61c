"""RocketMQ's NettyRemotingClient, reduced to what a broker needs: one connection to one server, opened when needed.

answer = await client.invoke(RequestCode.REGISTER_BROKER, fields, body, timeout_s=3)
"""

import asyncio
from typing import cast

from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand, RemotingProtocolError

CONNECT_SECONDS = 3.0
MAX_CALLS = 1000


class RemotingClient:
    """A connection to ``host``:``port``. Calls may overlap. Every failure is an OSError, which TimeoutError is too."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._opaque = 0

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closing

    async def invoke(
        self, code: int, ext_fields: dict[str, str], body: bytes = b"", *, timeout_s: float = 3.0
    ) -> RemotingCommand:
        """Send a request and return its answer. If none comes in time, the connection is closed, as in RocketMQ."""
        connection = await self._connect()
        request = self._request(code, ext_fields, body)
        answer = connection.expect(request.opaque)
        try:
            connection.write(request)
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            connection.close(f"no answer within {timeout_s:g} s")
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        finally:
            connection.forget(request.opaque)

    async def oneway(self, code: int, ext_fields: dict[str, str], body: bytes = b"") -> None:
        """Send a request that has no answer."""
        connection = await self._connect()
        connection.write(self._request(code, ext_fields, body, oneway=True))

    async def wait_closed(self) -> None:
        """Return when the connection has ended; at once if there is none."""
        if self._connection is not None:
            await self._connection.ended.wait()

    async def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        if self._connection is not None:
            self._connection.close("the client was closed")
            await self._connection.ended.wait()

    def _request(self, code: int, ext_fields: dict[str, str], body: bytes, *, oneway: bool = False) -> RemotingCommand:
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return RemotingCommand.request(code, ext_fields, body, opaque=self._opaque, oneway=oneway)

    async def _connect(self) -> "_Connection":
        async with self._connecting:
            if not self.connected:
                loop = asyncio.get_running_loop()
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        _, self._connection = await loop.create_connection(_Connection, self.host, self.port)
                except TimeoutError:
                    raise TimeoutError(f"no connection within {CONNECT_SECONDS:g} s") from None
                except (OverflowError, UnicodeError) as error:  # an impossible port or host name
                    raise OSError(str(error)) from error
            assert self._connection is not None
            return self._connection


class _Connection(asyncio.Protocol):
    """One connection, with the calls that wait for answers on it."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._decoder = FrameDecoder()
        self._close_reason = "the server closed the connection"

    _transport: asyncio.Transport

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def expect(self, opaque: int) -> "asyncio.Future[RemotingCommand]":
        """Return the future of the answer with this opaque."""
        if len(self._calls) >= MAX_CALLS:
            raise OSError(f"{MAX_CALLS} calls wait for their answers; no more are accepted")
        self._calls[opaque] = asyncio.get_running_loop().create_future()
        return self._calls[opaque]

    def forget(self, opaque: int) -> None:
        """Stop waiting for this answer."""
        self._calls.pop(opaque, None)

    def write(self, request: RemotingCommand) -> None:
        """Send a request. OSError if it does not fit into a frame or the connection has ended."""
        if self.is_closing:
            raise ConnectionError(self._close_reason)
        try:
            self._transport.write(request.encode())
        except ValueError as error:
            raise OSError(str(error)) from error

    def close(self, reason: str) -> None:
        """Close the connection; the calls that wait fail with ``reason``."""
        self._close_reason = reason
        self._transport.abort()

    # --- for asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        try:
            commands = self._decoder.feed(data)
        except RemotingProtocolError as error:
            self._take_answers(error.commands)
            self.close(f"the server does not speak RocketMQ's protocol: {error}")
            return
        self._take_answers(commands)

    def _take_answers(self, commands: list[RemotingCommand]) -> None:
        """Pass answers to their calls. Requests from the server are ignored: they concern only brokers with slaves."""
        for command in commands:
            call = self._calls.get(command.opaque) if command.is_response else None
            if call is not None and not call.done():
                call.set_result(command)

    def connection_lost(self, error: Exception | None) -> None:
        for call in self._calls.values():
            if not call.done():
                call.set_exception(ConnectionError(str(error) if error else self._close_reason))
        self.ended.set()
