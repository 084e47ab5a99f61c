"""The recent events of one message: its way to the disk, and to the groups that received it.

A message that is delayed, or that a group sends back, is copied to other topics. All copies have the same UNIQ_KEY, by
which they are found. Their events make one timeline.
"""

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

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
    MessageDeadLettered,
    MessageRecalled,
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
_BACK = (MessageSentBack, MessageDeadLettered)
_BY_ID: tuple[type[Event], ...] = (
    *_BACK,
    MessageRecalled,
    HalfMessageStored,
    TransactionChecked,
    TransactionEnded,
)
_OF_A_MESSAGE = {kind: _fields(kind, "message_id") for kind in _BY_ID}

_KINDS = frozenset((*_OF_A_QUEUE, *_OF_A_LEVEL, *_OF_A_MESSAGE))
_PULL: dict[type[Event], _Getter] = {
    kind: _fields(kind, "topic", "queue_id", "group", "client_id") for kind in (PullWoken, MessagesDelivered)
}
_flushed_offset = _fields(FlushDone, "flushed_offset")
_physical_range = _fields(MessagesStored, "physical_offset", "size")

EARLIER_MS = 1000
"""How much the wall clock may have been set back between storing a message and delivering it."""

LOOKED_AT = 1000
"""Events of a piece that are only looked at."""

Places = dict[tuple[str, int], set[int]]
"""(topic, queue id) -> offsets."""


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
            context.store.files, context.store.root, places, record.store_timestamp - EARLIER_MS
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
    places: Places = {(record.topic, record.queue_id): {record.queue_offset}}
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
            if recorded.note.kind in _BACK and _concerns(recorded.note, places, message_id):
                event = recorded.event()
                assert isinstance(event, MessageSentBack | MessageDeadLettered)
                topics |= {event.topic, retry_topic(event.group), DLQ_PREFIX + event.group}
        yield
    for topic in topics - {""}:
        copies = yield from context.store.query.by_key(topic, message_id, MAX_MSGS_NUM_BATCH, 0, NO_END, MAX_BYTES)
        for data in copies:
            copy = commit_log_record.decode(data, check_crc=False)
            if message_properties.find(copy.properties, UNIQ_KEY) == message_id:
                places.setdefault((topic, copy.queue_id), set()).add(copy.queue_offset)
    return places


class _Story:
    """Picks the events about a message from all events, which it is given in order."""

    def __init__(self, places: Places, message_id: str) -> None:
        self.events: list[Event] = []
        self.not_stored = {(*queue, offset) for queue, offsets in places.items() for offset in offsets}
        """Places of the message whose MessagesStored event was not among the events."""
        self._places = places
        self._message_id = message_id
        self._woken: Recorded | None = None
        self._unflushed: int | None = None
        """Physical end of a copy that is stored, and not reported as flushed yet."""

    def add(self, recorded: Recorded) -> None:
        note = recorded.note
        kind = note.kind
        if kind is PullWoken:
            self._woken = recorded
        elif kind is FlushDone:
            if self._unflushed is not None and _flushed_offset(note.fields) >= self._unflushed:
                self._unflushed = None
                self.events.append(recorded.event())
        elif _concerns(note, self._places, self._message_id):
            if kind is MessagesStored:
                self._unflushed = sum(_physical_range(note.fields))
                self._note_stored(*_OF_A_QUEUE[kind](note.fields))
            elif kind is MessagesDelivered:
                self._add_wake_up(note)
            self.events.append(recorded.event())

    def _note_stored(self, topic: str, queue_id: int, first: int, end: int) -> None:
        for offset in self._places[topic, queue_id]:
            if first <= offset < end:
                self.not_stored.discard((topic, queue_id, offset))

    def _add_wake_up(self, delivered: Note) -> None:
        """The end of the hold whose answer delivered the message: the last one before it, of the same turn and pull."""
        woken = self._woken
        if woken is not None and woken.note.now is delivered.now and _pull(woken.note) == _pull(delivered):
            self.events.append(woken.event())


def _pull(note: Note) -> Any:
    return _PULL[note.kind](note.fields)


def _concerns(note: Note, places: Places, message_id: str) -> bool:
    kind = note.kind
    if kind not in _KINDS:
        return False
    if kind in _OF_A_MESSAGE:
        return bool(message_id) and _OF_A_MESSAGE[kind](note.fields) == message_id
    if kind in _OF_A_LEVEL:
        level, first, end = _OF_A_LEVEL[kind](note.fields)
        queue = (SCHEDULE_TOPIC, level - 1) if level else (TIMER_TOPIC, 0)
    else:
        topic, queue_id, first, end = _OF_A_QUEUE[kind](note.fields)
        queue = topic, queue_id
    offsets = places.get(queue)
    return offsets is not None and any(first <= offset < end for offset in offsets)
