"""Where events are numbered, kept and handed out.

The recent past stays in a bounded ring; a listener is handed each turn's events as one list, and one that raises is
dropped and counted, never fatal.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.events import Event

log = logging.getLogger(__name__)

Listener = Callable[[Sequence[Event]], None]
Recorder = Callable[[Sequence["Recorded"]], None]


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event that nobody has looked at yet: its number, type, turn and own fields."""

    seq: int
    kind: Callable[..., Event]
    now: Now
    fields: tuple[Any, ...]

    def event(self) -> Event:
        return self.kind(self.seq, self.now.wall_ms, self.now.mono_ns, *self.fields)


class EventLog:
    """The only place where events are numbered, kept and handed out.

    ``emit`` takes the event's type and its fields after the three common ones, in order. It only notes them: most
    events fall out of the ring unseen, so the event itself is made for who reads or listens. ``publish`` ends a
    turn: listeners get what was emitted since the last call. A recorder is a listener that gets the notes themselves,
    of a list that is not used again; it costs a turn next to nothing.
    """

    def __init__(self, *, ring_size: int = 16_384, kept_size: int = 300) -> None:
        self.seq = 0
        self.listeners_dropped = 0
        self.kept: deque[Recorded] = deque(maxlen=kept_size)
        self._ring: deque[Recorded] = deque(maxlen=ring_size)
        self._turn: list[Recorded] = []
        self._listeners: tuple[Listener, ...] = ()
        self._recorders: tuple[Recorder, ...] = ()
        self._is_heard = False

    def emit(self, kind: Callable[..., Event], now: Now, *fields: Any) -> Recorded:
        self.seq = seq = self.seq + 1
        recorded = Recorded(seq, kind, now, fields)
        self._ring.append(recorded)
        if self._is_heard:
            self._turn.append(recorded)
        return recorded

    def keep(self, kind: Callable[..., Event], now: Now, *fields: Any) -> None:
        """``emit``, for what is rare: the last of these stay in ``kept`` when the ring has long gone on."""
        self.kept.append(self.emit(kind, now, *fields))

    def publish(self) -> None:
        if not self._turn:
            return
        turn, self._turn = self._turn, []
        for recorder in self._recorders:
            try:
                recorder(turn)
            except Exception:
                self._drop(recorder)
        if self._listeners:
            events = [recorded.event() for recorded in turn]
            for listener in self._listeners:
                try:
                    listener(events)
                except Exception:
                    self._drop(listener)

    def _drop(self, listener: Listener | Recorder) -> None:
        log.exception("an event listener failed and was dropped")
        self.listeners_dropped += 1
        self.unlisten(listener)

    def listen(self, listener: Listener) -> None:
        self._listeners += (listener,)
        self._is_heard = True

    def record_to(self, recorder: Recorder) -> None:
        self._recorders += (recorder,)
        self._is_heard = True

    def unlisten(self, listener: Listener | Recorder) -> None:
        self._listeners = tuple(other for other in self._listeners if other != listener)
        self._recorders = tuple(other for other in self._recorders if other != listener)
        self._is_heard = bool(self._listeners or self._recorders)
        if not self._is_heard:
            self._turn.clear()

    @property
    def first_seq(self) -> int:
        """The oldest event that the ring still has; ``seq + 1`` when it has none."""
        return self._ring[0].seq if self._ring else self.seq + 1

    def after(self, seq: int, *kinds: type[Event]) -> Iterator[Event]:
        """Events of the ring above ``seq``, oldest first; with ``kinds`` only those."""
        for recorded in islice(self._ring, max(0, min(seq, self.seq) + 1 - self.first_seq), None):
            if not kinds or recorded.kind in kinds:
                yield recorded.event()
