"""Pops in order: a queue is handed out to one member of a group at a time.

RocketMQ's ConsumerOrderInfoManager and the parts of PopMessageProcessor, AckMessageProcessor and
ChangeInvisibleTimeProcessor that use it. The group's offset stays at the first message that is not acknowledged, so
messages that nobody acknowledges are read again from their own queue, not from a retry topic. Each move of the offset
is a record of the revive log before it counts.
"""

from collections.abc import Sequence

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    AckMessage,
    ChangeInvisibleTime,
    InvisibleTimeChanged,
    PoppedQueue,
)
from broker_core.consumers.consumer_order_info_manager import MAX_QUEUES, Key, OrderInfo
from broker_core.consumers.pop_check_points import CheckPoint
from broker_core.errors import RequestError, UnavailableError
from broker_core.formats.pop_check_point import ORDER_ACK_TAG, POP_ORDER_REVIVE_QUEUE
from broker_core.longpolling.pull_request import Pop
from broker_core.processors.consumer_manage import commit_offset
from broker_core.processors.context import Context
from broker_core.processors.pop.check_point_log import ack_message
from broker_core.processors.pop.pop_hold import wake_one
from broker_core.processors.pop.pop_look import Found, offsets_of
from broker_core.store.commit_log import PendingMessage

FREED_A_TURN = 64
"""Queues looked at in one turn because their messages became visible again."""


def hand_out(context: Context, pop: Pop, found: Found, now: Now) -> tuple[int, list[PoppedQueue], list[bytes]]:
    """Note who has the queues now. Returns the time of the pop in ms, the queues and the records of each.

    UnavailableError if too many queues are handed out; then nothing has changed.
    """
    infos = context.order_infos
    if infos.room < len(found.queues):
        raise UnavailableError(
            f"{MAX_QUEUES} queues are handed out in order, which is this broker's limit", code=ResponseCode.FLOW_CONTROL
        )
    before = [infos.find(pop.group, topic, queue_id) for topic, queue_id, _ in found.queues]
    pop_time = max(
        [context.check_points.pop_time(now.wall_ms), *(old.pop_time + 1 for old in before if old is not None)]
    )
    queues: list[PoppedQueue] = []
    for topic, queue_id, result in found.queues:
        offsets, place = offsets_of(result), (topic, pop.group, queue_id)
        info = infos.hand_out(place, offsets, pop_time, pop.invisible_ms, pop.attempt_id, pop.client_id, now.mono_ns)
        commit_offset(context, pop.group, topic, queue_id, offsets[0], pop.client_id, now)
        queues.append(
            PoppedQueue(topic=topic, queue_id=queue_id, start_offset=offsets[0], offsets=offsets, counts=info.counts)
        )
    given = {(topic, queue_id) for topic, queue_id, _ in found.queues}
    found.left = [place for place in found.left if place not in given]  # the next pop gets nothing from these
    return pop_time, queues, [result.records for _, _, result in found.queues]


class LastPop(msgspec.Struct, frozen=True, gc=False):
    """The last pop in order from a queue, whose messages ``waiting`` are not acknowledged. ``committed`` is the group's
    offset."""

    place: Key
    info: OrderInfo
    committed: int
    waiting: list[int]

    def offset_after(self, acknowledged: Sequence[int]) -> int:
        """The group's offset when these messages are acknowledged too."""
        return next((offset for offset in self.waiting if offset not in acknowledged), self.info.offsets[-1] + 1)


def require_popped(pop: LastPop, command: AckMessage) -> None:
    """RequestError for offsets that the pop did not get."""
    wrong = [offset for offset in command.offsets if offset >= pop.committed and offset not in pop.info.offsets]
    if wrong:
        raise RequestError(
            f"offset is illegal, key:{command.topic}@{command.consumer_group}@{command.queue_id}, "
            f"old:{pop.committed}, commit:{wrong[0]}, next:-1",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer="/offset",
        )


def acknowledgement(context: Context, pop: LastPop, offsets: list[int], now: Now) -> PendingMessage | None:
    """The record of acknowledged messages; None if the group's offset does not move."""
    moved = pop.offset_after(offsets)
    if moved == pop.committed:
        return None
    return ack_message(context, _check_point(pop), [moved - 1], now, ORDER_ACK_TAG)


def acknowledge(context: Context, pop: LastPop, offsets: list[int], now: Now) -> None:
    """Acknowledge messages whose record is stored. The group's offset moves to the first one that is left."""
    topic, group, queue_id = pop.place
    moved = pop.offset_after(offsets)
    context.order_infos.acknowledge(pop.place, offsets, moved)
    if moved != pop.committed:
        commit_offset(context, group, topic, queue_id, moved, pop.info.client_id, now)
    counted = len(offsets) if pop.info.is_counted else 0
    context.check_points.note_acknowledged(group, topic, counted, now.mono_ns)
    wake_if_free(context, topic, group, queue_id, now)


def change_invisible_time(context: Context, command: ChangeInvisibleTime, now: Now) -> InvisibleTimeChanged | None:
    """Hide a message of the last pop from a queue for another time. None if it is not hidden by that pop."""
    pop = find_last_pop(context, command)
    if pop is None or command.offset not in pop.waiting:
        return None
    topic, group, queue_id = pop.place
    context.order_infos.change_invisible_time(
        pop.place, command.offset, command.invisible_ms, pop.committed, now, unseen=command.unseen
    )
    wake_if_free(context, topic, group, queue_id, now)
    return InvisibleTimeChanged(
        pop_time_ms=pop.info.pop_time,
        invisible_ms=max(0, now.wall_ms + command.invisible_ms - pop.info.pop_time),
        revive_queue_id=POP_ORDER_REVIVE_QUEUE,
    )


def find_last_pop(context: Context, command: AckMessage | ChangeInvisibleTime) -> LastPop | None:
    """The last pop from the queue; None if it is not the one that the command names.

    Unlike in RocketMQ, the acknowledgement of an earlier pop moves nothing, even if the last pop is not known.
    """
    group, topic, queue_id = command.consumer_group, command.topic, command.queue_id
    committed, info = context.offsets.query(group, topic, queue_id), context.order_infos.find(group, topic, queue_id)
    if info is None or committed is None or info.pop_time != command.pop_time_ms:
        return None
    return LastPop((topic, group, queue_id), info, committed, info.waiting(committed))


def _check_point(pop: LastPop) -> CheckPoint:
    """A check point that identifies the pop in the revive log."""
    topic, group, queue_id = pop.place
    return CheckPoint(
        group=group,
        topic=topic,
        queue_id=queue_id,
        start_offset=pop.info.offsets[0],
        pop_time=pop.info.pop_time,
        invisible_ms=pop.info.invisible_ms,
        waiting=[],
    )


def wake_if_free(context: Context, topic: str, group: str, queue_id: int, now: Now) -> None:
    """Wake the group's next held pop if this queue can be handed out and has messages."""
    committed = context.offsets.query(group, topic, queue_id)
    if committed is None or context.store.max_offset(topic, queue_id) <= committed:
        return
    if not context.order_infos.is_blocked(group, topic, queue_id, committed, "", now.mono_ns):
        wake_one(context, topic, group, queue_id)


def tick(context: Context, now: Now) -> None:
    """Wake held pops for queues whose messages became visible again."""
    if context.draining:
        return
    for topic, group, queue_id in context.order_infos.take_due(now.mono_ns, FREED_A_TURN):
        wake_if_free(context, topic, group, queue_id, now)
