"""The fixed fields of records, and where their parts lie.

The layout is that of ``broker_core.formats.commit_log_record``. All positions are those in a segment in memory.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_core.formats.commit_log_record import (
    BORN_HOST_V6,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    STORE_HOST_V6,
)
from spark_jobs.commit_log_files import read_range
from spark_jobs.compiled import compiled, inlined

Octets: TypeAlias = NDArray[np.uint8]
Longs: TypeAlias = NDArray[np.int64]

_V6_EXTRA = 12
_HEADER_SIZE = 88
"""Bytes before the body where both addresses are IPv4."""
_WORD = 8
_LENGTHS_SIZE = 3
"""Bytes of the lengths of topic and properties, in V1."""


class Segment(NamedTuple):
    """A commit log file, or a part of it, in memory.

    Positions are counted from its first byte, whose offset in the log is ``base``; the file begins at ``file_base``.
    """

    buffer: memoryview
    base: int
    size: int
    file_base: int

    @classmethod
    def open(cls, path: str, file_base: int, start: int, stop: int) -> "Segment":
        """What is needed to read [start, stop) of the log. FileNotFoundError when retention was faster."""
        found = read_range(path, start - file_base, stop - file_base)
        return cls(found.buffer, file_base + found.start, len(found.buffer), file_base)

    @property
    def octets(self) -> Octets:
        """Its bytes."""
        return np.frombuffer(self.buffer, np.uint8)

    @property
    def longs(self) -> Longs:
        """The eight bytes from each position on."""
        return longs_of(self.buffer)


class Texts(NamedTuple):
    """What follows the bodies of some records, topics and properties, one behind the other."""

    octets: Octets
    longs: Longs

    @classmethod
    def room(cls, size: int) -> "Texts":
        """For so many bytes, and what ``copy`` writes behind them."""
        octets = np.empty(size + _WORD, np.uint8)
        return cls(octets, longs_of(octets))


class Headers(NamedTuple):
    """The numbers in n valid records, and where their parts lie; all columns have the same length.

    Bodies lie in the segment, topics and properties in ``texts``. ``born_host`` is the address where that is IPv4, else
    a part of it.
    """

    at: Longs
    size: Longs
    body_crc: Longs
    queue_id: Longs
    flag: Longs
    queue_offset: Longs
    sys_flag: Longs
    born_ts: Longs
    born_host: Longs
    store_ts: Longs
    reconsume_times: Longs
    prepared_offset: Longs
    body_at: Longs
    body_length: Longs
    topic_at: Longs
    topic_length: Longs
    properties_at: Longs
    properties_length: Longs
    texts: Texts

    @classmethod
    def of(cls, columns: Iterable[Longs], texts: Texts) -> "Headers":
        """Those of all columns, in the order of the fields."""
        return cls._make((*columns, texts))

    @classmethod
    def room(cls, rows: int) -> Longs:
        """What ``put_header`` fills: a column for each of them."""
        return np.empty((len(cls._fields) - 1, rows), np.int64)

    @property
    def texts_end(self) -> int:
        """Where the texts of these records end."""
        return int(self.properties_at[-1] + self.properties_length[-1]) if len(self.at) else 0

    def part(self, chosen: Any) -> "Headers":
        """The same columns for some of the records."""
        return Headers.of([column[chosen] for column in self[:-1]], self.texts)


def longs_of(buffer: Any) -> Longs:
    """The eight bytes from each position of a buffer on, as the machine reads them: one load, where bytes are eight."""
    return np.ndarray((max(0, len(buffer) - _WORD + 1),), "<i8", buffer, strides=(1,))


@compiled
def big_endian(longs: Longs, at: int) -> np.int64:
    """The signed number of the eight bytes at ``at``."""
    value = np.uint64(longs[at])
    value = (value & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (
        value >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF))
    value = (value & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (
        value >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF))
    return np.int64(value << np.uint64(32) | value >> np.uint64(32))


@inlined
def eight_bytes(longs: Longs, at: int) -> np.int64:
    """The eight bytes at ``at`` as a number, the first the lowest; anything for those behind the last one."""
    near = min(at, len(longs) - 1)
    return np.int64(np.uint64(longs[near]) >> np.uint64(8 * (at - near) & 63))


@compiled
def put_header(octets: Octets, longs: Longs, base: int, at: int, stop: int, headers: Longs, row: int) -> int:
    """The size of the record at ``at``, whose header is then in ``row``; 0 where no valid one ends by ``stop``.

    Valid is what ``commit_log_record.measure`` calls so, the checksum of the body aside. ``base``: the log's offset of
    the first byte.
    """
    if at + RECORD_SIZE_MIN > stop:
        return 0
    size_and_magic = big_endian(longs, at)
    magic = size_and_magic & 0xFFFFFFFF
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return 0
    size = size_and_magic >> 32
    last = at + size
    if size < RECORD_SIZE_MIN or last > stop or big_endian(longs, at + 28) != base + at:
        return 0
    sys_flag = big_endian(longs, at + 36) >> 32
    born_extra = _V6_EXTRA if sys_flag & BORN_HOST_V6 else 0
    body_at = at + _HEADER_SIZE + born_extra
    if sys_flag & STORE_HOST_V6:
        body_at += _V6_EXTRA
    if body_at > last - _LENGTHS_SIZE:
        return 0
    body_length = big_endian(longs, body_at - 8) << 32 >> 32
    topic_at = body_at + body_length
    if body_length < 0 or topic_at > last - _LENGTHS_SIZE:
        return 0
    topic_length = np.int64(octets[topic_at])
    topic_at += 1
    if magic == MAGIC_V2:
        topic_length = topic_length << 8 | octets[topic_at]
        topic_at += 1
    properties_at = topic_at + topic_length + 2
    properties_length = last - properties_at
    if properties_length < 0:
        return 0
    if np.int64(octets[properties_at - 2]) << 8 | octets[properties_at - 1] != properties_length:
        return 0
    # in the order of Headers
    crc_and_queue_id, retries = big_endian(longs, at + 8), big_endian(longs, body_at - 16)
    headers[0, row], headers[1, row] = at, size
    headers[2, row], headers[3, row] = crc_and_queue_id >> 32, crc_and_queue_id << 32 >> 32
    headers[4, row], headers[5, row] = big_endian(longs, at + 16) >> 32, big_endian(longs, at + 20)
    headers[6, row], headers[7, row] = sys_flag, big_endian(longs, at + 40)
    headers[8, row] = big_endian(longs, at + 48) >> 32 & 0xFFFFFFFF
    headers[9, row], headers[10, row] = big_endian(longs, at + 56 + born_extra), retries >> 32
    headers[11, row], headers[12, row] = big_endian(longs, body_at - 12), body_at
    headers[13, row], headers[14, row] = body_length, topic_at
    headers[15, row], headers[16, row] = topic_length, properties_at
    headers[17, row] = properties_length
    return int(size)


@inlined
def copy(longs: Longs, at: int, size: int, to_longs: Longs, to: int) -> None:
    """Copy so many bytes from ``at`` to ``to``, eight at a time; up to eight more are written behind them."""
    words = size >> 3
    for word in range(words):
        to_longs[to + (word << 3)] = longs[at + (word << 3)]
    to_longs[to + (words << 3)] = eight_bytes(longs, at + (words << 3))


@compiled
def next_header(octets: Octets, longs: Longs, base: int, at: int, stop: int, headers: Longs, row: int) -> int:
    """The first position from ``at`` on where a valid record begins that ends by ``stop``, or -1; it is in ``row``."""
    for candidate in range(at, stop - RECORD_SIZE_MIN + 1):
        if octets[candidate + 4] == MAGIC_V1 >> 24 and put_header(octets, longs, base, candidate, stop, headers, row):
            return candidate
    return -1


def first_record(segment: Segment, start: int, stop: int) -> int | None:
    """The first position from ``start`` on where a valid record begins, None when there is none before ``stop``."""
    found = next_header(segment.octets, segment.longs, segment.base, start, min(stop, segment.size), Headers.room(1), 0)
    return None if found < 0 else found


@compiled
def is_blank(longs: Longs, at: int) -> bool:
    """Whether a segment's filler begins here; fewer than eight bytes that are left count as one."""
    return at >= len(longs) or big_endian(longs, at) & 0xFFFFFFFF == MAGIC_BLANK


def is_blank_at(segment: Segment, at: int) -> bool:
    """Whether the segment's filler begins here; fewer than eight bytes that are left count as one."""
    return bool(is_blank(segment.longs, at))


def is_unwritten_at(segment: Segment, at: int) -> bool:
    """Whether nothing was ever written here: segments are made full of zeros, and no record begins with a zero."""
    return not any(segment.buffer[at:at + 8])
