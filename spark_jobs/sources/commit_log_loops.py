"""The loops over the bytes of a log. Numba compiles them to machine code when they first run.

The size of a record gives the position of the next one. NumPy cannot take such steps, and Python needs microseconds
for each. Machine code does not check that an index is within its array. So these loops compare every length with its
bounds before they use it. As plain Python (``NUMBA_DISABLE_JIT=1``) they raise IndexError for a wrong index.

Numba compiles a function again only when the function's own file has changed. So this file holds all loops and the
constants that they use. The record layout is pictured in ``broker_core.formats.commit_log_record``.

Bit patterns are ``np.uint64``: ``>>`` of a signed number repeats its sign, and Numba turns an expression of a signed
and an unsigned number into a float.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

Octets: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]

MAGIC_V1, MAGIC_V2, MAGIC_BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
ROLLED_BACK = 12
BORN_HOST_V6, STORE_HOST_V6 = 1 << 4, 1 << 5
V6_EXTRA = 12
HEADER_SIZE = 88
"""Bytes before the body where both addresses are IPv4."""
LENGTHS_SIZE = 3
"""Bytes of the lengths of topic and properties, in V1."""
RECORD_SIZE_MIN = HEADER_SIZE + LENGTHS_SIZE
WORD = 8

(
    AT,
    SIZE,
    BODY_CRC,
    QUEUE_ID,
    FLAG,
    QUEUE_OFFSET,
    SYS_FLAG,
    BORN_TS,
    STORE_TS,
    RECONSUME_TIMES,
    PREPARED_OFFSET,
    BODY_AT,
    BODY_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
) = range(17)
"""The columns of headers, as ``commit_log_records.Headers`` has them."""

NONE = -1
"""The length of a property that a record does not have."""
ENTRY_END = 2
"""The byte behind each property."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Return the function compiled to machine code, which runs without the GIL.

    If Numba finds no folder for its cache, each process compiles the function again, which takes some seconds.
    """
    try:
        return cast("_Function", njit(nogil=True, cache=True)(function))
    except RuntimeError:  # no folder for the cache
        warn_once()
        return cast("_Function", njit(nogil=True)(function))


@cache
def warn_once() -> None:
    """Log that nothing is cached."""
    logger.warning(
        "Compiled loops are not cached, so each of Spark's Python processes spends some seconds on compiling them. "
        "Set NUMBA_CACHE_DIR to a folder that can be written to."
    )


@compiled
def big_endian(longs: Longs, at: int) -> np.int64:
    """The signed big-endian number in the eight bytes at ``at``. LLVM turns the shifts into one byte swap."""
    value = np.uint64(longs[at])
    value = (value & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (
        value >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    )
    value = (value & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (
        value >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    )
    return np.int64(value << np.uint64(32) | value >> np.uint64(32))


@compiled
def put_header(octets: Octets, longs: Longs, base: int, at: int, stop: int, headers: Longs, row: int) -> int:
    """Write the header of the record at ``at`` into ``row``, and return the record's size.

    Returns 0 if no valid record begins at ``at`` and ends by ``stop``. The rules are those of
    ``commit_log_record.measure``, without the body's checksum. Rolled back records without a topic are not valid: they
    are placeholders for damage. ``base`` is the log's offset of the first byte.
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
    born_extra = V6_EXTRA if sys_flag & BORN_HOST_V6 else 0
    body_at = at + HEADER_SIZE + born_extra
    if sys_flag & STORE_HOST_V6:
        body_at += V6_EXTRA
    if body_at > last - LENGTHS_SIZE:
        return 0
    body_length = big_endian(longs, body_at - 8) << 32 >> 32
    topic_at = body_at + body_length
    if body_length < 0 or topic_at > last - LENGTHS_SIZE:
        return 0
    topic_length = np.int64(octets[topic_at])
    topic_at += 1
    if magic == MAGIC_V2:
        topic_length = topic_length << 8 | octets[topic_at]
        topic_at += 1
    properties_at = topic_at + topic_length + 2
    properties_length = last - properties_at
    if properties_length < 0 or (topic_length == 0 and sys_flag & ROLLED_BACK == ROLLED_BACK):
        return 0
    if np.int64(octets[properties_at - 2]) << 8 | octets[properties_at - 1] != properties_length:
        return 0
    crc_and_queue_id = big_endian(longs, at + 8)
    headers[AT, row] = at
    headers[SIZE, row] = size
    headers[BODY_CRC, row] = crc_and_queue_id >> 32
    headers[QUEUE_ID, row] = crc_and_queue_id << 32 >> 32
    headers[FLAG, row] = big_endian(longs, at + 16) >> 32
    headers[QUEUE_OFFSET, row] = big_endian(longs, at + 20)
    headers[SYS_FLAG, row] = sys_flag
    headers[BORN_TS, row] = big_endian(longs, at + 40)
    headers[STORE_TS, row] = big_endian(longs, at + 56 + born_extra)
    headers[RECONSUME_TIMES, row] = big_endian(longs, body_at - 16) >> 32
    headers[PREPARED_OFFSET, row] = big_endian(longs, body_at - 12)
    headers[BODY_AT, row] = body_at
    headers[BODY_LENGTH, row] = body_length
    headers[TOPIC_AT, row] = topic_at
    headers[TOPIC_LENGTH, row] = topic_length
    headers[PROPERTIES_AT, row] = properties_at
    headers[PROPERTIES_LENGTH, row] = properties_length
    return int(size)


@compiled
def next_header(octets: Octets, longs: Longs, base: int, at: int, stop: int, headers: Longs, row: int) -> int:
    """The position of the first valid record from ``at`` on that ends by ``stop``, or -1. Its header is in ``row``."""
    for candidate in range(at, stop - RECORD_SIZE_MIN + 1):
        if octets[candidate + 4] == MAGIC_V1 >> 24 and put_header(octets, longs, base, candidate, stop, headers, row):
            return candidate
    return -1


@compiled
def is_blank(longs: Longs, at: int) -> bool:
    """Whether the filler at a segment's end begins here. A rest of fewer than eight bytes counts as filler."""
    return at >= len(longs) or big_endian(longs, at) & 0xFFFFFFFF == MAGIC_BLANK


@compiled
def follow(
    octets: Octets,
    longs: Longs,
    base: int,
    at: int,
    stop: int,
    resume: bool,
    headers: Longs,
    texts: Octets,
    gaps: Longs,
) -> tuple[int, int, int, bool]:
    """Read records from ``at`` on, until ``headers``, ``texts`` or ``gaps`` is full.

    Returns (count of records, count of gaps, position after the last record or of the next one, whether more may
    follow). Topics and properties are copied to ``texts``, so columns are built from bytes that lie close together.
    TOPIC_AT and PROPERTIES_AT are positions in ``texts``; BODY_AT is a position in the segment.
    """
    row, passed, text_end = 0, 0, 0
    while row < headers.shape[1] and passed < len(gaps):
        if at >= stop or is_blank(longs, at):
            return row, passed, at, False
        size = put_header(octets, longs, base, at, stop, headers, row)
        if size:
            text_at = headers[TOPIC_AT, row]
            text_size = at + size - text_at
            if text_end + text_size > len(texts):
                break
            texts[text_end : text_end + text_size] = octets[text_at : text_at + text_size]
            headers[TOPIC_AT, row] = text_end
            headers[PROPERTIES_AT, row] += text_end - text_at
            text_end += text_size
            row += 1
            at += size
            continue
        if not resume:
            return row, passed, at, False
        found = next_header(octets, longs, base, at + 1, stop, headers, row)
        gaps[passed, 0], gaps[passed, 1] = at, stop if found < 0 else found
        passed += 1
        if found < 0:
            return row, passed, at, False
        at = found
    return row, passed, at, True


@compiled
def legal_topics(octets: Octets, at: Longs, length: Longs) -> NDArray[np.bool_]:
    """Which topics are legal: at least one character, and only letters, digits, ``%``, ``|``, ``-`` and ``_``."""
    legal = length > 0
    for row in range(len(at)):
        for place in range(at[row], at[row] + length[row]):
            octet = octets[place]
            letter = octet & 0xDF  # as upper case
            legal[row] &= (
                65 <= letter <= 90 or 48 <= octet <= 57 or octet == 37 or octet == 45 or octet == 95 or octet == 124
            )
    return legal


@compiled
def copy_slices(octets: Octets, at: Longs, length: Longs, offsets: Ints, values: Octets) -> None:
    """Copy each slice to its place in ``values``, which ``offsets`` gives."""
    for row in range(len(at)):
        if length[row] > 0:
            values[offsets[row] : offsets[row] + length[row]] = octets[at[row] : at[row] + length[row]]


@compiled
def find_properties(
    octets: Octets, at: Longs, length: Longs, keys: Octets, key_ends: Longs, value_at: Ints, value_length: Ints
) -> None:
    """Find the position and length of each record's value of each key. The length is NONE if it has no such key.

    ``at`` and ``length`` locate the records' properties. ``keys`` holds the names, each followed by 0x01, one after the
    other; ``key_ends`` holds the end of each.
    """
    value_length[:] = NONE
    for row in range(len(at)):
        begin, stop = at[row], at[row] + length[row]
        while begin < stop:
            end = begin
            while end < stop and octets[end] != ENTRY_END:
                end += 1
            first = 0
            for key in range(len(key_ends)):
                size = key_ends[key] - first
                equal = 0
                if size < end - begin:  # an entry without a value does not count
                    while equal < size and octets[begin + equal] == keys[first + equal]:
                        equal += 1
                if equal == size:
                    value_at[key, row], value_length[key, row] = begin + size, end - begin - size
                first += size
            begin = end + 1
