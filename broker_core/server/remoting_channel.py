"""One connection of a RemotingServer: bytes in and out. Its limits are in ``remoting_limits.py``.

socket --> (TlsRecords) --> FrameDecoder --> session.receive     all frames of one read at once
socket <-- (TlsRecords) <------------------- channel.send        all frames of one turn of the loop as one write
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, cast

from broker_core.codes import RequestCode
from broker_core.remoting.frame_decoder import FrameDecoder
from broker_core.remoting.remoting_command import RemotingCommand, RemotingProtocolError
from broker_core.server.remoting_limits import ChannelLimits, SharedLimits, State, note
from broker_core.server.tls import FIRST_BYTE, TlsOptions, TlsRecords

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

log = logging.getLogger(__name__)

BRIEFLY_ANSWERED = frozenset((RequestCode.ACK_MESSAGE, RequestCode.END_TRANSACTION))
"""Requests without a body whose answers have none either. All of them that one read has are handed over at once, so
that their records become one block of the log."""


class Session(Protocol):
    """The requests and answers of a connection. All calls are made on the loop's thread."""

    def receive(self, commands: list[RemotingCommand]) -> None:
        """All frames of one read, in their order."""

    @property
    def ready(self) -> bool:
        """Whether everything received was handled, so that what can be answered at once has been answered."""

    @property
    def delayed(self) -> bool:
        """Whether the client sends more than can be handled: nothing more is received until everything was handled."""

    def closed(self) -> None:
        """The connection has ended. This is the last call."""


class Owner(Protocol):
    """The server of a connection."""

    loop: asyncio.AbstractEventLoop
    shared: SharedLimits
    tls: TlsOptions
    tls_context: "ssl.SSLContext | None"
    make_session: "Callable[[Channel], Session]"

    def opened(self, channel: "Channel") -> bool:
        """Whether the connection may stay."""

    def lost(self, channel: "Channel") -> None:
        """The connection has ended."""

    def flush_soon(self, channel: "Channel") -> None:
        """Call the channel's ``flush`` at the end of this turn of the loop."""


class Channel(asyncio.Protocol):
    """One connection, plain or TLS; ``str`` names the other end. Send and close are called on the loop's thread."""

    def __init__(self, server: Owner) -> None:
        self.remote_host = ""
        self.remote_port = 0
        self.unfinished = 0
        """Bytes of an incomplete frame."""
        self._is_incomplete = True  # no frame has arrived yet, or part of one
        self.unsent_counted = 0
        """Unsent bytes that are part of ``SharedLimits.unsent``."""
        self._server = server
        self._shared = server.shared
        self._sizes = server.shared.limits
        self._limits = ChannelLimits(self._sizes, server.loop.time())
        self._session: Session | None = None
        self._tls: TlsRecords | None = None
        self._decoder = FrameDecoder()
        self._waiting: list[RemotingCommand] = []  # frames received that the session does not have yet
        self._reading = True
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._written = 0
        self._written_at_handover = self._handed_over = (
            0  # bytes written when the last frames were handed over; the number of these
        )
        self._ends = False  # nothing more is received; the channel closes when the session has the waiting frames
        self._closing = False

    _transport: asyncio.Transport

    def __str__(self) -> str:
        host = f"[{self.remote_host}]" if ":" in self.remote_host else self.remote_host
        return f"{host}:{self.remote_port}"

    @property
    def tls(self) -> bool:
        return self._tls is not None

    @property
    def unsent(self) -> int:
        """Bytes sent that the system has not taken yet."""
        return self._gathered_bytes + self._transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        """Send frames; all frames of one turn of the loop are one write. Nothing is sent once the channel closes."""
        if self._closing:
            return
        if not self._gathered:
            self._server.flush_soon(self)
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > self._sizes.behind:
            self.flush()

    def close(self) -> None:
        """End the connection when everything sent is written."""
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
        self._limits.catch_up()
        self.count_unsent()
        self._transport.abort()

    # --- For the server ---

    def flush(self) -> None:
        """Write the gathered frames; a client that has too much to read already is cut off instead."""
        if not self._gathered:
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent > self._sizes.unsent and unsent > self._shared.max_unsent():
            self.cut(f"does not read: {self.unsent} bytes are unsent")
            return
        data = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        self._limits.note_activity(self._server.loop.time())
        if self._tls is not None:
            data = self._tls.send(data)
        self._write(data)
        if self._limits.state is State.BEHIND:
            self.count_unsent()
            self._shared.limit_unsent()

    def count_unsent(self) -> None:
        """Update the shared total by what is unsent of a client that is behind; others have little unsent."""
        unsent = self._transport.get_write_buffer_size() if self._limits.state is State.BEHIND else 0
        change, self.unsent_counted = unsent - self.unsent_counted, unsent
        self._shared.unsent += change

    def cut(self, why: str) -> None:
        """End a connection that costs too much."""
        if not self._closing:
            self._shared.counters.cut += 1
            note(self._shared.counters.cut, "%s is cut off: it %s", self, why)
        self.abort()

    def check(self, now: float) -> None:
        """End the connection if its time is over (see ``State``)."""
        if not self._limits.is_overdue(now, self._written - self._transport.get_write_buffer_size()):
            return
        if self._limits.state is State.BEHIND:
            self.cut(f"did not read for {self._sizes.stalled:g} s: {self.unsent} bytes are unsent")
        elif self._limits.state is State.HANDSHAKE:
            self._refuse(f"TLS was not established within {self._sizes.handshake:g} s")
        elif self._limits.state is State.RECEIVING:
            self.cut(f"sends a frame too slowly: {self.unfinished} bytes of it have arrived")
        else:
            self._shared.counters.idle += 1
            self.abort()

    # --- For asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self.remote_host, self.remote_port = (self._transport.get_extra_info("peername") or ("", 0))[:2]
        self._transport.set_write_buffer_limits(self._sizes.behind)
        if not self._server.opened(self):
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._closing or self._ends:
            return
        if self._tls is not None:
            data = self._decrypt(data)
        elif self._session is None:
            data = self._begin(data)
        if data:  # part of a TLS record is none, and no activity
            self._limits.note_activity(self._server.loop.time())
            self._decode_frames(data)

    def pause_writing(self) -> None:
        """The client is behind with reading: it may not ask for more."""
        self._limits.fall_behind(self._server.loop.time())
        self._read_or_not()

    def resume_writing(self) -> None:
        self._limits.catch_up()
        self.count_unsent()
        self._hand_over()

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._gathered.clear()
        self._waiting.clear()
        self._limits.catch_up()
        self.count_unsent()
        self._server.lost(self)
        session, self._session = self._session, None
        if session is not None:
            session.closed()

    # --- Inside ---

    def _begin(self, data: bytes) -> bytes:
        """Find out from the first bytes whether the client speaks TLS. Returns the plain bytes in them."""
        server = self._server
        if data[0] == FIRST_BYTE:
            if server.tls_context is None:
                self._refuse("it speaks TLS, which is switched off (tlsMode)")
                return b""
            self._tls = TlsRecords(server.tls_context)
            self._limits.begin_handshake()
            return self._decrypt(data)
        if server.tls.mode == "enforcing":
            self._refuse("it does not speak TLS, which tlsMode requires")
            return b""
        return data

    def _decrypt(self, data: bytes) -> bytes:
        assert self._tls is not None
        plaintext, answer = self._tls.receive(data)
        self._write(answer)
        if self._tls.established:
            self._limits.end_handshake()
        if self._tls.ended:
            self._end()
        elif self._tls.refused:
            self._refuse(f"its TLS is invalid: {self._tls.refused}")
        return plaintext

    def _decode_frames(self, data: bytes) -> None:
        """Decode plain bytes, and hand the frames over."""
        if self._session is None:
            self._session = self._server.make_session(self)
        broken = ""
        try:
            commands = self._decoder.feed(data)
        except RemotingProtocolError as error:
            commands, broken = error.commands, str(error)
        if self._decoder.unfinished or self._is_incomplete:
            self._count_unfinished(self._decoder.unfinished, has_whole=bool(commands))
        if (
            self._waiting
            or (len(commands) > self._sizes.questions and len(commands) > self._questions())
            or (not self._session.ready and (self._session.delayed or any(map(_is_question, commands))))
        ):
            self._waiting += commands
            self._hand_over()
        elif commands:
            self._pass_to_session(commands)
        if broken:
            self._refuse(broken)

    def _count_unfinished(self, unfinished: int, *, has_whole: bool) -> None:
        is_new = has_whole or not self.unfinished
        growth, self.unfinished = unfinished - self.unfinished, unfinished
        self._is_incomplete = unfinished > 0
        self._limits.note_unfinished(unfinished, is_new, self._server.loop.time())
        self._shared.count_unfinished(self, growth, has_whole=has_whole)

    def _pass_to_session(self, commands: list[RemotingCommand]) -> None:
        """Give frames to the session. A defect of it ends this connection only."""
        assert self._session is not None
        self._handed_over, self._written_at_handover = len(commands), self._written + self._gathered_bytes
        try:
            self._session.receive(commands)
        except Exception:
            log.exception("requests of %s could not be handled; its connection is closed", self)
            self.abort()

    def _hand_over(self) -> None:
        """Give the session the waiting frames, or as many questions of them as it may have at once.

        The rest is looked at in the next turn of the loop: the answers to the first ones are written by then.
        """
        self.flush()
        if self._waiting and self._limits.state is not State.BEHIND and not self._closing:
            assert self._session is not None
            if self._session.ready:
                number = _prefix(self._waiting, self._questions())
                commands, self._waiting = self._waiting[:number], self._waiting[number:]
                self._pass_to_session(commands)
            if self._waiting:
                self._server.loop.call_soon(self._hand_over)
            elif self._ends:
                self._server.loop.call_soon(self._close_at_end)
        self._read_or_not()

    def _questions(self) -> int:
        """The number of requests that the session may get at once."""
        answered = self._written + self._gathered_bytes - self._written_at_handover
        are_small = self._handed_over and answered <= self._handed_over * self._sizes.small
        return self._sizes.small_questions if are_small else self._sizes.questions

    def _read_or_not(self) -> None:
        """Read from the client unless it is behind or frames of it wait."""
        reading = self._limits.state is not State.BEHIND and not self._waiting
        if reading != self._reading and not self._transport.is_closing():
            self._reading = reading
            if reading:
                self._limits.resume(self._server.loop.time())
                self._transport.resume_reading()
            else:
                self._limits.pause()
                self._transport.pause_reading()

    def _refuse(self, why: str) -> None:
        self._shared.counters.protocol_errors += 1
        note(self._shared.counters.protocol_errors, "the connection from %s is closed: %s", self, why)
        self._end()

    def _end(self) -> None:
        """Receive nothing more, and close when the session has all frames that came before."""
        self._ends = True
        self._server.loop.call_soon(self._close_at_end)  # frames of this read may still be decoded

    def _close_at_end(self) -> None:
        if not self._waiting:
            self.close()

    def _write(self, data: bytes) -> None:
        """To the transport."""
        if data and not self._transport.is_closing():
            self._written += len(data)
            self._transport.write(data)


def _is_question(command: RemotingCommand) -> bool:
    """Whether the answer to a request may be much larger than the request."""
    return not command.body and command.code not in BRIEFLY_ANSWERED


def _prefix(commands: list[RemotingCommand], questions: int) -> int:
    """The length of the longest prefix of the commands with at most ``questions`` of them."""
    for number, command in enumerate(commands):
        if _is_question(command):
            questions -= 1
            if questions < 0:
                return number
    return len(commands)
