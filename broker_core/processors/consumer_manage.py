"""Members and consumed offsets of groups. RocketMQ's ConsumerManageProcessor."""

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    ConsumerList,
    ConsumerOffsets,
    Done,
    FoundOffset,
    GetConsumerListByGroup,
    GroupQueueOffset,
    QueryConsumerOffset,
    QueryOffset,
    Reply,
    UpdateConsumerOffset,
)
from broker_core.consumers.subscription_group_manager import MAX_GROUPS, not_exist
from broker_core.errors import NotFoundError, RequestError, StoreReadOnlyError
from broker_core.events import ConsumerListQueried, OffsetCommitted
from broker_core.formats.pop_check_point import OFFSETS_GROUP as POPPED_OFFSETS
from broker_core.formats.pop_check_point import REVIVE_GROUP as POPS
from broker_core.processors.context import Context, Request
from broker_core.processors.producers.half_message import GROUP as TRANSACTIONS
from broker_core.topics import validate_group
from broker_core.walk import Steps, page_limit, pieces_of, queue_of_text

BROKERS_OWN = frozenset((TRANSACTIONS, POPS, POPPED_OFFSETS))
"""Groups without members, whose offsets are the broker's own."""


def commit_offset(
    context: Context, group: str, topic: str, queue_id: int, offset: int, client_id: str, now: Now
) -> None:
    """Store one offset, which may move forwards or backwards.

    RequestError for the broker's own group; StoreReadOnlyError if the store was not adopted.
    """
    require_clients_group(group)
    if context.store.read_only:
        raise StoreReadOnlyError("the store belongs to another broker and is open read-only; offsets are not stored")
    previous = context.offsets.commit(group, topic, queue_id, offset)
    context.counters.offsets_committed += 1
    if previous != offset:
        end = context.store.max_offset(topic, queue_id)
        # The first commit of a group that has consumed nothing yet is no progress.
        if offset > (context.store.min_offset(topic, queue_id) if previous is None else previous):
            context.pulls.moved(group, topic, queue_id, offset, end, now.mono_ns)
        context.events.emit(
            OffsetCommitted,
            now,
            group,
            topic,
            queue_id,
            offset,
            -1 if previous is None else previous,
            client_id,
            end,
        )


def require_clients_group(group: str) -> None:
    """RequestError for the groups whose offsets say how far the broker is done with transactions and pops."""
    if group in BROKERS_OWN:
        raise RequestError(
            f"group {group} is the broker's own: its offsets are the broker's progress",
            code=ResponseCode.NO_PERMISSION,
            pointer="/group",
        )


def require_room(context: Context, group: str) -> None:
    """RequestError for a group without offsets when too many groups have offsets already."""
    if not context.offsets.topics(group) and len(context.offsets) >= MAX_GROUPS:
        raise RequestError(f"{MAX_GROUPS} groups have offsets on this broker, which is the limit")


def query_consumer_offset(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: QueryConsumerOffset = request.command
    validate_group(command.group)
    limit, after = page_limit(command.limit), queue_of_text(command.after)
    topics = context.offsets.topics(command.group)
    if not topics:
        raise NotFoundError(f"group {command.group} has committed no offset", pointer="/group")
    if command.topic:
        context.topics.require(command.topic)
    offsets: list[GroupQueueOffset] = []
    for topic in [command.topic] if command.topic else sorted(topics):
        queues = sorted(entry for entry in topics.get(topic, {}).items() if (topic, entry[0]) > after)
        for piece in pieces_of(queues):
            room = limit - len(offsets)
            offsets += [group_queue_offset(context, topic, queue_id, offset, now) for queue_id, offset in piece[:room]]
            if len(piece) > room:
                last = offsets[-1]
                return ConsumerOffsets(group=command.group, offsets=offsets, next=f"{last.topic}@{last.queue_id}")
            yield
    return ConsumerOffsets(group=command.group, offsets=offsets)


def group_queue_offset(context: Context, topic: str, queue_id: int, offset: int, now: Now) -> GroupQueueOffset:
    """An offset with the ends of its queue."""
    store = context.store
    end = store.max_offset(topic, queue_id)
    lag = max(0, end - offset)
    next_time = store.store_time(topic, queue_id, offset) if lag else None
    age = None if next_time is None else max(0, now.wall_ms - next_time)
    return GroupQueueOffset(
        topic=topic,
        queue_id=queue_id,
        offset=offset,
        min_offset=store.min_offset(topic, queue_id),
        max_offset=end,
        lag=lag,
        lag_ms=age if lag else 0,
    )


def update_consumer_offset(context: Context, request: Request, now: Now) -> Reply:
    """Commit offsets. For RocketMQ clients the checks are RocketMQ's: the group must be known, and offsets below 0,
    which Go clients send for queues that they have not read yet, are ignored."""
    command: UpdateConsumerOffset = request.command
    validate_group(command.group)
    client = context.clients.get(request.connection)
    is_stock = client is not None and client.protocol == "remoting"
    if is_stock and command.group not in context.subscription_groups:
        raise not_exist(command.group)
    require_room(context, command.group)
    for index, entry in enumerate(command.offsets):
        topic = context.topics.require(entry.topic)
        if not 0 <= entry.queue_id < topic.queue_nums:
            raise RequestError(
                f"topic {entry.topic} has no queue {entry.queue_id}", pointer=f"/offsets/{index}/queue_id"
            )
        if entry.offset < 0 and not is_stock:
            raise RequestError("an offset is 0 or more", pointer=f"/offsets/{index}/offset")
    is_member = context.consumers.is_member(command.group, request.connection)
    client_id = command.client_id or context.client_id_of(request.connection)
    for entry in command.offsets:
        pending = context.offsets.pending_reset(command.group, entry.topic, entry.queue_id)
        if entry.offset >= 0 and not (is_member and pending is not None):
            commit_offset(context, command.group, entry.topic, entry.queue_id, entry.offset, client_id, now)
    return Done()


def query_offset(context: Context, request: Request, now: Now) -> Reply:
    """The offset at which a member continues. If none is known: 0 in a young queue, else NotFoundError.

    In a queue that never had a message, 0 is the end as well. RocketMQ answers QUERY_NOT_FOUND there: clients then ask
    for the end, and a message that arrives before that question is never consumed.
    """
    command: QueryOffset = request.command
    group, topic, queue_id = command.group, command.topic, command.queue_id
    offset = context.offsets.pending_reset(group, topic, queue_id)
    if offset is None:
        offset = context.offsets.query(group, topic, queue_id)
    if offset is not None:
        return FoundOffset(offset=offset)
    context.require_complete_queues()
    if command.set_zero_if_not_found and (
        _never_had_a_message(context, topic, queue_id) or context.store.is_in_memory(topic, queue_id, 0)
    ):
        return FoundOffset(offset=0)
    raise NotFoundError(f"group {group} has no offset in queue {queue_id} of topic {topic}: it is new there")


def _never_had_a_message(context: Context, topic: str, queue_id: int) -> bool:
    config = context.topics.get(topic)
    exists = config is not None and 0 <= queue_id < config.queue_nums
    return exists and context.store.max_offset(topic, queue_id) == 0


def get_consumer_list_by_group(context: Context, request: Request, now: Now) -> Reply:
    command: GetConsumerListByGroup = request.command
    client_ids = context.consumers.client_ids(command.group)
    if not client_ids:
        raise NotFoundError(f"no consumer for this group, {command.group}", code=ResponseCode.SYSTEM_ERROR)
    context.events.emit(
        ConsumerListQueried, now, command.group, context.client_id_of(request.connection), len(client_ids)
    )
    return ConsumerList(client_ids=client_ids)
