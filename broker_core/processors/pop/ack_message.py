"""Acknowledges popped messages, or hides them for longer. RocketMQ's AckMessageProcessor, ChangeInvisibleTimeProcessor.

Each change is a record of the revive log before it counts.
"""

from collections.abc import Hashable

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import AckMessage, Acknowledged, ChangeInvisibleTime, InvisibleTimeChanged, Reply
from broker_core.consumers.pop_check_points import CheckPoint
from broker_core.errors import NotFoundError, RequestError
from broker_core.processors.context import Context, Request
from broker_core.processors.group_commit import GroupCommit
from broker_core.processors.outcome import refuse
from broker_core.processors.pop import pop_in_order
from broker_core.processors.pop.check_point_log import ack_message as acknowledgement
from broker_core.processors.pop.check_point_log import append, check_point_message, require_loaded
from broker_core.processors.pop.pop_hold import wake_freed
from broker_core.processors.pop.pop_in_order import LastPop
from broker_core.processors.pop.pop_message import free_pop_time, require_invisible_time
from broker_core.store.commit_log import PendingMessage

MAX_OFFSETS = 4096
"""Offsets in one acknowledgement. A check point has at most 32."""


class Acknowledgement(msgspec.Struct, frozen=True, gc=False):
    """An acknowledgement that passed every check. ``point`` is the check point of its ``offsets``, or the pop in order
    that got them; ``late`` are offsets that are in none."""

    request: Request
    point: CheckPoint | LastPop | None
    offsets: list[int]
    late: list[int]

    @property
    def place(self) -> Hashable:
        """The check point, or the queue of the pop in order."""
        return self.point.place if isinstance(self.point, LastPop) else id(self.point)

    @property
    def names(self) -> list[tuple[Hashable, int]]:
        """The messages that it acknowledges."""
        place = self.place
        return [(place, offset) for offset in self.offsets]


def prepare_acknowledgement(context: Context, request: Request) -> Acknowledgement:
    """Check an acknowledgement. As in RocketMQ, one that comes late or twice is no error. Nothing is stored yet."""
    command: AckMessage = request.command
    if len(command.offsets) > MAX_OFFSETS:
        raise RequestError(f"an acknowledgement has at most {MAX_OFFSETS} offsets", pointer="/offsets")
    given = dict.fromkeys(command.offsets)
    _check(context, command)
    point: CheckPoint | LastPop | None
    point = pop_in_order.find_acknowledged(context, command) if command.order else _find(context, command)
    waiting = frozenset(point.waiting) if point is not None else frozenset()
    offsets = [offset for offset in given if offset in waiting]
    return Acknowledgement(request, point, offsets, [offset for offset in given if offset not in waiting])


def store_acknowledgements(
    context: Context, commit: GroupCommit, acknowledgements: list[Acknowledgement], now: Now
) -> None:
    """Store acknowledgements as one block, one record for each check point, and answer them.

    No two of them acknowledge the same message.
    """
    gathered: dict[Hashable, tuple[CheckPoint | LastPop, list[int]]] = {}
    for given in acknowledgements:
        if given.point is not None and given.offsets:
            gathered.setdefault(given.place, (given.point, []))[1].extend(given.offsets)
    if gathered:
        made = [_record(context, point, offsets, now) for point, offsets in gathered.values()]
        records = [record for record in made if record is not None]
        try:
            if records:
                append(context, records, now)
        except Exception as error:
            for given in acknowledgements:
                refuse(context, given.request, error, now)
            return
        for point, offsets in gathered.values():
            _acknowledge(context, point, offsets, now)
        wake_freed(context)
    for given in acknowledgements:
        context.counters.messages_acknowledged += len(given.offsets)
        context.counters.acknowledged_late += len(given.late)
        reply = Acknowledged(messages=len(given.offsets), late=given.late)
        commit.acknowledge(given.request, reply, wait=True, now=now)


def _record(context: Context, point: CheckPoint | LastPop, offsets: list[int], now: Now) -> PendingMessage | None:
    if isinstance(point, LastPop):
        return pop_in_order.acknowledgement(context, point, offsets, now)
    return acknowledgement(context, point, offsets, now)


def _acknowledge(context: Context, point: CheckPoint | LastPop, offsets: list[int], now: Now) -> None:
    """The record is stored."""
    if isinstance(point, LastPop):
        pop_in_order.acknowledge(context, point, offsets, now)
        return
    for offset in offsets:
        context.check_points.acknowledge(point, offset)
    context.check_points.note_acknowledged(point.group, point.topic, len(offsets), now.mono_ns)


def change_invisible_time(context: Context, request: Request, now: Now) -> Reply:
    """Hide a message for another time: move it to a check point of its own, unless it was popped in order."""
    command: ChangeInvisibleTime = request.command
    require_invisible_time(command.invisible_ms, 0)
    _check(context, command)
    change = pop_in_order.change_invisible_time if command.order else _change_invisible_time
    changed = change(context, command, now)
    if changed is None:
        raise NotFoundError(
            f"group {command.consumer_group} has not popped message {command.offset} of queue {command.queue_id} of "
            f"topic {command.topic} at that time, or it was acknowledged, or its invisible time is over",
            code=ResponseCode.NO_MESSAGE,
        )
    return changed


def _change_invisible_time(context: Context, command: ChangeInvisibleTime, now: Now) -> InvisibleTimeChanged | None:
    """None if the message is not hidden by the check point that the command names."""
    old, offset = _find(context, command), command.offset
    if old is None or offset not in old.waiting:
        return None
    point = CheckPoint(
        group=old.group,
        topic=old.topic,
        queue_id=old.queue_id,
        start_offset=offset,
        pop_time=free_pop_time(context, old.group, [(old.topic, old.queue_id, offset)], now),
        invisible_ms=command.invisible_ms,
        waiting=[offset],
        revive_queue=old.revive_queue,
        is_unseen=command.unseen,
    )
    messages = [check_point_message(context, point, now, again=True), acknowledgement(context, old, [offset], now)]
    stored = append(context, messages, now)
    point.revive_offset = stored[0].queue_offset
    context.check_points.add(point, now)
    context.check_points.acknowledge(old, offset)
    return InvisibleTimeChanged(
        pop_time_ms=point.pop_time, invisible_ms=point.invisible_ms, revive_queue_id=point.revive_queue
    )


def _check(context: Context, command: AckMessage | ChangeInvisibleTime) -> None:
    """RequestError for a topic, queue or offset that does not exist."""
    context.require_writable()
    require_loaded(context)
    topic = context.topics.require(command.topic)
    if not 0 <= command.queue_id < topic.read_queue_nums:
        raise RequestError(
            f"queueId[{command.queue_id}] is illegal, topic:[{command.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}]",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer="/queue_id",
        )
    offsets = command.offsets if isinstance(command, AckMessage) else [command.offset]
    low = context.store.min_offset(command.topic, command.queue_id)
    end = context.store.max_offset(command.topic, command.queue_id)
    wrong = [offset for offset in offsets if not low <= offset <= end]
    if wrong:
        raise RequestError(
            f"offset is illegal, key:{command.topic}@{command.queue_id}, commit:{wrong[0]}, store:{low}~{end}",
            code=ResponseCode.NO_MESSAGE,
            pointer="/offset",
        )


def _find(context: Context, command: AckMessage | ChangeInvisibleTime) -> CheckPoint | None:
    """The check point of a request."""
    key = command.queue_id, command.start_offset, command.pop_time_ms
    return context.check_points.find(command.consumer_group, command.topic, key)
