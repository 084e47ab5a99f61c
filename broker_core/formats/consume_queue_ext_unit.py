"""One unit of a consume queue ext, for data that does not fit into a queue unit's 20 bytes.

    offset  bytes  field (big-endian, signed)
    ------  -----  ----------------------------------------------
         0      2  size of the unit; -1 ends the file, whose last 4 bytes are never part of a unit
         2      8  tagsCode
        10      8  store time, ms
        18      2  length of the bitmap, bytes
        20      n  bitmap of the SQL92 filters that match

A queue refers to a unit by its address: the byte offset in the ext queue plus the smallest 64-bit integer.
"""

from struct import Struct

import msgspec

from broker_core.formats.commit_log_record import Buffer

HEAD = Struct(">hqqh")
SIZE_MIN = 20
ADDRESS_BASE = -(1 << 63)
END_OF_FILE = b"\xff\xff"
END_BLANK = 4
"""Bytes at the end of a file that stay free for ``END_OF_FILE``. RocketMQ's END_BLANK_DATA_LENGTH."""


class ConsumeQueueExtUnit(msgspec.Struct, frozen=True, gc=False):
    """RocketMQ's ConsumeQueueExt.CqExtUnit."""

    size: int
    tags_code: int
    store_timestamp: int
    bitmap: bytes


def offset_of(address: int) -> int:
    """The byte offset in the ext queue that an address refers to."""
    return address - ADDRESS_BASE


def decode(data: Buffer, position: int) -> ConsumeQueueExtUnit | None:
    """The unit at ``position``; None at the end of the file or if nothing is written there yet."""
    if position < 0 or position + SIZE_MIN > len(data):
        return None
    size, tags_code, store_timestamp, bitmap_length = HEAD.unpack_from(data, position)
    if size < SIZE_MIN or bitmap_length < 0 or SIZE_MIN + bitmap_length > size or position + size > len(data):
        return None
    start = position + SIZE_MIN
    return ConsumeQueueExtUnit(size, tags_code, store_timestamp, bytes(data[start : start + bitmap_length]))


def encode(tags_code: int, store_timestamp: int, bitmap: bytes = b"") -> bytes:
    """One unit."""
    return HEAD.pack(SIZE_MIN + len(bitmap), tags_code, store_timestamp, len(bitmap)) + bitmap
