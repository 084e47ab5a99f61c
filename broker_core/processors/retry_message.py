"""Messages that a group could not consume: it gets them again later, or they become dead letters.

RocketMQ's consumerSendMsgBack and handleRetryAndDLQ. The copy is stored as a delayed message of ``%RETRY%<group>``, a
topic that every member of the group consumes, or, after the last attempt, in ``%DLQ%<group>``.
"""

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import ConsumerSendMsgBack, DeadCause, SendMessage
from broker_core.consumers.subscription_group_manager import retry_topic
from broker_core.errors import NotFoundError, RequestError
from broker_core.events import MessageDeadLettered, MessageSentBack, TopicChanged
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, decode
from broker_core.formats.inner_batch import inner_messages_with, is_inner_batch
from broker_core.formats.message_id import encode_offset_message_id
from broker_core.formats.message_properties import DELAY, ORIGIN_MESSAGE_ID, REAL_TOPIC, RETRY_TOPIC, UNIQ_KEY, WAIT
from broker_core.processors.context import Context
from broker_core.processors.schedule_message import delay
from broker_core.processors.subscription_group import find_or_create_group
from broker_core.store.commit_log import DispatchRequest, PendingMessage
from broker_core.store.transactional_message_service import HALF_TOPIC, OP_TOPIC
from broker_core.topics import MAX_QUEUES, PERM_READ, PERM_WRITE, TopicConfig

RETRY_PREFIX = retry_topic("")
DLQ_PREFIX = "%DLQ%"
DLQ_QUEUES = 1
FIRST_RETRY_LEVEL = 3


class Retry(msgspec.Struct, frozen=True, gc=False):
    """What is reported when the copy of a message is stored. If ``dead`` is None, the group gets it again."""

    group: str
    level: int
    reconsume_times: int
    dead: DeadCause | None


def create_back_topic(context: Context, name: str, queues: int, now: Now) -> TopicConfig:
    """A group's retry or dead letter topic, created if missing. RequestError if it may not be written to."""
    topic, created = context.topics.create_in_send_message_back(name, queues, PERM_READ | PERM_WRITE, now)
    if created:
        context.events.emit(
            TopicChanged, now, name, "created", topic.read_queue_nums, topic.write_queue_nums, topic.perm
        )
    if not topic.perm & PERM_WRITE:
        raise RequestError(f"topic {name} may not be written to", code=ResponseCode.NO_PERMISSION)
    return topic


# --- A consumer sends a message back --------------------------------------------------------------------------------


def message_back(context: Context, command: ConsumerSendMsgBack, now: Now) -> tuple[PendingMessage, Retry] | None:
    """The copy to store of a message that a group could not consume: a delayed message or a dead letter.

    None for a group without retries (retryQueueNums 0). Raises NotFoundError for an unknown group or a record that is
    not in the log; RequestError where nothing may be written.
    """
    config = find_or_create_group(context, command.group, now)
    context.require_writable()
    if not context.options.broker_permission & PERM_WRITE:
        raise RequestError("this broker may not be written to", code=ResponseCode.NO_PERMISSION)
    if config.retry_queue_nums <= 0:
        return None
    topic = create_back_topic(context, retry_topic(command.group), min(config.retry_queue_nums, MAX_QUEUES), now)
    record = _record(context, command.physical_offset)
    if is_inner_batch(record.sys_flag):
        record = _inner_message(record, command.origin_message_id)
    limit = config.retry_max_times if command.max_reconsume_times is None else command.max_reconsume_times
    dead: DeadCause | None = None
    if record.reconsume_times >= limit:
        dead = "exhausted"
    elif command.delay_level < 0:
        dead = "asked"
    if dead:
        name = DLQ_PREFIX + command.group
        create_back_topic(context, name, DLQ_QUEUES, now)
        copy, level = _copy(record, name, 0, 0), 0
    else:
        queue_id = _next_queue(context, topic, config.retry_queue_nums)
        copy = _copy(
            record, topic.topic_name, queue_id, command.delay_level or FIRST_RETRY_LEVEL + record.reconsume_times
        )
        level = delay(context, copy, now)
    return copy, Retry(command.group, level, copy.reconsume_times, dead)


def _record(context: Context, physical_offset: int) -> CommitLogRecord:
    data = context.store.look_message_by_offset(physical_offset)
    try:
        if data is not None and (record := decode(data)).topic not in (HALF_TOPIC, OP_TOPIC):
            return record
    except RecordError:  # the body does not have its checksum
        pass
    raise NotFoundError(
        f"no whole message that a group can consume begins at physical offset {physical_offset}",
        code=ResponseCode.SYSTEM_ERROR,
        pointer="/physical_offset",
    )


def _inner_message(record: CommitLogRecord, message_id: str) -> CommitLogRecord:
    """The message of a batch that has this UNIQ_KEY. RequestError (MESSAGE_ILLEGAL) if none or more than one has it."""
    try:
        found = inner_messages_with(record, message_id) if message_id else []
    except RecordError as error:
        raise RequestError(str(error), code=ResponseCode.MESSAGE_ILLEGAL, pointer="/physical_offset") from error
    if len(found) != 1:
        raise RequestError(
            f"{'more than one message' if found else 'no message'} of the batch at physical offset "
            f"{record.physical_offset} has the id {message_id[:100]!r}",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer="/origin_message_id",
        )
    return found[0]


def _next_queue(context: Context, topic: TopicConfig, wanted: int) -> int:
    turn = context.round_robin.get(topic.topic_name, 0)
    context.round_robin[topic.topic_name] = turn + 1
    return turn % max(1, min(wanted, topic.write_queue_nums))


def _copy(record: CommitLogRecord, topic: str, queue_id: int, level: int) -> PendingMessage:
    changed = {WAIT: "false", DELAY: str(level)}
    if not message_properties.find(record.properties, RETRY_TOPIC):
        changed[RETRY_TOPIC] = record.topic
    if not message_properties.find(record.properties, ORIGIN_MESSAGE_ID):
        changed[ORIGIN_MESSAGE_ID] = encode_offset_message_id(
            record.store_host, record.store_port, record.physical_offset
        )
    return make_next_try(record, topic, queue_id, message_properties.put(record.properties, changed))


def make_next_try(record: CommitLogRecord, topic: str, queue_id: int, properties: str) -> PendingMessage:
    """The copy of a message that is consumed again, or a dead letter: its ``reconsume_times`` is one higher."""
    return PendingMessage(
        topic=topic,
        queue_id=queue_id,
        body=record.body,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=record.born_host,
        born_port=record.born_port,
        reconsume_times=record.reconsume_times + 1,
    )


# --- A consumer sends a copy by itself ------------------------------------------------------------------------------


def sent_to_retry_topic(
    context: Context, command: SendMessage, message: PendingMessage, pointer: str, now: Now
) -> Retry:
    """Handle a send to ``%RETRY%<group>``. Past the group's limit, or if the group consumes in order, it is dead."""
    group = command.topic.removeprefix(RETRY_PREFIX)
    config = find_or_create_group(context, group, now)
    limit = config.retry_max_times if command.max_reconsume_times is None else command.max_reconsume_times
    dead: DeadCause | None = None
    if message.reconsume_times > limit:
        dead = "exhausted"
    elif context.locks.is_locked(group):
        dead = "ordered"
    if dead:
        message.topic = DLQ_PREFIX + group
        message.queue_id = 0
        create_back_topic(context, message.topic, DLQ_QUEUES, now)
        message.properties = message_properties.put(message.properties, {DELAY: "0"})
    level = 0 if dead else delay(context, message, now, pointer)
    return Retry(group, level, message.reconsume_times, dead)


def report_retry(context: Context, retry: Retry, stored: DispatchRequest, now: Now) -> None:
    """Count and report a copy that was stored."""
    message_id = message_properties.find(stored.properties, UNIQ_KEY)
    find = message_properties.find
    topic = find(stored.properties, RETRY_TOPIC) or find(stored.properties, REAL_TOPIC) or stored.topic
    context.stats.send_back.add(((topic, retry.group), 1, stored.size, now.mono_ns))
    if retry.dead:
        context.counters.messages_dead_lettered += 1
        context.events.emit(
            MessageDeadLettered,
            now,
            retry.group,
            topic,
            message_id,
            retry.reconsume_times,
            retry.dead,
            stored.physical_offset,
        )
    else:
        context.counters.messages_sent_back += 1
        context.events.emit(
            MessageSentBack,
            now,
            retry.group,
            topic,
            message_id,
            retry.reconsume_times,
            retry.level,
            stored.physical_offset,
        )
    context.retried.append(context.events.last)
