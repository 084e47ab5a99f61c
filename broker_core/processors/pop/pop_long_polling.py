"""Held pops that are woken, and NOTIFICATION: the same wait without messages.

RocketMQ's NotificationProcessor and PollingInfoProcessor, and the part of PopLongPollingService that answers.
"""

from sys import intern

from broker_core.clock import Now
from broker_core.commands import HoldOutcome, Notification, Notified, PollingInfo, PollingNumber, Reply
from broker_core.events import PullWoken
from broker_core.longpolling.pull_request import Pop, PopRequest
from broker_core.processors.context import Context, Request, Waking
from broker_core.processors.outcome import failed, pull_refused
from broker_core.processors.pop.check_point_log import require_loaded
from broker_core.processors.pop.pop_hold import hold, wake_next
from broker_core.processors.pop.pop_look import Found, first_offset, is_handed_out, look, queues_of, require_queue
from broker_core.processors.pop.pop_message import answer, check_access, require_attempt_id
from broker_core.processors.pull_message import release
from broker_core.topics import validate_group

QUEUE_WORK = 16 << 10
"""The work of looking at one queue, as bytes that could be copied in that time."""
NEW_WORK = 40 << 10
"""The work of storing a new group's offset in a queue."""
GIVEN_WORK = 1 << 20
"""The work of storing the check point of a queue and of reporting what it gave."""
FILTER_WORK = 8
"""The work of evaluating a filter, for each byte that it reads, as bytes that could be copied in that time."""


def run_again(context: Context, waking: Waking, now: Now) -> int:
    """Run a pop again whose hold was taken out of the table: answer it, or hold it again. Returns the work in bytes."""
    held = waking.request
    assert isinstance(held, PopRequest)
    pop = held.pop
    if pop.protocol != "http" and held.connection not in context.clients:
        release(context, held, "channel_gone", now, None)  # otherwise messages would be hidden although nobody got them
        wake_next(context, pop)  # another member gets them
        return 0
    try:
        found = _look(context, pop, waking.cause == "shutdown", now)
    except Exception as error:
        if not pop.notify:
            pull_refused(context, pop.topic, pop.queue_id, pop.group, pop.client_id, error, now)
        release(context, held, "refused", now, failed(error))
        return 0
    work = QUEUE_WORK * found.scanned + NEW_WORK * found.new + GIVEN_WORK * len(found.queues)
    work += found.size + FILTER_WORK * found.work
    is_over = held.suspended_ns + held.suspend_timeout_ms * 1_000_000 <= now.mono_ns
    if waking.cause == "arrival" and not found.messages and not is_over:
        held.many = context.holds.get_or_create_pops(pop.topic, pop.group, pop.queue_id)
        context.holds.hold_again(held)
        if found.is_unfinished:
            wake_next(context, pop)
        return work
    outcome = _report_woken(context, held, waking, found.messages, now)
    try:
        reply = _answer(context, pop, found, outcome, now)
    except Exception as error:
        reply = failed(error)
    context.replies.append((held.connection, held.request_id, reply))
    return work


def _look(context: Context, pop: Pop, is_shutdown: bool, now: Now) -> Found:
    if is_shutdown:
        return Found([])
    check_access(context, pop.group, pop.topic, pop.queue_id, now)
    context.check_points.note_pop(pop.group, pop.topic, pop.client_id, now.mono_ns, in_order=pop.order)
    if pop.notify:
        return Found([], messages=int(_has_message(context, pop, now)))
    return look(context, pop, now)


def _answer(context: Context, pop: Pop, found: Found, outcome: HoldOutcome, now: Now) -> Reply:
    if pop.notify:
        return Notified(has_message=found.messages > 0)
    return answer(context, pop, found, outcome, now)


def _report_woken(context: Context, held: PopRequest, waking: Waking, messages: int, now: Now) -> HoldOutcome:
    """Count and report that a hold ends. Its answer follows."""
    counters, cause = context.counters, waking.cause
    assert cause != "check"
    held_us = max(0, now.mono_ns - held.suspended_ns) // 1000
    wake_us = 0
    if waking.arrival_ns:
        wake_us = max(0, context.clock.mono_ns() - waking.arrival_ns) // 1000
        counters.wakeup_us.add(wake_us)
    pop = held.pop
    counters.wakeups.add((pop.topic, pop.group, wake_us if waking.arrival_ns else None, now.wall_ms))
    counters.woken[cause] += 1
    counters.held_ms.add(held_us // 1000)
    context.events.emit(
        PullWoken,
        now,
        held.hold_id,
        pop.topic,
        pop.queue_id,
        pop.group,
        pop.client_id,
        cause,
        held_us,
        wake_us,
        messages,
    )
    context.wakeups.append(context.events.last)
    return HoldOutcome(hold_id=held.hold_id, held_us=held_us, wake_us=wake_us, wake_cause=cause)


# --- NOTIFICATION -----------------------------------------------------------------------------------------------------


def notification(context: Context, request: Request, now: Now) -> Reply | None:
    """Report whether the group could pop a message; hold the request until it could."""
    command: Notification = request.command
    context.require_writable()
    check_access(context, validate_group(command.consumer_group), command.topic, command.queue_id, now)
    require_loaded(context)
    require_attempt_id(command.attempt_id)
    pop = Pop(
        topic=command.topic,
        group=intern(command.consumer_group),
        queue_id=max(-1, command.queue_id),
        client_id=intern(command.client_id or context.client_id_of(request.connection)),
        protocol=command.protocol,
        notify=True,
        order=command.order,
        attempt_id=command.attempt_id if command.order else "",
    )
    if _has_message(context, pop, now):
        return Notified(has_message=True)
    if command.poll_ms <= 0 or context.draining:
        return Notified(has_message=False)
    if hold(context, request, pop, command.poll_ms, now) is None:
        return Notified(has_message=False, polling_full=True)
    return None


def _has_message(context: Context, pop: Pop, now: Now) -> bool:
    """Whether a queue has messages for the group that this pop may get. As in RocketMQ, no filter is applied."""
    for topic, queue_id in queues_of(context, pop):
        end = context.store.max_offset(topic, queue_id)
        if not end:
            continue
        offset = context.offsets.query(pop.group, topic, queue_id)
        if offset is None:
            offset = first_offset(context, pop, topic, queue_id)
        if end > offset and not (pop.order and is_handed_out(context, pop, topic, queue_id, offset, now)):
            return True
    return False


def polling_info(context: Context, request: Request, now: Now) -> Reply:
    """How many pops of a group wait."""
    command: PollingInfo = request.command
    require_queue(context, command.topic, command.queue_id)
    queue_id = max(-1, command.queue_id)
    return PollingNumber(number=context.holds.count_of_pops(command.topic, command.consumer_group, queue_id))
