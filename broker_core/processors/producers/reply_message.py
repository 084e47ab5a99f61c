"""Replies to request messages: stored, and passed on to the producer that waits for them.

RocketMQ's ReplyMessageProcessor. A producer's request() sends a message with its client id (REPLY_TO_CLIENT) and a
CORRELATION_ID. A consumer sends its reply to the topic ``<cluster>_REPLY_TOPIC`` by SEND_REPLY_MESSAGE. The broker
pushes the reply to the requester's connection and answers the consumer as the requester answers the push.
"""

import logging

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Reply, ReplyMessage, SendReplyMessage
from broker_core.errors import BrokerError, NotFoundError, RequestError, UnavailableError
from broker_core.events import MessageReplied
from broker_core.formats import message_properties
from broker_core.formats.message_properties import CORRELATION_ID, PUSH_REPLY_TIME, REPLY_TO_CLIENT
from broker_core.processors.context import Context, Request
from broker_core.processors.message_stored import message_stored
from broker_core.processors.send_message import pending_message, writable_topic
from broker_core.store.commit_log import DispatchRequest, PendingMessage

log = logging.getLogger(__name__)


def send_reply_message(context: Context, request: Request, now: Now) -> Reply:
    """Store a reply, and return what to push to the requester.

    Raises RequestError for a reply that names no requester, NotFoundError for a requester that is not connected, and
    what a send raises. As in RocketMQ, a reply that the store refuses is pushed nevertheless.
    """
    command: SendReplyMessage = request.command
    if context.draining:
        raise UnavailableError("the broker is shutting down", code=ResponseCode.SERVICE_NOT_AVAILABLE)
    send = command.send
    if len(send.messages) != 1:
        raise RequestError("a reply cannot be part of a batch; send it alone", code=ResponseCode.MESSAGE_ILLEGAL)
    (message,) = send.messages
    topic = writable_topic(context, send, now)
    pending, message_id = pending_message(context, send, topic, "", 0, now)
    client_id = message_properties.find(message.properties, REPLY_TO_CLIENT)
    if not client_id:
        raise RequestError(
            f"the reply does not say who waits for it: its property {REPLY_TO_CLIENT} is missing",
            code=ResponseCode.SYSTEM_ERROR,
        )
    stored = _store(context, pending, now) if context.options.store_reply_message_enable else None
    client = context.producers.find_channel(client_id)
    correlation_id = message_properties.find(message.properties, CORRELATION_ID)
    context.events.emit(
        MessageReplied, now, send.topic, message_id, client_id, correlation_id[:255], client is not None
    )
    if client is None:
        context.counters.replies_without_client += 1
        raise NotFoundError(
            f"the reply cannot be passed on: producer {client_id} is not connected to this broker",
            code=ResponseCode.SYSTEM_ERROR,
        )
    context.counters.replies_pushed += 1
    return ReplyMessage(
        client_id=client_id,
        properties=message_properties.put(
            message.properties,
            {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", PUSH_REPLY_TIME: str(now.wall_ms)},
        ),
        body=message.body,
        born_host=f"{send.born_host}:{send.born_port}",
        store_host=f"{context.options.broker_ip1}:{context.options.listen_port}",
        store_time_ms=now.wall_ms,
        offset_message_id=f"{context.prefix_of_ids}{stored.physical_offset:016X}" if stored else "0",
        queue_id=pending.queue_id,
        queue_offset=stored.queue_offset if stored else 0,
    )


def _store(context: Context, message: PendingMessage, now: Now) -> DispatchRequest | None:
    """Where the reply is stored; None if the store refused it."""
    try:
        batch = context.store.append([message], now)
    except BrokerError as error:
        log.warning("a reply to %s is not stored: %s", message.topic, error)
        return None
    message_stored(context, batch, now)
    return batch.requests[0]
