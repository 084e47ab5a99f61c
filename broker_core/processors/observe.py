"""Views for observers: the pullRequestTable, the recent events, a snapshot of everything."""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.commands import (
    Events,
    GetEvents,
    GetHold,
    GetHolds,
    GetHoldTimeline,
    GetPulls,
    GetSnapshot,
    Holds,
    HoldTimeline,
    HoldView,
    Pulls,
    Reply,
    Snapshot,
    WakeUp,
)
from broker_core.errors import NotFoundError
from broker_core.event_log import Note
from broker_core.events import (
    Event,
    MessagesDelivered,
    PullAnswered,
    PullHeld,
    PullPassedOver,
    PullReleased,
    PullWoken,
)
from broker_core.processors.admin_broker import positions
from broker_core.processors.context import Context, Request
from broker_core.store.journal_search import search_pulls
from broker_core.walk import Steps, page_limit, pieces_of

SNAPSHOT_ROWS = 2000
"""Holds, and queues, of a snapshot, which is taken in one turn."""

LOOKED_AT = 2000
"""Holds or events of a piece that are only looked at."""

MOST_OF_HOLD = 500
"""Events of a hold in its timeline: the first one and the last ones."""

_ABOUT_HOLDS: tuple[type[Event], ...] = (PullHeld, PullPassedOver, PullWoken, PullReleased, PullAnswered)
_HOLD_ID = {kind: kind.__struct_fields__.index("hold_id") - 3 for kind in _ABOUT_HOLDS}
"""Where the fields of a note have the hold's id. They are those after the three that all events have."""
_PULL = {
    kind: itemgetter(*(kind.__struct_fields__.index(name) - 3 for name in ("topic", "queue_id", "group", "client_id")))
    for kind in (PullWoken, MessagesDelivered)
}


def get_holds(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetHolds = request.command
    limit, topic, group = page_limit(command.limit), command.topic, command.group
    seq, total = context.events.seq, len(context.holds)
    views: list[HoldView] = []
    for hold_ids in pieces_of(context.holds.ids_after(command.after), LOOKED_AT if topic or group else 0):
        for hold_id in hold_ids:
            held = context.holds.get(hold_id)
            if held is None or (topic and held.many.topic != topic) or (group and held.group != group):
                continue
            if len(views) == limit:
                return Holds(seq=seq, total=total, holds=views, next=views[-1].id)
            views.append(context.hold_view(held, now.wall_ms, now.mono_ns))
        yield
    return Holds(seq=seq, total=total, holds=views)


def get_hold(context: Context, request: Request, now: Now) -> Reply:
    command: GetHold = request.command
    held = context.holds.get(command.hold_id)
    if held is None:
        raise NotFoundError(f"hold {command.hold_id} is not, or no longer, in the pullRequestTable", pointer="/id")
    return Holds(
        seq=context.events.seq, total=len(context.holds), holds=[context.hold_view(held, now.wall_ms, now.mono_ns)]
    )


def get_hold_timeline(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetHoldTimeline = request.command
    hold_id, log = command.hold_id, context.events
    events: list[Event] = []
    woken: Note | None = None
    complete = False
    seq, last = (0 if hold_id else log.seq), log.seq  # the pulls that were answered at once have the id 0
    while seq < last and (piece := log.recorded_after(seq, LOOKED_AT)):
        seq = piece[-1].seq
        for recorded in piece:
            note = recorded.note
            kind = note.kind
            if kind in _HOLD_ID and note.fields[_HOLD_ID[kind]] == hold_id:
                events.append(recorded.event())
                complete = complete or kind is PullHeld
                if kind is PullWoken:
                    woken = note
            elif woken is not None and kind is MessagesDelivered and _is_answer(note, woken):
                events.append(recorded.event())
                woken = None
            if len(events) > MOST_OF_HOLD:
                del events[1]
                complete = False
        yield
    held = context.holds.get(hold_id)
    if held is None and not events:
        raise NotFoundError(
            f"nothing is known of hold {hold_id}: its events are no longer kept, or there was none with this id",
            pointer="/id",
        )
    view = None if held is None else context.hold_view(held, now.wall_ms, now.mono_ns)
    shown: list[dict[str, Any]] = []
    for part in pieces_of(events):
        shown += [msgspec.to_builtins(event) for event in part]
        yield
    return HoldTimeline(hold=view, complete=complete, events=shown)


def _is_answer(delivered: Note, woken: Note) -> bool:
    """Whether these messages are those that the woken pull got: of the same turn, queue and client."""
    return delivered.now is woken.now and bool(
        _PULL[MessagesDelivered](delivered.fields) == _PULL[PullWoken](woken.fields)
    )


def get_events(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetEvents = request.command
    limit, log = page_limit(command.limit), context.events
    seq, first_seq, events = log.seq, log.first_seq, []
    for piece in pieces_of(log.recorded_after(command.after, limit)):
        events += [msgspec.to_builtins(recorded.event()) for recorded in piece]
        yield
    return Events(epoch=context.epoch, seq=seq, first_seq=first_seq, events=events)


def get_pulls(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetPulls = request.command
    context.topics.require(command.topic)
    store = context.store
    written_ms = now.wall_ms - context.options.poll_journal_flush_interval
    if store.read_only or store.follows or not context.options.poll_journal_enable:
        return Pulls(strings=[], entries=b"", complete=True, journal=False, written_ms=written_ms)
    found = yield from search_pulls(store.files, store.root, command.topic, command.group, command.since_ms)
    return Pulls(
        strings=found.strings, entries=found.entries, complete=found.complete, journal=True, written_ms=written_ms
    )


def wake_up(event: Event) -> WakeUp:
    """The end of a hold as the list of wake-ups shows it."""
    assert isinstance(event, PullWoken | PullReleased)
    wake_us, messages = (event.wake_us, event.messages) if isinstance(event, PullWoken) else (0, 0)
    return WakeUp(
        seq=event.seq,
        wall_ms=event.wall_ms,
        hold_id=event.hold_id,
        topic=event.topic,
        queue_id=event.queue_id,
        group=event.group,
        client_id=event.client_id,
        cause=event.cause,
        held_us=event.held_us,
        wake_us=wake_us,
        messages=messages,
    )


def get_snapshot(context: Context, request: Request, now: Now) -> Reply:
    command: GetSnapshot = request.command
    return snapshot(context, now, command.max_holds, command.max_queues)


def snapshot(context: Context, now: Now, max_holds: int = 1000, max_queues: int = 2000) -> Snapshot:
    """Everything that a page shows, with the number of the last event in it. Queues of system topics come last.

    This is the state at one moment, so it is no walk: a page could not apply a delta that was sent in the midst of it.
    """
    options, counters = context.options, context.count()
    holds = islice(context.holds, min(page_limit(max_holds), SNAPSHOT_ROWS))
    queues = islice(_queues(context), min(page_limit(max_queues), SNAPSHOT_ROWS))
    return Snapshot(
        broker=options.broker_name,
        epoch=context.epoch,
        seq=context.events.seq,
        wall_ms=now.wall_ms,
        long_polling_enable=options.long_polling_enable,
        short_polling_time_mills=options.short_polling_time_mills,
        problem=context.problem(),
        holds_total=len(context.holds),
        holds=[context.hold_view(held, now.wall_ms, now.mono_ns) for held in holds],
        queues_total=context.topics.queues_total,
        queues=[context.queue_view(*key) for key in queues],
        wakeups=[wake_up(recorded.event()) for recorded in context.wakeups],
        counters=counters.as_dict(),
        wakeup_us=counters.wakeup_us.view(),
        held_ms=counters.held_ms.view(),
        positions=positions(context),
        client_events=[
            msgspec.to_builtins(recorded.event())
            for recorded in merge(context.events.kept, context.retried, key=attrgetter("seq"))
        ],
    )


def _queues(context: Context) -> Iterator[tuple[str, int]]:
    """Topic and queue id of all queues, those of system topics last."""
    topics = context.topics
    names, system = topics.names(), []
    for name in names:
        if topics.is_system(name):
            system.append(name)
        else:
            yield from ((name, queue_id) for queue_id in range(topics.require(name).queue_nums))
    for name in system:
        yield from ((name, queue_id) for queue_id in range(topics.require(name).queue_nums))
