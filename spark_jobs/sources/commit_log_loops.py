"""The loops over the bytes of a log, compiled.

What a report reads is found record by record: each one says where the next begins. In Python such a step takes
microseconds; compiled, as long as the memory takes. No index is looked at (see ``compiled``): what could lie outside is
held against its bounds before it is read. All loops are in this file, with the numbers that they are made of: those of
``broker_core.formats.commit_log_record``, whose layout this is.

``np.uint64`` stands where bits are meant: ``>>`` of a signed number repeats its sign, and a signed and an unsigned one
together would become a float.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_jobs.sources.compiled import compiled, inlined

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
    BORN_HOST,
    STORE_TS,
    RECONSUME_TIMES,
    PREPARED_OFFSET,
    BODY_AT,
    BODY_LENGTH,
    TOPIC_AT,
    TOPIC_LENGTH,
    PROPERTIES_AT,
    PROPERTIES_LENGTH,
) = range(18)
"""The columns of headers, as ``commit_log_headers.Headers`` has them."""

AHEAD, SPARSE = 64 * 1024, 4096
"""Bytes that are fetched ahead, unless records are larger on average than so many."""
NONE = -1
"""The length of what is not there."""


@compiled
def big_endian(longs: Longs, at: int) -> np.int64:
    """The signed number of the eight bytes at ``at``: turned round, for which processors have an instruction."""
    value = np.uint64(longs[at])
    value = (value & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8) | (
        value >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF)
    )
    value = (value & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16) | (
        value >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF)
    )
    return np.int64(value << np.uint64(32) | value >> np.uint64(32))


@inlined
def eight_bytes(longs: Longs, at: int) -> np.int64:
    """The eight bytes at ``at`` as a number, the first the lowest; anything for those behind the last one."""
    near = min(at, len(longs) - 1)
    return np.int64(np.uint64(longs[near]) >> np.uint64(8 * (at - near) & 63))


@inlined
def copy(longs: Longs, at: int, size: int, to_longs: Longs, to: int) -> None:
    """Copy so many bytes from ``at`` to ``to``, eight at a time; up to eight more are written behind them."""
    words = size >> 3
    for word in range(words):
        to_longs[to + (word << 3)] = longs[at + (word << 3)]
    to_longs[to + (words << 3)] = eight_bytes(longs, at + (words << 3))


@compiled
def put_header(octets: Octets, longs: Longs, base: int, at: int, stop: int, headers: Longs, row: int) -> int:
    """The size of the record at ``at``, whose header is then in ``row``; 0 where no valid one ends by ``stop``.

    Valid is what ``commit_log_record.measure`` calls so, the checksum of the body aside, except for rolled back
    records without a topic: those are placeholders for damage. ``base``: the log's offset of the first byte.
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
    headers[BORN_HOST, row] = big_endian(longs, at + 48) >> 32 & 0xFFFFFFFF
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
    """The first position from ``at`` on where a valid record begins that ends by ``stop``, or -1; it is in ``row``."""
    for candidate in range(at, stop - RECORD_SIZE_MIN + 1):
        if octets[candidate + 4] == MAGIC_V1 >> 24 and put_header(octets, longs, base, candidate, stop, headers, row):
            return candidate
    return -1


@compiled
def is_blank(longs: Longs, at: int) -> bool:
    """Whether a segment's filler begins here; fewer than eight bytes that are left count as one."""
    return at >= len(longs) or big_endian(longs, at) & 0xFFFFFFFF == MAGIC_BLANK


@compiled
def fetch(octets: Octets, at: int, stop: int) -> np.uint8:
    """Have these bytes in the processor's cache: all at once, while from record to record each would be waited for.

    Returned is something that is made of them: what nobody needs is not read.
    """
    seen = np.uint8(0)
    for place in range(at, stop, 64):
        seen ^= octets[place]
    return seen


@compiled
def follow(
    octets: Octets, longs: Longs, base: int, at: int, stop: int, resume: bool, headers: Longs, texts: Longs, gaps: Longs
) -> tuple[int, int, int, bool]:
    """Records from ``at`` on, until there is no room for more of them, of their texts, or of gaps.

    (records, gaps, where the last record ended or the next one begins, whether there may be more)

    Topics and properties are copied to ``texts``: TOPIC_AT and PROPERTIES_AT are places there, BODY_AT is one in the
    segment. ``first`` and ``fetched`` only steer what is fetched ahead.
    """
    row, passed, first, fetched, text_end = 0, 0, at, at, 0
    while row < headers.shape[1] and passed < len(gaps):
        if at >= stop or is_blank(longs, at):
            return row, passed, at, False
        if at >= fetched and at - first <= row * SPARSE:
            headers[AT, row] = fetch(octets, at, min(at + AHEAD, stop))  # overwritten by the header
            fetched = at + AHEAD
        size = put_header(octets, longs, base, at, stop, headers, row)
        if size:
            text_at = headers[TOPIC_AT, row]
            text_size = at + size - text_at
            if text_end + text_size >= len(texts):
                break
            copy(longs, text_at, text_size, texts, text_end)
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
    """Which of the topics are legal: one letter, digit, ``%``, ``|``, ``-`` or ``_`` at least, and nothing else."""
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
def copy_slices(longs: Longs, at: Longs, length: Longs, offsets: Ints, values: Longs) -> None:
    """Copy each slice to where ``offsets`` say."""
    for row in range(len(at)):
        if length[row] > 0:
            copy(longs, at[row], length[row], values, offsets[row])


@inlined
def lowest(bits: np.int64) -> np.int64:
    """The place of the lowest bit that is set: the bits below it, counted, for which processors have an instruction."""
    below = np.uint64(~bits & bits - np.int64(1))
    below -= below >> np.uint64(1) & np.uint64(0x5555555555555555)
    below = (below & np.uint64(0x3333333333333333)) + (below >> np.uint64(2) & np.uint64(0x3333333333333333))
    below = below + (below >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64(below * np.uint64(0x0101010101010101) >> np.uint64(56))


@compiled
def find_properties(
    octets: Octets,
    entry_ends: Longs,
    at: Longs,
    length: Longs,
    keys: Octets,
    key_ends: Longs,
    beginning_with: Longs,
    value_at: Ints,
    value_length: Ints,
) -> None:
    """Where each record's value of each key is and how long, NONE where it has none. The strings are at ``at``.

    ``entry_ends`` has a bit for each byte, whether it is an 0x02; the keys are as ``commit_log_properties.Keys`` has
    them.
    """
    value_length[:] = NONE
    for row in range(len(at)):
        begin, stop = at[row], at[row] + length[row]
        word = begin >> 6
        bits = entry_ends[word] & np.int64(-1) << (begin & 63)
        while begin < stop:
            while not bits and word < stop >> 6:
                word += 1
                bits = entry_ends[word]
            end = min((word << 6) + lowest(bits), stop) if bits else stop
            bits &= bits - 1
            candidates = beginning_with[octets[begin]]
            while candidates:
                key = lowest(candidates)
                candidates &= candidates - 1
                first = key_ends[key - 1] if key else 0
                size = key_ends[key] - first
                equal = 0
                if size < end - begin:  # an entry without a value does not count
                    while equal < size and octets[begin + equal] == keys[first + equal]:
                        equal += 1
                if equal == size:
                    value_at[key, row], value_length[key, row] = begin + size, end - begin - size
            begin = end + 1
