"""The records of a part of the log: their fields, and the positions of their bodies, topics and properties.

A record begins where the previous one ends. The body of a record may contain a copy of another valid record. So only
records that a walk reaches from a known start count. The walk first follows the sizes, and then reads each field of
many records at once. The record layout is pictured in ``broker_core.formats.commit_log_record``.
"""

import mmap
from collections.abc import Iterator
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker_core.formats.commit_log_record import (
    BORN_HOST_V6,
    MAGIC_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    STORE_HOST_V6,
    TRANSACTION_ROLLBACK,
    is_blank,
    is_rolled_back,
    measure,
)
from broker_core.formats.commit_log_record import topic_at as topic_in
from spark_jobs.sources.commit_log_files import map_file

ROWS = 8192
"""The most records that are read together. The fields of more would not stay in a processor's cache."""
FEW_ROWS, MORE = 64, 4
"""FEW_ROWS records are followed at first, and right behind damage, where more damage may follow. Each next time, MORE
times as many are followed as were found. A lane has room for at least FEW_ROWS records."""
FIRST_SIZE = 256
"""The estimated size of a record until the size of one is known, bytes."""
LANES_BYTES = 64 * 1024 * 1024
"""Bytes of the log whose records are followed at once; a lane may have more."""
SPAN_BYTES = 16 * 1024 * 1024
"""Bytes of the log whose records are read together; a single record may have more."""
STORE_TIMESTAMP_AT, BODY_BEHIND = 56, 32
"""Where the STORETIMESTAMP of a record is, and how many bytes after that its body begins, if addresses are IPv4."""
V6_EXTRA = 12
"""By how many bytes an IPv6 address is longer."""
LENGTHS_SIZE = 3
"""Bytes of the lengths of topic and properties, in V1."""
WORD = 8
FRONT = np.dtype(",".join((">i4", ">u4", ">i4", ">i4", ">i4", ">i8", ">i8", ">i4", ">i8")))
REAR = np.dtype(">i4,>i8,>i4")
"""The fields of a record from its size to BORNTIMESTAMP, and from RECONSUMETIMES to BODYLENGTH."""

Octets: TypeAlias = NDArray[np.uint8]
Longs: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


class Segment(NamedTuple):
    """A commit log file of a store, in memory. Positions are counted from its first byte, which is at ``base``."""

    buffer: mmap.mmap | bytes
    base: int
    store: Path

    @classmethod
    def open(cls, path: str, base: int) -> "Segment":
        """Map the file. FileNotFoundError if retention has deleted it."""
        return cls(map_file(path), base, Path(path).parents[1])

    @property
    def size(self) -> int:
        """The size of the file, bytes."""
        return len(self.buffer)

    def numbers(self, kind: str, at: Longs) -> Longs:
        """The numbers of a NumPy type at these positions, such as ``>i4``. Most positions are not aligned."""
        return items(self.buffer, kind)[at].astype(np.int64)


def items(buffer: Any, kind: str | np.dtype[Any]) -> NDArray[Any]:
    """What a buffer has at each of its positions, as a NumPy type; without a copy."""
    return np.ndarray((max(0, len(buffer) - np.dtype(kind).itemsize + 1),), kind, buffer, strides=(1,))


def joined(buffer: Any, at: Longs, length: Longs) -> pa.Buffer:
    """Bytes [at, at + length) of each record one after the other. The places are in the buffer's order.

    Arrow sees an array of these texts and of what lies between them, and copies every other one.
    """
    places = np.stack((at, at + length), axis=1, dtype=np.int64)
    parts = [None, pa.py_buffer(places), pa.py_buffer(buffer)]
    texts = pa.Array.from_buffers(pa.large_binary(), max(0, places.size - 1), parts)
    return texts.take(pa.array(np.arange(0, len(texts), 2))).buffers()[2]


class Headers(NamedTuple):
    """The header fields of n valid records, and the positions of their parts. All columns have n elements."""

    at: Longs
    size: Longs
    body_crc: Longs
    queue_id: Longs
    flag: Longs
    queue_offset: Longs
    sys_flag: Longs
    born_ts: Longs
    store_ts: Longs
    reconsume_times: Longs
    prepared_offset: Longs
    body_at: Longs
    body_length: Longs
    topic_at: Longs
    topic_length: Longs
    properties_at: Longs
    properties_length: Longs

    def part(self, chosen: Any) -> "Headers":
        """The headers of the chosen records."""
        return Headers._make(column[chosen] for column in self)


def read_headers(segment: Segment, at: Longs, stop: int) -> Headers:
    """The headers of the records at these positions, up to the first one that is not valid or does not end by ``stop``.

    Each position is at least RECORD_SIZE_MIN bytes before ``stop``. The rules are those of
    ``commit_log_record.measure``, without the body's checksum. Rolled back records without a topic are not valid: they
    are placeholders for damage. The positions in an invalid record are never read.
    """
    front = items(segment.buffer, f"V{FRONT.itemsize}")[at].view(FRONT)
    size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ts = (
        front[name].astype(np.int64) for name in FRONT.names or ()
    )
    last, is_v1 = at + size, magic == MAGIC_V1
    store_at = at + STORE_TIMESTAMP_AT + np.where(sys_flag & BORN_HOST_V6, V6_EXTRA, 0)
    body_at = store_at + BODY_BEHIND + np.where(sys_flag & STORE_HOST_V6, V6_EXTRA, 0)
    count = true_until(
        (is_v1 | (magic == MAGIC_V2))
        & (physical_offset == at + segment.base)
        & (last <= stop)
        & (body_at <= last - LENGTHS_SIZE)
    )
    store_at, body_at = store_at[:count], body_at[:count]
    rear = items(segment.buffer, f"V{REAR.itemsize}")[body_at - REAR.itemsize].view(REAR)
    reconsume_times, prepared_offset, body_length = (rear[name].astype(np.int64) for name in REAR.names or ())
    topic_at = body_at + body_length
    count = true_until((body_length >= 0) & (topic_at <= last[:count] - LENGTHS_SIZE))
    two_bytes, is_v1 = segment.numbers(">u2", topic_at[:count]), is_v1[:count]
    topic_length = np.where(is_v1, two_bytes >> 8, two_bytes)
    topic_at = topic_at[:count] + 2 - is_v1
    properties_at = topic_at + topic_length + 2
    has_topic = (topic_length > 0) | (sys_flag[:count] & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK)
    count = true_until((properties_at <= last[:count]) & has_topic)
    properties_length = segment.numbers(">u2", properties_at[:count] - 2)
    count = true_until(properties_at[:count] + properties_length == last[:count])
    numbers = (at, size, body_crc, queue_id, flag, queue_offset, sys_flag, born_ts, segment.numbers(">i8", store_at))
    places = (body_at, body_length, topic_at, topic_length, properties_at, properties_length)
    return Headers(*numbers, reconsume_times, prepared_offset, *places).part(slice(count))


def true_until(values: Bools) -> int:
    """The number of values before the first False."""
    return len(values) if values.all() else int(np.argmin(values))


def follow(segment: Segment, at: int, stop: int, size: int, wanted: int) -> Longs:
    """The positions of about ``wanted`` records from ``at`` on; each follows from the size of the previous one.

    ``size``: the estimated size of a record, bytes. All lanes take a step at the same time::

        at          begin 1       begin 2
        |  |  |   | |    |   |    |  |   |  | |
        lane 0 ---->|lane 1 ----->|lane 2 --->

    A lane begins at what looks like a record, which may be a copy in a body. So a lane counts only if the lane before
    it counts and ends where this one begins.
    """
    if stop - at < RECORD_SIZE_MIN:
        return np.empty(0, np.int64)
    wanted = min(wanted, max(1, LANES_BYTES // size))
    length = max(FEW_ROWS, isqrt(wanted)) * size
    limit = min(at + max(wanted * size, length), stop - RECORD_SIZE_MIN + 1)
    found = (first_record(segment, low, min(low + length, stop)) for low in range(at + length, limit, length))
    begins = np.array([at, *(begin for begin in found if begin is not None)])
    ends = np.append(begins[1:], limit)
    lanes, now, end, steps = np.arange(len(begins)), begins, ends, []
    is_whole, sizes = np.zeros(len(begins), np.bool_), items(segment.buffer, ">i4")
    while len(now):
        steps.append(now)
        next_sizes = sizes[now]
        now = now + next_sizes
        going = (now < end) & (next_sizes >= RECORD_SIZE_MIN)
        if not going.all():
            is_whole[lanes] = now == end
            lanes, now, end = lanes[going], now[going], end[going]
    is_whole[-1] = False
    places = np.sort(np.concatenate(steps), kind="stable")
    return places[: np.searchsorted(places, ends[np.argmin(is_whole)])]


def first_record(segment: Segment, start: int, stop: int) -> int | None:
    """The position of the first valid record from ``start`` on that ends by ``stop``, or None."""
    stop = min(stop, segment.size)
    at = segment.buffer.find(MAGIC_BYTES, start + 4, stop) - 4
    while at >= start:
        if measure(segment.buffer, at, stop, segment.base + at, check_crc=False) and not is_placeholder(segment, at):
            return at
        at = segment.buffer.find(MAGIC_BYTES, at + 5, stop) - 4
    return None


def is_placeholder(segment: Segment, at: int) -> bool:
    """Whether the valid record there covers damaged bytes."""
    return is_rolled_back(segment.buffer, at) and not topic_in(segment.buffer, at)


def is_blank_at(segment: Segment, at: int) -> bool:
    """Whether the filler at the segment's end begins here. A rest of fewer than eight bytes counts as filler."""
    return at > segment.size - WORD or is_blank(segment.buffer, at)


def is_unwritten_at(segment: Segment, at: int) -> bool:
    """Whether the bytes here were never written. New segments are full of zeros, and no record begins with a zero."""
    return not any(segment.buffer[at : at + WORD])


class Gap(NamedTuple):
    """Bytes [start, stop) of the segment that hold neither records nor filler."""

    start: int
    stop: int


class RecordWalk:
    """Iterates, once, over the records of [start, stop) of a segment. The first record begins at ``start``.

    The walk passes over bytes that are no record; with ``until_unwritten`` it ends at zeros, the space that is left.
    Afterwards ``end`` is the end of the last record, and ``gaps`` lists what was passed over.
    """

    def __init__(self, segment: Segment, start: int, stop: int, *, until_unwritten: bool = False) -> None:
        self.end = start
        self.gaps: list[Gap] = []
        self._segment = segment
        self._stop = min(stop, segment.size)
        self._until_unwritten = until_unwritten

    def __iter__(self) -> Iterator[Headers]:
        """Yield the records in order, up to ``ROWS`` at a time."""
        segment, at, size, wanted, ahead = self._segment, self.end, FIRST_SIZE, FEW_ROWS, np.empty(0, np.int64)
        while at < self._stop and not is_blank_at(segment, at):
            if not len(ahead):
                ahead = follow(segment, at, self._stop, size, wanted)
                wanted = MORE * len(ahead)
            headers = self._read(at, ahead[:ROWS])
            count = len(headers.at)
            if count:
                self.end = int(headers.at[-1] + headers.size[-1])
                at, ahead, size = self.end, ahead[count:], (self.end - at) // count
                yield headers
                continue
            if self._until_unwritten and is_unwritten_at(segment, at):
                return
            found = first_record(segment, at + 1, self._stop)
            self.gaps.append(Gap(at, self._stop if found is None else found))
            if found is None:
                return
            at, ahead, wanted = found, ahead[:0], FEW_ROWS

    def _read(self, at: int, places: Longs) -> Headers:
        """The records at the places, of which ``at`` is the first: those before an invalid one, in about SPAN_BYTES."""
        headers = read_headers(self._segment, places, self._stop)
        many = np.searchsorted(headers.at + headers.size, at + SPAN_BYTES, "right")
        return headers.part(slice(max(1, int(many))))
