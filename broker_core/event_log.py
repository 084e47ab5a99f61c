"""Numbers the events, keeps the recent ones in a bounded ring, and hands each turn's events to listeners as one list.

A listener that raises is dropped and counted; it never stops the broker.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import msgspec

from broker_core.events import Event

if TYPE_CHECKING:
    from broker_core.clock import Now

log = logging.getLogger(__name__)

Listener = Callable[[Sequence[Event]], None]
Fields = ParamSpec("Fields")
EventType = Callable[Concatenate[int, int, int, Fields], Event]
"""The type of an event. ``Fields`` are those after ``seq``, ``wall_ms`` and ``mono_ns``, which EventLog fills in."""
Recorder = Callable[[Sequence["Note"]], None]


class Note(msgspec.Struct, frozen=True, gc=False):
    """An event that is not built yet. ``fields`` are those after the three common ones.

    The ring has thousands of notes. The garbage collector does not look at them.
    """

    kind: type[Event]
    now: "Now"
    fields: tuple[Any, ...]


def build_event(note: Note, seq: int = 0) -> Event:
    """Build the event of a note. ``seq`` is its number, or 0 where the number does not matter."""
    now = note.now
    return note.kind(seq, now.wall_ms, now.mono_ns, *note.fields)


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A note with the event's number."""

    seq: int
    note: Note

    def event(self) -> Event:
        return build_event(self.note, self.seq)


class EventLog:
    """The only place where events are numbered, kept and handed out.

    ``emit`` stores its arguments as a note. Most notes fall out of the ring unread, so an event is built only when it
    is read or listened to. ``publish`` ends a turn: listeners get the events emitted since the last call. A recorder
    gets the list of their notes instead and may keep it, which costs a turn almost nothing.
    """

    def __init__(self, *, ring_size: int = 16_384, kept_size: int = 300) -> None:
        self.seq = 0
        self.listeners_dropped = 0
        self.kept: deque[Recorded] = deque(maxlen=kept_size)
        self._ring: deque[Note] = deque(maxlen=ring_size)
        """The recent notes; the last one has the number ``seq``."""
        self._turn: list[Note] = []
        self._listeners: tuple[Listener, ...] = ()
        self._recorders: tuple[Recorder, ...] = ()
        self._has_listeners = False

    if TYPE_CHECKING:  # the signatures; the functions below take the arguments as one tuple, which is faster

        def emit(self, kind: EventType[Fields], now: Now, *args: Fields.args, **kwargs: Fields.kwargs) -> None:
            """Note an event. Its fields are positional, never keyword arguments."""

        def keep(self, kind: EventType[Fields], now: Now, *args: Fields.args, **kwargs: Fields.kwargs) -> None:
            """``emit`` a rare event. The last of these stay in ``kept`` after they have left the ring."""

    else:

        def emit(self, kind, now, *fields):
            self.seq += 1
            note = Note(kind, now, fields)
            self._ring.append(note)
            if self._has_listeners:
                self._turn.append(note)

        def keep(self, kind, now, *fields):
            self.emit(kind, now, *fields)
            self.kept.append(self.last)

    @property
    def last(self) -> Recorded:
        """The event emitted last."""
        return Recorded(self.seq, self._ring[-1])

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
            events = [build_event(note, seq) for seq, note in enumerate(turn, self.seq - len(turn) + 1)]
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
        self._has_listeners = True

    def record_to(self, recorder: Recorder) -> None:
        self._recorders += (recorder,)
        self._has_listeners = True

    def unlisten(self, listener: Listener | Recorder) -> None:
        self._listeners = tuple(other for other in self._listeners if other != listener)
        self._recorders = tuple(other for other in self._recorders if other != listener)
        self._has_listeners = bool(self._listeners or self._recorders)
        if not self._has_listeners:
            self._turn.clear()

    @property
    def first_seq(self) -> int:
        """The number of the oldest event in the ring; ``seq + 1`` when the ring is empty."""
        return self.seq - len(self._ring) + 1

    def recorded_after(self, seq: int, limit: int) -> list[Recorded]:
        """Up to ``limit`` notes of the ring above ``seq``, oldest first, with their numbers."""
        first = self.first_seq
        start = max(0, min(seq, self.seq) + 1 - first)
        return [
            Recorded(number, note)
            for number, note in enumerate(islice(self._ring, start, start + limit), first + start)
        ]

    def after(self, seq: int, *kinds: type[Event], where: Callable[[Note], bool] | None = None) -> Iterator[Event]:
        """Events of the ring above ``seq``, oldest first. ``kinds`` selects by type and ``where`` by note; only
        the selected events are built."""
        first, allowed_kinds = self.first_seq, frozenset(kinds)
        skipped = max(0, min(seq, self.seq) + 1 - first)
        for number, note in enumerate(islice(self._ring, skipped, None), first + skipped):
            if (not allowed_kinds or note.kind in allowed_kinds) and (where is None or where(note)):
                yield build_event(note, number)
