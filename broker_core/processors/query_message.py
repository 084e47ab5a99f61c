"""Single messages, by id and by key. RocketMQ's QueryMessageProcessor."""

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    ConsumeMessageDirectly,
    QueryMessage,
    QueryMessageByTime,
    Records,
    RelayToConsumer,
    Reply,
    ViewMessage,
)
from broker_core.consumers.subscription_group_manager import retry_topic
from broker_core.errors import ConflictError, NotFoundError, RequestError
from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.inner_batch import inner_number, is_inner_batch
from broker_core.formats.message_id import MessageIdError, decode_offset_message_id, encode_offset_message_id
from broker_core.formats.message_properties import REAL_TOPIC, UNIQ_KEY
from broker_core.processors.context import Context, Request
from broker_core.processors.retry_message import DLQ_PREFIX
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.query_message import NO_END
from broker_core.store.timer.timer_message import TIMER_DEL_UNIQKEY, TIMER_TOPIC
from broker_core.store.transactional_message_service import HALF_TOPIC
from broker_core.walk import Steps

MAX_MSGS_NUM_BATCH = 64
MAX_BYTES = 8 * 1024 * 1024
MAX_ID_LENGTH = 255
MAX_KEY_LENGTH = commit_log_record.PROPERTIES_LENGTH_MAX
"""A message with a longer key is not accepted."""
WAITING_TOPICS = (TIMER_TOPIC, SCHEDULE_TOPIC, HALF_TOPIC)
MAX_WAITING = 8
"""Records of a queue for waiting messages that are looked at: copies of the message, and recalls, have its key too."""
COMPUTED = ("size", "magic", "body_crc")
"""Fields of a record that follow from the others."""


def view_message(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: ViewMessage = request.command
    if command.physical_offset is None:
        return Records(records=(yield from find_waiting_message(context, command.message_id, command.topic)))
    record = context.store.look_message_by_offset(command.physical_offset)
    if record is None:
        raise NotFoundError(
            f"no message begins at physical offset {command.physical_offset}",
            code=ResponseCode.SYSTEM_ERROR,
            pointer="/physical_offset",
        )
    return Records(records=record)


def consume_message_directly(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: ConsumeMessageDirectly = request.command
    group, client_id = command.group, command.client_id
    client = context.consumers.members(group).get(client_id)
    if client is None:
        raise NotFoundError(
            f"client {client_id} is not a member of group {group} at this broker",
            code=ResponseCode.CONSUMER_NOT_ONLINE,
            pointer="/client_id",
        )
    if client.protocol != "remoting":
        raise ConflictError(
            f"client {client_id} is connected by {client.protocol}; only RocketMQ's clients can be asked",
            pointer="/client_id",
        )
    record = yield from find_message(context, command.message_id, command.topic)
    stored = commit_log_record.decode(record, check_crc=False)
    if is_inner_batch(stored.sys_flag):  # a Java client would give its listener the whole body as one message
        raise ConflictError(
            f"{command.message_id} is a batch of {inner_number(stored.properties)} messages; a client can consume "
            "only a single message directly",
            pointer="/message_id",
        )
    if stored.topic == DLQ_PREFIX + group:  # a Java client restores the first topic of what its retry topic has
        fields = msgspec.structs.asdict(stored) | {"topic": retry_topic(group)}
        record = commit_log_record.encode(**{name: fields[name] for name in fields if name not in COMPUTED})
    return RelayToConsumer(
        group=group,
        client_id=client_id,
        version=client.version,
        message_id=command.message_id,
        topic=stored.topic,
        record=record,
        timeout_ms=command.timeout_ms,
    )


def find_message(context: Context, message_id: str, topic: str) -> Steps[bytes]:
    """The record of an offset message id, or of a UNIQ_KEY, which has the same form. Raises NotFoundError."""
    if not 0 < len(message_id) <= MAX_ID_LENGTH:
        raise RequestError(f"a message id has 1 to {MAX_ID_LENGTH} characters", pointer="/message_id")
    try:
        physical_offset = decode_offset_message_id(message_id).physical_offset
    except MessageIdError:
        pass
    else:
        record = context.store.look_message_by_offset(physical_offset)
        if record is not None and _offset_id(record) == message_id.upper():
            return record
    for name in [topic] if topic else context.topics.names():
        for record in (yield from context.store.query.by_key(name, message_id, 1, 0, NO_END)):
            stored = commit_log_record.decode(record, check_crc=False)
            if message_properties.find(stored.properties, UNIQ_KEY) == message_id:
                return record
        yield
    raise NotFoundError(
        f"no message has the id {message_id}" + (f" in topic {topic}" if topic else ""), pointer="/message_id"
    )


def find_waiting_message(context: Context, message_id: str, topic: str) -> Steps[bytes]:
    """The record of a message, as ``find_message`` finds it; else of the one that waits to be stored in the topic."""
    try:
        return (yield from find_message(context, message_id, topic))
    except NotFoundError:
        find, query = message_properties.find, context.store.query.by_key
        for name in WAITING_TOPICS if topic else ():
            for record in (yield from query(name, message_id, MAX_WAITING, 0, NO_END)):
                properties = commit_log_record.decode(record, check_crc=False).properties
                is_it = find(properties, UNIQ_KEY) == message_id and find(properties, REAL_TOPIC) == topic
                if is_it and not find(properties, TIMER_DEL_UNIQKEY):
                    return record
        raise


def _offset_id(record: bytes) -> str:
    stored = commit_log_record.decode(record, check_crc=False)
    return encode_offset_message_id(stored.store_host, stored.store_port, stored.physical_offset)


def query_message(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: QueryMessage = request.command
    context.topics.require(command.topic)
    if not 0 < len(command.key) <= MAX_KEY_LENGTH:
        raise RequestError(f"a key has 1 to {MAX_KEY_LENGTH} characters", pointer="/key")
    records = yield from context.store.query.by_key(
        command.topic,
        command.key,
        min(command.max_num, MAX_MSGS_NUM_BATCH),
        command.begin_ms,
        command.end_ms,
        MAX_BYTES,
    )
    timestamp, physical_offset = context.store.query.last_indexed
    return Records(
        records=b"".join(records),
        index_last_update_timestamp=timestamp,
        index_last_update_physical_offset=physical_offset,
    )


def query_message_by_time(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: QueryMessageByTime = request.command
    context.topics.require(command.topic)
    context.require_complete_queues()
    if command.max_num < 1:
        raise RequestError("max_num must be 1 or more", pointer="/limit")
    records, older = yield from context.store.query.newest(
        command.topic,
        command.begin_ms,
        command.end_ms,
        command.before,
        min(command.max_num, MAX_MSGS_NUM_BATCH),
        MAX_BYTES,
    )
    return Records(records=b"".join(records), next=older)
