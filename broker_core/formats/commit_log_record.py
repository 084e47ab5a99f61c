"""One message in the commit log: RocketMQ's layout, which pull answers contain unchanged.

offset  bytes  field (big-endian, signed)
------  -----  ------------------------------------------------------------------------------
     0      4  TOTALSIZE             the whole record, this field included
     4      4  MAGICCODE             0xDAA320A7 (V1), 0xDAA320AB (V2)
     8      4  BODYCRC               CRC-32 of the stored body, top bit cleared
    12      4  QUEUEID
    16      4  FLAG                  set by the producer
    20      8  QUEUEOFFSET           in messages
    28      8  PHYSICALOFFSET        where this record begins in the log
    36      4  SYSFLAG
    40      8  BORNTIMESTAMP         ms, the client's clock
    48    4+4  BORNHOST              address and port; 16+4 when SYSFLAG has bit 4
    56      8  STORETIMESTAMP        ms
    64    4+4  STOREHOSTADDRESS      16+4 when SYSFLAG has bit 5
    72      4  RECONSUMETIMES
    76      8  PREPAREDTRANSACTIONOFFSET
    84    4+n  BODYLENGTH, body
          1+n  TOPICLENGTH, topic    2+n in V2, which is used for topics longer than 127 bytes
          2+n  PROPERTIESLENGTH, properties

The filler at the end of a segment:  bytes left (4), 0xCBD43194 (4); the bytes after these have no meaning.

A placeholder covers bytes that recovery could not read: a record with the SYSFLAG of a transaction that was rolled back
(12), which no queue and no index contains, an empty topic, and a body of zeros.
"""

import mmap
import zlib
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address
from struct import Struct

import msgspec

Buffer = bytes | bytearray | memoryview | mmap.mmap

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
BORN_HOST_V6 = 1 << 4
STORE_HOST_V6 = 1 << 5
TRANSACTION_MASK = 12
TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK = 4, 8, 12
CRC_MASK = 0x7FFFFFFF
PROPERTIES_LENGTH_MAX = 32_767
TOPIC_LENGTH_MAX = 255
BLANK_SIZE = 8
RECORD_SIZE_MIN = 91
PLACEHOLDER_SIZE_MAX = 4 << 20
MAGIC_BYTES = b"\xda\xa3\x20"
"""The bytes that both magic codes begin with."""

HEADS = tuple(Struct(f">iIIiiqqiq{born}siq{store}siiqi") for store in (4, 16) for born in (4, 16))
"""Everything up to BODYLENGTH, by ``head_kind``: 0 both IPv4, 1 born IPv6, 2 store IPv6, 3 both."""

BLANK = Struct(">iI")
SIZE_AND_MAGIC = Struct(">iI")
LENGTH = Struct(">H")
LONG = Struct(">q")
INT = Struct(">i")
_FRONT = Struct(">iIIiiqqi")
_MAGIC_AND_SYS_FLAG = Struct(">4xI28xi")
_MAGIC_SYS_FLAG_AND_BODY = Struct(">4xI28xi44xi")
"""The same, and the length of the body of a record whose hosts have IPv4 addresses."""
_BODY_V4 = _MAGIC_SYS_FLAG_AND_BODY.size
_HEAD_SIZES = tuple(head.size for head in HEADS)
SYS_FLAG_AT = 36


class RecordError(ValueError):
    """The bytes are not a commit log record."""


class CommitLogRecord(msgspec.Struct, frozen=True, gc=False):
    """RocketMQ's MessageExt, as stored. ``body`` is what the producer sent, possibly compressed."""

    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    born_port: int
    store_timestamp: int
    store_host: str
    store_port: int
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties: str


@lru_cache(4096)
def packed_host(host: str) -> bytes:
    """The 4 or 16 bytes of an IP address; ValueError if the text is not one."""
    return ip_address(host).packed


@lru_cache(4096)
def host_text(packed: bytes) -> str:
    """The address as text."""
    return str(ip_address(packed))


@lru_cache(8192)
def topic_field(topic: str) -> tuple[int, bytes]:
    """(magic, TOPICLENGTH and topic): V2 only for topics that V1's signed length byte cannot hold."""
    name = topic.encode()
    if len(name) > TOPIC_LENGTH_MAX:
        raise RecordError(f"the topic is {len(name)} bytes long; the limit is {TOPIC_LENGTH_MAX}")
    return (MAGIC_V1, bytes([len(name)]) + name) if len(name) <= 127 else (MAGIC_V2, LENGTH.pack(len(name)) + name)


def head_kind(sys_flag: int) -> int:
    """Index into ``HEADS``."""
    return sys_flag >> 4 & 3


def host_flags(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """``sys_flag`` with its address bits set according to the addresses."""
    return (
        sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
        | (BORN_HOST_V6 if len(born_host) == 16 else 0)
        | (STORE_HOST_V6 if len(store_host) == 16 else 0)
    )


def body_crc(body: bytes | bytearray | memoryview) -> int:
    """BODYCRC: CRC-32 without its top bit."""
    return zlib.crc32(body) & CRC_MASK


def has_room(properties: str, more: int = 0) -> bool:
    """Whether a record may have this property string and ``more`` bytes."""
    return len(properties.encode("utf-8", "surrogateescape")) + more <= PROPERTIES_LENGTH_MAX


def encode(
    *,
    topic: str,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    body: bytes,
    properties: str = "",
    flag: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    born_host: str = "127.0.0.1",
    born_port: int = 0,
    store_timestamp: int = 0,
    store_host: str = "127.0.0.1",
    store_port: int = 10911,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """One record. RecordError for a topic or a property string that is too long."""
    magic, name = topic_field(topic)
    text = properties.encode("utf-8", "surrogateescape")
    if len(text) > PROPERTIES_LENGTH_MAX:
        raise RecordError(f"the properties are {len(text)} bytes long; the limit is {PROPERTIES_LENGTH_MAX}")
    born, store = packed_host(born_host), packed_host(store_host)
    sys_flag = host_flags(sys_flag, born, store)
    head = HEADS[head_kind(sys_flag)]
    size = head.size + len(body) + len(name) + 2 + len(text)
    return b"".join(
        (
            head.pack(
                size,
                magic,
                body_crc(body),
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_timestamp,
                born,
                born_port,
                store_timestamp,
                store,
                store_port,
                reconsume_times,
                prepared_transaction_offset,
                len(body),
            ),
            body,
            name,
            LENGTH.pack(len(text)),
            text,
        )
    )


def blank(size: int) -> bytes:
    """The filler's first eight bytes: ``size`` bytes are left in the segment."""
    return BLANK.pack(size, MAGIC_BLANK)


def is_blank(data: Buffer, position: int) -> bool:
    """Whether a segment's filler begins at ``position``."""
    return len(data) >= position + BLANK_SIZE and SIZE_AND_MAGIC.unpack_from(data, position)[1] == MAGIC_BLANK


def placeholders(start: int, end: int, store_timestamp: int) -> Iterator[bytes]:
    """Records that cover the physical offsets from ``start`` to ``end``, at least ``RECORD_SIZE_MIN`` bytes."""
    while start < end:
        size = min(end - start, PLACEHOLDER_SIZE_MAX)
        if 0 < end - start - size < RECORD_SIZE_MIN:
            size -= RECORD_SIZE_MIN
        yield encode(
            topic="",
            queue_id=0,
            queue_offset=0,
            physical_offset=start,
            body=bytes(size - RECORD_SIZE_MIN),
            sys_flag=TRANSACTION_ROLLBACK,
            store_timestamp=store_timestamp,
            store_port=0,
        )
        start += size


def is_rolled_back(data: Buffer, position: int) -> bool:
    """Whether a valid record belongs to a rolled back transaction, as placeholders do: it is no message."""
    return data[position + SYS_FLAG_AT + 3] & TRANSACTION_MASK == TRANSACTION_ROLLBACK


def prepared_offset_at(data: Buffer, position: int) -> int:
    """PREPAREDTRANSACTIONOFFSET of the valid record at ``position``; 0 if it has none."""
    end = position + _HEAD_SIZES[head_kind(data[position + SYS_FLAG_AT + 3])] - INT.size
    offset: int = LONG.unpack_from(data, end - LONG.size)[0]
    return offset


def measure(data: Buffer, position: int, end: int, physical_offset: int = -1, *, check_crc: bool = True) -> int:
    """Size of the record at ``position``, or 0 if it is not valid or does not end before ``end``.

    A valid record has a known magic, lengths that add up to its size, the given ``physical_offset`` (unless that is
    -1), and, with ``check_crc``, a body that matches its checksum.
    """
    if end - position < RECORD_SIZE_MIN:
        return 0
    size, magic, crc, _, _, _, own_offset, sys_flag = _FRONT.unpack_from(data, position)
    if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_SIZE_MIN or size > end - position:
        return 0
    if own_offset != physical_offset != -1:
        return 0
    body_at = position + _HEAD_SIZES[sys_flag >> 4 & 3]
    last = position + size
    if body_at > last - 3:
        return 0
    body_length = INT.unpack_from(data, body_at - 4)[0]
    topic_at = body_at + body_length
    if body_length < 0 or topic_at > last - 3:
        return 0
    if magic == MAGIC_V1:
        properties_at = topic_at + 1 + data[topic_at]
    else:
        properties_at = topic_at + 2 + LENGTH.unpack_from(data, topic_at)[0]
    if properties_at > last - 2 or properties_at + 2 + LENGTH.unpack_from(data, properties_at)[0] != last:
        return 0
    if check_crc and body_crc(data[body_at:topic_at]) != crc:
        return 0
    return int(size)


def fields_at(data: Buffer, position: int) -> tuple[int, int, int]:
    """Positions of the body, the topic's length and the properties' length in a valid record."""
    magic, sys_flag = _MAGIC_AND_SYS_FLAG.unpack_from(data, position)
    body_at = position + _HEAD_SIZES[sys_flag >> 4 & 3]
    topic_at = body_at + INT.unpack_from(data, body_at - 4)[0]
    if magic == MAGIC_V1:
        return body_at, topic_at, topic_at + 1 + data[topic_at]
    return body_at, topic_at, topic_at + 2 + int(LENGTH.unpack_from(data, topic_at)[0])


def topic_at(data: Buffer, position: int) -> bytes:
    """The topic of a valid record."""
    _, topic, properties = fields_at(data, position)
    magic = SIZE_AND_MAGIC.unpack_from(data, position)[1]
    return bytes(data[topic + (1 if magic == MAGIC_V1 else 2) : properties])


def properties_at(data: Buffer, position: int) -> bytes:
    """The property string of a valid record."""
    at = fields_at(data, position)[2]
    return bytes(data[at + 2 : at + 2 + LENGTH.unpack_from(data, at)[0]])


def properties_within(data: Buffer, position: int, size: int) -> bytes:
    """The same for a record whose size is known, in half the time."""
    magic, sys_flag, body_length = _MAGIC_SYS_FLAG_AND_BODY.unpack_from(data, position)
    if magic != MAGIC_V1 or sys_flag & (BORN_HOST_V6 | STORE_HOST_V6):
        return properties_at(data, position)
    topic_at = position + _BODY_V4 + body_length
    return bytes(data[topic_at + 3 + data[topic_at] : position + size])


def store_timestamp_at(data: Buffer, position: int) -> int:
    """STORETIMESTAMP of a valid record."""
    sys_flag = int.from_bytes(data[position + SYS_FLAG_AT : position + SYS_FLAG_AT + 4], "big")
    return int(LONG.unpack_from(data, position + (68 if sys_flag & BORN_HOST_V6 else 56))[0])


def decode(data: Buffer, position: int = 0, *, check_crc: bool = True) -> CommitLogRecord:
    """The record at ``position``; RecordError if it is not valid."""
    if not measure(data, position, len(data), check_crc=check_crc):
        raise RecordError(f"no valid record at byte {position}")
    sys_flag = int.from_bytes(data[position + SYS_FLAG_AT : position + SYS_FLAG_AT + 4], "big")
    (
        size,
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born,
        born_port,
        store_timestamp,
        store,
        store_port,
        reconsume_times,
        prepared,
        length,
    ) = HEADS[head_kind(sys_flag)].unpack_from(data, position)
    body, topic, properties = fields_at(data, position)
    name = bytes(data[topic + (1 if magic == MAGIC_V1 else 2) : properties])
    text = bytes(data[properties + 2 : position + size])
    return CommitLogRecord(
        size,
        magic,
        crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        host_text(born),
        born_port,
        store_timestamp,
        host_text(store),
        store_port,
        reconsume_times,
        prepared,
        bytes(data[body : body + length]),
        name.decode("utf-8", "replace"),
        text.decode("utf-8", "surrogateescape"),
    )


def decode_all(data: Buffer) -> list[CommitLogRecord]:
    """The records in the body of a pull answer; RecordError if the bytes are not a sequence of valid records."""
    records, position = [], 0
    while position < len(data):
        record = decode(data, position)
        records.append(record)
        position += record.size
    return records
