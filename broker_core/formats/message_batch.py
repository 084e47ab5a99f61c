"""The body of a batch: messages back to back, each in the short format of RocketMQ's producers.

    bytes  field (big-endian, signed)
    -----  ------------------------------------------------------------
        4  TOTALSIZE         of this message
        4  MAGICCODE         0; not read
        4  BODYCRC           0; not read
        4  FLAG              set by the user
      4+n  BODYLENGTH, body
      2+n  PROPERTIESLENGTH, properties

The topic, the queue and everything else are in the batch's header, for all messages.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from broker_core.formats.commit_log_record import PROPERTIES_LENGTH_MAX

MAX_MESSAGES = 65_536

_HEAD = Struct(">i8xii")
_SIZE = Struct(">i")
_PROPERTIES_LENGTH = Struct(">h")
_FIXED = _HEAD.size + _PROPERTIES_LENGTH.size


class MessageBatchError(ValueError):
    """The bytes are not a batch."""


class BatchEntry(NamedTuple):
    """The part of a batch that differs between its messages."""

    flag: int
    body: bytes
    properties: str


def encode_batch(entries: Sequence[BatchEntry]) -> bytes:
    """The body of a batch. MessageBatchError for too many messages, or properties longer than 32,767 bytes."""
    if len(entries) > MAX_MESSAGES:
        raise MessageBatchError(f"it has {len(entries)} messages; the limit is {MAX_MESSAGES}")
    parts: list[bytes] = []
    for number, (flag, body, properties) in enumerate(entries):
        text = properties.encode()
        if len(text) > PROPERTIES_LENGTH_MAX:
            raise MessageBatchError(f"message {number}: {len(text)} bytes of properties; the limit is 32767")
        parts += (_HEAD.pack(_FIXED + len(body) + len(text), flag, len(body)), body)
        parts += (_PROPERTIES_LENGTH.pack(len(text)), text)
    return b"".join(parts)


def entries_with(data: bytes, needle: bytes) -> Iterator[tuple[int, BatchEntry]]:
    """(number, message) of the messages that contain these bytes; the others are not decoded.

    Raises MessageBatchError as ``decode_batch`` does, for what it reads.
    """
    size_at, last = _SIZE.unpack_from, len(data) - _FIXED
    at, number, found = 0, 0, data.find(needle)
    while found >= 0:
        first, size = at, 0
        while at <= found and at <= last:  # thousands of messages before the one that has the bytes
            first = at
            (size,) = size_at(data, at)
            if size < _FIXED:
                break
            at += size
            number += 1
        if at <= found or size < _FIXED:
            raise MessageBatchError(f"message {number} has no valid size")
        yield number - 1, decode_batch(data[first:at])[0]
        found = data.find(needle, at)


def decode_batch(data: bytes) -> list[BatchEntry]:
    """All messages. Raises MessageBatchError without a message, or if the lengths do not match the size of the data."""
    entries = list(iter_batch(data))
    if not entries:
        raise MessageBatchError("it has no message")
    return entries


def iter_batch(data: bytes, first: int = 0) -> Iterator[BatchEntry]:
    """The messages from number ``first`` on, each decoded when it is asked for; the ones before are passed over.

    Raises MessageBatchError at a message whose lengths do not match the size of the data.
    """
    number, at, end = 0, 0, len(data)
    while at < end:
        if number == MAX_MESSAGES:
            raise MessageBatchError(f"it has more than {MAX_MESSAGES} messages")
        if end - at < _FIXED:
            raise MessageBatchError(f"message {number}: {end - at} bytes are left, but a message has at least {_FIXED}")
        size, flag, body_size = _HEAD.unpack_from(data, at)
        if not _FIXED <= size <= end - at or not 0 <= body_size <= size - _FIXED:
            raise MessageBatchError(
                f"message {number}: a body of {body_size} bytes in a message of {size}, with {end - at} bytes left"
            )
        if number >= first:
            body_at = at + _HEAD.size
            properties_at = body_at + body_size
            (properties_size,) = _PROPERTIES_LENGTH.unpack_from(data, properties_at)
            if body_size + properties_size != size - _FIXED or properties_size < 0:
                raise MessageBatchError(
                    f"message {number}: {body_size} bytes of body and {properties_size} of properties "
                    f"in a message of {size}"
                )
            try:
                properties = data[properties_at + 2 : at + size].decode("utf-8")
            except UnicodeDecodeError as error:
                raise MessageBatchError(f"message {number}: the properties are not UTF-8") from error
            yield BatchEntry(flag, data[body_at:properties_at], properties)
        at += size
        number += 1
