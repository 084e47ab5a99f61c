"""RocketMQ's NettyRemotingServer: frames over TCP, plain or TLS, of a broker's or a name server's clients.

Each connection is a ``Channel`` (``remoting_channel.py``) and has a session with the server's owner. An error on one
connection ends that connection and is counted; the others do not notice it.
"""

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from broker_core.server.remoting_channel import Channel, Session
from broker_core.server.remoting_limits import RemotingLimits, SharedLimits, note
from broker_core.server.tls import TlsError, TlsOptions, make_context

if TYPE_CHECKING:
    import ssl

BACKLOG = 1024


class CannotServe(Exception):
    """The server cannot be started. The message is a sentence about the cause and what to do."""


class RemotingServer:
    """Accepts connections on all of ``ports`` and treats them alike, from ``start`` to ``stop``."""

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
        """``port_setting`` is the setting that chooses the ports; ``largest_answer`` returns how many bytes one message
        may make now."""
        self.host = host
        self.ports = ports
        self.port_setting = port_setting
        self.shared = SharedLimits(limits or RemotingLimits(), largest_answer)
        self.limits = self.shared.limits
        self.counters = self.shared.counters
        self.channels: set[Channel] = set()
        self.make_session = make_session
        self.tls = tls or TlsOptions()
        self.tls_context: ssl.SSLContext | None = None
        self._servers: list[asyncio.Server] = []
        self._unsent: list[Channel] = []
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._last_closed: asyncio.Event | None = None  # set when the server begins to stop

    loop: asyncio.AbstractEventLoop

    async def bind(self) -> None:
        """Take the ports and load the certificate; nobody is served yet. Raises CannotServe."""
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
                if None in server.sockets:  # uvloop's only sign that it does not listen
                    raise OSError(errno.EADDRINUSE, "address already in use")
            except OSError as error:  # another process had bound it too and listened first
                self._give_up(port, error)
        self._sweep()

    def _give_up(self, port: int, error: OSError) -> NoReturn:
        self.stop_listening()
        if error.errno == errno.EADDRINUSE:
            raise CannotServe(
                f"Port {port} of {self.host} is taken, perhaps by another broker: stop that, or choose other ports "
                f"with {self.port_setting}, as in {self.port_setting}={self.ports[0] + 10}"
            ) from error
        raise CannotServe(f"Nothing can listen on {self.host}:{port}: {error.strerror or error}") from error

    def stop_listening(self) -> None:
        """Accept no more connections; open ones continue."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def stop(self) -> None:
        """Close every connection when its unsent bytes are written, or after ``limits.last_replies``."""
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
        """Whether there is room for one more, or can be."""
        self.counters.accepted += 1
        is_full = len(self.channels) >= self.limits.connections
        if self._last_closed is not None or (is_full and not self.shared.cut_incomplete()):
            self.counters.refused += 1
            note(self.counters.refused, "%s is refused: there are %d connections already", channel, len(self.channels))
            return False
        self.channels.add(channel)
        self.shared.add(channel)
        return True

    def lost(self, channel: Channel) -> None:
        """The connection has ended, for whatever reason."""
        self.channels.discard(channel)
        self.shared.remove(channel)
        if self._last_closed is not None and not self.channels:
            self._last_closed.set()

    def flush_soon(self, channel: Channel) -> None:
        """Write the channel's gathered frames at the end of this turn of the loop."""
        if not self._unsent:
            self.loop.call_soon(self._flush)
        self._unsent.append(channel)

    def _flush(self) -> None:
        channels, self._unsent = self._unsent, []
        for channel in channels:
            channel.flush()

    def _sweep(self) -> None:
        """End connections that are overdue; called four times in the shortest time limit."""
        limits, now = self.limits, self.loop.time()
        for channel in list(self.channels):
            channel.check(now)
        self._sweep_timer = self.loop.call_later(
            min(limits.idle, limits.handshake, limits.stalled, limits.frame) / 4, self._sweep
        )
