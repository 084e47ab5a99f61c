"""Resets a group's offsets. Part of RocketMQ's AdminBrokerProcessor, with useServerSideResetOffset.

A member has its own offset and would soon commit it again. So its commits for a queue are ignored until the answer to
its next pull (OFFSET_RESET) has moved it. A group without members has only the stored offset.
"""

from broker_core.clock import Now
from broker_core.commands import OffsetChange, OffsetsReset, QueueOffset, Reply, ResetConsumerOffset
from broker_core.consumers.subscription_group_manager import not_exist
from broker_core.errors import RequestError
from broker_core.events import OffsetReset
from broker_core.processors.consumer_manage import commit_offset, require_clients_group, require_room
from broker_core.processors.context import Context, Request
from broker_core.processors.group_view import is_known_group
from broker_core.processors.pull_message import answer_reset, release
from broker_core.topics import validate_group


def reset_consumer_offset(context: Context, request: Request, now: Now) -> Reply:
    """Store the new offsets. Members get them with the answer to their next pull; held pulls are answered now."""
    command: ResetConsumerOffset = request.command
    validate_group(command.group)
    require_clients_group(command.group)
    context.require_complete_queues()
    topic = context.topics.require(command.topic)
    if command.queue_id >= topic.read_queue_nums:
        raise RequestError(f"topic {command.topic} has no queue {command.queue_id}", pointer="/queue_id")
    targets = []
    changes = []
    for queue_id in range(topic.read_queue_nums) if command.queue_id < 0 else [command.queue_id]:
        before = context.offsets.query(command.group, command.topic, queue_id)
        after = _target(context, command, queue_id)
        targets.append(QueueOffset(topic=command.topic, queue_id=queue_id, offset=after))
        if before != after:
            changes.append(OffsetChange(topic=command.topic, queue_id=queue_id, before=before, after=after))
    if not is_known_group(context, command.group):
        raise not_exist(command.group)
    if not command.dry_run:
        require_room(context, command.group)
        for target in targets:
            _reset(context, command.group, target, now)
    return OffsetsReset(group=command.group, dry_run=command.dry_run, changes=changes, offsets=targets)


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
    context.events.keep(OffsetReset, now, group, topic, queue_id, offset, -1 if previous is None else previous)
    if context.consumers.get(group) is None:
        return
    context.offsets.assign_reset(group, topic, queue_id, offset)
    for held in context.holds.requests_of_queue(topic, queue_id):
        if held.group == group and context.consumers.is_member(group, held.connection):
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
