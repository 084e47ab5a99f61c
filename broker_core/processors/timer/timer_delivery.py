"""Timer messages that are due are stored in their own topics. The delivering half of RocketMQ's TimerMessageStore.

The due times are in ``store/timer/``; the engine's one timer is set to the first of them.
"""

import logging

from broker_core.clock import Now
from broker_core.errors import RequestError, StoreError, UnavailableError
from broker_core.events import DelayedMessagesLost, DelayElapsed, MessageRecalled
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, decode, has_room
from broker_core.formats.message_properties import REAL_QID, REAL_TOPIC, TIMER_DELIVER_MS, UNIQ_KEY
from broker_core.formats.pop_check_point import revive_topic
from broker_core.processors.context import Context
from broker_core.processors.message_stored import message_stored
from broker_core.processors.pop.check_point_log import take_delivered
from broker_core.processors.schedule_message import real_copy
from broker_core.store.commit_log import DispatchRequest, PendingMessage
from broker_core.store.timer import timer_message
from broker_core.store.timer.timer_message import (
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_ROLL_TIMES,
    TIMER_TOPIC,
    number,
)
from broker_core.store.timer.timer_message_store import DueTimer

log = logging.getLogger(__name__)

MESSAGES_A_TURN = 24
BYTES_A_TURN = 1 << 20
"""A turn ends with the message that reaches this size."""
REPLACED = frozenset((REAL_TOPIC, REAL_QID, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS))
"""Properties that the copy in the real topic does not get from the message of the timer queue."""
PAUSE_NS = 1_000_000_000
"""How long to wait after the disk or the store refused something."""


def load_timers(context: Context, now: Now) -> list[tuple[str, str]]:
    """Find the timer messages that wait, once, when recovery is finished. Returns recovery steps.

    The store of another broker is left alone, and so is a copy.
    """
    store = context.store
    if store.timers.loaded or store.read_only or store.follows or store.unfinished_recovery is not None:
        return []
    try:
        return store.load_timers(now)
    except OSError as error:
        log.warning("timer messages wait until the disk has space: %s", error)
        store.timers.note_arrival()
        store.timers.pause(now.mono_ns + PAUSE_NS)
        return []


def tick(context: Context, now: Now) -> None:
    """Do a turn's work on timer messages, if any is due. If the disk or the store refuses, try again later."""
    timers = context.store.timers
    due_ns = timers.next_deadline_ns
    if due_ns is None or now.mono_ns < due_ns or context.draining:
        return
    try:
        if not timers.loaded:
            load_timers(context, now)
            return
        for missed in timers.enqueue(now):
            _report_lost(context, *missed, now)
        timers.advance(now)
        report_lost_entries(context, now)
        due = timers.due(now, MESSAGES_A_TURN, BYTES_A_TURN)
        if due:
            _deliver(context, due, now)
        timers.set_deadline(now)
    except (OSError, StoreError, UnavailableError) as error:
        log.warning("timer messages wait until the store accepts messages: %s", error)
        timers.pause(now.mono_ns + PAUSE_NS)
    except Exception:
        log.exception("timer messages could not be delivered; the broker will try again")
        timers.pause(now.mono_ns + PAUSE_NS)


def _deliver(context: Context, due: list[DueTimer], now: Now) -> None:
    """Store the copies of a turn as one block. Those that are recalled, or cannot be delivered, have none."""
    timers = context.store.timers
    copies: list[PendingMessage] = []
    late: list[tuple[int, int]] = []
    done: list[tuple[DueTimer, CommitLogRecord | None, str]] = []
    batch = None
    try:
        for timer in due:
            record, copy, outcome = _copy(context, timer, now)
            done.append((timer, record, outcome))
            if copy is not None and record is not None:
                copies.append(copy)
                late.append((record.queue_offset, now.wall_ms - timer.due_ms))
        if copies:
            batch = context.store.append(copies, now)
    except RequestError as error:
        if len(due) > 1:
            _deliver_singly(context, due, now)
            return
        done = [(timer, record, error.remark) for timer, record, _ in done]
    except Exception:
        timers.put_back(due)
        raise
    for timer, record, outcome in done:
        _note(context, timer, record, outcome, now)
    if batch is not None:
        records = [record for _, record, outcome in done if record is not None and not outcome]
        _take_check_points(context, records, batch.requests, now)
        message_stored(context, batch, now)
        context.counters.delays_elapsed += len(late)
        _report_elapsed(context, late, now)


def _take_check_points(
    context: Context, records: list[CommitLogRecord], requests: list[DispatchRequest], now: Now
) -> None:
    """RocketMQ's check points and acknowledgements of pops count now. ``requests`` are the copies of ``records``."""
    name = revive_topic(context.options.broker_cluster_name)
    for record, request in zip(records, requests, strict=True):
        if request.topic == name:
            take_delivered(context, record, request, now)


def _deliver_singly(context: Context, due: list[DueTimer], now: Now) -> None:
    """A message that cannot be stored fails alone."""
    for position, timer in enumerate(due):
        try:
            _deliver(context, [timer], now)
        except Exception:
            context.store.timers.put_back(due[position + 1 :])
            raise


def _copy(context: Context, timer: DueTimer, now: Now) -> tuple[CommitLogRecord | None, PendingMessage | None, str]:
    """(record, the copy to store if any, what happened: empty, ``recalled``, or why it is lost)."""
    try:
        record = decode(timer.record) if timer.record is not None else None
    except RecordError:  # the body does not match its checksum
        record = None
    if record is None or record.topic != TIMER_TOPIC:
        return None, None, "its record is missing from the log or damaged"
    timers, properties = context.store.timers, record.properties
    if not timer.unit.rolls and timers.has_recalls:
        find = message_properties.find
        if timers.is_recalled(find(properties, UNIQ_KEY), find(properties, REAL_TOPIC)):
            return record, None, "recalled"
    try:
        copy = real_copy(context, record, now)
    except RequestError as error:
        return record, None, error.remark
    added = {TIMER_ENQUEUE_MS: str(timer.unit.write_ms), TIMER_DEQUEUE_MS: str(now.wall_ms)}
    if timer.unit.rolls:
        copy.topic, copy.queue_id = TIMER_TOPIC, 0
        added[TIMER_ROLL_TIMES] = str((number(message_properties.find(properties, TIMER_ROLL_TIMES)) or 0) + 1)
        message = timer_message.read(timer.record or b"", timers.precision_ms)
        if message is not None:  # a delay counts from the first time that the message was stored
            added[TIMER_DELIVER_MS] = str(message.due_ms)
        more = message_properties.put(properties, added)
        copy.properties = more if has_room(more) else properties
    else:
        rest = message_properties.without(properties, REPLACED)
        more = rest + message_properties.encode(added)
        copy.properties = more if has_room(more) else rest
    return record, copy, ""


def _note(context: Context, timer: DueTimer, record: CommitLogRecord | None, outcome: str, now: Now) -> None:
    """A message left the wheel."""
    find = message_properties.find
    properties = record.properties if record is not None else ""
    topic = find(properties, REAL_TOPIC)
    context.store.timers.note_taken_out(timer, topic)
    if not outcome:
        context.store.timers.counts.dequeued.add(topic)
    elif outcome == "recalled":
        context.counters.messages_recalled += 1
        assert record is not None
        context.events.emit(MessageRecalled, now, topic, find(properties, UNIQ_KEY), record.queue_offset)
    else:
        offset = record.queue_offset if record is not None else -1
        _report_lost(context, offset, offset + 1, outcome, now)


def report_lost_entries(context: Context, now: Now) -> None:
    """Report lost messages whose timer log entries are lost, too, so that their offsets are unknown."""
    if lost := context.store.timers.take_lost():
        _report_lost(context, -lost, 0, "retention deleted them before they were due", now)


def _report_lost(context: Context, from_offset: int, to_offset: int, reason: str, now: Now) -> None:
    count = to_offset - from_offset
    if from_offset < 0:
        log.error("%d timer messages cannot be delivered: %s", count, reason)
    else:
        log.error("timer messages from offset %d to %d cannot be delivered: %s", from_offset, to_offset - 1, reason)
    context.counters.delayed_messages_lost += count
    context.events.emit(DelayedMessagesLost, now, 0, from_offset, to_offset, reason)


def _report_elapsed(context: Context, late: list[tuple[int, int]], now: Now) -> None:
    """Emit one event for each run of consecutive offsets; ``late`` has (offset in the timer queue, ms too late)."""
    late.sort()
    start = 0
    for end in range(1, len(late) + 1):
        if end == len(late) or late[end][0] != late[end - 1][0] + 1:
            first = late[start]
            context.events.emit(DelayElapsed, now, 0, first[0], late[end - 1][0] + 1, max(0, first[1]))
            start = end
