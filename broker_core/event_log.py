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

from broker_core.events import Event

log = logging.getLogger(__name__)

Listener = Callable[[Sequence[Event]], None]
Note = tuple[Any, ...]
"""An event that nobody has looked at yet: its type, its turn's Now, its own fields."""
Recorder = Callable[[Sequence[Note]], None]


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A note, and the event's number."""

    seq: int
    note: Note

    def event(self) -> Event:
        kind, now, *fields = self.note
        event: Event = kind(self.seq, now.wall_ms, now.mono_ns, *fields)
        return event


class EventLog:
    """The only place where events are numbered, kept and handed out.

    ``emit`` takes the event's type, its turn's Now and its fields after the three common ones, in order. It only keeps
    what it is given: most events fall out of the ring unseen, so the event itself is made for who reads or listens.
    ``publish`` ends a turn: listeners get what was emitted since the last call. A recorder is a listener that gets the
    notes themselves, of a list that is not used again; it costs a turn next to nothing.
    """

    def __init__(self, *, ring_size: int = 16_384, kept_size: int = 300) -> None:
        self.seq = 0
        self.listeners_dropped = 0
        self.kept: deque[Recorded] = deque(maxlen=kept_size)
        self._ring: deque[Note] = deque(maxlen=ring_size)
        """The last one's number is ``seq``."""
        self._turn: list[Note] = []
        self._listeners: tuple[Listener, ...] = ()
        self._recorders: tuple[Recorder, ...] = ()
        self._is_heard = False

    def emit(self, *note: Any) -> None:
        self.seq += 1
        self._ring.append(note)
        if self._is_heard:
            self._turn.append(note)

    @property
    def last(self) -> Recorded:
        """What was emitted last."""
        return Recorded(self.seq, self._ring[-1])

    def keep(self, *note: Any) -> None:
        """``emit``, for what is rare: the last of these stay in ``kept`` when the ring has long gone on."""
        self.emit(*note)
        self.kept.append(self.last)

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
            events = [Recorded(seq, note).event() for seq, note in enumerate(turn, self.seq - len(turn) + 1)]
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
        return self.seq - len(self._ring) + 1

    def after(self, seq: int, *kinds: type[Event], where: Callable[[Note], bool] | None = None) -> Iterator[Event]:
        """Events of the ring above ``seq``, oldest first; with ``kinds`` only those, with ``where`` only those whose
        notes it accepts: no others are made."""
        first, wanted = self.first_seq, frozenset(kinds)
        skipped = max(0, min(seq, self.seq) + 1 - first)
        for number, note in enumerate(islice(self._ring, skipped, None), first + skipped):
            if (not wanted or note[0] in wanted) and (where is None or where(note)):
                yield Recorded(number, note).event()
