"""What the clients of a RemotingServer may cost: the limits of one connection and of all together.

Nothing here reads or writes a socket. A ``Channel`` reports what happens to it and ends itself when it is told to.
"""

import logging
from collections.abc import Callable
from enum import Enum
from typing import Protocol

import msgspec

log = logging.getLogger(__name__)

MIB = 1024 * 1024


class RemotingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What clients may cost. Times in seconds, sizes in bytes."""

    connections: int = 20_000
    """A further connection takes the place of one that is sending its first frame, or part of a frame: the one that has
    done so for the longest time. If there is none, the new one is closed as soon as it is accepted."""
    idle: float = 120
    """A connection without a byte in or out for so long is closed; RocketMQ's value."""
    handshake: float = 10
    """A connection on which TLS is not established after so long is closed."""
    stalled: float = 15
    """A client that is behind with reading and takes nothing for so long is cut off."""
    frame: float = 10
    """A connection is cut off when a frame is incomplete so long after its first byte; one second later for each
    ``frame_rate`` bytes of it that have arrived."""
    frame_rate: int = 16 * 1024
    behind: int = MIB // 2
    """A client with more unsent than this is behind: nothing is read from it until it has caught up."""
    unsent: int = 64 * MIB
    """A client with more unsent than this is cut off when there is more to send to it. It may have as many answers as
    it may ask for at once (``small_questions``), each with a message of 4 MiB. Where messages may be larger, so is the
    limit (``SharedLimits.max_unsent``)."""
    unsent_in_all: int = 512 * MIB
    """Unsent bytes of all clients that are behind. Above it, the client with most of them is cut off."""
    questions: int = 4
    """A session gets at most so many frames without a body at once, of one read or of several, except for those with
    brief answers (``remoting_channel.BRIEFLY_ANSWERED``). A pull is one, and its answer may have 256 KiB: the next ones
    are handed over when it is known whether the client is behind. Each answer is in memory twice for a moment, as the
    engine's and as a frame. With ``behind`` that is less than 4 MiB for a client that never reads."""
    small_questions: int = 8
    """The same if the previous answers had ``small`` bytes on average or less: a turn of the engine costs as much as a
    few small answers do. The next answers may be large all the same, which makes it 4.5 MiB for
    a moment."""
    small: int = 64 * 1024
    unfinished: int = 256 * MIB
    """Bytes of incomplete frames of all connections. Above it, the connection with most of them is cut off."""
    last_replies: float = 2
    """How long writing what is unsent may take when the server stops."""


class RemotingCounters(msgspec.Struct):
    """Connections since the start, by how they ended."""

    accepted: int = 0
    refused: int = 0
    """Closed because there were too many, and none could make room."""
    protocol_errors: int = 0
    """Closed because they sent no frames or invalid TLS, or used plain text or TLS where only the other is allowed."""
    cut: int = 0
    """Cut off because they did not read, or sent incomplete frames: too slowly, too much, or in the place of others."""
    idle: int = 0
    """Closed because they were silent."""


def note(count: int, remark: str, *values: object) -> None:
    """Log an event that any client can cause: the first, tenth and hundredth time, and each thousandth time."""
    if count in (1, 10, 100) or count % 1000 == 0:
        log.warning("%s (%d so far)", remark % values, count)


class State(Enum):
    """What a connection is doing, which decides whether it is read and when its time is over.

    state      meaning                               read                 its time is over
    ---------  ------------------------------------  -------------------  ------------------------------------------
    BEHIND     more than ``behind`` bytes unsent     no                   ``stalled`` s after it last took a byte
    HANDSHAKE  TLS began and is not established      yes                  ``handshake`` s after it was opened
    RECEIVING  part of a frame has arrived           yes                  ``frame`` s after its first byte, or later
    OPEN       everything else                       if no frames wait    ``idle`` s after the last byte in or out

    The first state that applies is the connection's.
    """

    BEHIND = "behind"
    HANDSHAKE = "handshake"
    RECEIVING = "receiving"
    OPEN = "open"


class ChannelLimits:
    """The state of one connection and the times that its limits count from. Times are the event loop's, in s."""

    def __init__(self, limits: RemotingLimits, now: float) -> None:
        self._limits = limits
        self._opened_at = self._active_at = self._behind_since = now
        self._is_behind = self._shakes_hands = self._is_paused = False
        self._taken = 0
        self._frame_since = now
        self._unfinished = 0

    @property
    def state(self) -> State:
        if self._is_behind:
            return State.BEHIND
        if self._shakes_hands:
            return State.HANDSHAKE
        return State.RECEIVING if self._unfinished and not self._is_paused else State.OPEN

    def note_activity(self, now: float) -> None:
        """Bytes came in or are written."""
        self._active_at = now

    def note_unfinished(self, unfinished: int, is_new: bool, now: float) -> None:
        """So many bytes of an incomplete frame have arrived. ``is_new``: they are the frame's first."""
        self._unfinished = unfinished
        if is_new:
            self._frame_since = now

    def pause(self) -> None:
        """Nothing is read any more, so the rest of a frame is not late."""
        self._is_paused = True

    def resume(self, now: float) -> None:
        """The rest of a frame is read again. Its time begins anew."""
        self._is_paused, self._frame_since = False, now

    def begin_handshake(self) -> None:
        self._shakes_hands = True

    def end_handshake(self) -> None:
        self._shakes_hands = False

    def fall_behind(self, now: float) -> None:
        self._is_behind, self._behind_since = True, now

    def catch_up(self) -> None:
        """The client has taken what was unsent, or its connection is over."""
        self._is_behind = False

    def is_overdue(self, now: float, taken: int) -> bool:
        """Whether its time is over; ``taken`` are the bytes that the system has taken since the start."""
        state = self.state
        if state is State.HANDSHAKE:
            return now - self._opened_at >= self._limits.handshake
        if state is State.RECEIVING:
            limits = self._limits
            return now - self._frame_since >= limits.frame + self._unfinished / limits.frame_rate
        if state is State.OPEN:
            return now - self._active_at >= self._limits.idle
        if taken != self._taken:
            self._taken, self._behind_since = taken, now
        return now - self._behind_since >= self._limits.stalled


class Costly(Protocol):
    """A connection, as far as the limits of all connections see it. Sizes in bytes."""

    unfinished: int
    """Bytes of its incomplete frame."""
    unsent_counted: int
    """Its part of ``SharedLimits.unsent``."""

    def count_unsent(self) -> None: ...
    def cut(self, why: str) -> None: ...


class SharedLimits:
    """The limits of all connections together, and their counters."""

    def __init__(self, limits: RemotingLimits, largest_answer: Callable[[], int]) -> None:
        """``largest_answer`` is how many bytes one message may make now."""
        self.limits = limits
        self.counters = RemotingCounters()
        self.unfinished = 0
        """Bytes of incomplete frames of all connections."""
        self.unsent = 0
        """Unsent bytes of all clients that are behind, as of when each was last written to."""
        self._largest_answer = largest_answer
        self._connections: set[Costly] = set()
        self._incomplete: dict[Costly, None] = {}
        """Connections that have sent no frame yet, or have sent part of one; the longest waiting one first."""

    def add(self, connection: Costly) -> None:
        self._connections.add(connection)
        self._incomplete[connection] = None

    def remove(self, connection: Costly) -> None:
        self._connections.discard(connection)
        self._incomplete.pop(connection, None)
        self.unfinished -= connection.unfinished

    def cut_incomplete(self) -> bool:
        """Cut off one connection in favour of a new one; False if all have sent only whole frames."""
        connection = next(iter(self._incomplete), None)
        if connection is None:
            return False
        del self._incomplete[connection]
        connection.cut("has not sent a whole frame yet, and others need its place")
        return True

    def max_unsent(self) -> int:
        """What one client may have unsent: as many of the largest answers as it may ask for at once, or ``unsent``."""
        return max(self.limits.unsent, self.limits.small_questions * self._largest_answer())

    def count_unfinished(self, connection: Costly, change: int, *, has_whole: bool) -> None:
        """An incomplete frame grew, or is complete now. Above the limit, the connection with most is cut off.

        ``has_whole``: a frame was completed by the same read. The connection has waited since then only.
        """
        if has_whole:
            self._incomplete.pop(connection, None)
        if connection.unfinished:
            self._incomplete.setdefault(connection)
        else:
            self._incomplete.pop(connection, None)
        self.unfinished += change
        if self.unfinished > self.limits.unfinished:
            max(self._connections, key=lambda connection: connection.unfinished).cut(
                "sent too much of an incomplete frame"
            )

    def limit_unsent(self) -> None:
        """When too much is unsent, cut off the client with most of it."""
        if self.unsent > self.limits.unsent_in_all:
            for connection in self._connections:
                connection.count_unsent()
            if self.unsent > self.limits.unsent_in_all:
                max(self._connections, key=lambda connection: connection.unsent_counted).cut(
                    "does not read, like too many others"
                )
