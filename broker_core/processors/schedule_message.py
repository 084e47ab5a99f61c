"""Delayed messages: stored in the queue of their level first, and in their own topic when they are due.

RocketMQ's handleScheduleMessage and the delivering half of its ScheduleMessageService. The due times are in
``store/schedule_message_service.py``; the engine's one timer is set to the first of them.
"""

import logging

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import RequestError, StoreError, UnavailableError
from broker_core.events import DelayedMessagesLost, DelayElapsed, TopicChanged
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import TOPIC_LENGTH_MAX, CommitLogRecord
from broker_core.formats.message_properties import DELAY, REAL_QID, REAL_TOPIC
from broker_core.processors.context import Context
from broker_core.processors.message_stored import message_stored
from broker_core.store.commit_log import PendingMessage
from broker_core.store.delay_level import SCHEDULE_TOPIC, delay_level
from broker_core.store.schedule_message_service import DueMessage
from broker_core.topics import TopicConfig, may_be_sent_to, validate_name

log = logging.getLogger(__name__)

MESSAGES_A_TURN = 64
BYTES_A_TURN = 1 << 20
"""The message that reaches them is the turn's last."""

TIMER_REQUESTS = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
"""Properties of RocketMQ 5's timer messages, which ask for delivery at any time."""


def delay(context: Context, message: PendingMessage, pointer: str = "") -> int:
    """Redirect a message with the property DELAY to its level's queue. Returns the level, 0 if it is not delayed.

    Raises RequestError as ``checked_level`` does.
    """
    level = min(checked_level(message.properties, pointer), len(context.store.delayed.delay_levels))
    if level <= 0:
        return 0
    message.properties = message_properties.put(
        message_properties.without(message.properties, TIMER_REQUESTS),
        {DELAY: str(level), REAL_TOPIC: message.topic, REAL_QID: str(message.queue_id)},
    )
    message.topic, message.queue_id = SCHEDULE_TOPIC, level - 1
    return level


def checked_level(properties: str, pointer: str = "") -> int:
    """The delay level that a message asks for, 0 or less if it is not delayed. It may be above the highest one.

    Raises RequestError for a DELAY that is not a number, and for a timer message, which this broker does not support.
    """
    level = delay_level(properties)
    if level is None:
        raise RequestError("DELAY is the number of a delay level", code=ResponseCode.MESSAGE_ILLEGAL, pointer=pointer)
    if level <= 0 and any(message_properties.find(properties, name) for name in TIMER_REQUESTS):
        raise RequestError(
            "this broker does not support timer messages (TIMER_DELIVER_MS, TIMER_DELAY_MS, "
            "TIMER_DELAY_SEC); set a delay level (DELAY) instead",
            code=ResponseCode.SYSTEM_ERROR,
            pointer=pointer,
        )
    return level


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
        context.events.emit(DelayedMessagesLost, now, message.level, message.queue_offset, message.next_offset, reason)


def real_copy(context: Context, record: CommitLogRecord | None, now: Now) -> PendingMessage:
    """The message to store in its own topic (REAL_TOPIC), with its properties as they are in the log.

    RequestError if there is no record or no queue for it.
    """
    if record is None:
        raise RequestError("its record is missing from the log or incomplete")
    name = message_properties.find(record.properties, REAL_TOPIC)
    queue = message_properties.find(record.properties, REAL_QID)
    if not may_be_sent_to(name) or not (queue.isascii() and queue.isdecimal() and len(queue) < 10):
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
