"""What handlers receive and return, and how a request is read."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from api.http.asgi import Message, Receive, Scope, Send
from api.http.limits import MAX_QUERY_BYTES
from api.http.problems import FieldError, Problem, invalid
from bridge.port import EnginePort, ResponseCode, commands

P = TypeVar("P", bound="Params")
R = TypeVar("R", bound=commands.Reply)


class Params(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base of every route's parameters, from its path and its query. All routes take these two."""

    int64: Literal["number", "string"] = "number"
    broker: str = ""


class Reading(NamedTuple):
    """A body that is still to be read from commit log records; ``read`` returns it. It may run in a thread."""

    records: Sequence[bytes]
    read: Callable[[], Any]


class Answer(msgspec.Struct, kw_only=True, gc=False):
    """What a handler returns.

    ``body`` is encoded as JSON, after it is read if it is a ``Reading``; ``content`` is sent as it is; ``file`` is read
    part by part while it is sent. With none of them, the answer has no body. ``give_back`` is called if there is no
    room for the body: the handler has taken messages, and cannot be called again.
    """

    body: Any = None
    content: bytes | None = None
    file: Path | None = None
    content_type: str = "application/json"
    status: int = 0
    headers: dict[str, str] = {}
    give_back: Callable[[], Awaitable[None]] | None = None


class Request(Generic[P]):
    """One request. ``body`` is the route's body struct, decoded, or the bytes where the route takes those.

    After the body, ``receive`` returns only once more: when the client disconnects.
    """

    __slots__ = ("body", "headers", "params", "receive", "scope", "send")

    def __init__(self, scope: Scope, receive: Receive, send: Send, params: P, headers: dict[bytes, bytes]) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.params = params
        self.headers = headers
        self.body: Any = None

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def client(self) -> tuple[str, int]:
        """Address and port of the client, if the server has them."""
        host, port = self.scope.get("client") or ("127.0.0.1", 0)
        return host, port


Handler = Callable[[Request[Any]], Awaitable[Answer | None]]
"""Answers a request. None: the handler has sent everything itself."""


async def ask(port: EnginePort, command: commands.Command, expected: type[R]) -> R:
    """The engine's answer to a command that belongs to no client; BrokerError's kinds otherwise."""
    return expect(await port.call(command), expected)


def expect(reply: commands.Reply, expected: type[R]) -> R:
    """``reply``, which must be of the expected type. Problem 500 otherwise: that is a defect of GlassMQ."""
    if not isinstance(reply, expected):
        raise Problem(
            500,
            f"the broker answered {type(reply).__name__} where {expected.__name__} was expected",
            code=ResponseCode.SYSTEM_ERROR,
        )
    return reply


# --- Reading ---------------------------------------------------------------------------------------------------


def read_headers(scope: Scope) -> dict[bytes, bytes]:
    """Headers by name; the first value of a repeated header."""
    headers: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, value)
    return headers


def _text(quoted: bytes) -> str:
    try:
        return unquote_to_bytes(quoted).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem(400, "the URL is not UTF-8 after percent-decoding") from error


def path_segments(scope: Scope) -> list[str]:
    """The path's parts, percent-decoded one by one, so that an encoded slash stays inside its part."""
    raw = scope.get("raw_path")
    parts = [_text(part) for part in raw.split(b"/")[1:]] if raw else scope["path"].split("/")[1:]
    if "." in parts or ".." in parts:
        raise Problem(400, "the path has a part that is . or ..", pointer="/path")
    return parts


def read_query(scope: Scope) -> dict[str, str]:
    """Query parameters by name, each given once."""
    raw: bytes = scope.get("query_string", b"")
    if not raw:
        return {}
    if len(raw) > MAX_QUERY_BYTES:
        raise Problem(414, f"the query string is longer than {MAX_QUERY_BYTES} bytes")
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise Problem(400, "the query string is not UTF-8 after percent-decoding, or too long") from error
    query = dict(pairs)
    if len(query) != len(pairs):
        twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise Problem(400, f"the parameter {twice} is given more than once", pointer=f"/{twice}")
    return query


_INTEGER = re.compile(r"-?[0-9]+|null", re.IGNORECASE)


@lru_cache(maxsize=256)
def _integers(shape: type[Params]) -> frozenset[str]:
    """The names of the parameters that are whole numbers, or none (`null`)."""
    described: Any = msgspec.inspect.type_info(shape)
    return frozenset(field.name for field in described.fields if _kinds(field.type) == {msgspec.inspect.IntType})


def _kinds(described: Any) -> set[type]:
    """The types that a value may have, in msgspec's description, apart from None."""
    if isinstance(described, msgspec.inspect.Metadata):
        return _kinds(described.type)
    if isinstance(described, msgspec.inspect.UnionType):
        return set().union(*map(_kinds, described.types))
    return {type(described)} - {msgspec.inspect.NoneType}


def read_params(values: dict[str, str], shape: type[P]) -> P:
    """The parameters. Problem 400 for a wrong one; msgspec would also take `1e3` as a whole number."""
    for name in values.keys() & _integers(shape):
        if not _INTEGER.fullmatch(values[name]):
            detail = "Expected `int`, written with digits only"
            problem = Problem(400, f"the parameters cannot be used: {detail} (at /{name})")
            problem.errors = [FieldError(f"/{name}", detail)]
            raise problem
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error, "parameters") from error


def too_large(limit: int) -> Problem:
    return Problem(
        413,
        f"the request body is larger than {limit} bytes",
        code=ResponseCode.MESSAGE_ILLEGAL,
        headers={"connection": "close"},
    )


class ClientGone(Exception):
    """The client disconnected before it had sent its request."""


async def read_body(receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
    """The whole body. Problem 413 as soon as it is known to be too large.

    The server limits how slowly it may arrive (``bridge.daphne_limits``).
    """
    length = headers.get(b"content-length", b"")
    if length:
        if not length.isdigit():
            raise Problem(400, "Content-Length is not a number", pointer="/Content-Length")
        if len(length) > 15 or int(length) > limit:
            raise too_large(limit)
    message: Message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if message["type"] == "http.disconnect":
            raise ClientGone
        if len(body) > limit:
            raise too_large(limit)
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise too_large(limit)
    return b"".join(parts)


def require_json(headers: dict[bytes, bytes]) -> None:
    """Problem 415 for anything but JSON. This also stops a form on a foreign page from posting here."""
    if headers.get(b"content-encoding", b"identity").lower() not in (b"identity", b""):
        raise Problem(
            415, "compressed request bodies are not supported; send the body uncompressed", pointer="/Content-Encoding"
        )
    media_type, _, rest = headers.get(b"content-type", b"").lower().partition(b";")
    charset = rest.replace(b" ", b"").replace(b'"', b"")
    if media_type.strip() != b"application/json" or charset not in (b"", b"charset=utf-8"):
        raise Problem(
            415,
            "the body must be JSON: send Content-Type: application/json",
            pointer="/Content-Type",
            headers={"accept": "application/json"},
        )


_LONE_SURROGATE = re.compile(
    rb"(?:[^\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])|\\[^u])*+"
    rb"(\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.DOTALL,
)


def lone_surrogate(data: bytes | msgspec.Raw) -> str:
    """The first escape in JSON that is half of a character (`\\ud83d`), as it is written; empty if there is none."""
    found = _LONE_SURROGATE.match(data)
    return found[1].decode("ascii") if found is not None else ""


def unreadable(data: bytes | msgspec.Raw, error: Exception) -> str:
    """Why msgspec cannot read ``data``: the end of a sentence. Lone surrogates get a misleading error from it."""
    escape = lone_surrogate(data)
    if escape:
        return f"has a text with {escape}, which is half of a surrogate pair, so it is no character that UTF-8 has"
    return f"is not JSON: {error}"


def decode_json(data: bytes | msgspec.Raw, shape: type[Any]) -> Any:
    """The body as a struct of type ``shape``. Problem 400 if it is not JSON, not UTF-8 or does not match."""
    if not data:
        raise Problem(400, "the body is empty, and must be JSON", pointer="")
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.ValidationError as error:
        raise invalid(error, "body", partial(msgspec.json.decode, data)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body {unreadable(data, error)}", pointer="") from error
    except RecursionError as error:
        raise Problem(400, "the body is nested too deeply", pointer="") from error
