"""Storing messages. RocketMQ's SendMessageProcessor.

The sends of one batch of commands are gathered and stored as one block (``store_gathered``).
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Done, OutgoingMessage, Reply, SendMessage, Sent, SentMessage
from broker_core.errors import NotFoundError, RequestError, StoreError, TooLargeError, UnavailableError
from broker_core.events import TopicChanged
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from broker_core.formats.message_properties import DELAY, PRIORITY, SHARDING_KEY, TRAN_MSG, UNIQ_KEY
from broker_core.processors.context import Context, Request
from broker_core.processors.group_commit import GroupCommit
from broker_core.processors.idempotency import IdempotencyKeys, key_properties
from broker_core.processors.message_stored import message_stored
from broker_core.processors.outcome import failed
from broker_core.processors.producers.half_message import is_half, make_half
from broker_core.processors.producers.inner_batch import joined_messages
from broker_core.processors.retry_message import (
    RETRY_PREFIX,
    Retry,
    create_back_topic,
    message_back,
    report_retry,
    sent_to_retry_topic,
)
from broker_core.processors.schedule_message import DELAYS, check_delay, delay, recall_handle_of
from broker_core.store.commit_log import DispatchRequest, PendingMessage
from broker_core.store.timer.timer_message import TIMER_TOPIC
from broker_core.topics import PERM_WRITE, TopicConfig, may_be_sent_to

MAX_PROPERTIES = 32_767
MAX_BATCH = 32_768
"""About as many messages fit into a batch of RocketMQ's Java client (4 MiB): each has a UNIQ_KEY."""
DELAY_PROPERTIES = (DELAY, "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")
INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
MAX_PRIORITY = (1 << 31) - 1
POP_CK = "POP_CK"
NOTHING_KNOWN: Mapping[int, SentMessage] = {}
LOST_SECTOR = "\0" * 16
"""Recovery would take so many NULs in a row for a record damaged by a power cut, and cover it."""


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A send that passed every check: the messages to store and their ids.

    ``known`` are messages that an earlier send with the same Idempotency-Key stored, by their place in this one.
    ``queue_id`` is the answer's for a message that is stored in another queue than it was sent to (a delayed or dead
    one), else -1. ``retry`` is set for a message that a group gets again. ``batch_uniq_id`` is the UNIQ_KEY of a
    batch that becomes one record, else empty.
    """

    request: Request
    messages: list[PendingMessage]
    message_ids: list[str]
    known: Mapping[int, SentMessage]
    wait: bool
    digest: str = ""
    queue_id: int = -1
    retry: Retry | None = None
    batch_uniq_id: str = ""


def prepare(
    context: Context, request: Request, now: Now, digest: str = "", known: Mapping[int, SentMessage] | None = None
) -> Prepared:
    """Check a send and choose its queues. Nothing is stored yet. Raises RequestError, UnavailableError.

    For a send with an Idempotency-Key, ``digest`` is its ``content_digest``, and ``known`` are its messages that are
    stored already.
    """
    command: SendMessage = request.command
    if context.draining:
        raise UnavailableError("the broker is shutting down", code=ResponseCode.SERVICE_NOT_AVAILABLE)
    if not command.messages:
        raise RequestError("no message to store", code=ResponseCode.MESSAGE_ILLEGAL, pointer="/messages")
    if len(command.messages) > MAX_BATCH:
        raise RequestError(
            f"{len(command.messages)} messages at once; the limit is {MAX_BATCH}",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer="/messages",
        )
    if "\x01" in command.idempotency_key or "\x02" in command.idempotency_key:
        raise RequestError(
            "an Idempotency-Key must not contain 0x01 or 0x02, which separate properties", pointer="/Idempotency-Key"
        )
    topic = writable_topic(context, command, now)
    command, batch_uniq_id = joined_messages(topic, command)
    to_retry_topic = command.topic.startswith(RETRY_PREFIX)
    if to_retry_topic and len(command.messages) > 1:
        raise RequestError(
            "a batch cannot be sent to a retry topic; send its messages one by one",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer="/topic",
        )
    known = known or NOTHING_KNOWN
    messages: list[PendingMessage] = []
    ids: list[str] = []
    wait, real_queue_id, retry = False, -1, None
    for index, message in enumerate(command.messages):
        wait |= message_properties.find(message.properties, "WAIT") != "false"
        if index in known:
            continue
        pending, unique_key = pending_message(context, command, topic, digest, index, now)
        ids.append(unique_key)
        if to_retry_topic or DELAYS in pending.properties or TRAN_MSG in pending.properties:
            queue_id = pending.queue_id
            retry = _redirect(context, command, pending, index, now)
            if pending.topic != command.topic:
                real_queue_id = queue_id
        messages.append(pending)
    return Prepared(request, messages, ids, known, wait, digest, real_queue_id, retry, batch_uniq_id)


def pending_message(
    context: Context, command: SendMessage, topic: TopicConfig, digest: str, index: int, now: Now
) -> tuple[PendingMessage, str]:
    """The message at a place of a send, to store in its own topic, and its UNIQ_KEY. Raises RequestError."""
    message = command.messages[index]
    _check(context, topic, message, index)
    properties, unique_key = _complete(context, command, digest, index, now)
    queue_id = _choose_queue(context, topic, message)
    if PRIORITY in properties and len(command.messages) == 1:
        properties, queue_id = _prioritize(topic, properties, queue_id)
    pending = PendingMessage(
        topic=command.topic,
        queue_id=queue_id,
        body=message.body,
        properties=properties,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp or now.wall_ms,
        born_host=command.born_host,
        born_port=command.born_port,
        reconsume_times=message.reconsume_times,
    )
    return pending, unique_key


def _redirect(context: Context, command: SendMessage, message: PendingMessage, index: int, now: Now) -> Retry | None:
    """Redirect a half, delayed or dead message. Returns what to report of a retried one."""
    pointer = f"/messages/{index}/properties"
    if _is_half(message):
        if len(command.messages) > 1:
            raise RequestError(
                "a transactional message cannot be part of a batch; send it alone",
                code=ResponseCode.MESSAGE_ILLEGAL,
                pointer=pointer,
            )
        check_delay(context, message.properties, now, pointer)  # otherwise its commit would be refused
        make_half(context, message, pointer)
        return None
    message.sys_flag &= ~TRANSACTION_MASK  # consumers never see a message that is flagged as a half message
    if command.topic.startswith(RETRY_PREFIX):
        return sent_to_retry_topic(context, command, message, pointer, now)
    delay(context, message, now, pointer)
    if message.topic != command.topic and len(command.messages) > 1:
        raise RequestError(
            "a delayed message cannot be part of a batch; send it alone",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer=pointer,
        )
    return None


def _is_half(message: PendingMessage) -> bool:
    """Whether a message is the first half of a transaction.

    RocketMQ's clients before 4.6.1 send a message back to its retry topic with the properties of its transaction.
    """
    return is_half(message.properties) and not (message.reconsume_times > 0 and DELAY in message.properties)


def prepare_back(context: Context, request: Request, now: Now) -> Prepared:
    """The copy to store of a message that a group could not consume. Raises RequestError, UnavailableError."""
    if context.draining:
        raise UnavailableError("the broker is shutting down", code=ResponseCode.SERVICE_NOT_AVAILABLE)
    back = message_back(context, request.command, now)
    if back is None:
        return Prepared(request, [], [], {}, False)
    return Prepared(request, [back[0]], [], {}, True, retry=back[1])


def _check(context: Context, topic: TopicConfig, message: OutgoingMessage, index: int) -> None:
    """RequestError for a message that this broker does not accept; ``index`` is its place in the send."""
    if message.sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK) and not is_half(
        message.properties
    ):
        raise RequestError(
            "sysFlag says that the message is transactional, but its property TRAN_MSG is not true: no consumer would "
            "ever see it",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer=f"/messages/{index}/sys_flag",
        )
    if message.queue_id >= topic.queue_nums:
        raise RequestError(
            f"topic {topic.topic_name} has no queue {message.queue_id}; it has {topic.write_queue_nums}",
            pointer=f"/messages/{index}/queue_id",
        )
    if len(message.body) > context.options.max_message_size:
        raise TooLargeError(
            f"the body has {len(message.body)} bytes; the limit is {context.options.max_message_size}",
            pointer=f"/messages/{index}/body",
        )


def _choose_queue(context: Context, topic: TopicConfig, message: OutgoingMessage) -> int:
    """The client's queue, or the topic's next one in turn."""
    if message.queue_id >= 0:
        return message.queue_id
    turn = context.round_robin.get(topic.topic_name, 0)
    context.round_robin[topic.topic_name] = turn + 1
    return turn % topic.write_queue_nums


def _prioritize(topic: TopicConfig, properties: str, queue_id: int) -> tuple[str, int]:
    """Properties and queue of a message with a priority: its queue has the number of the priority, or is the last.

    A message of another type loses its priority, as in RocketMQ. What is not a number from 0 on is no priority.
    """
    priority = message_properties.find(properties, PRIORITY)
    if not INTEGER.fullmatch(priority) or not 0 <= int(priority) <= MAX_PRIORITY:
        return properties, queue_id
    if message_properties.find(properties, TRAN_MSG).lower() == "true" or any(
        message_properties.find(properties, name) for name in (*DELAY_PROPERTIES, SHARDING_KEY)
    ):
        return message_properties.without(properties, (PRIORITY,)), queue_id
    return properties, min(int(priority), topic.write_queue_nums - 1)


def writable_topic(context: Context, command: SendMessage, now: Now) -> TopicConfig:
    """The topic of a send, created if missing. Raises RequestError, NotFoundError."""
    name = command.topic
    if not may_be_sent_to(name):
        raise RequestError(f"clients may not send to {name}", code=ResponseCode.NO_PERMISSION, pointer="/topic")
    topic = context.topics.get(name)
    if topic is None:
        if context.store.read_only:
            context.topics.require(name)
        try:
            topic = context.topics.create_in_send_message(
                name, command.default_topic, command.default_topic_queue_nums, now
            )
        except NotFoundError:
            if not name.startswith(RETRY_PREFIX):
                raise
            return create_back_topic(context, name, 1, now)
        _announce(context, topic, now)
    if topic.order and not context.options.broker_permission & PERM_WRITE:
        raise RequestError(
            "this broker may not be written to, and the topic is ordered",
            code=ResponseCode.NO_PERMISSION,
            pointer="/topic",
        )
    if not topic.perm & PERM_WRITE:
        raise RequestError(f"topic {name} may not be written to", code=ResponseCode.NO_PERMISSION, pointer="/topic")
    return topic


def _announce(context: Context, topic: TopicConfig, now: Now) -> None:
    context.events.emit(
        TopicChanged, now, topic.topic_name, "created", topic.read_queue_nums, topic.write_queue_nums, topic.perm
    )


def _complete(context: Context, command: SendMessage, digest: str, index: int, now: Now) -> tuple[str, str]:
    """The client's property string with the broker's properties, and the UNIQ_KEY."""
    properties = command.messages[index].properties
    if LOST_SECTOR in properties:
        raise RequestError(
            "the properties contain 16 or more NUL characters in a row",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer=f"/messages/{index}/properties",
        )
    if properties and properties[-1] != "\x02":
        properties += "\x02"
    unique_key = message_properties.find(properties, UNIQ_KEY)
    if not unique_key:
        unique_key = context.unique_key(now.wall_ms)
        properties += f"{UNIQ_KEY}\x01{unique_key}\x02"
    if command.idempotency_key:
        properties += key_properties(command.idempotency_key, digest, index, len(command.messages))
    if "MSG_REGION\x01" not in properties:
        properties += "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02"
    if POP_CK in properties:
        properties = message_properties.without(properties, (POP_CK,))
    if "CLUSTER\x01" not in properties:
        properties += f"CLUSTER\x01{context.options.broker_cluster_name}\x02"
    if len(properties) * 4 > MAX_PROPERTIES and len(properties.encode("utf-8", "surrogatepass")) > MAX_PROPERTIES:
        raise TooLargeError(
            f"the properties have more than {MAX_PROPERTIES} bytes",
            pointer=f"/messages/{index}/properties",
        )
    return properties, unique_key


def store_gathered(
    context: Context, keys: IdempotencyKeys, commit: GroupCommit, gathered: list[Prepared], now: Now
) -> None:
    """Append the messages of several sends as one block, dispatch them, wake holds, acknowledge."""
    messages = (
        gathered[0].messages
        if len(gathered) == 1
        else [message for prepared in gathered for message in prepared.messages]
    )
    stored: list[DispatchRequest] = []
    if messages:
        try:
            batch = context.store.append(messages, now)
        except Exception as error:
            _not_stored(context, keys, commit, gathered, error, now)
            return
        stored = batch.requests
        message_stored(context, batch, now)
    dispatched = iter(stored)
    for prepared in gathered:
        reply: Reply
        if type(prepared.request.command) is SendMessage:
            reply = _acknowledge_sent(context, prepared, dispatched, keys, now)
        else:
            reply = _acknowledge_back(context, prepared, dispatched, now)
        commit.acknowledge(prepared.request, reply, prepared.wait, now)


def _not_stored(
    context: Context, keys: IdempotencyKeys, commit: GroupCommit, gathered: list[Prepared], error: Exception, now: Now
) -> None:
    """Nothing of these sends is in the log. Try each alone if one of them may be the cause, else refuse them."""
    if len(gathered) > 1 and not isinstance(error, StoreError | UnavailableError):
        for prepared in gathered:
            store_gathered(context, keys, commit, [prepared], now)
        return
    for prepared in gathered:
        context.reply(prepared.request.connection, prepared.request.request_id, failed(error))


def _acknowledge_sent(
    context: Context, prepared: Prepared, dispatched: Iterator[DispatchRequest], keys: IdempotencyKeys, now: Now
) -> Sent:
    """The acknowledgement of one send; ``dispatched`` yields where its messages were stored."""
    command: SendMessage = prepared.request.command
    prefix = context.prefix_of_ids
    fresh: list[SentMessage] = []
    for message_id in prepared.message_ids:
        stored = next(dispatched)
        fresh.append(
            SentMessage(
                message_id=message_id,
                offset_message_id=f"{prefix}{stored.physical_offset:016X}",
                queue_id=stored.queue_id,
                queue_offset=stored.queue_offset,
                physical_offset=stored.physical_offset,
                store_time_ms=stored.store_timestamp,
                recall_handle=recall_handle_of(context, stored.properties) if stored.topic == TIMER_TOPIC else "",
            )
        )
    if fresh and prepared.queue_id >= 0:
        fresh = [msgspec.structs.replace(fresh[0], queue_id=prepared.queue_id)]
    if fresh and prepared.retry is not None:
        report_retry(context, prepared.retry, stored, now)
    if prepared.known:
        rest = iter(fresh)
        fresh = [prepared.known.get(i) or next(rest) for i in range(len(command.messages))]
    if command.idempotency_key:
        keys.remember(command, prepared.digest, fresh, now)
    return Sent(code=ResponseCode.SUCCESS, topic=command.topic, messages=fresh, batch_uniq_id=prepared.batch_uniq_id)


def _acknowledge_back(context: Context, prepared: Prepared, dispatched: Iterator[DispatchRequest], now: Now) -> Done:
    if prepared.retry is not None:
        report_retry(context, prepared.retry, next(dispatched), now)
    return Done()
