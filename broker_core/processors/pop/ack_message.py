"""Acknowledges popped messages, or hides them for longer. RocketMQ's AckMessageProcessor, ChangeInvisibleTimeProcessor.

Each change is a record of the revive log before it counts.
"""

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import AckMessage, Acknowledged, ChangeInvisibleTime, InvisibleTimeChanged, Reply
from broker_core.consumers.pop_check_points import CheckPoint
from broker_core.errors import NotFoundError, RequestError
from broker_core.processors.context import Context, Request
from broker_core.processors.group_commit import GroupCommit
from broker_core.processors.outcome import refuse
from broker_core.processors.pop.check_point_log import ack_message as acknowledgement
from broker_core.processors.pop.check_point_log import append, check_point_message, require_loaded
from broker_core.processors.pop.pop_hold import wake_freed
from broker_core.processors.pop.pop_message import free_pop_time, require_invisible_time

MAX_OFFSETS = 4096
"""Offsets in one acknowledgement. A check point has at most 32."""


class Acknowledgement(msgspec.Struct, frozen=True, gc=False):
    """An acknowledgement that passed every check. ``point`` is the check point of its ``offsets``; ``late`` are offsets
    that are in no check point."""

    request: Request
    point: CheckPoint | None
    offsets: list[int]
    late: list[int]

    @property
    def names(self) -> list[tuple[int, int]]:
        """The messages that it acknowledges, by their check point and offset."""
        place = id(self.point)
        return [(place, offset) for offset in self.offsets]


def prepare_acknowledgement(context: Context, request: Request) -> Acknowledgement:
    """Check an acknowledgement. As in RocketMQ, one that comes late or twice is no error. Nothing is stored yet."""
    command: AckMessage = request.command
    if len(command.offsets) > MAX_OFFSETS:
        raise RequestError(f"an acknowledgement has at most {MAX_OFFSETS} offsets", pointer="/offsets")
    point = _find(context, command)
    given = dict.fromkeys(command.offsets)
    waiting = frozenset(point.waiting) if point is not None else frozenset()
    offsets = [offset for offset in given if offset in waiting]
    return Acknowledgement(request, point, offsets, [offset for offset in given if offset not in waiting])


def store_acknowledgements(
    context: Context, commit: GroupCommit, acknowledgements: list[Acknowledgement], now: Now
) -> None:
    """Store acknowledgements as one block, one record for each check point, and answer them.

    No two of them acknowledge the same message.
    """
    points: dict[int, tuple[CheckPoint, list[int]]] = {}
    for given in acknowledgements:
        if given.point is not None and given.offsets:
            points.setdefault(id(given.point), (given.point, []))[1].extend(given.offsets)
    if points:
        records = [acknowledgement(context, point, offsets, now) for point, offsets in points.values()]
        try:
            append(context, records, now)
        except Exception as error:
            for given in acknowledgements:
                refuse(context, given.request, error, now)
            return
        for point, offsets in points.values():
            for offset in offsets:
                context.check_points.acknowledge(point, offset)
            context.check_points.note_acknowledged(point.group, point.topic, len(offsets), now.mono_ns)
        wake_freed(context)
    for given in acknowledgements:
        context.counters.messages_acknowledged += len(given.offsets)
        context.counters.acknowledged_late += len(given.late)
        reply = Acknowledged(messages=len(given.offsets), late=given.late)
        commit.acknowledge(given.request, reply, wait=True, now=now)


def change_invisible_time(context: Context, request: Request, now: Now) -> Reply:
    """Move a message to a check point of its own."""
    command: ChangeInvisibleTime = request.command
    require_invisible_time(command.invisible_ms, 0)
    old, offset = _find(context, command), command.offset
    if old is None or offset not in old.waiting:
        raise NotFoundError(
            f"group {command.consumer_group} has not popped message {offset} of queue {command.queue_id} of topic "
            f"{command.topic} at that time, or it was acknowledged, or its invisible time is over",
            code=ResponseCode.NO_MESSAGE,
        )
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


def _find(context: Context, command: AckMessage | ChangeInvisibleTime) -> CheckPoint | None:
    """The check point of a request. RequestError for a topic, queue or offset that does not exist."""
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
    key = command.queue_id, command.start_offset, command.pop_time_ms
    return context.check_points.find(command.consumer_group, command.topic, key)
