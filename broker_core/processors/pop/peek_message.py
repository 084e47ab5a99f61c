"""Shows what a group would pop, and changes nothing. RocketMQ's PeekMessageProcessor."""

from sys import intern

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import PeekMessage, Popped, Reply
from broker_core.longpolling.pull_request import Pop
from broker_core.processors.context import Context, Request
from broker_core.processors.pop.pop_look import MAX_BYTES, WRONG_OFFSET, queues_of
from broker_core.processors.pop.pop_message import MAX_MESSAGES, check_access, require_message_number
from broker_core.topics import validate_group


def peek_message(context: Context, request: Request, now: Now) -> Reply:
    """The messages behind the group's offsets, 32 at most, without a filter, and how many there are (``rest``).

    A group without an offset in a queue is shown the queue's first message, as in RocketMQ.
    """
    command: PeekMessage = request.command
    wanted = min(command.max_msg_nums, MAX_MESSAGES)
    require_message_number(context, wanted, "peek")
    check_access(context, validate_group(command.consumer_group), command.topic, command.queue_id, now)
    context.require_complete_queues()
    pop = Pop(
        topic=command.topic,
        group=intern(command.consumer_group),
        queue_id=max(-1, command.queue_id),
        client_id="",
        protocol="remoting",
    )
    records: list[bytes] = []
    left, size, rest = wanted, 0, 0
    for topic, queue_id in queues_of(context, pop):
        end, offset = context.store.max_offset(topic, queue_id), context.offsets.query(pop.group, topic, queue_id)
        if offset is None:
            offset = context.store.min_offset(topic, queue_id)
        if left and size < MAX_BYTES and offset != end:
            result = context.store.get_message(topic, queue_id, offset, left, MAX_BYTES - size, None)
            if result.status in WRONG_OFFSET:
                offset = result.next_begin_offset
                result = context.store.get_message(topic, queue_id, offset, left, MAX_BYTES - size, None)
            records.append(result.records)
            left -= result.message_count
            size += len(result.records)
        rest += max(0, end - offset)
    return Popped(
        code=ResponseCode.SUCCESS if size else ResponseCode.PULL_NOT_FOUND,
        pop_time_ms=0,
        invisible_ms=0,
        revive_queue_id=0,
        rest=rest,
        queues=[],
        records=b"".join(records),
    )
