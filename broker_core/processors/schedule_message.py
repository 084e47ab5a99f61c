"""Delayed messages: stored in the queue of their level first, and in their own topic when they are due.

A message for an exact time is checked here too; ``timer/timer_delivery.py`` delivers it.

RocketMQ's handleScheduleMessage and the delivering half of its ScheduleMessageService. The due times are in
``store/schedule_message_service.py``; the engine's one timer is set to the first of them.
"""

import logging

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import RequestError, StoreError, UnavailableError
from broker_core.events import DelayedMessagesLost, DelayElapsed, TopicChanged
from broker_core.formats import message_properties, recall_handle
from broker_core.formats.commit_log_record import TOPIC_LENGTH_MAX, CommitLogRecord
from broker_core.formats.message_properties import (
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
)
from broker_core.formats.pop_check_point import revive_topic
from broker_core.formats.recall_handle import RecallHandle
from broker_core.processors.context import Context
from broker_core.processors.message_stored import message_stored
from broker_core.store.commit_log import PendingMessage
from broker_core.store.delay_level import SCHEDULE_TOPIC, delay_level
from broker_core.store.schedule_message_service import DueMessage
from broker_core.store.timer import timer_message
from broker_core.store.timer.timer_message import TIMER_DEL_UNIQKEY, TIMER_TOPIC
from broker_core.store.timer.timer_message_store import RECALLS_OF_A_SLOT
from broker_core.topics import TopicConfig, may_be_sent_to, validate_name

log = logging.getLogger(__name__)

MESSAGES_A_TURN = 64
BYTES_A_TURN = 1 << 20
"""The message that reaches them is the turn's last."""

TIMER_REQUESTS = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""Properties that ask for a time, the one that counts first."""

DELAYS = "DEL"
"""Part of each property that delays a message (DELAY, TIMER_DELAY_SEC, TIMER_DELIVER_MS): one search finds all."""


def delay(context: Context, message: PendingMessage, now: Now, pointer: str = "") -> int:
    """Redirect a message with the property DELAY to its level's queue, or one for an exact time to the timer queue.

    Returns the level, 0 if it has none. Raises RequestError as ``check_delay`` does.
    """
    level = min(checked_level(message.properties, pointer), len(context.store.delayed.delay_levels))
    if level <= 0:
        make_timer(context, message, now, pointer)
        return 0
    message.properties = message_properties.put(
        message_properties.without(message.properties, TIMER_REQUESTS),
        {DELAY: str(level), REAL_TOPIC: message.topic, REAL_QID: str(message.queue_id)},
    )
    message.topic, message.queue_id = SCHEDULE_TOPIC, level - 1
    return level


def check_delay(context: Context, properties: str, now: Now, pointer: str) -> None:
    """RequestError if ``delay`` would refuse a message with these properties."""
    if checked_level(properties, pointer) <= 0 and wants_time(properties):
        checked_deliver_ms(context, properties, now, pointer)


def checked_level(properties: str, pointer: str = "") -> int:
    """The delay level that a message asks for, 0 or less if it has none. It may be above the highest one.

    Raises RequestError for a DELAY that is not a number.
    """
    level = delay_level(properties)
    if level is None:
        raise RequestError("DELAY is the number of a delay level", code=ResponseCode.MESSAGE_ILLEGAL, pointer=pointer)
    return level


def wants_time(properties: str) -> bool:
    """Whether a message without a delay level is to be delivered at an exact time. A delivered one has TIMER_OUT_MS."""
    find = message_properties.find
    return any(find(properties, name) for name in TIMER_REQUESTS) and not find(properties, TIMER_OUT_MS)


def checked_deliver_ms(context: Context, properties: str, now: Now, pointer: str = "") -> int:
    """When the message is to be delivered, wall ms.

    Raises RequestError with RocketMQ's codes and words, which points at the property that asks for the time.
    ``pointer`` is that of the properties.
    """
    options = context.options
    if not options.timer_wheel_enable:
        raise RequestError(
            "accurate timer message is not enabled, timerWheelEnable is false",
            code=ResponseCode.SYSTEM_ERROR,
            pointer=_pointer_to_time(properties, pointer),
        )
    deliver_ms = timer_message.wanted_ms(properties, now.wall_ms)
    longest_ms = options.timer_max_delay_sec * 1000
    is_late_recall = bool(message_properties.find(properties, TIMER_DEL_UNIQKEY)) and (deliver_ms or 0) <= now.wall_ms
    if deliver_ms is None or deliver_ms - now.wall_ms > longest_ms or is_late_recall:
        raise RequestError(
            f"timer message illegal, the delay time should not be bigger than the max delay {longest_ms}ms; or if set "
            "del msg, the delay time should be bigger than the current time",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer=_pointer_to_time(properties, pointer),
        )
    return deliver_ms


def _pointer_to_time(properties: str, pointer: str) -> str:
    """The pointer to the property that asks for a time, if there is a ``pointer`` to the properties."""
    asking = next((name for name in TIMER_REQUESTS if message_properties.find(properties, name)), "")
    return f"{pointer}/{asking}" if pointer and asking else pointer


def make_timer(context: Context, message: PendingMessage, now: Now, pointer: str = "") -> None:
    """Redirect a message for an exact time to the timer queue; one whose time is past stays where it is.

    Raises RequestError as ``checked_deliver_ms`` does, and for a recall if its slot has too many.
    """
    if not wants_time(message.properties):
        return
    deliver_ms = checked_deliver_ms(context, message.properties, now, pointer)
    if deliver_ms <= now.wall_ms:
        return
    timers = context.store.timers
    out_ms = timer_message.slot_of(deliver_ms, timers.precision_ms)
    if message_properties.find(message.properties, TIMER_DEL_UNIQKEY):
        if deliver_ms <= timers.delivered_ms:
            raise RequestError(
                "the recall may be too late: messages due at that time were delivered before the clock was set back",
                code=ResponseCode.MESSAGE_ILLEGAL,
                pointer=pointer,
            )
        if timers.recalls_at(timers.slot_ms_of(out_ms)) >= RECALLS_OF_A_SLOT:
            raise RequestError(
                f"the recall is under flow control: {RECALLS_OF_A_SLOT} messages of its slot are recalled already",
                code=ResponseCode.SYSTEM_ERROR,
                pointer=pointer,
            )
    message.properties = message_properties.put(
        message.properties,
        {TIMER_OUT_MS: str(out_ms), REAL_TOPIC: message.topic, REAL_QID: str(message.queue_id)},
    )
    message.topic, message.queue_id = TIMER_TOPIC, 0


def recall_handle_of(context: Context, properties: str) -> str:
    """The recall handle of a message in the timer queue; empty for one of a retry topic."""
    find = message_properties.find
    topic = find(properties, REAL_TOPIC)
    if topic.startswith("%RETRY%"):
        return ""
    time_ms = int(find(properties, TIMER_OUT_MS)) + 1
    return recall_handle.encode(RecallHandle(topic, context.options.broker_name, time_ms, find(properties, UNIQ_KEY)))


def deliver_due(context: Context, now: Now) -> None:
    """Store due messages in their own topics, at most a turn's worth. If the store refuses, try again later."""
    delayed = context.store.delayed
    try:
        due = delayed.due(now, MESSAGES_A_TURN, BYTES_A_TURN)
        if due:
            _deliver(context, due, now)
        delayed.look(now)
    except (StoreError, UnavailableError) as error:
        log.warning("delayed messages wait until the store accepts messages: %s", error)
        delayed.pause(now)
    except Exception:
        log.exception("delayed messages could not be delivered; the broker will try again")
        delayed.pause(now)


def _deliver(context: Context, due: list[DueMessage], now: Now) -> None:
    copies: list[PendingMessage] = []
    lost: list[tuple[DueMessage, str]] = []
    for message in due:
        try:
            copies.append(real_copy(context, message.record, now))
        except RequestError as error:
            lost.append((message, error.remark))
    batch = None
    try:
        if copies:
            batch = context.store.append(copies, now)
    except RequestError as error:
        if len(due) > 1:
            for message in due:  # a message that cannot be stored fails alone
                _deliver(context, [message], now)
            return
        lost = [(due[0], error.remark)]
    context.store.delayed.delivered(due, context.store.appended_offset)
    if batch is not None:
        message_stored(context, batch, now)
        _report_elapsed(context, due, len(batch.requests), now)
    for message, reason in lost:
        log.error("delay level %d: message %d cannot be delivered: %s", message.level, message.queue_offset, reason)
        context.counters.delayed_messages_lost += message.next_offset - message.queue_offset
        context.events.emit(DelayedMessagesLost, now, message.level, message.queue_offset, message.next_offset, reason)


def real_copy(context: Context, record: CommitLogRecord | None, now: Now) -> PendingMessage:
    """The message to store in its own topic (REAL_TOPIC), with its properties as they are in the log.

    RequestError if there is no record or no queue for it.
    """
    if record is None:
        raise RequestError("its record is missing from the log or incomplete")
    name = message_properties.find(record.properties, REAL_TOPIC)
    queue = message_properties.find(record.properties, REAL_QID)
    is_log = name == revive_topic(context.options.broker_cluster_name)  # RocketMQ's check points are timer messages
    if not (is_log or may_be_sent_to(name)) or not (queue.isascii() and queue.isdecimal() and len(queue) < 10):
        raise RequestError(f"queue {queue!r} of topic {name!r} cannot be delivered to")
    queue_id = int(queue)
    topic = context.topics.get(name) or _create_again(context, name, queue_id, now)
    queues = max(topic.queue_nums, 1)
    return PendingMessage(
        topic=name,
        queue_id=queue_id if queue_id < queues else queue_id % queues,
        body=record.body,
        properties=record.properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        born_port=record.born_port,
        reconsume_times=record.reconsume_times,
    )


def _create_again(context: Context, name: str, queue_id: int, now: Now) -> TopicConfig:
    """Create a topic that was deleted, or lost in a crash, while a message for it waited: the message was acknowledged.

    RocketMQ stores the message too, in a queue that no consumer reaches until the topic is created again.
    """
    validate_name(name, "topic", TOPIC_LENGTH_MAX)
    usual = 1 if name.startswith("%") else TopicConfig(topic_name=name).write_queue_nums
    topic = context.topics.adopt(name, max(queue_id + 1, usual), now)
    context.events.emit(TopicChanged, now, name, "created", topic.read_queue_nums, topic.write_queue_nums, topic.perm)
    return topic


def _report_elapsed(context: Context, due: list[DueMessage], stored: int, now: Now) -> None:
    """Emit one event for each level; ``due`` has the messages of a level in their order."""
    context.counters.delays_elapsed += stored
    first: dict[int, DueMessage] = {}
    ends: dict[int, int] = {}
    for message in due:
        first.setdefault(message.level, message)
        ends[message.level] = message.next_offset
    for level, message in first.items():
        context.events.emit(
            DelayElapsed, now, level, message.queue_offset, ends[level], max(0, now.wall_ms - message.deliver_ms)
        )
