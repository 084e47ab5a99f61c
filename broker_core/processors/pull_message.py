"""Reads for pulls, and holds those that find nothing. RocketMQ's PullMessageProcessor.

A pull that finds nothing new and may wait is held in the same step. A held pull that is woken is read again once and
then answered, whatever the result. Most pulls are woken for one message, and the arrival contains its position.
"""

from sys import intern

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    Done,
    Failed,
    Held,
    HoldOutcome,
    Protocol,
    Pulled,
    PullMessage,
    ReleaseCause,
    Reply,
    WakeCause,
)
from broker_core.consumers.subscribed_filter import subscribed_filter
from broker_core.consumers.subscription_group_manager import SubscriptionGroupConfig
from broker_core.errors import RequestError, UnavailableError
from broker_core.events import (
    MessagesDelivered,
    PullAnswered,
    PullHeld,
    PullReceived,
    PullReleased,
    PullWoken,
    QueueTaken,
)
from broker_core.filters.filter_factory import make_client_filter, make_filter
from broker_core.filters.message_filter import MessageFilter
from broker_core.longpolling.pull_request import PullRequest
from broker_core.processors.consumer_manage import commit_offset, require_room
from broker_core.processors.context import Context, Request, Waking, filter_text
from broker_core.processors.outcome import failed, pull_refused
from broker_core.processors.subscription_group import find_or_create_group
from broker_core.store.get_message import NO_MATCHED_MESSAGE, GetMessageResult
from broker_core.topics import PERM_READ, validate_group

MAX_PULL_BYTES = 16 * 1024 * 1024
MAX_PULL_MESSAGES = 4096
EVALUATED_BYTES = 8
"""The work of evaluating a filter, for each byte that it reads, as bytes that could be copied in that time."""
OFFSET_RESET = "OFFSET_RESET"

_CODES = {
    "FOUND": ResponseCode.SUCCESS,
    "NO_MATCHED_MESSAGE": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "MESSAGE_WAS_REMOVING": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "OFFSET_FOUND_NULL": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_ONE": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_TOO_SMALL": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_OVERFLOW_BADLY": ResponseCode.PULL_OFFSET_MOVED,
    OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
}


def response_code(status: str, queue_offset: int) -> ResponseCode:
    """RocketMQ's code for a GetMessageStatus. An empty queue is "nothing new" only for a pull from offset 0."""
    code = _CODES.get(status)
    if code is None:
        return ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
    return code


def pull_message(context: Context, request: Request, now: Now) -> Reply | None:
    """Answer a pull, or hold it and return None (Held if it has ``report_hold``)."""
    command: PullMessage = request.command
    group, client_id = command.consumer_group, command.client_id or context.client_id_of(request.connection)
    context.counters.pulls_received += 1
    context.events.emit(
        PullReceived, now, command.topic, command.queue_id, command.queue_offset, group, client_id, command.protocol
    )
    message_filter = context.with_bitmaps(command.topic, group, _check(context, command, now))
    reset = context.offsets.pending_reset(group, command.topic, command.queue_id)
    if reset is not None and context.consumers.is_member(group, request.connection):
        context.counters.pulls_answered_at_once += 1
        return answer_reset(
            context,
            group,
            command.topic,
            command.queue_id,
            client_id,
            command.protocol,
            command.queue_offset,
            reset,
            _granted(context, command),
            now,
        )
    if command.commit_offset >= 0 and group and not (context.store.read_only or context.store.follows):
        require_room(context, validate_group(group))
        commit_offset(context, group, command.topic, command.queue_id, command.commit_offset, client_id, now)
    begin_ns = context.clock.mono_ns()
    context.counters.pulls_read += 1
    result = context.store.get_message(
        command.topic,
        command.queue_id,
        command.queue_offset,
        min(command.max_msg_nums, MAX_PULL_MESSAGES),
        min(command.max_msg_bytes, MAX_PULL_BYTES),
        message_filter,
    )
    code = response_code(result.status, command.queue_offset)
    if code is ResponseCode.PULL_OFFSET_MOVED:
        context.require_complete_queues()
    if code is ResponseCode.PULL_NOT_FOUND and command.suspend_timeout_ms > 0:
        return _hold(context, request, client_id, message_filter, result.max_offset, now)
    context.counters.pulls_answered_at_once += 1
    return _answer(
        context,
        result,
        code,
        command.topic,
        command.queue_id,
        group,
        client_id,
        command.protocol,
        command.queue_offset,
        None,
        _granted(context, command),
        context.clock.mono_ns() - begin_ns,
        now,
    )


def answer_reset(
    context: Context,
    group: str,
    topic: str,
    queue_id: int,
    client_id: str,
    protocol: Protocol,
    pull_from_offset: int,
    offset: int,
    granted: int,
    now: Now,
) -> Pulled:
    """The group's offset was reset: the answer moves the member there, once."""
    context.offsets.erase_reset(group, topic, queue_id)
    result = GetMessageResult(
        OFFSET_RESET, offset, context.store.min_offset(topic, queue_id), context.store.max_offset(topic, queue_id)
    )
    return _answer(
        context,
        result,
        _CODES[OFFSET_RESET],
        topic,
        queue_id,
        group,
        client_id,
        protocol,
        pull_from_offset,
        None,
        granted,
        0,
        now,
    )


def _check(context: Context, command: PullMessage, now: Now) -> MessageFilter | None:
    """Make RocketMQ's checks, in its order. Returns the subscription's filter."""
    if context.draining:
        raise UnavailableError("the broker is shutting down", code=ResponseCode.SERVICE_NOT_AVAILABLE)
    group = command.consumer_group if command.check_group or command.subscription is None else None
    config = _check_access(context, group, command.topic, command.queue_id, now, lite=command.lite)
    if command.max_msg_nums < 1:
        raise RequestError("a pull asks for at least one message", pointer="/limit")
    property_filter = context.options.enable_property_filter
    if config is not None and command.subscription is None:
        return _subscribed_filter(context, config, command.topic, command.sub_version)
    assert command.subscription is not None
    if config is None:
        return make_filter(command.subscription, command.expression_type, property_filter=property_filter)
    return make_client_filter(command.subscription, command.expression_type, property_filter=property_filter)


def _subscribed_filter(
    context: Context, config: SubscriptionGroupConfig, topic: str, sub_version: int
) -> MessageFilter | None:
    groups, property_filter = context.subscription_groups, context.options.enable_property_filter
    return subscribed_filter(context.consumers, groups, config, topic, sub_version, property_filter=property_filter)


def _check_access(
    context: Context, group: str | None, topic_name: str, queue_id: int, now: Now, *, lite: bool = False
) -> SubscriptionGroupConfig | None:
    """The checks that are made before each reading, because an operator can change their result while a pull is held.

    Returns the configuration of the group; without a ``group`` to check, None.
    """
    if not context.options.broker_permission & PERM_READ:
        raise RequestError(f"broker {context.options.broker_name} may not be read", code=ResponseCode.NO_PERMISSION)
    config = None
    if group is not None:
        if lite and not context.options.lite_pull_message_enable:
            raise RequestError(
                "litePullMessageEnable is off: lite pull consumers may not pull from this broker",
                code=ResponseCode.NO_PERMISSION,
            )
        config = find_or_create_group(context, group, now)
        if not config.consume_enable:
            raise RequestError(f"group {group} may not consume", code=ResponseCode.NO_PERMISSION, pointer="/group")
    topic = context.topics.require(topic_name)
    if not topic.perm & PERM_READ:
        raise RequestError(f"topic {topic_name} may not be read", code=ResponseCode.NO_PERMISSION, pointer="/topic")
    if not 0 <= queue_id < topic.read_queue_nums:
        raise RequestError(
            f"topic {topic_name} has no queue {queue_id} to read from; it has 0 to {topic.read_queue_nums - 1}",
            pointer="/queue_id",
        )
    return config


def _granted(context: Context, command: PullMessage) -> int:
    """How long this pull may be held, ms. Short polling holds RocketMQ clients for its own time, whatever they ask."""
    wanted, options = command.suspend_timeout_ms, context.options
    if wanted <= 0:
        return 0
    if options.long_polling_enable:
        return min(wanted, options.max_hold_time_mills)
    if command.protocol == "remoting":
        return options.short_polling_time_mills
    return min(wanted, options.short_polling_time_mills)


def _hold(
    context: Context, request: Request, client_id: str, message_filter: MessageFilter | None, max_offset: int, now: Now
) -> Reply | None:
    command: PullMessage = request.command
    holds = context.holds
    of_client = holds.count_of_connection(request.connection)
    if len(holds) >= context.options.max_holds or of_client >= context.options.max_holds_per_connection:
        owner = "the broker's" if len(holds) >= context.options.max_holds else "this connection's"
        raise UnavailableError(
            f"{owner} limit of held pulls is reached; wait for one to be answered", code=ResponseCode.FLOW_CONTROL
        )
    if of_client and holds.is_held(request.connection, request.request_id):
        raise RequestError(f"request {request.request_id} of this connection is held already")
    granted = _granted(context, command)
    held = PullRequest(
        hold_id=holds.next_id(),
        connection=request.connection,
        request_id=request.request_id,
        many=holds.get_or_create_many(command.topic, command.queue_id, max_offset),
        pull_from_offset=command.queue_offset,
        max_msg_nums=min(command.max_msg_nums, MAX_PULL_MESSAGES),
        max_msg_bytes=min(command.max_msg_bytes, MAX_PULL_BYTES),
        group=intern(command.consumer_group),
        client_id=intern(client_id),
        protocol=command.protocol,
        message_filter=message_filter,
        suspended_ns=now.mono_ns,
        suspend_timeout_ms=granted,
        short=not context.options.long_polling_enable,
        check_group=command.check_group or command.subscription is None,
        subscribed=command.subscription is None,
        lite=command.lite,
    )
    holds.hold(held)
    note_pull(
        context, held.group, command.topic, command.queue_id, held.client_id, held.protocol, command.queue_offset, now
    )
    context.counters.pulls_held += 1
    deadline_ms = now.wall_ms + granted
    context.events.emit(
        PullHeld,
        now,
        held.hold_id,
        command.topic,
        command.queue_id,
        held.group,
        held.client_id,
        held.protocol,
        held.pull_from_offset,
        max_offset,
        deadline_ms,
        filter_text(message_filter),
    )
    return Held(hold_id=held.hold_id, deadline_ms=deadline_ms) if command.report_hold else None


def run_again(context: Context, waking: Waking, now: Now) -> int:
    """Check and read again for a hold that was taken out of the table, and answer it.

    Returns the work in bytes read.
    """
    request, arrival_ns, arrival, cause = waking.request, waking.arrival_ns, waking.arrival, waking.cause
    topic, queue_id = request.many.topic, request.many.queue_id
    offset, message_filter = request.pull_from_offset, request.message_filter
    counters, mono_ns = context.counters, context.clock.mono_ns
    begin_ns = mono_ns()
    try:
        group = request.group if request.check_group else None
        config = _check_access(context, group, topic, queue_id, now, lite=request.lite)
        if request.subscribed and config is not None:
            message_filter = _subscribed_filter(context, config, topic, 0)
        message_filter = context.with_bitmaps(topic, request.group, message_filter)
        result = context.store.get_arrived(arrival, offset, message_filter) if arrival is not None else None
        if result is None:
            result = context.store.get_message(
                topic, queue_id, offset, request.max_msg_nums, request.max_msg_bytes, message_filter
            )
        code = ResponseCode.SUCCESS if result.message_count else response_code(result.status, offset)
        if code is ResponseCode.PULL_OFFSET_MOVED:
            context.require_complete_queues()
    except Exception as error:
        pull_refused(context, topic, queue_id, request.group, request.client_id, error, now)
        release(context, request, "refused", now, failed(error))
        return 0
    end_ns = mono_ns()
    counters.pulls_read += 1
    if cause == "check":
        cause = _cause_found_by_check(context, waking, message_filter, result)
    elif cause == "arrival" and result.status == NO_MATCHED_MESSAGE:
        cause = "filter_advanced"  # its filter was too much work for the turn, or tags have equal hashes
    held_us = (now.mono_ns - request.suspended_ns) // 1000
    hold_id, group, client_id = request.hold_id, request.group, request.client_id
    wake_us = 0
    if arrival_ns:
        wake_us = (end_ns - arrival_ns) // 1000
        counters.wakeup_us.add(wake_us)
    counters.wakeups.add((topic, group, wake_us if arrival_ns else None, now.wall_ms))
    counters.woken[cause] += 1
    counters.held_ms.add(held_us // 1000)
    events = context.events
    events.emit(
        PullWoken, now, hold_id, topic, queue_id, group, client_id, cause, held_us, wake_us, result.message_count
    )
    context.wakeups.append(events.last)
    outcome = HoldOutcome(hold_id, held_us, wake_us, cause)
    reply = _answer(
        context,
        result,
        code,
        topic,
        queue_id,
        group,
        client_id,
        request.protocol,
        offset,
        outcome,
        request.suspend_timeout_ms,
        end_ns - begin_ns,
        now,
    )
    context.replies.append((request.connection, request.request_id, reply))
    return len(result.records) + EVALUATED_BYTES * result.work


def _cause_found_by_check(
    context: Context, waking: Waking, message_filter: MessageFilter | None, result: GetMessageResult
) -> WakeCause:
    """Why no arrival has woken this hold: short polling, the filter that it had, or a defect."""
    if waking.request.short or not context.options.long_polling_enable:
        return "short_poll"
    is_missed = 0 <= result.first_offset < waking.checked_to and message_filter is waking.request.message_filter
    return "missed_arrival" if is_missed else "filter_advanced"


def _answer(
    context: Context,
    result: GetMessageResult,
    code: ResponseCode,
    topic: str,
    queue_id: int,
    group: str,
    client_id: str,
    protocol: Protocol,
    pull_from_offset: int,
    outcome: HoldOutcome | None,
    granted: int,
    read_ns: int,
    now: Now,
) -> Pulled:
    count, next_offset = result.message_count, result.next_begin_offset
    if outcome is None:
        note_pull(context, group, topic, queue_id, client_id, protocol, next_offset, now, pull_from_offset, count)
    else:
        context.pulls.answered(group, topic, queue_id, client_id, next_offset, count, now.mono_ns)
    context.events.emit(
        PullAnswered,
        now,
        topic,
        queue_id,
        group,
        client_id,
        outcome.hold_id if outcome else 0,
        int(code),  # the garbage collector would look at an enum's member
        result.status,
        count,
        len(result.records),
        result.next_begin_offset,
        protocol,
        pull_from_offset,
        result.max_offset,
        granted,
        result.oldest_store_timestamp,
        result.passed_over,
        result.by_bitmap,
    )
    context.counters.pass_over(result.passed_over, result.by_bitmap, by_sql=result.work > 0)
    if count:
        context.counters.messages_delivered += count
        context.stats.found += 1
        if group:
            context.stats.group_get.add(((topic, group), count, len(result.records), now.mono_ns))
        context.events.emit(
            MessagesDelivered,
            now,
            topic,
            queue_id,
            group,
            client_id,
            result.first_offset,
            result.last_offset + 1,
            count,
            max(0, now.wall_ms - result.oldest_store_timestamp),
        )
    return Pulled(
        code=code,
        status=result.status,
        next_begin_offset=result.next_begin_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
        suspend_timeout_ms=granted,
        read_us=read_ns // 1000,
        records=result.records,
        hold=outcome,
    )


def note_pull(
    context: Context,
    group: str,
    topic: str,
    queue_id: int,
    client_id: str,
    protocol: Protocol,
    next_offset: int,
    now: Now,
    from_offset: int | None = None,
    messages: int = 0,
) -> None:
    """Note a member's pull, which was held at ``next_offset``, or answered with the messages from ``from_offset`` on.
    Report that the queue has another client."""
    if not group:
        return
    if from_offset is None:
        from_offset = next_offset
    previous = context.pulls.note(
        group, topic, queue_id, client_id, protocol, next_offset, now.mono_ns, from_offset, messages
    )
    if previous != client_id:
        info = context.consumers.get(group)
        if info is not None and info.message_model == "CLUSTERING" and client_id in context.consumers.members(group):
            context.events.keep(QueueTaken, now, group, topic, queue_id, client_id, previous or "")


def release(context: Context, request: PullRequest, cause: ReleaseCause, now: Now, reply: Reply | None) -> None:
    """End a hold that was taken out of the table without running its pull. ``reply`` None: the client is gone."""
    held_us = max(0, now.mono_ns - request.suspended_ns) // 1000
    many = request.many
    context.counters.released += 1
    context.events.emit(
        PullReleased,
        now,
        request.hold_id,
        many.topic,
        many.queue_id,
        request.group,
        request.client_id,
        cause,
        held_us,
        request.protocol,
        request.pull_from_offset,
        many.max_offset,
        request.suspend_timeout_ms,
    )
    context.wakeups.append(context.events.last)
    if reply is not None:
        context.reply(request.connection, request.request_id, reply)


def cancel_pull(context: Context, request: Request, now: Now) -> Reply:
    held = context.holds.take_request(request.connection, request.command.request_id)
    if held is not None:
        release(
            context,
            held,
            "cancelled",
            now,
            Failed(code=ResponseCode.ILLEGAL_OPERATION, kind="request", remark="the pull was cancelled by its client"),
        )
    return Done()
