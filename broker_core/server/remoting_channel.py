"""One connection of a RemotingServer.

socket --> (TlsRecords) --> FrameDecoder --> session.receive     all frames of one read at once
socket <-- (TlsRecords) <------------------- channel.send        all frames of one turn of the loop as one write
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand, RemotingProtocolError
from broker_core.server.tls import FIRST_BYTE, TlsRecords

if TYPE_CHECKING:
    from broker_core.server.remoting_server import RemotingServer

log = logging.getLogger(__name__)

MIB = 1024 * 1024


class RemotingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What clients may cost. Times in seconds, sizes in bytes."""

    connections: int = 20_000
    """One more is closed as soon as it was taken."""
    idle: float = 120
    """A connection on which nothing came or went for so long is closed; RocketMQ's value."""
    handshake: float = 10
    """TLS not established after so long is given up."""
    stalled: float = 15
    """A client that is behind with reading and takes nothing for so long is cut off."""
    behind: int = MIB
    """With more unsent than this a client is behind: nothing is read from it until it has caught up."""
    unsent: int = 64 * MIB
    """A client with more unsent than this is cut off when there is yet more for it: as many answers as it may ask for
    at once (``questions``), each with a message of 4 MiB, are not too much; where messages may be larger
    (``RemotingServer.most_unsent``), more is not."""
    unsent_in_all: int = 512 * MIB
    """Unsent bytes of all clients that are behind; above it, whoever has most of them is cut off."""
    questions: int = 16
    """A session gets so many frames without a body at once, of one read or of several. A pull is one, and its
    answer may have 256 KiB: the next ones come when it is known whether the client is behind with reading these."""
    unfinished: int = 256 * MIB
    """Frames that are not whole yet, of all connections together; above it, whoever has most of them is cut off."""
    last_replies: float = 2
    """How long writing what is unsent may take when the server stops."""


class RemotingCounters(msgspec.Struct):
    """Connections since the start, by their fate."""

    accepted: int = 0
    refused: int = 0
    """There were too many."""
    protocol_errors: int = 0
    """They sent no frames, or TLS that is none, or one of plain and TLS when only the other is wanted."""
    cut: int = 0
    """They did not read, or sent too much of what never became a frame."""
    idle: int = 0
    """Nothing came or went."""


class Session(Protocol):
    """What a connection is to its owner. All calls come on the loop's thread."""

    def receive(self, commands: list[RemotingCommand]) -> None:
        """All frames of one read, in their order."""

    @property
    def ready(self) -> bool:
        """Whether everything received was handled: what can be answered at once has been."""

    def closed(self) -> None:
        """The connection ended. Called once, and nothing after it."""


def note(count: int, remark: str, *values: object) -> None:
    """Log what any client can bring about: the first, the tenth, the hundredth, and each thousandth time."""
    if count in (1, 10, 100) or count % 1000 == 0:
        log.warning("%s (%d so far)", remark % values, count)


class Channel(asyncio.Protocol):
    """One connection, plain or TLS; ``str`` names the other end. Its owner sends and closes, on the loop's thread."""

    def __init__(self, server: "RemotingServer") -> None:
        self.remote_host = ""
        self.remote_port = 0
        self.unfinished = 0
        """Bytes of a frame that is not whole yet."""
        self._server = server
        self._limits = server.limits
        self._session: Session | None = None
        self._tls: TlsRecords | None = None
        self._decoder = FrameDecoder()
        self._waiting: list[RemotingCommand] = []  # frames that came, but not to the session yet
        self._reading = True
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._written = 0
        self._closing = False
        self._opened_at = self._active_at = server.loop.time()
        self._behind_since: float | None = None
        self.counted = 0
        """Unsent bytes that the server was told of."""
        self._taken = 0  # of what was written, when it was last looked at

    _transport: asyncio.Transport

    def __str__(self) -> str:
        host = f"[{self.remote_host}]" if ":" in self.remote_host else self.remote_host
        return f"{host}:{self.remote_port}"

    @property
    def tls(self) -> bool:
        return self._tls is not None

    @property
    def unsent(self) -> int:
        """Bytes that were sent and that the system has not taken yet."""
        return self._gathered_bytes + self._transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        """Send frames: all of one turn of the loop go out as one write. Nothing happens once the channel closes."""
        if self._closing:
            return
        if not self._gathered:
            self._server.flush_soon(self)
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > self._limits.behind:
            self.flush()

    def close(self) -> None:
        """End the connection when everything that was sent is written."""
        if self._closing:
            return
        self.flush()
        if self._tls is not None:
            self._write(self._tls.end())
        self._closing = True
        self._transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._closing = True
        self._gathered.clear()
        self._gathered_bytes = 0
        self._behind_since = None
        self.count_unsent()
        self._transport.abort()

    # --- For the server ---

    def flush(self) -> None:
        """Write what was gathered; a client that has too much to read already is cut off instead."""
        if not self._gathered:
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent > self._limits.unsent and unsent > self._server.most_unsent():
            self.cut(f"does not read: {self.unsent} bytes are unsent")
            return
        data = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        self._active_at = self._server.loop.time()
        if self._tls is not None:
            data = self._tls.send(data)
        self._write(data)
        if self._behind_since is not None:
            self.count_unsent()
            self._server.limit_unsent()

    def count_unsent(self) -> None:
        """Tell the server how much is unsent of a client that is behind; of others it is little."""
        unsent = self._transport.get_write_buffer_size() if self._behind_since is not None else 0
        change, self.counted = unsent - self.counted, unsent
        self._server.unsent += change

    def cut(self, why: str) -> None:
        """It costs too much."""
        if not self._closing:
            self._server.counters.cut += 1
            note(self._server.counters.cut, "%s is cut off: it %s", self, why)
        self.abort()

    def check(self, now: float) -> None:
        """Close it if its time is over: TLS not established, nothing taken of what is unsent, or nothing at all."""
        limits = self._limits
        if self._behind_since is not None:
            taken = self._written - self._transport.get_write_buffer_size()
            if taken != self._taken:
                self._taken, self._behind_since = taken, now
            elif now - self._behind_since >= limits.stalled:
                self.cut(f"did not read for {limits.stalled:g} s: {self.unsent} bytes are unsent")
        elif self._tls is not None and not self._tls.established and now - self._opened_at >= limits.handshake:
            self._refuse(f"TLS was not established within {limits.handshake:g} s")
        elif now - self._active_at >= limits.idle:
            self._server.counters.idle += 1
            self.abort()

    # --- For asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self.remote_host, self.remote_port = (self._transport.get_extra_info("peername") or ("", 0))[:2]
        self._transport.set_write_buffer_limits(self._limits.behind)
        if not self._server.opened(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._active_at = self._server.loop.time()
        if self._tls is not None:
            data = self._decrypt(data)
        elif self._session is None:
            data = self._begin(data)
        if data:
            self._take(data)

    def pause_writing(self) -> None:
        """It is behind with reading: it may not ask for more."""
        self._behind_since = self._server.loop.time()
        self._read_or_not()

    def resume_writing(self) -> None:
        self._behind_since = None
        self.count_unsent()
        self._hand_over()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._gathered.clear()
        self._waiting.clear()
        self._behind_since = None
        self.count_unsent()
        self._server.lost(self)
        self._server.count_unfinished(-self.unfinished)
        session, self._session = self._session, None
        if session is not None:
            session.closed()

    # --- Inside ---

    def _begin(self, data: bytes) -> bytes:
        """The first bytes: TLS or not? What is plain of them."""
        server = self._server
        if data[0] == FIRST_BYTE:
            if server.tls_context is None:
                self._refuse("it speaks TLS, which is switched off (tlsMode)")
                return b""
            self._tls = TlsRecords(server.tls_context)
            return self._decrypt(data)
        if server.tls.mode == "enforcing":
            self._refuse("it does not speak TLS, without which nobody is served (tlsMode)")
            return b""
        return data

    def _decrypt(self, data: bytes) -> bytes:
        assert self._tls is not None
        plaintext, answer = self._tls.receive(data)
        self._write(answer)
        if self._tls.ended:
            self._server.loop.call_soon(self.close)  # when its last frames were taken
        elif self._tls.refused:
            self._refuse(f"its TLS is none: {self._tls.refused}")
        return plaintext

    def _take(self, data: bytes) -> None:
        """Plain bytes."""
        if self._session is None:
            self._session = self._server.make_session(self)
        broken = ""
        try:
            commands = self._decoder.feed(data)
        except RemotingProtocolError as error:
            commands, broken = error.commands, str(error)
        before, self.unfinished = self.unfinished, self._decoder.unfinished
        if before != self.unfinished:
            self._server.count_unfinished(self.unfinished - before)
        if (
            self._waiting
            or len(commands) > self._limits.questions
            or (not self._session.ready and any(not command.body for command in commands))
        ):
            self._waiting += commands
            self._hand_over()
        elif commands:
            self._give(commands)
        if broken:
            self._refuse(broken)

    def _give(self, commands: list[RemotingCommand]) -> None:
        """To the session, whose defects end this connection only."""
        assert self._session is not None
        try:
            self._session.receive(commands)
        except Exception:
            log.exception("requests of %s could not be taken; its connection is closed", self)
            self.abort()

    def _hand_over(self) -> None:
        """Give the session what waits, or as many questions of it as it may have, and look again in the next turn of
        the loop: when they were handled, what they brought is written by then."""
        self.flush()
        if self._waiting and self._behind_since is None and not self._closing:
            assert self._session is not None
            if self._session.ready:
                number = _prefix(self._waiting, self._limits.questions)
                commands, self._waiting = self._waiting[:number], self._waiting[number:]
                self._give(commands)
            if self._waiting:
                self._server.loop.call_soon(self._hand_over)
        self._read_or_not()

    def _read_or_not(self) -> None:
        """Read from a client that is not behind, and of whose last frames none wait."""
        reading = self._behind_since is None and not self._waiting
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _refuse(self, why: str) -> None:
        self._server.counters.protocol_errors += 1
        note(self._server.counters.protocol_errors, "the connection from %s is closed: %s", self, why)
        self.close()

    def _write(self, data: bytes) -> None:
        """To the transport."""
        if data and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)


def _prefix(commands: list[RemotingCommand], questions: int) -> int:
    """How many of the commands hold so many without a body."""
    for number, command in enumerate(commands):
        if not command.body:
            questions -= 1
            if questions < 0:
                return number
    return len(commands)
