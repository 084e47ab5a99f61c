"""Consumed offsets of groups. RocketMQ's ConsumerManageProcessor, and its reset of offsets."""

from broker_core.clock import Now
from broker_core.commands import (
    ConsumerGroups,
    ConsumerGroupView,
    ConsumerOffsets,
    Done,
    GetConsumerGroups,
    GroupQueueOffset,
    OffsetChange,
    OffsetsReset,
    QueryConsumerOffset,
    Reply,
    ResetConsumerOffset,
    UpdateConsumerOffset,
)
from broker_core.errors import NotFoundError, RequestError, StoreReadOnlyError
from broker_core.events import OffsetCommitted
from broker_core.processors.context import Context, Request
from broker_core.topics import validate_group

MAX_GROUPS = 20_000


def commit_offset(context: Context, group: str, topic: str, queue_id: int, offset: int, client_id: str,
                  now: Now) -> None:
    """Store one offset, forwards or backwards; StoreReadOnlyError for a store that was not adopted."""
    if context.store.read_only:
        raise StoreReadOnlyError("the store belongs to another broker and is open read-only; offsets are not kept")
    previous = context.offsets.commit(group, topic, queue_id, offset)
    context.counters.offsets_committed += 1
    if previous != offset:
        context.events.emit(OffsetCommitted, now, group, topic, queue_id, offset, -1 if previous is None else previous,
                            client_id)


def require_room(context: Context, group: str) -> None:
    """RequestError for a group that has no offsets yet when there are too many groups that do."""
    if not context.offsets.topics(group) and len(context.offsets.groups()) >= MAX_GROUPS:
        raise RequestError(f"this broker keeps offsets of {MAX_GROUPS} groups, the most it takes")


def query_consumer_offset(context: Context, request: Request, now: Now) -> Reply:
    command: QueryConsumerOffset = request.command
    validate_group(command.group)
    topics = context.offsets.topics(command.group)
    if not topics:
        raise NotFoundError(f"group {command.group} has committed no offset", pointer="/group")
    if command.topic:
        context.topics.require(command.topic)
        topics = {command.topic: topics.get(command.topic, {})}
    offsets = [_position(context, topic, queue_id, offset, now)
               for topic, queues in sorted(topics.items()) for queue_id, offset in sorted(queues.items())]
    return ConsumerOffsets(group=command.group, offsets=offsets)


def _position(context: Context, topic: str, queue_id: int, offset: int, now: Now) -> GroupQueueOffset:
    store = context.store
    end = store.max_offset(topic, queue_id)
    lag = max(0, end - offset)
    next_time = store.store_time(topic, queue_id, offset) if lag else None
    age = None if next_time is None else max(0, now.wall_ms - next_time)
    return GroupQueueOffset(topic=topic, queue_id=queue_id, offset=offset, min_offset=store.min_offset(topic, queue_id),
                            max_offset=end, lag=lag, lag_ms=age if lag else 0)


def update_consumer_offset(context: Context, request: Request, now: Now) -> Reply:
    command: UpdateConsumerOffset = request.command
    validate_group(command.group)
    require_room(context, command.group)
    for index, entry in enumerate(command.offsets):
        topic = context.topics.require(entry.topic)
        if not 0 <= entry.queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
            raise RequestError(f"topic {entry.topic} has no queue {entry.queue_id}",
                               pointer=f"/offsets/{index}/queue_id")
        if entry.offset < 0:
            raise RequestError("an offset is 0 or more", pointer=f"/offsets/{index}/offset")
    for entry in command.offsets:
        commit_offset(context, command.group, entry.topic, entry.queue_id, entry.offset, command.client_id, now)
    return Done()


def reset_consumer_offset(context: Context, request: Request, now: Now) -> Reply:
    command: ResetConsumerOffset = request.command
    validate_group(command.group)
    topic = context.topics.require(command.topic)
    changes = []
    for queue_id in range(topic.read_queue_nums):
        before = context.offsets.query(command.group, command.topic, queue_id)
        after = _target(context, command.topic, queue_id, command.to)
        if before != after:
            changes.append(OffsetChange(topic=command.topic, queue_id=queue_id, before=before, after=after))
    if not command.dry_run:
        require_room(context, command.group)
        for change in changes:
            commit_offset(context, command.group, change.topic, change.queue_id, change.after, "", now)
    return OffsetsReset(group=command.group, dry_run=command.dry_run, changes=changes)


def _target(context: Context, topic: str, queue_id: int, to: str) -> int:
    if to == "min":
        return context.store.min_offset(topic, queue_id)
    if to == "max":
        return context.store.max_offset(topic, queue_id)
    if not to.isdecimal() or len(to) > 15:
        raise RequestError(f"to is min, max or a store time in ms since 1970, not {to!r}", pointer="/to")
    return context.store.offset_by_time(topic, queue_id, int(to), "lower")


def get_consumer_groups(context: Context, request: Request, now: Now) -> Reply:
    command: GetConsumerGroups = request.command
    assert isinstance(command, GetConsumerGroups)
    holds: dict[str, int] = {}
    pulled: dict[str, set[str]] = {}
    for held in context.holds:
        if held.group:
            holds[held.group] = holds.get(held.group, 0) + 1
            pulled.setdefault(held.group, set()).add(held.many.topic)
    names = sorted({*context.offsets.groups(), *holds})
    broker = context.options.broker_name
    groups = []
    for group in names:
        offsets = context.offsets.topics(group)
        lag = sum(max(0, context.store.max_offset(topic, queue_id) - offset)
                  for topic, queues in offsets.items() for queue_id, offset in queues.items())
        groups.append(ConsumerGroupView(broker=broker, group=group, topics=sorted({*offsets, *pulled.get(group, ())}),
                                        lag=lag, holds=holds.get(group, 0)))
    return ConsumerGroups(seq=context.events.seq, groups=groups)
