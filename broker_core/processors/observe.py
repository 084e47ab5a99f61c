"""Views for observers: the pullRequestTable, the recent events, a snapshot of everything."""

from heapq import merge
from itertools import islice
from operator import attrgetter

import msgspec

from broker_core.clock import Now
from broker_core.commands import Events, GetEvents, GetHold, GetHolds, GetSnapshot, Holds, Reply, Snapshot, WakeUp
from broker_core.errors import NotFoundError, RequestError
from broker_core.events import Event, PullReleased, PullWoken
from broker_core.processors.admin_broker import positions
from broker_core.processors.context import Context, Request

MAX_PAGE = 5000


def _page(limit: int) -> int:
    if limit < 1:
        raise RequestError("limit is 1 or more", pointer="/limit")
    return min(limit, MAX_PAGE)


def get_holds(context: Context, request: Request, now: Now) -> Reply:
    command: GetHolds = request.command
    limit = _page(command.limit)
    wanted = [
        held
        for held in context.holds
        if held.hold_id > command.after
        and (not command.topic or held.many.topic == command.topic)
        and (not command.group or held.group == command.group)
    ]
    page = wanted[:limit]
    return Holds(
        seq=context.events.seq,
        total=len(context.holds),
        holds=[context.hold_view(held, now.wall_ms, now.mono_ns) for held in page],
        next=page[-1].hold_id if len(wanted) > limit else None,
    )


def get_hold(context: Context, request: Request, now: Now) -> Reply:
    command: GetHold = request.command
    held = context.holds.get(command.hold_id)
    if held is None:
        raise NotFoundError(f"hold {command.hold_id} is not, or no longer, in the pullRequestTable", pointer="/id")
    return Holds(
        seq=context.events.seq, total=len(context.holds), holds=[context.hold_view(held, now.wall_ms, now.mono_ns)]
    )


def get_events(context: Context, request: Request, now: Now) -> Reply:
    command: GetEvents = request.command
    limit = _page(command.limit)
    return Events(
        epoch=context.epoch,
        seq=context.events.seq,
        first_seq=context.events.first_seq,
        events=[msgspec.to_builtins(event) for event in islice(context.events.after(command.after), limit)],
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
    """Everything that a page shows, with the number of the last event in it. Queues of system topics come last."""
    options, counters = context.options, context.count()
    configs = sorted(
        context.topics, key=lambda config: (context.topics.is_system(config.topic_name), config.topic_name)
    )
    keys = [
        (config.topic_name, queue_id)
        for config in configs
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums))
    ]
    return Snapshot(
        broker=options.broker_name,
        epoch=context.epoch,
        seq=context.events.seq,
        wall_ms=now.wall_ms,
        long_polling_enable=options.long_polling_enable,
        short_polling_time_mills=options.short_polling_time_mills,
        problem=context.problem(),
        holds_total=len(context.holds),
        holds=[context.hold_view(held, now.wall_ms, now.mono_ns) for held in islice(context.holds, _page(max_holds))],
        queues_total=len(keys),
        queues=[context.queue_view(*key) for key in keys[: _page(max_queues)]],
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
