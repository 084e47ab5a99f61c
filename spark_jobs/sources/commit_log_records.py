"""The records of a part of the log: their fields, and the positions of their bodies, topics and properties.

A record begins where the previous one ends. The body of a record may contain a copy of another valid record. So only
records that a walk reaches from a known start count.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from spark_jobs.sources.commit_log_files import map_file
from spark_jobs.sources.commit_log_loops import WORD, Longs, Octets, follow, is_blank, next_header

ROWS = 16_200
"""Records that are read together. It is no power of two: such columns would compete for the same cache lines."""
TEXT_BYTES = 4 * 1024 * 1024
"""Bytes of topics and properties that are read together. A single record has at most 131 kB of them."""
GAPS = 1024
"""Gaps that are passed over together."""


class Segment(NamedTuple):
    """A commit log file in memory. Positions are counted from its first byte, whose offset in the log is ``base``."""

    buffer: memoryview
    base: int

    @classmethod
    def open(cls, path: str, base: int) -> "Segment":
        """Map the file. FileNotFoundError if retention has deleted it."""
        return cls(map_file(path), base)

    @property
    def size(self) -> int:
        """The size of the file, bytes."""
        return len(self.buffer)

    @property
    def octets(self) -> Octets:
        """The bytes of the segment."""
        return np.frombuffer(self.buffer, np.uint8)

    @property
    def longs(self) -> Longs:
        """The eight bytes from each position on, as ``longs_of``."""
        return longs_of(self.buffer)


class Headers(NamedTuple):
    """The header fields of n valid records, and the positions of their parts. All columns have n elements.

    Bodies lie in the segment; topics and properties lie one after the other in ``texts``.
    """

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
    texts: Octets

    @classmethod
    def of(cls, columns: Iterable[Longs], texts: Octets) -> "Headers":
        """The headers in ``columns``, which are in the order of the fields."""
        return cls._make((*columns, texts))

    @classmethod
    def room(cls, rows: int) -> Longs:
        """Empty columns for ``put_header`` to fill."""
        return np.empty((len(cls._fields) - 1, rows), np.int64)

    @property
    def texts_end(self) -> int:
        """The position in ``texts`` after the last of these records."""
        return int(self.properties_at[-1] + self.properties_length[-1]) if len(self.at) else 0

    def part(self, chosen: Any) -> "Headers":
        """The headers of the chosen records."""
        return Headers.of([column[chosen] for column in self[:-1]], self.texts)


def longs_of(buffer: Any) -> Longs:
    """The eight bytes from each position of a buffer on, as little-endian numbers that a machine reads with one load.

    Most positions are not aligned, so the processor must allow unaligned loads.
    """
    return np.ndarray((max(0, len(buffer) - WORD + 1),), "<i8", buffer, strides=(1,))


def first_record(segment: Segment, start: int, stop: int) -> int | None:
    """The position of the first valid record from ``start`` on that ends by ``stop``, or None."""
    found = next_header(segment.octets, segment.longs, segment.base, start, min(stop, segment.size), Headers.room(1), 0)
    return None if found < 0 else found


def is_blank_at(segment: Segment, at: int) -> bool:
    """Whether the filler at the segment's end begins here. A rest of fewer than eight bytes counts as filler."""
    return bool(is_blank(segment.longs, at))


def is_unwritten_at(segment: Segment, at: int) -> bool:
    """Whether the bytes here were never written. New segments are full of zeros, and no record begins with a zero."""
    return not any(segment.buffer[at : at + 8])


class Gap(NamedTuple):
    """Bytes [start, stop) of the segment that hold neither records nor filler."""

    start: int
    stop: int


class RecordWalk:
    """Iterates, once, over the records of [start, stop) of a segment. The first record begins at ``start``.

    With ``resume`` the walk passes over bytes that are no record; without it they end the walk. Afterwards ``end`` is
    the end of the last record, and ``gaps`` lists what was passed over.
    """

    def __init__(self, segment: Segment, start: int, stop: int, *, resume: bool) -> None:
        self.end = start
        self.gaps: list[Gap] = []
        self._segment = segment
        self._stop = min(stop, segment.size)
        self._resume = resume

    def __iter__(self) -> Iterator[Headers]:
        """Yield the records in order, up to ``ROWS`` at a time."""
        gaps = np.empty((GAPS, 2), np.int64)
        segment, goes_on = self._segment, True
        while goes_on:
            room, texts = Headers.room(ROWS), np.empty(TEXT_BYTES, np.uint8)
            rows, passed, self.end, goes_on = follow(
                segment.octets, segment.longs, segment.base, self.end, self._stop, self._resume, room, texts, gaps
            )
            self.gaps += [Gap(start, stop) for start, stop in gaps[:passed].tolist()]
            if rows:
                yield Headers.of(room[:, :rows], texts)
