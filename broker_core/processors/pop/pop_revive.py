"""Gives popped messages again that nobody acknowledged in time. RocketMQ's PopReviveService.

A copy of the message is stored in ``%RETRY%<group>_<topic>``, which the group's pops read as well. After the group's
last attempt (retryMaxTimes) it becomes a dead letter in ``%DLQ%<group>``. The copies and the acknowledgement of their
originals are one block of the log, the copies first: a crash may repeat a message and loses none.
"""

import logging

from broker_core.clock import Now
from broker_core.consumers.pop_check_points import CheckPoint
from broker_core.consumers.subscription_group_manager import retry_topic
from broker_core.errors import BrokerError, StoreError, UnavailableError
from broker_core.events import TopicChanged
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, decode, has_room
from broker_core.formats.message_properties import ORIGIN_MESSAGE_ID, RETRY_TOPIC
from broker_core.formats.pop_check_point import pop_retry_topic
from broker_core.processors.consumer_manage import commit_offset
from broker_core.processors.context import Context
from broker_core.processors.pop import pop_in_order
from broker_core.processors.pop.check_point_log import ack_message, append, check_point_message
from broker_core.processors.pop.pop_hold import wake_freed
from broker_core.processors.retry_message import (
    DLQ_PREFIX,
    DLQ_QUEUES,
    Retry,
    create_back_topic,
    make_next_try,
    report_retry,
)
from broker_core.store.commit_log import PendingMessage

log = logging.getLogger(__name__)

POINTS_A_TURN = 16
"""Each is a block of the log and takes up to a tenth of a millisecond."""
MESSAGES_A_TURN = 32
BYTES_A_TURN = 1 << 20
"""The check point that reaches them is the turn's last."""
PAUSE_MS = 1000
"""How long to wait after the store refused a copy, or for the acknowledgements that are timer messages."""
LONG_PAUSE_MS = 60_000
"""How long to wait after a copy that cannot be stored. Other messages do not wait for it."""
FIRST_POP_TIME = "1ST_POP_TIME"
POP_CK_ROOM = 512
"""Bytes of properties that a copy leaves to POP_CK. A message without this room is a dead letter at once."""
ORIGIN_GROUP = "ORIGIN_GROUP"


def tick(context: Context, now: Now) -> None:
    """Give again what is visible again: a turn's worth of messages, and of queues that were handed out in order."""
    pop_in_order.tick(context, now)
    points = context.check_points
    due_ns = points.next_due_ns()
    if due_ns is None or context.draining or points.paused_until_ns > now.mono_ns:
        return
    if due_ns <= now.mono_ns:
        _revive_due(context, points.take_due(now.mono_ns, POINTS_A_TURN), now)
        wake_freed(context)
    _store_stale_again(context, now)


def _revive_due(context: Context, due: list[CheckPoint], now: Now) -> None:
    size = messages = 0
    for number, point in enumerate(due):
        if size >= BYTES_A_TURN or messages >= MESSAGES_A_TURN:
            context.check_points.postpone(due[number:], now.mono_ns, 0)
            return
        if point.is_timed and not context.store.timers.has_delivered(point.revive_time):
            context.check_points.postpone([point], now.mono_ns, PAUSE_MS)  # its acknowledgements may be due as well
            continue
        messages += len(point.waiting)
        try:
            size += _revive(context, point, now)
        except (StoreError, UnavailableError) as error:
            log.warning("popped messages wait until the store accepts copies of them: %s", error)
            context.check_points.postpone(due[number:], now.mono_ns, 0)
            _pause(context, now)
            return
        except Exception as error:
            trace = None if isinstance(error, BrokerError) else error
            log.error("messages of %s popped by %s wait: %s", point.topic, point.group, error, exc_info=trace)
            context.check_points.postpone([point], now.mono_ns, LONG_PAUSE_MS)


def _pause(context: Context, now: Now) -> None:
    """Wait with all check points: the store would refuse them, one after another, and each turn would log it."""
    context.check_points.paused_until_ns = now.mono_ns + PAUSE_MS * 1_000_000


def _revive(context: Context, point: CheckPoint, now: Now) -> int:
    """Store copies of a check point's messages, and that they need no other. Returns the bytes read."""
    copies: list[PendingMessage] = []
    retries: list[Retry] = []
    size = 0
    for offset in [] if point.is_void else point.waiting:
        record = _record(context, point, offset)
        if record is not None:
            size += record.size
            copy, retry = _copy(context, point, record, now)
            copies.append(copy)
            retries.append(retry)
    stored = append(context, [*copies, ack_message(context, point, point.waiting, now)], now)
    context.check_points.note_returned(point.group, point.topic, len(point.waiting))
    context.check_points.remove(point)
    for retry, copied in zip(retries, stored, strict=False):
        if retry.dead or not point.is_unseen:  # a message that nobody got is not a retry
            report_retry(context, retry, copied, now)
    return size


def _record(context: Context, point: CheckPoint, offset: int) -> CommitLogRecord | None:
    """None for a message that is deleted or damaged."""
    store = context.store
    for physical_offset, _, _ in store.reader.queue_units(point.topic, point.queue_id, offset, 1):
        data = store.look_message_by_offset(physical_offset)
        try:
            record = decode(data) if data is not None else None
        except RecordError:  # the body does not have its checksum
            return None
        place = point.topic, point.queue_id, offset
        if record is not None and (record.topic, record.queue_id, record.queue_offset) == place:
            return record
    return None


def _copy(context: Context, point: CheckPoint, record: CommitLogRecord, now: Now) -> tuple[PendingMessage, Retry]:
    find, put = message_properties.find, message_properties.put
    added = {ORIGIN_GROUP: point.group}
    if not find(record.properties, RETRY_TOPIC):
        added[RETRY_TOPIC] = record.topic
    if not find(record.properties, FIRST_POP_TIME):
        added[FIRST_POP_TIME] = str(point.pop_time)
    properties = put(record.properties, added)
    config = context.subscription_groups.get(point.group)
    limit = config.retry_max_times if config is not None else 16
    is_exhausted = record.reconsume_times >= limit and not point.is_unseen
    is_dead = is_exhausted or not has_room(properties, POP_CK_ROOM)
    if is_dead:
        name = DLQ_PREFIX + point.group
        create_back_topic(context, name, DLQ_QUEUES, now)
        if not find(properties, ORIGIN_MESSAGE_ID):
            properties = put(properties, {ORIGIN_MESSAGE_ID: f"{context.prefix_of_ids}{record.physical_offset:016X}"})
        if not has_room(properties):
            properties = record.properties
    else:
        name = point.topic if point.topic.startswith(retry_topic("")) else pop_retry_topic(point.topic, point.group)
        if context.topics.get(name) is None:
            context.topics.require_room(1)
            made = context.topics.adopt(name, 1, now)
            context.events.emit(
                TopicChanged, now, name, "created", made.read_queue_nums, made.write_queue_nums, made.perm
            )
        if context.offsets.query(point.group, name, 0) is None:  # else its lag is unknown until the next pop
            commit_offset(context, point.group, name, 0, context.store.min_offset(name, 0), "", now)
    copy = make_next_try(record, name, 0, properties)
    if point.is_unseen:
        copy.reconsume_times = record.reconsume_times
    return copy, Retry(point.group, 0, copy.reconsume_times, "exhausted" if is_dead else None)


def _store_stale_again(context: Context, now: Now) -> None:
    """Repeat old check points at the end of the revive log, so that the next start need not read all of it."""
    stale = context.check_points.stale(POINTS_A_TURN)
    if not stale:
        return
    try:
        stored = append(context, [check_point_message(context, point, now, again=True) for point in stale], now)
    except (StoreError, UnavailableError) as error:
        log.warning("check points wait until the store accepts them: %s", error)
        _pause(context, now)
        return
    for point, at in zip(stale, stored, strict=True):
        context.check_points.stored_again(point, at.queue_offset)
