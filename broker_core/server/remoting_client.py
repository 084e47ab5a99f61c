"""RocketMQ's NettyRemotingClient, as far as a broker is a client: one connection to one server, made when it is needed.

answer = await client.invoke(RequestCode.REGISTER_BROKER, fields, body, timeout_s=3)
"""

import asyncio
from typing import cast

from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand, RemotingProtocolError

CONNECT_SECONDS = 3.0
MAX_CALLS = 1000


class RemotingClient:
    """A connection to ``host``:``port``. Calls may overlap. What goes wrong is an OSError, TimeoutError being one."""

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
        """Ask, and wait for the answer. When it does not come in time the connection is closed, as RocketMQ does."""
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
        """Say it, and do not wait."""
        connection = await self._connect()
        connection.write(self._request(code, ext_fields, body, oneway=True))

    async def wait_closed(self) -> None:
        """Return when the connection has ended; at once when there is none."""
        if self._connection is not None:
            await self._connection.ended.wait()

    async def close(self) -> None:
        """End the connection. The next call would make another one."""
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
                except (OverflowError, UnicodeError) as error:  # a port or a name that cannot be
                    raise OSError(str(error)) from error
            assert self._connection is not None
            return self._connection


class _Connection(asyncio.Protocol):
    """From one connect to its end."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self._calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._decoder = FrameDecoder()
        self._why = "the server closed the connection"

    _transport: asyncio.Transport

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def expect(self, opaque: int) -> "asyncio.Future[RemotingCommand]":
        """Where the answer to this call will be."""
        if len(self._calls) >= MAX_CALLS:
            raise OSError(f"{MAX_CALLS} calls wait for their answers already")
        self._calls[opaque] = asyncio.get_running_loop().create_future()
        return self._calls[opaque]

    def forget(self, opaque: int) -> None:
        """Nobody waits for this answer any more."""
        self._calls.pop(opaque, None)

    def write(self, request: RemotingCommand) -> None:
        """Send it; OSError when it has no place in a frame, or the connection has ended."""
        if self.is_closing:
            raise ConnectionError(self._why)
        try:
            self._transport.write(request.encode())
        except ValueError as error:
            raise OSError(str(error)) from error

    def close(self, why: str) -> None:
        """End it; who waits is told why."""
        self._why = why
        self._transport.abort()

    # --- for asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def data_received(self, data: bytes) -> None:
        try:
            commands = self._decoder.feed(data)
        except RemotingProtocolError as error:
            self._take(error.commands)
            self.close(f"the server does not speak RocketMQ's protocol: {error}")
            return
        self._take(commands)

    def _take(self, commands: list[RemotingCommand]) -> None:
        """Answers; what a server asks here is not for a broker without slaves, and is passed over."""
        for command in commands:
            call = self._calls.get(command.opaque) if command.is_response else None
            if call is not None and not call.done():
                call.set_result(command)

    def connection_lost(self, error: Exception | None) -> None:
        for call in self._calls.values():
            if not call.done():
                call.set_exception(ConnectionError(str(error) if error else self._why))
        self.ended.set()
