"""Resets a group's offsets. Part of RocketMQ's AdminBrokerProcessor, with useServerSideResetOffset.

A member has its own offset and would soon commit it again. So its commits for a queue are ignored until the answer to
its next pull (OFFSET_RESET) has moved it. A group without members has only the stored offset.

With useServerSideResetOffset=false RocketMQ's tools have the members told (RESET_CONSUMER_CLIENT_OFFSET), and nothing
is stored until the members commit.

A topic may have 1,024 queues and 100,000 held pulls. So a long reset goes on in the next turns, one reset after
another. First the offsets of all queues are looked up, then they are stored.
"""

from collections.abc import Generator

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    NOTICE_ID,
    OffsetChange,
    OffsetsReset,
    QueueOffset,
    Reply,
    ResetConsumerClientOffset,
    ResetConsumerOffset,
)
from broker_core.consumers.subscription_group_manager import not_exist
from broker_core.errors import ConflictError, RequestError, UnavailableError
from broker_core.events import OffsetReset
from broker_core.longpolling.pull_request import PullRequest
from broker_core.processors.consumer_manage import commit_offset, require_clients_group, require_room
from broker_core.processors.context import Context, Request, Waking
from broker_core.processors.group_view import is_known_group
from broker_core.processors.outcome import failed, refused
from broker_core.processors.pull_message import answer_reset, release
from broker_core.topics import TopicConfig, validate_group

MAX_RESETS = 64
"""Resets that are not finished."""

WORK_A_TURN = 1000
"""Microseconds of work in one turn, by these estimates: one offset looked up by time, one stored or one held pull
answered, one held pull of another group looked at."""
LOOK_UP, STORE, LOOK_AT = 50, 20, 1
TELL = 50
"""Microseconds for a notice to a member, and LOOK_AT more for each queue in it."""

Steps = Generator[int, Now, OffsetsReset]
"""A reset in steps. Each gets the present time and yields its work, in microseconds; the first one does nothing."""


def reset_consumer_offset(context: Context, request: Request, now: Now) -> None:
    """Store the new offsets. Members get them with the answer to their next pull; held pulls are answered now.

    ``continue_resets`` answers, in this turn or in a later one.
    """
    command: ResetConsumerOffset = request.command
    validate_group(command.group)
    require_clients_group(command.group)
    context.require_complete_queues()
    topic = context.topics.require(command.topic)
    if command.queue_id >= topic.read_queue_nums:
        raise RequestError(f"topic {command.topic} has no queue {command.queue_id}", pointer="/queue_id")
    if len(context.resets) >= MAX_RESETS:
        raise UnavailableError(f"{MAX_RESETS} resets of offsets are not finished; ask again later")
    steps = _reset_all(context, command, topic)
    next(steps)
    context.resets.append((request, steps))
    if len(context.resets) == 1:
        continue_resets(context, now)


def continue_resets(context: Context, now: Now) -> None:
    """Go on with the oldest unfinished reset for one turn."""
    if not context.resets:
        return
    request, steps = context.resets[0]
    reply: Reply
    work = 0
    try:
        while work < WORK_A_TURN:
            work += steps.send(now)
        return
    except StopIteration as end:
        reply = end.value
    except Exception as error:
        refused(context, request, error, now)
        reply = failed(error)
    context.resets.popleft()
    context.reply(request.connection, request.request_id, reply)


def _reset_all(context: Context, command: ResetConsumerOffset, topic: TopicConfig) -> Steps:
    now = yield 0
    targets: list[QueueOffset] = []
    changes: list[OffsetChange] = []
    for queue_id in range(topic.read_queue_nums) if command.queue_id < 0 else [command.queue_id]:
        _require_same(context, topic)
        before = context.offsets.query(command.group, command.topic, queue_id)
        after = _target(context, command, queue_id)
        targets.append(QueueOffset(topic=command.topic, queue_id=queue_id, offset=after))
        if before != after:
            changes.append(OffsetChange(topic=command.topic, queue_id=queue_id, before=before, after=after))
        now = yield LOOK_UP
    if not is_known_group(context, command.group):
        raise not_exist(command.group)
    if _is_for_members(context, command):
        return (yield from _tell_members(context, command, targets))
    if not command.dry_run:
        require_room(context, command.group)
        for target in targets:
            _require_same(context, topic)
            _reset(context, command.group, target, now)
            now = yield STORE
            for held in context.holds.requests_of_queue(target.topic, target.queue_id):
                now = yield _answer(context, command.group, held, target.offset, now)
            held_pop = context.holds.take_pop(target.topic, command.group, target.queue_id)
            if held_pop is not None:
                context.waking.append(Waking(held_pop, "arrival"))
    return OffsetsReset(group=command.group, dry_run=command.dry_run, changes=changes, offsets=targets)


def _is_for_members(context: Context, command: ResetConsumerOffset) -> bool:
    """Whether the members move their offsets themselves. Members with GlassMQ's own protocols cannot be told."""
    if not command.through_members or command.dry_run or context.options.use_server_side_reset_offset:
        return False
    return all(client.protocol == "remoting" for client in context.consumers.members(command.group).values())


def _tell_members(context: Context, command: ResetConsumerOffset, targets: list[QueueOffset]) -> Steps:
    """RocketMQ's Broker2Client.resetOffset."""
    group, topic = command.group, command.topic
    offsets = []
    for target in targets:
        before = context.offsets.query(group, topic, target.queue_id)
        if not command.is_force and before is not None and before < target.offset:
            target = QueueOffset(topic=topic, queue_id=target.queue_id, offset=before)
        offsets.append(target)
    notice = ResetConsumerClientOffset(
        group=group, topic=topic, broker_name=context.options.broker_name, offsets=offsets
    )
    members = list(context.consumers.members(group).values())
    if not members:
        raise RequestError(
            f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {command.to}",
            code=ResponseCode.CONSUMER_NOT_ONLINE,
            pointer="/group",
        )
    for member in members:
        if context.consumers.is_member(group, member.connection):
            context.reply(member.connection, NOTICE_ID, notice)
        yield TELL + LOOK_AT * len(offsets)
    return OffsetsReset(group=group, dry_run=False, changes=[], offsets=offsets)


def _require_same(context: Context, topic: TopicConfig) -> None:
    """ConflictError if the topic was changed or deleted since the reset began: its offsets may be others by now."""
    if context.topics.get(topic.topic_name) is not topic:
        raise ConflictError(
            f"topic {topic.topic_name} was changed or deleted during the reset; look at the group's offsets and reset "
            "them again",
            pointer="/topic",
        )


def _target(context: Context, command: ResetConsumerOffset, queue_id: int) -> int:
    topic, to = command.topic, command.to
    low, high = context.store.min_offset(topic, queue_id), context.store.max_offset(topic, queue_id)
    if command.offset is not None:
        if not low <= command.offset <= high:
            raise RequestError(
                f"offset {command.offset} is not in queue {queue_id}, which has {low} to {high}", pointer="/offset"
            )
        return command.offset
    if to == "min":
        return low
    if to == "max":
        return high
    if not to.isdecimal() or len(to) > 15:
        raise RequestError(f"`to` is min, max or a store time in ms since 1970, not {to!r}", pointer="/to")
    return context.store.offset_by_time(topic, queue_id, int(to), "lower")


def _reset(context: Context, group: str, target: QueueOffset, now: Now) -> None:
    topic, queue_id, offset = target.topic, target.queue_id, target.offset
    previous = context.offsets.query(group, topic, queue_id)
    commit_offset(context, group, topic, queue_id, offset, "", now)
    context.pulls.was_reset(group, topic, queue_id)
    handed_out = context.order_infos.find(group, topic, queue_id)
    context.check_points.note_reset(max(now.wall_ms, handed_out.pop_time if handed_out is not None else 0))
    context.order_infos.clear(group, topic, queue_id)
    context.events.keep(OffsetReset, now, group, topic, queue_id, offset, -1 if previous is None else previous)
    if context.consumers.get(group) is not None:
        context.offsets.assign_reset(group, topic, queue_id, offset)


def _answer(context: Context, group: str, held: PullRequest, offset: int, now: Now) -> int:
    """Answer a held pull with the new offset, if it is one of a member. Returns the work."""
    topic, queue_id = held.many.topic, held.many.queue_id
    is_held = context.holds.get(held.hold_id) is held
    if held.group != group or not is_held or not context.consumers.is_member(group, held.connection):
        return LOOK_AT
    context.holds.take_request(held.connection, held.request_id)
    answer = answer_reset(
        context,
        group,
        topic,
        queue_id,
        held.client_id,
        held.protocol,
        held.pull_from_offset,
        offset,
        held.suspend_timeout_ms,
        now,
    )
    release(context, held, "cancelled", now, answer)
    return STORE
