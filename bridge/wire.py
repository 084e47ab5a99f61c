"""The messages between web processes and the engine: MessagePack batches, the same over every transport.

To the engine, from one web process:

    Requests  [ "requests", process, reply_to, number, [closed connection, ...],
                [[connection, request, deadline, command], ...] ]
    Alive     [ "alive",    process, reply_to, number, deltas, events ]
    Bye       [ "bye",      process ]

From the engine, to one web process:

    Replies   [ broker, epoch, first, leaving, [[connection, request, reply], ...], [delta, ...], [event batch, ...] ]

``number`` counts the batches of one web process from 1. ``first`` is the first batch that reached this engine: commands
of an earlier batch that are not answered yet never will be. ``deadline`` is wall time in ms. A reply under
``NOTICE_ID`` is a notice, which answers no command.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from bridge.port import Delta, EventBatch
from broker_core.codes import ResponseCode
from broker_core.commands import AnyCommand, AnyReply, Command, Failed, Reply

PROCESS = 0
"""The number of a web process's connection for commands that belong to no particular client."""


class MalformedMessage(ValueError):
    """The bytes are not a message of the bridge."""


class Requests(msgspec.Struct, frozen=True, array_like=True, tag="requests"):
    """Commands of one web process, and the connections it has closed (they apply after the commands)."""

    process: str
    reply_to: str
    number: int
    closed: list[int]
    requests: list[tuple[int, int, int, AnyCommand]]


class EncodedRequests(msgspec.Struct, frozen=True, array_like=True, tag="requests"):
    """Requests with the commands as bytes."""

    process: str
    reply_to: str
    number: int
    closed: list[int]
    requests: Sequence[tuple[int, int, int, Raw]]


class Alive(msgspec.Struct, frozen=True, array_like=True, tag="alive"):
    """A heartbeat of a web process: it has sent ``number`` batches so far, and watches deltas, events, both or none."""

    process: str
    reply_to: str
    number: int
    deltas: bool
    events: bool


class Bye(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """A web process stops: the engine may drop everything of it at once."""

    process: str


class Replies(msgspec.Struct, frozen=True, array_like=True):
    """Replies, deltas and events for one web process. ``leaving``: everything is answered, and the engine stops."""

    broker: str
    epoch: int
    first: int
    leaving: bool
    replies: list[tuple[int, int, AnyReply]]
    deltas: list[Delta]
    events: list[EventBatch]


class EncodedReplies(msgspec.Struct, frozen=True, array_like=True):
    """Replies with its parts as bytes."""

    broker: str
    epoch: int
    first: int
    leaving: bool
    replies: Sequence[tuple[int, int, Raw]]
    deltas: Sequence[Raw]
    events: Sequence[Raw]


ToEngine = Requests | Alive | Bye

_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(Requests | Alive | Bye)
_encoded_requests = msgspec.msgpack.Decoder(EncodedRequests)
_command = msgspec.msgpack.Decoder(AnyCommand)
_replies = msgspec.msgpack.Decoder(Replies)


def encode_command(command: Command) -> Raw:
    """One command, encoded for a batch."""
    return Raw(_encoder.encode(command))


def encode_reply(reply: Reply) -> Raw:
    """One reply, encoded for a batch."""
    return Raw(_encoder.encode(reply))


def encode_delta(delta: Delta) -> Raw:
    """A delta, encoded once for all web processes."""
    return Raw(_encoder.encode(delta))


def encode_events(events: EventBatch) -> Raw:
    """An event batch, encoded once for all web processes."""
    return Raw(_encoder.encode(events))


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)
"""What decoders raise. A tag that is no UTF-8 is not a MsgspecError."""


def encode_to_engine(message: EncodedRequests | Requests | Alive | Bye) -> bytes:
    """A message to the engine as bytes."""
    return _encoder.encode(message)


def encode_to_web(message: EncodedReplies | Replies) -> bytes:
    """A message to a web process as bytes."""
    return _encoder.encode(message)


def decode_to_engine(data: bytes, limit: int) -> tuple[ToEngine, list[tuple[int, int, Failed]]]:
    """The message, and answers to those of its commands that cannot be read.

    A command that this engine does not know, from a newer web process, does not affect the others of its batch.
    Raises MalformedMessage for anything else.
    """
    _check(data, limit)
    try:
        return _to_engine.decode(data), []
    except UNREADABLE:
        return _decode_one_by_one(data)


def _decode_one_by_one(data: bytes) -> tuple[ToEngine, list[tuple[int, int, Failed]]]:
    try:
        batch = _encoded_requests.decode(data)
    except UNREADABLE as error:
        raise MalformedMessage(f"not a message for the engine: {error}") from error
    good: list[tuple[int, int, int, AnyCommand]] = []
    bad: list[tuple[int, int, Failed]] = []
    for connection, request_id, deadline_ms, raw in batch.requests:
        try:
            good.append((connection, request_id, deadline_ms, _command.decode(raw)))
        except UNREADABLE as error:
            bad.append(
                (
                    connection,
                    request_id,
                    Failed(
                        code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                        kind="request",
                        remark=f"the engine cannot read this command: {error}",
                    ),
                )
            )
    return Requests(batch.process, batch.reply_to, batch.number, batch.closed, good), bad


def decode_to_web(data: bytes, limit: int) -> Replies:
    """Raises MalformedMessage."""
    _check(data, limit)
    try:
        return _replies.decode(data)
    except UNREADABLE as error:
        raise MalformedMessage(f"not a message from the engine: {error}") from error


def _check(data: object, limit: int) -> None:
    if not isinstance(data, bytes):
        raise MalformedMessage(f"a message must be bytes, not {type(data).__name__}")
    if len(data) > limit:
        raise MalformedMessage(f"a message of {len(data)} bytes; the limit is {limit}")
