"""Holds pops in the pullRequestTable, and takes out those that may be answered. RocketMQ's PopLongPollingService."""

from itertools import islice

from broker_core.clock import Now
from broker_core.commands import OrderWait
from broker_core.errors import RequestError
from broker_core.events import PullHeld
from broker_core.longpolling.pull_request import Pop, PopRequest
from broker_core.processors.context import Context, Request, Waking, filter_text

MOST_LOOKED_AT = 16
"""How many queues are looked at to find one for which a pop in order waits."""
POLLING_SIZE = 1024
"""Held pops of a group for one queue, or for all. RocketMQ's popPollingSize."""


def hold(context: Context, request: Request, pop: Pop, poll_ms: int, now: Now) -> PopRequest | None:
    """Hold a pop that found nothing for ``poll_ms``, or maxHoldTimeMills. None if too many are held already."""
    holds, options = context.holds, context.options
    of_client = holds.count_of_connection(request.connection)
    if (
        len(holds) >= options.max_holds
        or of_client >= options.max_holds_per_connection
        or holds.count_of_pops(pop.topic, pop.group, pop.queue_id) >= POLLING_SIZE
    ):
        return None
    if of_client and holds.is_held(request.connection, request.request_id):
        raise RequestError(f"request {request.request_id} of this connection is held already")
    granted = min(poll_ms, options.max_hold_time_mills)
    held = PopRequest(
        hold_id=holds.next_id(),
        connection=request.connection,
        request_id=request.request_id,
        many=holds.get_or_create_pops(pop.topic, pop.group, pop.queue_id),
        pull_from_offset=-1,
        max_msg_nums=pop.max_msg_nums,
        max_msg_bytes=0,
        group=pop.group,
        client_id=pop.client_id,
        protocol=pop.protocol,
        message_filter=pop.message_filter,
        suspended_ns=now.mono_ns,
        suspend_timeout_ms=granted,
        short=False,
        check_group=True,
        pop=pop,
        waits_for=_order_wait(context, pop, now) if pop.order else None,
    )
    holds.hold(held)
    context.counters.pulls_held += 1
    context.events.emit(
        PullHeld,
        now,
        held.hold_id,
        pop.topic,
        pop.queue_id,
        pop.group,
        pop.client_id,
        pop.protocol,
        -1,
        -1,
        now.wall_ms + granted,
        filter_text(pop.message_filter),
        held.waits_for,
    )
    return held


def _order_wait(context: Context, pop: Pop, now: Now) -> OrderWait | None:
    """The queue for which a pop in order waits; None if none of those looked at is handed out."""
    infos, group = context.order_infos, pop.group
    queues = infos.queues(group, pop.topic) if pop.queue_id < 0 else [pop.queue_id]
    for queue_id in islice(queues, MOST_LOOKED_AT):
        committed, info = context.offsets.query(group, pop.topic, queue_id), infos.find(group, pop.topic, queue_id)
        if info is None or committed is None or info.end_ns(committed) <= now.mono_ns:
            continue
        left_ms = -(-(info.end_ns(committed) - now.mono_ns) // 1_000_000)
        messages = len(info.waiting(committed))
        return OrderWait(queue_id=queue_id, messages=messages, client_id=info.client_id, until_ms=now.wall_ms + left_ms)
    return None


def wake_next(context: Context, pop: Pop) -> None:
    """Wake the group's next hold for messages that this pop left."""
    wake_one(context, pop.topic, pop.group, pop.queue_id)


def wake_for_rest(context: Context, pop: Pop, queues: list[tuple[str, int]]) -> None:
    """Messages are left in these queues (topic, queue id): wake the group's next hold that waits for one of them."""
    if not context.holds.has_pops_of(pop.topic, pop.group):
        return
    for topic, queue_id in queues:
        if wake_one(context, pop.topic, pop.group, queue_id if topic == pop.topic else -1):
            return


def wake_freed(context: Context) -> None:
    """Wake the pops that may read again, because fewer messages are in flight."""
    freed = context.check_points.freed
    while freed:
        wake_one(context, *freed.popleft())


def wake_one(context: Context, topic: str, group: str, queue_id: int) -> bool:
    """Wake the oldest hold of the group that waits for this queue, or for all. Returns whether there is one."""
    held = context.holds.take_pop(topic, group, queue_id)
    if held is not None:
        context.waking.append(Waking(held, "arrival"))
    return held is not None
