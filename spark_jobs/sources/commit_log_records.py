"""The records of a part of the log: their fields, and where their parts lie.

A record begins where the one before it ends. A valid record may also lie inside another one (a body that holds a
copy of it), so only what is reached from a known start, record by record, counts.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from spark_jobs.sources.commit_log_files import read_range
from spark_jobs.sources.commit_log_loops import WORD, Longs, Octets, follow, is_blank, next_header

ROWS = 16_200
"""Records that are looked at together. Columns of a power of two would lie in the same few places of the cache."""
TEXT_BYTES = 4 * 1024 * 1024
"""Bytes of their topics and properties; a single record has at most 131 kB of them."""
GAPS = 1024
"""Places without a record that are passed over together."""


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


class Headers(NamedTuple):
    """The numbers in n valid records, and where their parts lie; all columns have the same length.

    Bodies lie in the segment, topics and properties one behind the other in ``texts``. ``born_host`` is the address
    where that is IPv4, else a part of it.
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
    texts: Octets

    @classmethod
    def of(cls, columns: Iterable[Longs], texts: Octets) -> "Headers":
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
    """The eight bytes from each position of a buffer on: one load, where bytes are eight. Most of them are not aligned,
    and the first byte is the lowest: the machine has to be one that reads them so."""
    return np.ndarray((max(0, len(buffer) - WORD + 1),), "<i8", buffer, strides=(1,))


def first_record(segment: Segment, start: int, stop: int) -> int | None:
    """The first position from ``start`` on where a valid record begins, None when there is none before ``stop``."""
    found = next_header(segment.octets, segment.longs, segment.base, start, min(stop, segment.size), Headers.room(1), 0)
    return None if found < 0 else found


def is_blank_at(segment: Segment, at: int) -> bool:
    """Whether the segment's filler begins here; fewer than eight bytes that are left count as one."""
    return bool(is_blank(segment.longs, at))


def is_unwritten_at(segment: Segment, at: int) -> bool:
    """Whether nothing was ever written here: segments are made full of zeros, and no record begins with a zero."""
    return not any(segment.buffer[at : at + 8])


class Gap(NamedTuple):
    """Bytes [start, stop), as positions in the segment, that hold no record and are no filler."""

    start: int
    stop: int


class RecordWalk:
    """The records of [start, stop) of a segment, beginning with the one at ``start``: iterate over it, once.

    With ``resume`` bytes that are no record are passed over, without it they end the walk. Afterwards ``end`` says
    where the last record ended, and ``gaps`` what was passed over.
    """

    def __init__(self, segment: Segment, start: int, stop: int, *, resume: bool) -> None:
        self.end = start
        self.gaps: list[Gap] = []
        self._segment = segment
        self._stop = min(stop, segment.size)
        self._resume = resume

    def __iter__(self) -> Iterator[Headers]:
        """Records in order, some ten thousand at a time."""
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
