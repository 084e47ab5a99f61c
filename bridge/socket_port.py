"""The engine port over a Unix socket, for an engine in a child process. Nothing else has to be installed.

frame   +-----------------+---------------------------+
        | length u32 (be) | message (bridge/wire.py)  |
        +-----------------+---------------------------+
"""

import asyncio
import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path

from bridge.batching_port import BatchingPort
from bridge.channel_port import Backoff
from bridge.engine_host import EngineHost
from bridge.engine_worker import EngineConsumer
from bridge.limits import Limits
from bridge.transport import TransportLost
from broker_core.clock import Clock
from broker_core.tasks import end_task, start_task

log = logging.getLogger(__name__)
LENGTH = struct.Struct(">I")
LARGE = 64 * 1024
WRITE_BUFFER = 1 << 20  # bytes written to a socket that is not read before further writes wait


async def read_frame(reader: asyncio.StreamReader, limit: int) -> bytes:
    """The next message. ConnectionError if the other end closed, or sends a message longer than ``limit``."""
    try:
        (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
        if length > limit:
            raise ConnectionError(f"a frame of {length} bytes; the limit is {limit}")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the other end closed the connection") from error


def write_frame(writer: asyncio.StreamWriter, data: bytes) -> None:
    length = LENGTH.pack(len(data))
    if len(data) < LARGE:
        writer.write(length + data)
    else:  # two writes cost less than a copy
        writer.write(length)
        writer.write(data)


class SocketTransport:
    """A web process's end. It reconnects by itself, at first at once, then after pauses."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.reply_to = ""
        self._path = path
        self._limits = limits
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()

    async def start(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        self._task = start_task(self._run(on_message, on_lost), "read from the engine's socket")
        await self._tried.wait()

    async def send(self, data: bytes) -> None:
        writer = self._writer
        if writer is None:
            raise TransportLost(f"no engine listens on {self._path}")
        try:
            write_frame(writer, data)
            await writer.drain()
        except OSError as error:
            raise TransportLost(f"the connection to the engine ended ({error})") from error

    async def stop(self) -> None:
        await end_task(self._task)

    async def _run(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        backoff = Backoff(self._limits)
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._path))
            except OSError as error:
                log.debug("the engine's socket %s cannot be opened: %s", self._path, error)
                self._tried.set()
                await backoff.pause()
                continue
            backoff.reset()
            writer.transport.set_write_buffer_limits(WRITE_BUFFER)
            self._writer = writer
            self._tried.set()
            try:
                while True:
                    on_message(await read_frame(reader, self._limits.message_bytes))
            except OSError as error:
                log.debug("the connection to the engine ended: %s", error)
            finally:
                self._writer = None
                writer.transport.abort()
            on_lost("the connection to the broker's engine ended")
            await backoff.pause()


class SocketPort(BatchingPort):
    """An EnginePort over a Unix socket, to an engine that starts and stops together with this process."""

    def __init__(self, path: Path, *, limits: Limits | None = None, clock: Clock | None = None) -> None:
        limits = limits or Limits()
        super().__init__(SocketTransport(path, limits), limits=limits, clock=clock)

    async def stop(self) -> None:
        """Wait for the last replies of the engine, which is stopping too, then stop like any port."""
        await self.last_replies()
        await super().stop()


class SocketLink:
    """The engine's end of one web process's connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, reply_to: str, data: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the other end closed the connection")
        write_frame(self._writer, data)
        await self._writer.drain()

    def cut(self) -> None:
        self._writer.transport.abort()

    def close(self) -> None:
        """Close the connection after everything written is sent."""
        self._writer.close()


class EngineSocket:
    """Serves an EngineHost on a Unix socket that only this user can open. Each connection has an EngineConsumer."""

    def __init__(self, host: EngineHost, path: Path) -> None:
        self._host = host
        self._path = path
        self._server: asyncio.Server | None = None
        self._links: set[SocketLink] = set()

    async def start(self) -> None:
        """Listen. This process has the store's lock, so an existing socket file is left over from a dead engine."""
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, str(self._path))
        finally:
            os.umask(mask)

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Close the connections. The host must have sent its last replies."""
        self.stop_listening()
        for link in list(self._links):
            link.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(WRITE_BUFFER)
        link = SocketLink(writer)
        self._links.add(link)
        consumer = EngineConsumer(self._host, link)
        try:
            while True:
                data = await read_frame(reader, self._host.limits.message_bytes)
                await consumer.dispatch({"type": "engine.batch", "data": data})
        except OSError as error:
            log.debug("a web process's connection ended: %s", error)
        finally:
            self._links.discard(link)
            self._host.link_lost(link)
            writer.close()
