"""The recent events of one message: its way to the disk, and to the groups that received it.

A message that is delayed, or that a group sends back, is copied to other topics. All copies have the same UNIQ_KEY, by
which they are found. Their events make one timeline.
"""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from broker_core.clock import Now
from broker_core.commands import GetMessageTimeline, Reply, Timeline
from broker_core.consumers.subscription_group_manager import retry_topic
from broker_core.event_log import Note, Recorded
from broker_core.events import (
    DelayedMessagesLost,
    DelayElapsed,
    Event,
    FlushDone,
    HalfMessageStored,
    InvisibleTimeChanged,
    MessageDeadLettered,
    MessageRecalled,
    MessagesAcknowledged,
    MessagesDelayed,
    MessagesDelivered,
    MessagesDispatched,
    MessageSentBack,
    MessagesStored,
    OffsetCommitted,
    PullWoken,
    TransactionChecked,
    TransactionEnded,
)
from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.commit_log_record import CommitLogRecord
from broker_core.formats.message_properties import REAL_TOPIC, RETRY_TOPIC, TRAN_MSG, UNIQ_KEY
from broker_core.formats.pop_check_point import pop_retry_topics
from broker_core.processors.context import Context, Request
from broker_core.processors.query_message import MAX_BYTES, MAX_MSGS_NUM_BATCH, find_waiting_message
from broker_core.processors.retry_message import DLQ_PREFIX
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.journal_search import search_journal
from broker_core.store.query_message import NO_END
from broker_core.store.timer.timer_message import TIMER_TOPIC
from broker_core.store.transactional_message_service import HALF_TOPIC
from broker_core.walk import Steps, pieces_of

if TYPE_CHECKING:
    from broker_core.formats.poll_journal import JournalEntry


_Getter = Callable[[tuple[Any, ...]], Any]


def _fields(kind: type[Event], *names: str) -> _Getter:
    """A getter of these ones of the ``fields`` of a note, which are an event's fields after the three common ones."""
    return itemgetter(*(kind.__struct_fields__.index(name) - 3 for name in names))


_OF_A_QUEUE: dict[type[Event], _Getter] = {
    kind: _fields(kind, "topic", "queue_id", "from_offset", "to_offset")
    for kind in (MessagesStored, MessagesDispatched, MessagesDelivered)
} | {OffsetCommitted: _fields(OffsetCommitted, "topic", "queue_id", "previous", "offset")}
_OF_A_LEVEL = {
    kind: _fields(kind, "level", "from_offset", "to_offset")
    for kind in (MessagesDelayed, DelayElapsed, DelayedMessagesLost)
}
_acknowledged = _fields(MessagesAcknowledged, "topic", "queue_id", "offsets")
_changed = _fields(InvisibleTimeChanged, "topic", "queue_id", "offset")
_BACK = (MessageSentBack, MessageDeadLettered)
_BY_ID: tuple[type[Event], ...] = (
    *_BACK,
    MessageRecalled,
    HalfMessageStored,
    TransactionChecked,
    TransactionEnded,
)
_OF_A_MESSAGE = {kind: _fields(kind, "message_id") for kind in _BY_ID}

_PULL: dict[type[Event], _Getter] = {
    kind: _fields(kind, "topic", "queue_id", "group", "client_id") for kind in (PullWoken, MessagesDelivered)
}
_flushed_offset = _fields(FlushDone, "flushed_offset")
_physical_range = _fields(MessagesStored, "physical_offset", "size")

Place = tuple[str, int, int]
"""(topic, queue id, offset)."""

EARLIER_MS = 1000
"""How much the wall clock may have been set back between storing a message and delivering it."""

LOOKED_AT = 1000
"""Events of a piece that are only looked at."""

Places = dict[tuple[str, int], dict[int, int]]
"""(topic, queue id) -> offset -> physical offset of the copy that is there."""


def get_message_timeline(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetMessageTimeline = request.command
    found = yield from find_waiting_message(context, command.message_id, command.topic)
    record = commit_log_record.decode(found, check_crc=False)
    message_id = message_properties.find(record.properties, UNIQ_KEY)
    places = yield from _places(context, record, message_id)
    story = _Story(places, message_id)
    for piece in _recent(context):
        for recorded in piece:
            story.add(recorded)
        yield
    complete = not story.not_stored
    journal: list[JournalEntry] = []
    if not complete:
        journal = yield from search_journal(
            context.store.files,
            context.store.root,
            {queue: set(offsets) for queue, offsets in places.items()},
            record.store_timestamp - EARLIER_MS,
        )
    events: list[dict[str, Any]] = []
    for part in pieces_of(story.events):
        events += [msgspec.to_builtins(event) for event in part]
        yield
    return Timeline(
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        store_time_ms=record.store_timestamp,
        complete=complete,
        events=events,
        journal=[msgspec.to_builtins(entry) for entry in journal],
    )


def _recent(context: Context) -> Iterator[list[Recorded]]:
    """The events that the ring has now, in pieces, without those that leave it in the meantime."""
    seq, last = 0, context.events.seq
    while seq < last and (piece := context.events.recorded_after(seq, LOOKED_AT)):
        yield piece
        seq = piece[-1].seq


def _places(context: Context, record: CommitLogRecord, message_id: str) -> Steps[Places]:
    """The places of the message and of its copies in the index."""
    places: Places = {(record.topic, record.queue_id): {record.queue_offset: record.physical_offset}}
    if not message_id:
        return places
    topics = {
        record.topic,
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        *((HALF_TOPIC,) if message_properties.find(record.properties, TRAN_MSG) else ()),
        *(message_properties.find(record.properties, name) for name in (REAL_TOPIC, RETRY_TOPIC)),
    }
    for piece in _recent(context):
        for recorded in piece:
            if recorded.note.kind in _BACK and _is_named(recorded.note, message_id):
                event = recorded.event()
                assert isinstance(event, MessageSentBack | MessageDeadLettered)
                topics |= {event.topic, retry_topic(event.group), DLQ_PREFIX + event.group}
                topics.update(pop_retry_topics(event.topic, event.group))
        yield
    for topic in topics - {""}:
        copies = yield from context.store.query.by_key(topic, message_id, MAX_MSGS_NUM_BATCH, 0, NO_END, MAX_BYTES)
        for data in copies:
            copy = commit_log_record.decode(data, check_crc=False)
            if message_properties.find(copy.properties, UNIQ_KEY) == message_id:
                places.setdefault((topic, copy.queue_id), {})[copy.queue_offset] = copy.physical_offset
    return places


class _Line(NamedTuple):
    """An event about the copies at these places; None if it names the message."""

    event: Event
    places: set[Place] | None


class _Story:
    """Picks the events about a message from all events, which it is given in order.

    If a topic was deleted and created again, its places had other messages before, or have others now.
    """

    def __init__(self, places: Places, message_id: str) -> None:
        self.not_stored = {(*queue, offset) for queue, offsets in places.items() for offset in offsets}
        """Places of the message whose MessagesStored event was not among the events."""
        self._lines: list[_Line] = []
        self._places = places
        self._others: set[Place] = set()
        """Places that have another message by now."""
        self._message_id = message_id
        self._woken: Recorded | None = None
        self._unflushed: tuple[int, set[Place]] | None = None
        """Physical end and places of copies that are stored, and not reported as flushed yet."""

    @property
    def events(self) -> list[Event]:
        """The events about the message, in order."""
        return [line.event for line in self._lines if line.places is None or line.places]

    def add(self, recorded: Recorded) -> None:
        note = recorded.note
        kind = note.kind
        if kind is PullWoken:
            self._woken = recorded
        elif kind is FlushDone:
            if self._unflushed is not None and _flushed_offset(note.fields) >= self._unflushed[0]:
                self._lines.append(_Line(recorded.event(), self._unflushed[1]))
                self._unflushed = None
        elif kind in _OF_A_MESSAGE:
            if _is_named(note, self._message_id):
                self._lines.append(_Line(recorded.event(), None))
        elif found := _places_in(note, self._places):
            if kind is MessagesStored:
                self._begin(found, *_physical_range(note.fields))
            found -= self._others
            if found and kind is MessagesDelivered:
                self._add_wake_up(note, found)
            if found:
                self._lines.append(_Line(recorded.event(), found))

    def _begin(self, stored: set[Place], physical_offset: int, size: int) -> None:
        """Messages are stored at these places from this physical offset on: from now on, the places have them."""
        for topic, queue_id, offset in stored:
            place = topic, queue_id, offset
            if physical_offset > self._places[topic, queue_id][offset]:
                self._others.add(place)
                continue
            self.not_stored.discard(place)
            for line in self._lines:
                if line.places is not None:
                    line.places.discard(place)
        if not stored <= self._others:
            self._unflushed = physical_offset + size, stored - self._others

    def _add_wake_up(self, delivered: Note, places: set[Place]) -> None:
        """The end of the hold whose answer delivered the message: the last one before it, of the same turn and pull."""
        woken = self._woken
        if woken is not None and woken.note.now is delivered.now and _pull(woken.note) == _pull(delivered):
            self._lines.append(_Line(woken.event(), set(places)))


def _pull(note: Note) -> Any:
    return _PULL[note.kind](note.fields)


def _is_named(note: Note, message_id: str) -> bool:
    """Whether the event has the message's id."""
    return bool(message_id) and _OF_A_MESSAGE[note.kind](note.fields) == message_id


def _places_in(note: Note, places: Places) -> set[Place]:
    """The places that the event is about."""
    kind = note.kind
    if kind is MessagesAcknowledged:
        topic, queue_id, offsets = _acknowledged(note.fields)
        of_queue = places.get((topic, queue_id), ())
        return {(topic, queue_id, offset) for offset in offsets if offset in of_queue}
    if kind is InvisibleTimeChanged:
        topic, queue_id, offset = _changed(note.fields)
        return {(topic, queue_id, offset)} if offset in places.get((topic, queue_id), ()) else set()
    if kind in _OF_A_LEVEL:
        level, first, end = _OF_A_LEVEL[kind](note.fields)
        queue = (SCHEDULE_TOPIC, level - 1) if level else (TIMER_TOPIC, 0)
    elif kind in _OF_A_QUEUE:
        topic, queue_id, first, end = _OF_A_QUEUE[kind](note.fields)
        queue = topic, queue_id
    else:
        return set()
    return {(*queue, offset) for offset in places.get(queue, ()) if first <= offset < end}
