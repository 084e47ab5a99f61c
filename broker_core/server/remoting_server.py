"""RocketMQ's NettyRemotingServer: frames over TCP, plain or TLS, of a broker's or a name server's clients.

Each connection is a ``Channel`` (``remoting_channel.py``) and has a session with the server's owner. What is wrong with
one connection ends that connection, is counted, and is felt by no other.
"""

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from broker_core.server.remoting_channel import Channel, RemotingCounters, RemotingLimits, Session, note
from broker_core.server.tls import TlsError, TlsOptions, make_context

if TYPE_CHECKING:
    import ssl

BACKLOG = 1024


class CannotServe(Exception):
    """A sentence about why there can be no server, and what to do."""


class RemotingServer:
    """Takes connections on all of ``ports`` and treats them alike, from ``start`` to ``stop``."""

    def __init__(
        self,
        make_session: Callable[[Channel], Session],
        host: str,
        ports: Sequence[int],
        *,
        port_setting: str = "listenPort",
        tls: TlsOptions | None = None,
        limits: RemotingLimits | None = None,
        largest_answer: Callable[[], int] = lambda: 0,
    ) -> None:
        """``port_setting`` is what a person changes to have other ports; ``largest_answer`` how many bytes one message
        may make now."""
        self.host = host
        self.ports = ports
        self.port_setting = port_setting
        self.limits = limits or RemotingLimits()
        self._largest_answer = largest_answer
        self.counters = RemotingCounters()
        self.channels: set[Channel] = set()
        self.unfinished = 0
        """Bytes of frames that are not whole yet, of all channels."""
        self.unsent = 0
        """Unsent bytes of all clients that are behind, as of when each was last written to."""
        self.make_session = make_session
        self.tls = tls or TlsOptions()
        self.tls_context: ssl.SSLContext | None = None
        self._servers: list[asyncio.Server] = []
        self._unsent: list[Channel] = []
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._last_closed: asyncio.Event | None = None  # there is one from the beginning of the end on

    loop: asyncio.AbstractEventLoop

    async def bind(self) -> None:
        """Have the ports, and everything else that may be missing; nobody is served yet. Raises CannotServe."""
        self.loop = asyncio.get_running_loop()
        if self.tls.mode != "disabled":
            try:
                self.tls_context = await asyncio.to_thread(make_context, self.tls)
            except TlsError as error:
                raise CannotServe(str(error)) from error
        for port in self.ports:
            try:
                self._servers.append(
                    await self.loop.create_server(
                        lambda: Channel(self), self.host, port, backlog=BACKLOG, start_serving=False
                    )
                )
            except OSError as error:
                self._give_up(port, error)

    async def start(self) -> None:
        """Serve. Raises CannotServe."""
        if not self._servers:
            await self.bind()
        for port, server in zip(self.ports, self._servers, strict=True):
            try:
                await server.start_serving()
                if None in server.sockets:  # uvloop says in this way alone that it does not listen
                    raise OSError(errno.EADDRINUSE, "address already in use")
            except OSError as error:  # somebody else had bound it too, and was the first to listen
                self._give_up(port, error)
        self._sweep()

    def _give_up(self, port: int, error: OSError) -> NoReturn:
        self.stop_listening()
        if error.errno == errno.EADDRINUSE:
            raise CannotServe(
                f"Port {port} of {self.host} is taken, by another broker perhaps: stop that, or choose other ports "
                f"with {self.port_setting}, as in {self.port_setting}={self.ports[0] + 10}"
            ) from error
        raise CannotServe(f"Nothing can listen on {self.host}:{port}: {error.strerror or error}") from error

    def stop_listening(self) -> None:
        """Take no more connections; those that are there go on."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def stop(self) -> None:
        """Close every connection when what is unsent was written, or after ``limits.last_replies``."""
        self.stop_listening()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._last_closed = asyncio.Event()
        for channel in list(self.channels):
            channel.close()
        try:
            async with asyncio.timeout(self.limits.last_replies):
                if self.channels:
                    await self._last_closed.wait()
        except TimeoutError:
            for channel in list(self.channels):
                channel.abort()
            await asyncio.sleep(0)  # for their ``connection_lost``

    # --- For channels ---

    def opened(self, channel: Channel) -> bool:
        """Whether there is room for one more."""
        self.counters.accepted += 1
        if len(self.channels) >= self.limits.connections or self._last_closed is not None:
            self.counters.refused += 1
            note(self.counters.refused, "%s is refused: there are %d connections already", channel, len(self.channels))
            return False
        self.channels.add(channel)
        return True

    def lost(self, channel: Channel) -> None:
        """It is gone, however it went."""
        self.channels.discard(channel)
        if self._last_closed is not None and not self.channels:
            self._last_closed.set()

    def flush_soon(self, channel: Channel) -> None:
        """Write what the channel has gathered when this turn of the loop is over."""
        if not self._unsent:
            self.loop.call_soon(self._flush)
        self._unsent.append(channel)

    def _flush(self) -> None:
        channels, self._unsent = self._unsent, []
        for channel in channels:
            channel.flush()

    def most_unsent(self) -> int:
        """What one client may have unsent: as many of the largest answers as it may ask for at once, or ``unsent``."""
        return max(self.limits.unsent, self.limits.questions * self._largest_answer())

    def count_unfinished(self, change: int) -> None:
        """Frames that are not whole yet grew or shrank; above the limit, whoever has most of it is cut off."""
        self.unfinished += change
        if self.unfinished > self.limits.unfinished:
            max(self.channels, key=lambda channel: channel.unfinished).cut("sent too much of a frame that is not whole")

    def limit_unsent(self) -> None:
        """When too much is unsent, cut off whoever has most of it."""
        if self.unsent > self.limits.unsent_in_all:
            for channel in self.channels:
                channel.count_unsent()
            if self.unsent > self.limits.unsent_in_all:
                max(self.channels, key=lambda channel: channel.counted).cut("does not read, as too many do not")

    def _sweep(self) -> None:
        """Look for connections whose time is over, four times in the shortest such time."""
        limits, now = self.limits, self.loop.time()
        for channel in list(self.channels):
            channel.check(now)
        self._sweep_timer = self.loop.call_later(min(limits.idle, limits.handshake, limits.stalled) / 4, self._sweep)
