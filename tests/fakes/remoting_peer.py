"""A RemotingServer with sessions that record what they receive, and raw clients of it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand
from broker_core.server.remoting_channel import Channel
from broker_core.server.remoting_limits import RemotingLimits
from broker_core.server.remoting_server import RemotingServer
from broker_core.server.tls import TlsOptions
from tests.fakes.ports import unused_ports

PATIENT = RemotingLimits(idle=60, handshake=60, stalled=60, frame=60)
"""Long enough that a slow machine closes no connection in a test about something else."""


class NotingSession:
    """Answers every request with the request's body, and records what it receives."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.reads: list[list[int]] = []
        """The opaques of the frames of each ``receive``."""
        self.closings = 0

    def receive(self, commands: list[RemotingCommand]) -> None:
        self.reads.append([command.opaque for command in commands])
        for command in commands:
            self.answer(command)

    def answer(self, command: RemotingCommand) -> None:
        self.channel.send(command.response(0, body=command.body).encode())

    @property
    def ready(self) -> bool:
        return True

    @property
    def delayed(self) -> bool:
        return False

    def closed(self) -> None:
        self.closings += 1


class Serving:
    """A running server, and its sessions in order of connection."""

    def __init__(
        self, make_session: Callable[[Channel], NotingSession], tls: TlsOptions, limits: dict[str, Any]
    ) -> None:
        self.sessions: list[NotingSession] = []
        self.ports = unused_ports(2)
        self._make_session = make_session
        self.server = RemotingServer(
            self._new_session, "127.0.0.1", self.ports, tls=tls, limits=msgspec.structs.replace(PATIENT, **limits)
        )

    def _new_session(self, channel: Channel) -> NotingSession:
        self.sessions.append(self._make_session(channel))
        return self.sessions[-1]

    async def connect(self, *, context: ssl.SSLContext | None = None, port: int = 0) -> "Peer":
        """A client with a small receive buffer, so that the system accepts little that the client does not read."""
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it on its own sockets only
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port or self.ports[0]))
        return Peer(*await asyncio.open_connection(sock=raw, ssl=context, server_hostname="" if context else None))


class Peer:
    """One client, at the level of frames and bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._decoder = FrameDecoder()
        self._received: list[RemotingCommand] = []

    def write(self, *commands: RemotingCommand) -> None:
        """Write all commands in one piece."""
        self.writer.write(b"".join(command.encode() for command in commands))

    async def receive(self) -> RemotingCommand:
        """The next frame."""
        while not self._received:
            data = await self.reader.read(1 << 20)
            assert data, "the server closed the connection"
            self._received = self._decoder.feed(data)
        return self._received.pop(0)

    async def ask(self, opaque: int, body: bytes = b"") -> RemotingCommand:
        self.write(request(opaque, body))
        return await self.receive()

    async def rest(self) -> bytes:
        """The bytes received until the server closes or resets the connection."""
        data = b""
        try:
            while chunk := await self.reader.read(1 << 20):
                data += chunk
        except (ConnectionError, ssl.SSLError):
            pass
        self.writer.transport.abort()
        return data


def request(opaque: int, body: bytes = b"", code: int = 10) -> RemotingCommand:
    return RemotingCommand.request(code, {"a": "b"}, body, opaque=opaque)


@asynccontextmanager
async def serving(
    make_session: Callable[[Channel], NotingSession] = NotingSession, *, tls: TlsOptions | None = None, **limits: Any
) -> AsyncIterator[Serving]:
    running = Serving(make_session, tls or TlsOptions(mode="disabled"), limits)
    await running.server.start()
    try:
        yield running
    finally:
        await running.server.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Run the event loop until ``condition`` is true."""
    while not condition():
        await asyncio.sleep(0.001)
