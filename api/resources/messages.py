"""Messages: publish, find by id, by key or by time, and the events of one message."""

from base64 import b64encode
from codecs import getincrementaldecoder
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.limits import MAX_QUERY_BYTES, MAX_REQUEST_BODY, MIB
from api.http.names import MessageId, OptionalTopicName, TopicName
from api.http.problems import Problem, move_pointer
from api.http.request import Answer, Params, Reading, Request, ask
from api.http.routes import Header, Route
from api.http.schemas import Body, MessageView, Milliseconds, Model, PublishMessage, copied
from api.http.threads import in_thread
from api.resources.publishing import (
    Published,
    PublishMessages,
    idempotency_key,
    point_at_fields,
    published,
    read_publish,
)
from bridge.port import (
    INFLATED_BYTES_MAX,
    BrokerError,
    Message,
    commands,
    decode_recall_handle,
    inflate_messages,
    stored_messages,
)

R = TypeVar("R", bound=commands.Reply)

MAX_BODY = 16 * MIB
PIECE = 192 * 1024
"""Bodies are encoded in pieces of so many bytes, a multiple of 3: other threads cannot run while one is encoded."""


class Messages(Model, frozen=True, kw_only=True, gc=False):
    """`left_out`: ids of messages that were found, but would make the answer too large; ask for each by its id.

    `next` is the `before` of the page with older messages, if any; only in an answer of one broker, without a key.
    """

    messages: list[MessageView]
    left_out: list[str] | UnsetType = UNSET
    next: int | UnsetType = UNSET


class TimelineView(Model, frozen=True, kw_only=True, gc=False):
    """Recent events of one message; not `complete` if the event in which it was stored is no longer kept.

    Then `journal` has what the poll journal knows: the pulls that returned the message, and the commits that passed it.
    """

    broker: str
    message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    store_time_ms: int
    complete: bool
    events: list[dict[str, Any]]
    journal: list[dict[str, Any]]


class PublishParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName


class Recall(Body, frozen=True, kw_only=True, gc=False):
    recall_handle: Annotated[str, Meta(min_length=1, max_length=4096, description="That of the publish's answer.")]


class RecalledView(Model, frozen=True, kw_only=True, gc=False):
    """The recall is stored. As in RocketMQ, it is not checked whether the message is still there."""

    broker: str
    message_id: str


class MessageParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: MessageId
    topic: OptionalTopicName = ""


class FindParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName
    key: Annotated[str, Meta(max_length=MAX_QUERY_BYTES, description="One of its keys; all messages without it.")] = ""
    limit: Annotated[int, Meta(ge=1, le=64, description="Maximum number of messages; the newest are returned.")] = 32
    begin_ms: Milliseconds = 0
    end_ms: Milliseconds = 1 << 62
    before: (
        Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="Only messages with a lower physical offset.")] | None
    ) = None
    max_body: (
        Annotated[int, Meta(ge=0, le=MAX_BODY, description="Only so many bytes of each body; `body_size` is its size.")]
        | None
    ) = None


def encode_body(body: bytes) -> tuple[str, Literal["utf8", "base64"]]:
    """The body as text where its bytes are UTF-8, and its encoding.

    Text that JSON's escapes would more than double is base64 too: each control character takes six bytes. Quotes and
    backslashes take two, so a body of readable text stays text.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return _base64(body), "base64"
    size = 0
    for at in range(0, len(text), PIECE):
        size += len(msgspec.json.encode(text[at : at + PIECE])) - len('""')
        if size > 2 * len(body):
            return _base64(body), "base64"
    return text, "utf8"


def _base64(body: bytes) -> str:
    return "".join(b64encode(body[at : at + PIECE]).decode("ascii") for at in range(0, len(body), PIECE))


def render(message: Message, max_body: int | None = None) -> MessageView:
    """A message as the API shows it; with ``max_body`` only the beginning of its body, of so many bytes."""
    part = message.body if max_body is None else beginning(message.body, max_body)
    body, body_encoding = encode_body(part)
    return copied(
        MessageView,
        message,
        body=body,
        body_encoding=body_encoding,
        body_size=UNSET if max_body is None else len(message.body),
        problem=message.problem or UNSET,
    )


def beginning(body: bytes, size: int) -> bytes:
    """At most ``size`` bytes of the body. Text is cut between two characters, so that it stays text."""
    part = body[:size]
    try:
        return getincrementaldecoder("utf-8")().decode(part).encode()  # drops a character that is not complete
    except UnicodeDecodeError:
        return part


def render_messages(
    messages: Sequence[Message], max_bytes: int = INFLATED_BYTES_MAX, max_body: int | None = None
) -> tuple[list[MessageView], Sequence[Message]]:
    """Stored messages as the API shows them, and those left out because the bodies would exceed ``max_bytes``."""
    inflated, left_out = inflate_messages(messages, max_bytes)
    return [render(message, max_body) for message in inflated], left_out


async def render_one(message: Message) -> MessageView:
    """One stored message as the API shows it; a compressed body is inflated in a thread."""

    def work() -> MessageView:
        return render_messages([message])[0][0]

    return await in_thread(work) if message.compression else work()


async def publish(request: Request[PublishParams]) -> Answer:
    """Answered with 201 after the broker stored the messages as durably as its flushDiskType promises."""
    host, client_port = request.client
    key = idempotency_key(request.headers)
    messages, is_single = read_publish(request.body)
    command = commands.SendMessage(
        topic=request.params.topic,
        messages=messages,
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
    try:
        sent = await ask(broker.port, command, commands.Sent)
    except BrokerError as error:
        point_at_fields(error, is_single=is_single)
        raise
    return Answer(body=published(sent, broker.name))


async def recall(request: Request[PublishParams]) -> Answer:
    """Take back a message for an exact time, until the second in which it is due."""
    host, client_port = request.client
    handle = request.body.recall_handle
    command = commands.RecallMessage(
        topic=request.params.topic, recall_handle=handle, born_host=host, born_port=client_port
    )
    known = decode_recall_handle(handle)
    named = request.params.broker or (known.broker_name if known is not None else "")
    broker = await brokers.single_broker(named, command.topic)
    recalled = await ask(broker.port, command, commands.Recalled)
    return Answer(body=RecalledView(broker=broker.name, message_id=recalled.message_id))


async def _ask_about(params: MessageParams, command: commands.Command, expected: type[R]) -> tuple[str, R]:
    """The name and the reply of the first broker that has the message."""
    try:
        return await brokers.ask_first(params.broker, command, expected)
    except BrokerError as error:
        move_pointer(error, "/message_id", "/id")
        raise


async def get_message(request: Request[MessageParams]) -> Answer:
    """The message with this UNIQ_KEY or offset message id, from the broker that has it. Its body is decompressed."""
    params = request.params
    command = commands.ViewMessage(message_id=params.id, topic=params.topic)
    name, reply = await _ask_about(params, command, commands.Records)

    def read() -> MessageView:
        return render_messages(stored_messages(reply.records, name, split=False))[0][0]

    return Answer(body=Reading([reply.records], read))


async def find_messages(request: Request[FindParams]) -> Answer:
    """The newest messages with the key, or in the time range, oldest first.

    An answer has at most 16 MiB of message bodies. `left_out` has the ids of the messages above that bound.
    """
    params = request.params
    if params.begin_ms > params.end_ms:
        raise Problem(400, "begin_ms is after end_ms", pointer="/begin_ms")
    if params.key and params.before is not None:
        raise Problem(400, "before works only in a search without a key", pointer="/before")
    if params.before is not None and len(brokers.ports_of(params.broker)) > 1:
        raise Problem(
            400, "before is a position in one broker's log; choose that broker with ?broker=", pointer="/before"
        )
    replies = await brokers.ask_all(params.broker, _search(params), commands.Records)
    records = {broker: reply.records for broker, reply in replies.by_broker.items()}
    older = [reply.next for reply in replies.by_broker.values()]
    following = older[0] if len(older) == 1 and not replies.unavailable else None
    return Answer(
        body=Reading([*records.values()], lambda: messages_found(records, params.limit, params.max_body, following))
    )


def _search(params: FindParams) -> commands.Command:
    if params.key:
        return commands.QueryMessage(
            topic=params.topic, key=params.key, max_num=params.limit, begin_ms=params.begin_ms, end_ms=params.end_ms
        )
    return commands.QueryMessageByTime(
        topic=params.topic,
        begin_ms=params.begin_ms,
        end_ms=params.end_ms,
        before=params.before,
        max_num=params.limit,
    )


def messages_found(
    records: Mapping[str, bytes], limit: int, max_body: int | None = None, following: int | None = None
) -> Messages:
    """The newest ``limit`` messages among the records of all brokers, by store time."""
    stored = [message for broker, found in records.items() for message in stored_messages(found, broker, split=False)]
    if len(records) > 1:
        stored = sorted(stored, key=lambda message: message.store_time_ms)[-limit:]
    messages, left_out = render_messages(stored, max_body=max_body)
    return Messages(
        messages=messages,
        left_out=[message.message_id for message in left_out] or UNSET,
        next=UNSET if following is None else following,
    )


async def get_timeline(request: Request[MessageParams]) -> Answer:
    """What the broker did with the message, from its recent events: stored, dispatched, delivered, committed, or
    acknowledged after a pop or receive."""
    params = request.params
    command = commands.GetMessageTimeline(message_id=params.id, topic=params.topic)
    name, timeline = await _ask_about(params, command, commands.Timeline)
    return Answer(body=copied(TimelineView, timeline, broker=name, message_id=params.id))


IDEMPOTENCY_KEY = Header(
    "Idempotency-Key",
    "1 to 128 printable ASCII characters; a repeat within idempotencyWindowMills gets the first answer.",
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
        summary="Find messages of a topic by key or by time",
        params=FindParams,
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
        summary="Events of one message",
        params=MessageParams,
        response=TimelineView,
        problems=(404, 504),
    ),
    Route(
        method="POST",
        path="/api/v1/topics/{topic}/recalls",
        handler=recall,
        group="Messages",
        summary="Recall a message that waits for an exact time",
        params=PublishParams,
        bodies=(Recall,),
        response=RecalledView,
        status=201,
        problems=(403, 404, 429, 504),
    ),
)
