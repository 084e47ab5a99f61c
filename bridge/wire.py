"""What travels between web processes and the engine: MessagePack batches, the same over every transport.

To the engine, from one web process:

    Requests  [ "requests", process, reply_to, number, [closed connection, ...],
                [[connection, request, deadline, command], ...] ]
    Alive     [ "alive",    process, reply_to, number, deltas, events ]
    Bye       [ "bye",      process ]

From the engine, to one web process:

    Replies   [ broker, epoch, first, leaving, [[connection, request, reply], ...], [delta, ...], [event batch, ...] ]

``number`` counts the batches of one web process from 1. ``first`` is the first of them that reached this engine: what
was asked in an earlier one and is not answered yet never will be. ``deadline`` is wall time in ms. A reply under
``NOTICE_ID`` was not asked for.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from bridge.port import Delta, EventBatch
from broker_core.codes import ResponseCode
from broker_core.commands import AnyCommand, AnyReply, Command, Failed, Reply

PROCESS = 0
"""The number of a web process's connection for commands that belong to no client in particular."""


class MalformedMessage(ValueError):
    """Bytes that are no message of the bridge."""


class Requests(msgspec.Struct, frozen=True, array_like=True, tag="requests"):
    """Commands of one web process, and the connections it has closed (they apply after the commands)."""

    process: str
    reply_to: str
    number: int
    closed: list[int]
    requests: list[tuple[int, int, int, AnyCommand]]


class EncodedRequests(msgspec.Struct, frozen=True, array_like=True, tag="requests"):
    """The same, with the commands as bytes."""

    process: str
    reply_to: str
    number: int
    closed: list[int]
    requests: Sequence[tuple[int, int, int, Raw]]


class Alive(msgspec.Struct, frozen=True, array_like=True, tag="alive"):
    """A web process is there, has sent ``number`` batches so far, and wants deltas, events, both or none."""

    process: str
    reply_to: str
    number: int
    deltas: bool
    events: bool


class Bye(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """A web process stops: everything of it may be forgotten at once."""

    process: str


class Replies(msgspec.Struct, frozen=True, array_like=True):
    """What the engine has for one web process. ``leaving``: it stops after this, everything was answered."""

    broker: str
    epoch: int
    first: int
    leaving: bool
    replies: list[tuple[int, int, AnyReply]]
    deltas: list[Delta]
    events: list[EventBatch]


class EncodedReplies(msgspec.Struct, frozen=True, array_like=True):
    """The same, with its parts as bytes."""

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
    """One command, ready to be put into a batch."""
    return Raw(_encoder.encode(command))


def encode_reply(reply: Reply) -> Raw:
    """One reply, ready to be put into a batch."""
    return Raw(_encoder.encode(reply))


def encode_delta(delta: Delta) -> Raw:
    """A delta, encoded once for all web processes."""
    return Raw(_encoder.encode(delta))


def encode_events(events: EventBatch) -> Raw:
    """An event batch, encoded once for all web processes."""
    return Raw(_encoder.encode(events))


def encode_to_engine(message: EncodedRequests | Requests | Alive | Bye) -> bytes:
    """Bytes of a message to the engine."""
    return _encoder.encode(message)


def encode_to_web(message: EncodedReplies | Replies) -> bytes:
    """Bytes of a message to a web process."""
    return _encoder.encode(message)


def decode_to_engine(data: bytes, limit: int) -> tuple[ToEngine, list[tuple[int, int, Failed]]]:
    """The message, and answers to those of its commands that cannot be read.

    One command that this engine does not know (a newer web process) does not spoil the others of its batch.
    Raises MalformedMessage for anything else.
    """
    _check(data, limit)
    try:
        return _to_engine.decode(data), []
    except msgspec.MsgspecError:
        return _decode_one_by_one(data)


def _decode_one_by_one(data: bytes) -> tuple[ToEngine, list[tuple[int, int, Failed]]]:
    try:
        batch = _encoded_requests.decode(data)
    except msgspec.MsgspecError as error:
        raise MalformedMessage(f"not a message for the engine: {error}") from error
    good: list[tuple[int, int, int, AnyCommand]] = []
    bad: list[tuple[int, int, Failed]] = []
    for connection, request_id, deadline_ms, raw in batch.requests:
        try:
            good.append((connection, request_id, deadline_ms, _command.decode(raw)))
        except msgspec.MsgspecError as error:
            bad.append(
                (
                    connection,
                    request_id,
                    Failed(
                        code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                        kind="request",
                        remark=f"the engine does not understand this command: {error}",
                    ),
                )
            )
    return Requests(batch.process, batch.reply_to, batch.number, batch.closed, good), bad


def decode_to_web(data: bytes, limit: int) -> Replies:
    """Raises MalformedMessage."""
    _check(data, limit)
    try:
        return _replies.decode(data)
    except msgspec.MsgspecError as error:
        raise MalformedMessage(f"not a message from the engine: {error}") from error


def _check(data: object, limit: int) -> None:
    if not isinstance(data, bytes):
        raise MalformedMessage(f"a message must be bytes, not {type(data).__name__}")
    if len(data) > limit:
        raise MalformedMessage(f"a message of {len(data)} bytes; the limit is {limit}")
