"""Publish bodies, from HTTP or WebSocket, to the command that stores them; and the reply to the answer."""

import binascii
import re
from base64 import b64decode
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.http.limits import MAX_IDEMPOTENCY_KEY, MAX_MESSAGE_BODY, MAX_MESSAGES_PER_PUBLISH
from api.http.names import DELAY, RESERVED_PROPERTIES, TIMER_PROPERTIES
from api.http.problems import Problem, escaped, invalid, move_pointer
from api.http.request import decode_json, unreadable
from api.http.schemas import Body, Model, PublishedMessage, PublishMessage
from bridge.port import BrokerError, ResponseCode, commands, encode_properties

_Several = Meta(min_length=1, max_length=MAX_MESSAGES_PER_PUBLISH)
_LEVEL = re.compile(r"[1-9][0-9]{0,8}")


DELAY_PROPERTY, DELIVER_PROPERTY = "TIMER_DELAY_MS", "TIMER_DELIVER_MS"
"""The properties into which `delay_ms` and `deliver_at_ms` are translated."""
_TOO_FAR = re.compile(r"^timer message illegal, .* max delay ([0-9]+)ms;")
_FIELDS = {f"/properties/{DELAY_PROPERTY}": "delay_ms", f"/properties/{DELIVER_PROPERTY}": "deliver_at_ms"}


class PublishMessages(Body, frozen=True, kw_only=True, gc=False):
    """Messages to publish in one topic, stored in this order."""

    messages: Annotated[list[PublishMessage], _Several]


class Published(Model, frozen=True, kw_only=True, gc=False):
    messages: list[PublishedMessage]


class _Publish(PublishMessage, frozen=True, kw_only=True, gc=False):
    """Both shapes that a publish may have, so that a body is decoded once."""

    body: msgspec.Raw = msgspec.Raw()
    messages: Annotated[list[PublishMessage], _Several] | UnsetType = UNSET


FIELDS_OF_ONE = {name: getattr(_Publish(), name) for name in PublishMessage.__struct_fields__}
"""Defaults of the fields of a single message. A body with ``messages`` must not set them."""


def read_publish(data: bytes) -> tuple[list[commands.OutgoingMessage], bool]:
    """The messages of a publish, and whether its body is a single message, not ``{"messages": [...]}``.

    Problem 400 or 413 for anything else.
    """
    publish: _Publish = decode_json(data, _Publish)
    if publish.messages is UNSET:
        if not publish.body:
            raise _wrong_shape("missing required field `body`")
        return [outgoing(publish, "")], True
    for name, default in FIELDS_OF_ONE.items():
        if getattr(publish, name) != default:
            raise _wrong_shape(f"contains unknown field `{name}`")
    return [outgoing(message, f"/messages/{index}") for index, message in enumerate(publish.messages)], False


def _wrong_shape(detail: str) -> Problem:
    return invalid(msgspec.ValidationError(f"Object {detail}"), "body")


def point_at_fields(error: BrokerError, *, is_single: bool) -> None:
    """Make the broker's error name the field of the publish that it refuses."""
    if is_single:
        move_pointer(error, "/messages/0", "")
    for place, field in _FIELDS.items():
        if error.pointer.endswith(place):
            error.pointer = f"{error.pointer.removesuffix(place)}/{field}"
            error.remark = _time_refused(field, error.remark)


def _time_refused(field: str, remark: str) -> str:
    """The broker's remark about a time in the API's words. Those about a time too far away are RocketMQ's."""
    too_far = _TOO_FAR.search(remark)
    if too_far is None:
        return f"the broker refuses `{field}`: {remark}"
    seconds = int(too_far[1]) // 1000
    return f"`{field}` is too far away: the broker delivers at most {seconds} s later (timerMaxDelaySec)"


def idempotency_key(headers: dict[bytes, bytes]) -> str:
    """The Idempotency-Key, 1 to 128 printable ASCII characters; empty without such a header. Problem 400 for others."""
    sent = headers.get(b"idempotency-key")
    if sent is None:
        return ""
    key = sent.decode("latin-1")
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY or not key.isascii() or not key.isprintable():
        raise Problem(
            400,
            f"an Idempotency-Key has 1 to {MAX_IDEMPOTENCY_KEY} printable ASCII characters",
            pointer="/Idempotency-Key",
        )
    return key


def outgoing(message: PublishMessage, at: str) -> commands.OutgoingMessage:
    """A message as the engine stores it. Problem 400 or 413; ``at`` is the JSON pointer to the message."""
    return commands.OutgoingMessage(
        body=_body(message, f"{at}/body"),
        properties=encode_properties(_properties(message, at)) if _has_properties(message) else "",
        queue_id=-1 if message.queue_id is None else message.queue_id,
    )


def _has_properties(message: PublishMessage) -> bool:
    return bool(message.tag or message.keys or message.properties or message.deliver_at_ms or message.delay_ms)


def _body(message: PublishMessage, at: str) -> bytes:
    try:
        if message.body_encoding == "json":
            body = bytes(message.body)
            body.decode("utf-8")
        else:
            text = msgspec.json.decode(message.body, type=str)
            body = text.encode("utf-8") if message.body_encoding == "utf8" else _from_base64(text, at)
    except msgspec.ValidationError as error:
        raise Problem(
            400,
            f"with body_encoding {message.body_encoding} the body is a string; "
            "use body_encoding json to send any JSON value",
            pointer=at,
        ) from error
    except UnicodeDecodeError as error:
        raise Problem(400, "the body is not UTF-8", pointer=at) from error
    except msgspec.DecodeError as error:
        raise Problem(400, f"the body {unreadable(message.body, error)}", pointer=at) from error
    if len(body) > MAX_MESSAGE_BODY:
        raise Problem(
            413,
            f"the body has {len(body)} bytes; the maximum is {MAX_MESSAGE_BODY}",
            code=ResponseCode.MESSAGE_ILLEGAL,
            pointer=at,
        )
    return body


def _from_base64(text: str, at: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Problem(400, "the body is not base64", pointer=at) from error


def _properties(message: PublishMessage, at: str) -> dict[str, str]:
    properties: dict[str, str] = {}
    for name, value in message.properties.items():
        where = f"{at}/properties/{escaped(name)}"
        _check_property(name, value, where)
        properties[name] = value
    _add_time(message, properties, at)
    if message.tag:
        properties["TAGS"] = _tag(message.tag, f"{at}/tag")
    if message.keys:
        for index, key in enumerate(message.keys):
            if not key or " " in key:
                raise Problem(
                    400, "a key cannot be empty or contain blanks: blanks separate keys", pointer=f"{at}/keys/{index}"
                )
            _clean(key, f"{at}/keys/{index}")
        properties["KEYS"] = " ".join(message.keys)
    return properties


def _tag(tag: str, where: str) -> str:
    """``tag``. Problem 400 if no filter could select it: ``||`` joins the tags of a filter, and blanks are dropped."""
    if "||" in tag or tag == "*" or tag != tag.strip():
        raise Problem(
            400,
            f"{tag[:100]!r} is not one tag: a tag has no || and no blanks around it, and is not *, because filters "
            "could not select it",
            pointer=where,
        )
    return _clean(tag, where)


def _add_time(message: PublishMessage, properties: dict[str, str], at: str) -> None:
    """The property for an exact time. Problem 400 if the message asks for two times."""
    if message.deliver_at_ms is None and message.delay_ms is None:
        return
    if DELAY in properties or (message.deliver_at_ms is not None and message.delay_ms is not None):
        raise Problem(400, f"set one of deliver_at_ms, delay_ms and the property {DELAY}", pointer=f"{at}/delay_ms")
    if message.delay_ms is not None:
        properties[DELAY_PROPERTY] = str(message.delay_ms)
    else:
        properties[DELIVER_PROPERTY] = str(message.deliver_at_ms)


def _check_property(name: str, value: str, where: str) -> None:
    if name in TIMER_PROPERTIES:
        raise Problem(
            400,
            f"the property {name} is reserved; use the field `deliver_at_ms` or `delay_ms`",
            pointer=where,
        )
    if name == DELAY and not _LEVEL.fullmatch(value):
        raise Problem(400, f"{DELAY} must be the number of a delay level, 1 or more", pointer=where)
    if name in ("TAGS", "KEYS"):
        raise Problem(
            400,
            f"the property {name} is reserved; use the field `{name.lower().replace('tags', 'tag')}`",
            pointer=where,
        )
    if name in RESERVED_PROPERTIES:
        raise Problem(400, f"{name} is reserved by RocketMQ; choose another name", pointer=where)
    if not name or not value:
        raise Problem(400, "a property needs a name and a value: RocketMQ drops properties without them", pointer=where)
    _clean(name, where)
    _clean(value, where)


def _clean(text: str, where: str) -> str:
    """``text``. Problem 400 if it contains a character that separates properties in a record."""
    if "\x01" in text or "\x02" in text:
        raise Problem(
            400, "the characters U+0001 and U+0002 separate properties and cannot be part of one", pointer=where
        )
    return text


_LATE: dict[int, str] = {
    ResponseCode.FLUSH_DISK_TIMEOUT: "on the disk within syncFlushTimeout",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "on enough slaves within slaveTimeout",
}


def published(sent: commands.Sent, broker: str) -> Published:
    """The answer to a publish. Problem 504 if the messages were not on the disk, or on enough slaves, in time."""
    late = _LATE.get(sent.code)
    if late is not None:
        raise Problem(
            504,
            f"the messages are stored, but were not {late}; repeating the request stores them again, unless both "
            "requests have the same Idempotency-Key",
            code=ResponseCode(sent.code),
            retry_after_s=1,
        )
    return Published(
        messages=[
            PublishedMessage(
                broker=broker,
                message_id=message.message_id,
                offset_message_id=message.offset_message_id,
                topic=sent.topic,
                queue_id=message.queue_id,
                queue_offset=message.queue_offset,
                physical_offset=message.physical_offset,
                store_time_ms=message.store_time_ms,
                recall_handle=message.recall_handle or UNSET,
            )
            for message in sent.messages
        ]
    )
