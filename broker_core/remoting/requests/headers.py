"""Reads the extFields and the JSON body of a request or a response into typed structs, and writes them.

A header is declared as in RocketMQ: a field without a default is required. All extFields are text; numbers have
RocketMQ's ranges, booleans are ``true`` or ``false``. Fields that are not declared are ignored.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError

Int = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Long = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
MAX_NAME = 255
"""Characters of a topic, a group or a client id. RocketMQ allows this for the longest, the retry topics; names are
kept and shown, also of requests that are refused."""

Name = Annotated[str, Meta(max_length=MAX_NAME)]
NonEmpty = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
T = TypeVar("T")


class Header(msgspec.Struct, rename="camel", gc=False):
    """RocketMQ's CommandCustomHeader, or an object of a JSON body."""


def read_header(kind: type[T], fields: dict[str, str]) -> T:
    """The extFields as ``kind``. RequestError (SYSTEM_ERROR, as in RocketMQ) that names the field."""
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"extFields: {error}", code=ResponseCode.SYSTEM_ERROR) from error


def write_header(header: Header) -> dict[str, str]:
    """The extFields from which ``read_header`` reads ``header``. Fields that are None are left out."""
    fields = {}
    for name, field in zip(header.__struct_encode_fields__, header.__struct_fields__, strict=True):
        value = getattr(header, field)
        if type(value) is bool:
            fields[name] = "true" if value else "false"
        elif value is not None:
            fields[name] = str(value)
    return fields


def read_body(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """The JSON body as the decoder's type. RequestError (SYSTEM_ERROR)."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"body: {error}" if body else "the body is missing", code=ResponseCode.SYSTEM_ERROR
        ) from error


def json_body(value: Any) -> bytes:
    """A body that RocketMQ's clients read: compact JSON."""
    return msgspec.json.encode(value)
