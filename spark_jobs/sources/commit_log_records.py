"""The records of a part of the log: their fields, and the positions of their bodies, topics and properties.

A record begins where the previous one ends. The body of a record may contain a copy of another valid record. So only
records that a walk reaches from a known start count. The walk first follows the sizes, and then reads each field of
many records at once. The record layout is pictured in ``broker_core.formats.commit_log_record``.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker_core.formats.commit_log_record import (
    BORN_HOST_V6,
    HEADS,
    INT,
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

ROWS, FEW_ROWS = 4096, 64
"""Records that are read together at most, and right behind damage, where more damage may follow. The fields of more
records would not stay in a processor's cache between the walk and their reading."""
SPAN_BYTES = 16 * 1024 * 1024
"""Bytes of the log whose records are read together; a single record may have more."""
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


def read_headers(segment: Segment, at: Longs, stop: int) -> tuple[Headers, Bools]:
    """The headers at these positions, and which of them are of valid records that end by ``stop``.

    Each position is at least RECORD_SIZE_MIN bytes before ``stop``. The rules are those of
    ``commit_log_record.measure``, without the body's checksum. Rolled back records without a topic are not valid: they
    are placeholders for damage. A position that is read next is first replaced where the record is not valid.
    """
    front = items(segment.buffer, f"V{FRONT.itemsize}")[at].view(FRONT)
    size, magic, body_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ts = (
        front[name].astype(np.int64) for name in FRONT.names or ()
    )
    last = at + size
    born_extra = np.where(sys_flag & BORN_HOST_V6, V6_EXTRA, 0)
    body_at = at + HEADS[0].size + born_extra + np.where(sys_flag & STORE_HOST_V6, V6_EXTRA, 0)
    valid = (magic == MAGIC_V1) | (magic == MAGIC_V2)
    valid &= (physical_offset == at + segment.base) & (last <= stop)
    valid &= body_at <= last - LENGTHS_SIZE
    born_extra, body_at = np.where(valid, born_extra, 0), np.where(valid, body_at, at + HEADS[0].size)
    rear = items(segment.buffer, f"V{REAR.itemsize}")[body_at - REAR.itemsize].view(REAR)
    reconsume_times, prepared_offset, body_length = (rear[name].astype(np.int64) for name in REAR.names or ())
    topic_at = body_at + body_length
    valid &= (body_length >= 0) & (topic_at <= last - LENGTHS_SIZE)
    topic_at = np.where(valid, topic_at, at)
    two_bytes = segment.numbers(">u2", topic_at)
    topic_length = np.where(magic == MAGIC_V1, two_bytes >> 8, two_bytes)
    topic_at += np.where(magic == MAGIC_V1, 1, 2)
    properties_at = topic_at + topic_length + 2
    valid &= (properties_at <= last) & ((topic_length > 0) | (sys_flag & TRANSACTION_ROLLBACK != TRANSACTION_ROLLBACK))
    properties_length = segment.numbers(">u2", np.where(valid, properties_at - 2, at))
    valid &= properties_at + properties_length == last
    headers = Headers(
        at,
        size,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        sys_flag,
        born_ts,
        segment.numbers(">i8", at + 56 + born_extra),
        reconsume_times,
        prepared_offset,
        body_at,
        body_length,
        topic_at,
        topic_length,
        properties_at,
        properties_length,
    )
    return headers, valid


def follow(segment: Segment, at: int, stop: int, most: int) -> Longs:
    """The positions of at most ``most`` records from ``at`` on; each follows from the size of the previous one."""
    found: list[int] = []
    buffer, size_at, last = segment.buffer, INT.unpack_from, stop - RECORD_SIZE_MIN
    for _ in range(most):
        if at > last:
            break
        (size,) = size_at(buffer, at)
        if size < RECORD_SIZE_MIN:
            break
        found.append(at)
        at += size
    return np.array(found, np.int64)


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
        segment, rows, at = self._segment, ROWS, self.end
        while at < self._stop and not is_blank_at(segment, at):
            headers = self._next(at, rows)
            count = len(headers.at)
            rows = min(max(2 * count, FEW_ROWS), ROWS)
            if count:
                self.end = at = int(headers.at[-1] + headers.size[-1])
                yield headers
                continue
            if self._until_unwritten and is_unwritten_at(segment, at):
                return
            found = first_record(segment, at + 1, self._stop)
            self.gaps.append(Gap(at, self._stop if found is None else found))
            if found is None:
                return
            at = found

    def _next(self, at: int, rows: int) -> Headers:
        """Valid records from ``at`` on: none, or one and those behind it up to SPAN_BYTES together."""
        headers, valid = read_headers(self._segment, follow(self._segment, at, self._stop, rows), self._stop)
        if not valid.all():
            headers = headers.part(slice(int(np.argmin(valid))))
        many = np.searchsorted(headers.at + headers.size, at + SPAN_BYTES, "right")
        return headers.part(slice(max(1, int(many))))
