"""Messages: publish them, find one by id, find some by key, see what became of one."""

from base64 import b64encode
from typing import Annotated

from msgspec import Meta

from api.http import brokers
from api.http.limits import MAX_REQUEST_BODY
from api.http.names import PLAIN_PATTERN, MessageId, OptionalTopicName, TopicName
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Header, Route
from api.http.schemas import (
    Messages,
    MessageView,
    Milliseconds,
    Published,
    PublishMessage,
    PublishMessages,
    TimelineView,
    copied,
)
from api.resources.publishing import check_idempotency_key, published, read_publish
from bridge.port import Message, commands, read_messages


class PublishParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName


class MessageParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: MessageId
    topic: OptionalTopicName = ""


class KeyParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName
    key: Annotated[str, Meta(min_length=1, max_length=255, pattern=PLAIN_PATTERN, description="One of its keys.")]
    limit: Annotated[int, Meta(ge=1, le=64, description="At most so many, the newest.")] = 32
    begin_ms: Milliseconds = 0
    end_ms: Milliseconds = 1 << 62


def render(message: Message) -> MessageView:
    """A message as the API shows it: its body as text where the bytes are UTF-8, else base64."""
    try:
        body, body_encoding = message.body.decode("utf-8"), "utf8"
    except UnicodeDecodeError:
        body, body_encoding = b64encode(message.body).decode("ascii"), "base64"
    return copied(MessageView, message, body=body, body_encoding=body_encoding)


def render_records(records: bytes, broker: str) -> list[MessageView]:
    """Whole commit log records, back to back, as messages."""
    return [render(message) for message in read_messages(records, broker)] if records else []


async def publish(request: Request[PublishParams]) -> Answer:
    """201 only after the broker stored the messages, as durably as its flushDiskType promises."""
    host, client_port = request.client
    key = check_idempotency_key(request.header(b"idempotency-key"))
    command = commands.SendMessage(
        topic=request.params.topic,
        messages=read_publish(request.body),
        born_host=host,
        born_port=client_port,
        idempotency_key=key,
    )
    broker = await brokers.for_publishing(
        request.params.broker,
        command.topic,
        key=key,
        queue_named=any(message.queue_id >= 0 for message in command.messages),
    )
    return Answer(body=published(await ask(broker.port, command, commands.Sent), broker.name))


async def get_message(request: Request[MessageParams]) -> Answer:
    params = request.params
    name, records = await brokers.ask_first(
        params.broker, commands.ViewMessage(message_id=params.id, topic=params.topic), commands.Records
    )
    return Answer(body=render_records(records.records, name)[0])


async def find_messages(request: Request[KeyParams]) -> Answer:
    params = request.params
    replies = await brokers.ask_all(
        params.broker,
        commands.QueryMessage(
            topic=params.topic, key=params.key, max_num=params.limit, begin_ms=params.begin_ms, end_ms=params.end_ms
        ),
        commands.Records,
    )
    found = [
        message for name, records in replies.by_broker.items() for message in render_records(records.records, name)
    ]
    if len(replies.by_broker) > 1:
        found = sorted(found, key=lambda message: message.store_time_ms)[-params.limit :]
    return Answer(body=Messages(messages=found))


async def get_timeline(request: Request[MessageParams]) -> Answer:
    params = request.params
    name, timeline = await brokers.ask_first(
        params.broker, commands.GetMessageTimeline(message_id=params.id, topic=params.topic), commands.Timeline
    )
    return Answer(body=copied(TimelineView, timeline, broker=name, message_id=params.id))


IDEMPOTENCY_KEY = Header(
    "Idempotency-Key",
    "At most 128 printable ASCII characters; a repeat within idempotencyWindowMills is answered as the first was.",
)

ROUTES = (
    Route(
        method="POST",
        path="/api/v1/topics/{topic}/messages",
        handler=publish,
        group="Messages",
        summary="Publish",
        params=PublishParams,
        bodies=(PublishMessage, PublishMessages),
        raw_body=True,
        body_limit=MAX_REQUEST_BODY,
        response=Published,
        status=201,
        headers=(IDEMPOTENCY_KEY,),
        problems=(403, 404, 409, 413, 429, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/messages",
        handler=find_messages,
        group="Messages",
        summary="Find messages by key",
        params=KeyParams,
        response=Messages,
        problems=(404, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/messages/{id}",
        handler=get_message,
        group="Messages",
        summary="One message",
        params=MessageParams,
        response=MessageView,
        problems=(404, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/messages/{id}/timeline",
        handler=get_timeline,
        group="Messages",
        summary="What became of a message",
        params=MessageParams,
        response=TimelineView,
        problems=(404, 504),
    ),
)
