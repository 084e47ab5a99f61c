"""Which messages a group would be given now. RocketMQ's PopMessageProcessor, the part that reads.

One look is one turn of the engine, so what it reads, and the offsets that it stores for a new group, are limited.
"""

from typing import TYPE_CHECKING

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.consumers.pop_check_points import MAX_IN_FLIGHT, MAX_IN_FLIGHT_OF_QUEUE
from broker_core.errors import RequestError
from broker_core.formats import commit_log_record
from broker_core.formats.pop_check_point import pop_retry_topics
from broker_core.longpolling.pull_request import Pop
from broker_core.processors.consumer_manage import commit_offset
from broker_core.processors.context import Context
from broker_core.store.get_message import GetMessageResult
from broker_core.topics import MESSAGE_TYPE, PERM_READ, PRIORITY, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MAX_BYTES = 4 << 20
"""Bytes of one answer, unless its first message is longer."""
MAX_WORK = 1 << 20
"""Bytes read to evaluate a filter in one pop."""
MAX_READS = 32
"""Queues read in one pop, because a filter may reject the messages of a thousand queues."""
GIVEN_QUEUES = 12
"""Queues whose messages are in one answer, because each of them needs a check point."""
NEW_QUEUES = 128
"""In so many queues one look stores the offset at which a new group begins. Half of them may be empty queues."""
RETRY_FIRST = 5
"""One pop in five looks at the retry topic first, as in RocketMQ."""
WRONG_OFFSET = ("OFFSET_TOO_SMALL", "OFFSET_OVERFLOW_BADLY", "OFFSET_FOUND_NULL")


class Found(msgspec.Struct, gc=False):
    """What a pop found: ``queues`` with results. ``rest`` messages remain, in the queues ``left``.

    ``scanned`` queues were looked at, ``reads`` of them were read, and in ``new`` of them the group had no offset.
    ``is_unfinished``: there is more to read, which matters if the filter rejected all that was read.
    """

    queues: list[tuple[str, int, GetMessageResult]]
    left: list[tuple[str, int]] = msgspec.field(default_factory=list)
    messages: int = 0
    size: int = 0
    work: int = 0
    passed_over: int = 0
    by_bitmap: int = 0
    rest: int = 0
    scanned: int = 0
    reads: int = 0
    new: int = 0
    is_unfinished: bool = False


def require_queue(context: Context, topic: str, queue_id: int) -> TopicConfig:
    """The topic of a pop. RequestError if it may not be read or has no such queue; -1 means all."""
    config = context.topics.require(topic)
    if not config.perm & PERM_READ:
        raise RequestError(f"the topic[{topic}] peeking message is forbidden", code=ResponseCode.NO_PERMISSION)
    if queue_id >= config.read_queue_nums:
        raise RequestError(
            f"queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{config.read_queue_nums}]",
            code=ResponseCode.INVALID_PARAMETER,
            pointer="/queue_id",
        )
    if config.has_batch_queues:  # an acknowledgement would be for a whole batch
        raise RequestError(
            f"messages of topic {topic} cannot be popped: it has queue.type=BatchCQ; pull them",
            code=ResponseCode.SYSTEM_ERROR,
            pointer="/topic",
        )
    return config


def queues_of(context: Context, pop: Pop) -> list[tuple[str, int]]:
    """The queues that a pop looks at, in its order. NotFoundError if the topic was deleted."""
    turn = context.check_points.random_turn()
    topic = require_queue(context, pop.topic, pop.queue_id)
    count = topic.read_queue_nums
    by_priority = _is_by_priority(context, topic, pop.group, turn)
    if pop.queue_id >= 0:
        own = [pop.queue_id]
    elif by_priority:
        own = list(range(count))[:: -1 if context.options.priority_order_asc else 1]
    else:
        first = turn % max(1, count)
        own = [*range(first, count), *range(first)]
    queues = [(pop.topic, queue_id) for queue_id in own]
    retries: list[tuple[str, int]] = []
    for name in () if pop.order else pop_retry_topics(pop.topic, pop.group):
        retry = context.topics.get(name)
        if retry is not None and retry.perm & PERM_READ:
            retries += [(name, queue_id) for queue_id in range(retry.read_queue_nums)]
    return retries + queues if turn % RETRY_FIRST == 0 and not by_priority else queues + retries


def _is_by_priority(context: Context, topic: TopicConfig, group: str, turn: int) -> bool:
    """Whether a pop looks at the queues of a topic in the order of their priority."""
    if topic.attributes.get(MESSAGE_TYPE) != PRIORITY:
        return False
    config = context.subscription_groups.get(group)
    return config is None or turn % 100 < config.priority_factor


def look(context: Context, pop: Pop, now: Now) -> Found:
    """Read the messages that the group would be given now. Its offsets do not move past messages that match."""
    queues = queues_of(context, pop)
    found = Found([], scanned=len(queues))
    all_offsets, points, group = context.offsets, context.check_points, pop.group
    max_offset, has_resets = context.store.max_offset, all_offsets.has_resets
    least_limit = min(MAX_IN_FLIGHT_OF_QUEUE, MAX_IN_FLIGHT)
    may_be_full = not pop.order and points.messages + pop.max_msg_nums > least_limit
    consumed: Mapping[int, int] = {}
    handed_out: Collection[int] = ()
    looked_in, is_over = "", False
    for topic, queue_id in queues:  # there may be 1,024 of them
        if topic != looked_in:
            looked_in, consumed = topic, all_offsets.queues(group, topic)
            handed_out = context.order_infos.queues(group, topic) if pop.order else ()
        end, offset = max_offset(topic, queue_id), consumed.get(queue_id)
        if offset is None:
            offset = _begin(context, pop, topic, queue_id, end, found, now)
        if has_resets and offset is not None:
            all_offsets.erase_reset(group, topic, queue_id)  # a pop reads from the group's offset anyway
        if offset is None or offset == end:
            continue
        if queue_id in handed_out and is_handed_out(context, pop, topic, queue_id, offset, now):
            continue
        room = _room(context, pop, topic, queue_id, found) if may_be_full else pop.max_msg_nums
        if room <= 0:
            found.rest += max(0, end - offset)
            points.note_full(group, topic, queue_id, pop.topic)
        elif is_over:
            _leave(found, topic, queue_id, max(0, end - offset))
        else:
            wanted = min(pop.max_msg_nums - found.messages, room)
            _read(context, pop, topic, queue_id, offset, wanted, found, now)
            is_over = _is_over(pop, found)
    return found


def _begin(context: Context, pop: Pop, topic: str, queue_id: int, end: int, found: Found, now: Now) -> int | None:
    """Store the offset at which a new group begins in a queue. None if this look leaves that to the next one."""
    if found.new >= (NEW_QUEUES if end else NEW_QUEUES // 2):
        if end:
            _leave(found, topic, queue_id, 1 if pop.from_max else end - context.store.min_offset(topic, queue_id))
        return None
    found.new += 1
    offset = first_offset(context, pop, topic, queue_id)
    commit_offset(context, pop.group, topic, queue_id, offset, pop.client_id, now)
    return offset


def _room(context: Context, pop: Pop, topic: str, queue_id: int, found: Found) -> int:
    """How many more messages of a queue may be popped, because the number of messages in flight is limited."""
    points = context.check_points
    in_flight = points.in_flight(pop.group, topic, queue_id)
    return min(MAX_IN_FLIGHT_OF_QUEUE - in_flight, MAX_IN_FLIGHT - points.messages - found.messages)


def is_handed_out(context: Context, pop: Pop, topic: str, queue_id: int, offset: int, now: Now) -> bool:
    """Whether another pop in order of the group, which reads from ``offset``, has this queue."""
    return context.order_infos.is_blocked(pop.group, topic, queue_id, offset, pop.attempt_id, now.mono_ns)


def _is_over(pop: Pop, found: Found) -> bool:
    """Whether a look has what was asked for, or has done as much as one may do."""
    return (
        found.messages >= pop.max_msg_nums
        or len(found.queues) >= GIVEN_QUEUES
        or found.reads >= MAX_READS
        or found.size >= MAX_BYTES
        or found.work >= MAX_WORK
    )


def _leave(found: Found, topic: str, queue_id: int, messages: int) -> None:
    """Leave the messages of a queue to the next look."""
    found.rest += messages
    found.left.append((topic, queue_id))
    found.is_unfinished = True


def _read(
    context: Context, pop: Pop, topic: str, queue_id: int, offset: int, wanted: int, found: Found, now: Now
) -> None:
    found.reads += 1
    read = context.store.get_message
    result = read(topic, queue_id, offset, wanted, MAX_BYTES - found.size, pop.message_filter)
    if result.status in WRONG_OFFSET:
        context.require_complete_queues()
        offset = result.next_begin_offset
        commit_offset(context, pop.group, topic, queue_id, offset, pop.client_id, now)
        result = read(topic, queue_id, offset, wanted, MAX_BYTES - found.size, pop.message_filter)
    if result.message_count:
        found.queues.append((topic, queue_id, result))
        found.messages += result.message_count
        found.size += len(result.records)
    elif result.next_begin_offset > offset:
        commit_offset(context, pop.group, topic, queue_id, result.next_begin_offset, pop.client_id, now)
        found.is_unfinished |= result.next_begin_offset < result.max_offset
    found.work += result.work
    found.passed_over += result.passed_over
    found.by_bitmap += result.by_bitmap
    rest = max(0, result.max_offset - result.next_begin_offset)
    found.rest += rest
    if rest:
        found.left.append((topic, queue_id))


def first_offset(context: Context, pop: Pop, topic: str, queue_id: int) -> int:
    """Where a group begins in a queue that is new to it."""
    store = context.store
    context.require_complete_queues()
    low, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    if not pop.from_max or topic != pop.topic or (low <= 0 and (not end or store.is_in_memory(topic, queue_id, 0))):
        return low
    return max(end - 1, low)


def offsets_of(result: GetMessageResult) -> list[int]:
    """The queue offsets of the records."""
    if result.last_offset - result.first_offset + 1 == result.message_count:
        return list(range(result.first_offset, result.last_offset + 1))
    return [record.queue_offset for record in commit_log_record.decode_all(result.records)]
