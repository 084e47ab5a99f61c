"""Acknowledges popped messages, or hides them for longer. RocketMQ's AckMessageProcessor, ChangeInvisibleTimeProcessor.

Each change is a record of the revive log before it counts.
"""

from collections.abc import Sequence

import msgspec

from broker_core import events
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
MAX_OFFSETS_OF_EVENT = 32


class _Place(msgspec.Struct, gc=False):
    """What the acknowledgements of one check point have in common. Its queue has offsets from ``low`` to ``end``.

    ``point`` is the check point, or the pop in order; None if nothing is known of it. Of its messages, ``waiting`` are
    not acknowledged, and ``offsets`` are acknowledged by what is gathered.
    """

    low: int
    end: int
    point: CheckPoint | LastPop | None
    waiting: set[int]
    offsets: list[int]


_ACKNOWLEDGED = Acknowledged(messages=1)


class Acknowledgements:
    """Acknowledgements that were checked and are not stored yet. Those of one check point become one record."""

    def __init__(self, context: Context, commit: GroupCommit) -> None:
        self._context = context
        self._commit = commit
        self._places: dict[tuple[str, str, int, int | None, int], _Place] = {}
        self._answers: list[tuple[Request, Acknowledged]] = []

    def __bool__(self) -> bool:
        return bool(self._answers)

    def add(self, request: Request) -> bool:
        """Check an acknowledgement and gather it. As in RocketMQ, one that comes late or twice is no error.

        False if a gathered one acknowledges the same message: store the gathered ones, then add this one again.
        """
        command: AckMessage = request.command
        given = command.offsets
        if len(given) > MAX_OFFSETS:
            raise RequestError(f"an acknowledgement has at most {MAX_OFFSETS} offsets", pointer="/offsets")
        start_offset = None if command.order else command.start_offset  # a pop in order is named by its time alone
        key = command.consumer_group, command.topic, command.queue_id, start_offset, command.pop_time_ms
        known = self._places.get(key)
        place = _look(self._context, command) if known is None else known
        _require_offsets(command, given, place.low, place.end)
        if isinstance(place.point, LastPop):
            pop_in_order.require_popped(place.point, command)
        if known is None:  # after the checks, because only ``store`` forgets it
            self._places[key] = place
        waiting, gathered = place.waiting, place.offsets
        if len(given) == 1 and given[0] in waiting:  # what the stock client sends
            waiting.remove(given[0])
            gathered.append(given[0])
            self._answers.append((request, _ACKNOWLEDGED))
            return True
        given = list(dict.fromkeys(given))
        if gathered and not set(gathered).isdisjoint(given):
            return False
        offsets = [offset for offset in given if offset in waiting]
        late = [offset for offset in given if offset not in waiting]
        waiting.difference_update(offsets)
        gathered += offsets
        self._answers.append((request, Acknowledged(messages=len(offsets), late=late)))
        return True

    def store(self, now: Now) -> None:
        """Store what is gathered as one block, one record for each check point, and answer."""
        context = self._context
        answers, self._answers = self._answers, []
        places, self._places = [place for place in self._places.values() if place.offsets], {}
        if places:
            records = [record for place in places if (record := _record(context, place, now)) is not None]
            try:
                if records:
                    append(context, records, now)
            except Exception as error:
                for request, _ in answers:
                    refuse(context, request, error, now)
                return
            for place in places:
                _acknowledge(context, place, now)
            wake_freed(context)
        for request, reply in answers:
            command: AckMessage = request.command
            if not command.order and command.consumer_group in context.subscription_groups:  # any name may be sent
                nums = reply.messages + len(reply.late)
                context.stats.group_ack.add(((command.topic, command.consumer_group), nums, 0, now.mono_ns))
            if reply.late:
                context.counters.acknowledged_late += len(reply.late)
                _report(context, command.consumer_group, command.topic, command.queue_id, reply.late, now, late=True)
        context.counters.messages_acknowledged += sum([reply.messages for _, reply in answers])
        self._commit.acknowledge_popped(answers, now)


def _look(context: Context, command: AckMessage) -> _Place:
    """The check point of an acknowledgement. RequestError for a topic or queue that does not exist."""
    low, end = _check_queue(context, command)
    point: CheckPoint | LastPop | None
    point = pop_in_order.find_last_pop(context, command) if command.order else _find(context, command)
    return _Place(low, end, point, set(point.waiting) if point is not None else set(), [])


def _record(context: Context, place: _Place, now: Now) -> PendingMessage | None:
    """The record of what is acknowledged; None if it needs none."""
    if isinstance(place.point, LastPop):
        return pop_in_order.acknowledgement(context, place.point, place.offsets, now)
    assert place.point is not None
    return acknowledgement(context, place.point, place.offsets, now)


def _report(
    context: Context, group: str, topic: str, queue_id: int, offsets: list[int], now: Now, *, late: bool = False
) -> None:
    for start in range(0, len(offsets), MAX_OFFSETS_OF_EVENT):
        part = offsets[start : start + MAX_OFFSETS_OF_EVENT]
        context.events.emit(events.MessagesAcknowledged, now, group, topic, queue_id, part, late)


def _acknowledge(context: Context, place: _Place, now: Now) -> None:
    """Acknowledge messages whose record is stored."""
    point, offsets = place.point, place.offsets
    if isinstance(point, LastPop):
        topic, group, queue_id = point.place
        _report(context, group, topic, queue_id, offsets, now)
        pop_in_order.acknowledge(context, point, offsets, now)
        return
    assert point is not None
    _report(context, point.group, point.topic, point.queue_id, offsets, now)
    context.check_points.acknowledge(point, *offsets)
    context.check_points.note_acknowledged(point.group, point.topic, len(offsets), now.mono_ns)


def change_invisible_time(context: Context, request: Request, now: Now) -> Reply:
    """Hide a message for another time: move it to a check point of its own, unless it was popped in order."""
    command: ChangeInvisibleTime = request.command
    require_invisible_time(command.invisible_ms, 0)
    _require_offsets(command, (command.offset,), *_check_queue(context, command))
    change = pop_in_order.change_invisible_time if command.order else _change_invisible_time
    changed = change(context, command, now)
    if changed is None:
        raise NotFoundError(
            f"group {command.consumer_group} has not popped message {command.offset} of queue {command.queue_id} of "
            f"topic {command.topic} at that time, or it was acknowledged, or its invisible time is over",
            code=ResponseCode.NO_MESSAGE,
        )
    group, topic, queue_id = command.consumer_group, command.topic, command.queue_id
    context.events.emit(events.InvisibleTimeChanged, now, group, topic, queue_id, command.offset, command.invisible_ms)
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
    context.stats.group_ck.add(((old.topic, old.group), 1, 0, now.mono_ns))
    context.stats.group_ack.add(((old.topic, old.group), 1, 0, now.mono_ns))
    return InvisibleTimeChanged(
        pop_time_ms=point.pop_time, invisible_ms=point.invisible_ms, revive_queue_id=point.revive_queue
    )


def _check_queue(context: Context, command: AckMessage | ChangeInvisibleTime) -> tuple[int, int]:
    """The queue's first offset and the one after its last. RequestError for a topic or queue that does not exist."""
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
    store = context.store
    return store.min_offset(command.topic, command.queue_id), store.max_offset(command.topic, command.queue_id)


def _require_offsets(command: AckMessage | ChangeInvisibleTime, offsets: Sequence[int], low: int, end: int) -> None:
    """RequestError for an offset that the queue does not have."""
    for offset in offsets:
        if not low <= offset <= end:
            raise RequestError(
                f"offset is illegal, key:{command.topic}@{command.queue_id}, commit:{offset}, store:{low}~{end}",
                code=ResponseCode.NO_MESSAGE,
                pointer="/offset",
            )


def _find(context: Context, command: AckMessage | ChangeInvisibleTime) -> CheckPoint | None:
    """The check point of a request."""
    key = command.queue_id, command.start_offset, command.pop_time_ms
    return context.check_points.find(command.consumer_group, command.topic, key)
