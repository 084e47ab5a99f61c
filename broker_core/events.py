"""Nothing observable happens without an event: one closed set of small frozen types.

Every event carries a sequence number (1, 2, 3 ... in one epoch), the wall time in ms and the monotonic time in
ns of its turn. Messages are reported by batch and range: offsets ``from_offset`` up to, not including,
``to_offset``. The recent past stays in a bounded ring; a listener is handed each turn's events as one list, and
one that raises is dropped and counted, never fatal.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.commands import Protocol, ReleaseCause, WakeCause

log = logging.getLogger(__name__)


class Event(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag=lambda name: "".join(
        "_" + c.lower() if c.isupper() else c for c in name).lstrip("_")):
    """Base of all events; ``type`` in JSON is the class's name in snake_case."""

    seq: int
    wall_ms: int
    mono_ns: int


class MessagesStored(Event, frozen=True):
    """In the commit log: ``size`` bytes of records from ``physical_offset`` on."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int
    physical_offset: int
    size: int


class MessagesDispatched(Event, frozen=True):
    """In the consume queue: the queue's max offset is now ``to_offset``."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int


class PullReceived(Event, frozen=True):
    topic: str
    queue_id: int
    queue_offset: int
    group: str
    client_id: str
    protocol: Protocol


class PullHeld(Event, frozen=True):
    """A row was added to the pullRequestTable."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    deadline_ms: int
    filter: str


class PullPassedOver(Event, frozen=True):
    """Messages arrived in the queue, but the hold's filter said no to all of them."""

    hold_id: int
    topic: str
    queue_id: int
    from_offset: int
    to_offset: int


class PullWoken(Event, frozen=True):
    """A hold ended with an answer. ``wake_us`` is from the arrival's turn to the answer, 0 without an arrival."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    cause: WakeCause
    held_us: int
    wake_us: int
    messages: int


class PullReleased(Event, frozen=True):
    """A hold ended without an answer, since nobody waits for it any more."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    cause: ReleaseCause
    held_us: int


class PullAnswered(Event, frozen=True):
    """``hold_id`` is 0 when it was answered at once."""

    topic: str
    queue_id: int
    group: str
    client_id: str
    hold_id: int
    code: int
    status: str
    messages: int
    size: int
    next_begin_offset: int


class MessagesDelivered(Event, frozen=True):
    """Handed to a consumer. ``latency_ms`` is the age of the oldest of them, by its store time."""

    topic: str
    queue_id: int
    group: str
    client_id: str
    from_offset: int
    to_offset: int
    messages: int
    latency_ms: int


class OffsetCommitted(Event, frozen=True):
    """``previous`` is -1 when the group had none."""

    group: str
    topic: str
    queue_id: int
    offset: int
    previous: int
    client_id: str


class TopicChanged(Event, frozen=True):
    """``action`` is created, updated or deleted."""

    topic: str
    action: str
    read_queues: int
    write_queues: int
    perm: int


class ConfigChanged(Event, frozen=True):
    name: str
    value: Any
    previous: Any


class ClientConnected(Event, frozen=True):
    client_id: str
    protocol: Protocol
    remote: str


class ClientLost(Event, frozen=True):
    client_id: str
    protocol: Protocol
    remote: str
    holds_released: int


class FlushDone(Event, frozen=True):
    flushed_offset: int
    size: int
    took_us: int


class SegmentRolled(Event, frozen=True):
    physical_offset: int


class SegmentDeleted(Event, frozen=True):
    """``reason``: age or disk."""

    physical_offset: int
    reason: str


class RecoveryStep(Event, frozen=True):
    step: str
    detail: str


class RequestRefused(Event, frozen=True):
    """The broker protected itself: ``code`` names how, ``remark`` why."""

    command: str
    code: str
    remark: str
    client_id: str


AnyEvent = (
    MessagesStored | MessagesDispatched | PullReceived | PullHeld | PullPassedOver | PullWoken | PullReleased
    | PullAnswered | MessagesDelivered | OffsetCommitted | TopicChanged | ConfigChanged | ClientConnected | ClientLost
    | FlushDone | SegmentRolled | SegmentDeleted | RecoveryStep | RequestRefused
)
Listener = Callable[[Sequence[Event]], None]


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
    turn: listeners get what was emitted since the last call.
    """

    def __init__(self, *, ring_size: int = 16_384) -> None:
        self.seq = 0
        self.listeners_dropped = 0
        self._ring: deque[Recorded] = deque(maxlen=ring_size)
        self._turn: list[Recorded] = []
        self._listeners: list[Listener] = []

    def emit(self, kind: Callable[..., Event], now: Now, *fields: Any) -> Recorded:
        self.seq = seq = self.seq + 1
        recorded = Recorded(seq, kind, now, fields)
        self._ring.append(recorded)
        if self._listeners:
            self._turn.append(recorded)
        return recorded

    def publish(self) -> None:
        if not self._turn:
            return
        events, self._turn = [recorded.event() for recorded in self._turn], []
        for listener in list(self._listeners):
            try:
                listener(events)
            except Exception:
                log.exception("an event listener failed and was dropped")
                self.listeners_dropped += 1
                self.unlisten(listener)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self._listeners:
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
