"""Gives messages to the members of a group that pop. RocketMQ's PopMessageProcessor and PopLongPollingService.

A pop begins at a random queue. The group's offset in each queue moves on at once, unless the group pops in order.
The check points of what it found are stored before the messages are handed out. A pop that finds nothing is held in
the pullRequestTable. An arrival wakes one hold of each group; if that leaves messages, the next hold is woken.
"""

from sys import intern

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Held, HoldOutcome, PopMessage, Popped, PoppedQueue, Reply
from broker_core.consumers.pop_check_points import MAX_IN_FLIGHT, CheckPoint
from broker_core.errors import RequestError, UnavailableError
from broker_core.events import MessagesDelivered, PullAnswered, PullReceived
from broker_core.filters.filter_factory import make_filter
from broker_core.filters.message_filter import MessageFilter
from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.pop_check_point import POP_ORDER_REVIVE_QUEUE, ExtraInfo, kind_of
from broker_core.longpolling.pull_request import Pop
from broker_core.processors.consumer_manage import commit_offset, require_room
from broker_core.processors.context import Context, Request
from broker_core.processors.pop.check_point_log import append, check_point_message, require_loaded
from broker_core.processors.pop.pop_hold import hold, wake_for_rest, wake_next
from broker_core.processors.pop.pop_in_order import hand_out
from broker_core.processors.pop.pop_look import Found, look, offsets_of, require_queue
from broker_core.processors.subscription_group import find_or_create_group
from broker_core.store.get_message import NO_MATCHED_MESSAGE, NO_MESSAGE_IN_QUEUE, GetMessageResult
from broker_core.topics import PERM_READ, validate_group

MAX_MESSAGES = 32
MAX_INVISIBLE_MS = 12 * 3_600_000
MAX_ATTEMPT_ID = 128
POP_CK = "POP_CK"


def pop_message(context: Context, request: Request, now: Now) -> Reply | None:
    """Answer a pop, or hold it and return None (Held if it has ``report_hold``)."""
    command: PopMessage = request.command
    group, client_id = command.consumer_group, command.client_id or context.client_id_of(request.connection)
    context.counters.pulls_received += 1
    context.events.emit(PullReceived, now, command.topic, command.queue_id, -1, group, client_id, command.protocol)
    pop = Pop(
        topic=command.topic,
        group=intern(group),
        queue_id=max(-1, command.queue_id),
        client_id=intern(client_id),
        protocol=command.protocol,
        message_filter=_check(context, command, now),
        max_msg_nums=command.max_msg_nums,
        invisible_ms=command.invisible_ms,
        from_max=command.from_max,
        poll_ms=max(0, min(command.poll_ms, context.options.max_hold_time_mills)),
        order=command.order,
        attempt_id=command.attempt_id if command.order else "",
    )
    found = look(context, pop, now)
    context.check_points.note_pop(pop.group, pop.topic, pop.client_id, now.mono_ns, in_order=pop.order)
    context.refused_pulls.pop_succeeded(pop.group, pop.client_id, pop.topic)
    if not found.messages and pop.poll_ms > 0:
        held = hold(context, request, pop, pop.poll_ms, now)
        if held is not None:
            if found.is_unfinished:
                wake_next(context, pop)
            deadline_ms = now.wall_ms + held.suspend_timeout_ms
            return Held(hold_id=held.hold_id, deadline_ms=deadline_ms) if command.report_hold else None
        context.counters.pulls_answered_at_once += 1
        return _nothing(context, pop, ResponseCode.POLLING_FULL, found, None, now)
    context.counters.pulls_answered_at_once += 1
    return answer(context, pop, found, None, now)


def _check(context: Context, command: PopMessage, now: Now) -> MessageFilter | None:
    """Make RocketMQ's checks, in its order. Returns the filter."""
    context.require_writable()
    if context.draining:
        raise UnavailableError("the broker is shutting down", code=ResponseCode.SERVICE_NOT_AVAILABLE)
    options, topic = context.options, command.topic
    require_message_number(context, command.max_msg_nums, "pop")
    require_invisible_time(command.invisible_ms, 1)
    group = validate_group(command.consumer_group)
    check_access(context, group, topic, command.queue_id, now)
    require_attempt_id(command.attempt_id)
    require_room(context, group)
    require_loaded(context)
    if context.check_points.messages >= MAX_IN_FLIGHT and not command.order:
        raise UnavailableError(
            f"{MAX_IN_FLIGHT} popped messages are not acknowledged, which is this broker's limit",
            code=ResponseCode.FLOW_CONTROL,
        )
    wanted = make_filter(command.expression, command.expression_type, property_filter=options.enable_property_filter)
    return context.with_bitmaps(topic, group, wanted)


def require_message_number(context: Context, number: int, what: str) -> None:
    """RequestError unless 1 to 32 messages are asked for. ``what``: the kind of request."""
    if not 1 <= number <= MAX_MESSAGES:
        words = "greater than 32" if number > MAX_MESSAGES else "less than 1"
        raise RequestError(
            f"the broker[{context.options.broker_name}] {what} message's num is {words}",
            code=ResponseCode.SYSTEM_ERROR,
            pointer="/limit",
        )


def check_access(context: Context, group: str, topic: str, queue_id: int, now: Now) -> None:
    """The checks that are made before each reading, because an operator can change their result while a pop is held."""
    if not context.options.broker_permission & PERM_READ:
        name = context.options.broker_name
        raise RequestError(f"the broker[{name}] pop message is forbidden", code=ResponseCode.NO_PERMISSION)
    require_queue(context, topic, queue_id)
    if not find_or_create_group(context, group, now).consume_enable:
        raise RequestError(f"subscription group no permission, {group}", code=ResponseCode.NO_PERMISSION)


def require_attempt_id(attempt_id: str) -> None:
    """RequestError for an attempt id that is too long to be kept."""
    if len(attempt_id) > MAX_ATTEMPT_ID:
        raise RequestError(
            f"the attempt id has {len(attempt_id)} characters; it may have {MAX_ATTEMPT_ID}", pointer="/attempt_id"
        )


def require_invisible_time(invisible_ms: int, least_ms: int) -> None:
    """RequestError for an invisible time that is out of range."""
    if not least_ms <= invisible_ms <= MAX_INVISIBLE_MS:
        raise RequestError(
            f"the invisible time is {invisible_ms} ms; it may be {least_ms} to {MAX_INVISIBLE_MS}",
            code=ResponseCode.INVALID_PARAMETER,
            pointer="/invisible_ms",
        )


# --- Answering --------------------------------------------------------------------------------------------------------


def answer(context: Context, pop: Pop, found: Found, outcome: HoldOutcome | None, now: Now) -> Popped:
    """Store check points for what was found, move the group's offsets, and return the messages.

    UnavailableError or StoreError if the check points cannot be stored; then nothing has changed.
    """
    context.counters.pulls_read += 1
    context.counters.pass_over(found.passed_over, found.by_bitmap, by_sql=found.work > 0)
    if not found.messages:
        return _nothing(context, pop, ResponseCode.POLLING_TIMEOUT, found, outcome, now)
    pop_time, queues, records = (hand_out if pop.order else _hide)(context, pop, found, now)
    for topic, queue_id, result in found.queues:
        _report(context, pop, topic, queue_id, result, outcome, now)
    context.check_points.note_given(pop.group, pop.topic, found.messages, now.mono_ns)
    wake_for_rest(context, pop, found.left)
    return Popped(
        code=ResponseCode.SUCCESS,
        pop_time_ms=pop_time,
        invisible_ms=pop.invisible_ms,
        revive_queue_id=POP_ORDER_REVIVE_QUEUE if pop.order else 0,
        rest=found.rest,
        queues=queues,
        consumer_group=pop.group,
        records=b"".join(records),
        hold=outcome,
    )


def _hide(context: Context, pop: Pop, found: Found, now: Now) -> tuple[int, list[PoppedQueue], list[bytes]]:
    """Store the check points. Returns the time of the pop in ms, the queues and the records of each."""
    places = [(topic, queue_id, result.first_offset) for topic, queue_id, result in found.queues]
    pop_time = free_pop_time(context, pop.group, places, now)
    points = [
        _check_point(pop, topic, queue_id, offsets_of(result), pop_time) for topic, queue_id, result in found.queues
    ]
    stored = append(context, [check_point_message(context, point, now) for point in points], now)
    queues: list[PoppedQueue] = []
    records: list[bytes] = []
    for point, (topic, queue_id, result), at in zip(points, found.queues, stored, strict=False):
        offsets = list(point.waiting)
        point.revive_offset = at.queue_offset
        context.check_points.add(point, now)
        context.stats.group_ck.add(((pop.topic, pop.group), 1, 0, now.mono_ns))
        commit_offset(context, pop.group, topic, queue_id, result.next_begin_offset, pop.client_id, now)
        queues.append(PoppedQueue(topic=topic, queue_id=queue_id, start_offset=point.start_offset, offsets=offsets))
        records.append(result.records if topic == pop.topic else _retries(context, pop, point, result.records))
    return pop_time, queues, records


def _nothing(
    context: Context, pop: Pop, code: ResponseCode, found: Found, outcome: HoldOutcome | None, now: Now
) -> Popped:
    """Report a pop that got no message, from no particular queue."""
    context.events.emit(
        PullAnswered,
        now,
        pop.topic,
        -1,
        pop.group,
        pop.client_id,
        outcome.hold_id if outcome else 0,
        int(code),
        NO_MATCHED_MESSAGE if found.passed_over else NO_MESSAGE_IN_QUEUE,
        0,
        0,
        -1,
        pop.protocol,
        -1,
        -1,
        pop.poll_ms,
        -1,
        found.passed_over,
        found.by_bitmap,
    )
    return Popped(
        code=code,
        pop_time_ms=now.wall_ms,
        invisible_ms=pop.invisible_ms,
        revive_queue_id=POP_ORDER_REVIVE_QUEUE if pop.order else 0,
        rest=found.rest,
        queues=[],
        hold=outcome,
    )


def _check_point(pop: Pop, topic: str, queue_id: int, offsets: list[int], pop_time: int) -> CheckPoint:
    return CheckPoint(
        group=pop.group,
        topic=intern(topic),
        queue_id=queue_id,
        start_offset=offsets[0],
        pop_time=pop_time,
        invisible_ms=pop.invisible_ms,
        waiting=offsets,
    )


def free_pop_time(context: Context, group: str, places: list[tuple[str, int, int]], now: Now) -> int:
    """The time of a pop, in ms: now, or the next at which no check point of these (topic, queue, start offset) exists.

    A queue that was reset is popped from the same offset again, perhaps in the same millisecond.
    """
    pop_time = context.check_points.pop_time(now.wall_ms)
    find = context.check_points.find
    while any(find(group, topic, (queue_id, offset, pop_time)) is not None for topic, queue_id, offset in places):
        pop_time += 1
    return pop_time


def _retries(context: Context, pop: Pop, point: CheckPoint, records: bytes) -> bytes:
    """Records of the retry topic as RocketMQ sends them: with the topic that was asked for, and their check point."""
    info = ExtraInfo(
        start_offset=point.start_offset,
        pop_time_ms=point.pop_time,
        invisible_ms=pop.invisible_ms,
        revive_queue=point.revive_queue,
        kind=kind_of(point.topic, pop.topic, pop.group),
        broker=context.options.broker_name,
        queue_id=point.queue_id,
        offset=0,
    )
    return b"".join(
        commit_log_record.encode(
            topic=pop.topic,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            physical_offset=record.physical_offset,
            body=record.body,
            properties=_with_check_point(record.properties, info._replace(offset=record.queue_offset).encode()),
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_timestamp=record.born_timestamp,
            born_host=record.born_host,
            born_port=record.born_port,
            store_timestamp=record.store_timestamp,
            store_host=record.store_host,
            store_port=record.store_port,
            reconsume_times=record.reconsume_times,
            prepared_transaction_offset=record.prepared_transaction_offset,
        )
        for record in commit_log_record.decode_all(records)
    )


def _with_check_point(properties: str, check_point: str) -> str:
    """Unchanged if there is no room: such a message becomes a dead letter when its invisible time is over."""
    changed = message_properties.put(properties, {POP_CK: check_point})
    return changed if commit_log_record.has_room(changed) else properties


def _report(
    context: Context,
    pop: Pop,
    topic: str,
    queue_id: int,
    result: GetMessageResult,
    outcome: HoldOutcome | None,
    now: Now,
) -> None:
    """Count and report what was popped from one queue."""
    count, size = result.message_count, len(result.records)
    context.counters.messages_delivered += count
    context.stats.found += 1
    context.stats.group_get.add(((topic, pop.group), count, size, now.mono_ns))
    context.events.emit(
        PullAnswered,
        now,
        topic,
        queue_id,
        pop.group,
        pop.client_id,
        outcome.hold_id if outcome else 0,
        ResponseCode.SUCCESS,
        result.status,
        count,
        size,
        result.next_begin_offset,
        pop.protocol,
        result.first_offset,
        result.max_offset,
        pop.poll_ms,
        result.oldest_store_timestamp,
        result.passed_over,
        result.by_bitmap,
    )
    context.events.emit(
        MessagesDelivered,
        now,
        topic,
        queue_id,
        pop.group,
        pop.client_id,
        result.first_offset,
        result.last_offset + 1,
        count,
        max(0, now.wall_ms - result.oldest_store_timestamp),
    )
