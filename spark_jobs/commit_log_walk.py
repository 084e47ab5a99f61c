"""The records of a part of the log: each begins where the one before it ends.

A valid record may lie inside another one (a body that holds a copy of it). Only what is reached from a known start,
record by record, counts.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spark_jobs.commit_log_headers import (
    Headers,
    Longs,
    Octets,
    Segment,
    Texts,
    copy,
    is_blank,
    next_header,
    put_header,
)
from spark_jobs.compiled import compiled

ROWS = 16_200
"""Records that are looked at together. Columns of a power of two would lie in the same few places of the cache."""
TEXT_BYTES = 4 * 1024 * 1024
"""Bytes of their topics and properties; a single record has at most 131 kB of them."""
GAPS = 1024
"""Places without a record that are passed over together."""
TOPIC_AT, PROPERTIES_AT = Headers._fields.index("topic_at"), Headers._fields.index("properties_at")
AHEAD, SPARSE = 64 * 1024, 4096
"""Bytes that are fetched ahead, unless records are larger on average than so many."""


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
            room, texts = Headers.room(ROWS), Texts.room(TEXT_BYTES)
            rows, passed, self.end, goes_on = follow(segment.octets, segment.longs, segment.base, self.end, self._stop,
                self._resume, room, texts.longs, gaps)
            self.gaps += [Gap(start, stop) for start, stop in gaps[:passed].tolist()]
            if rows:
                yield Headers.of(room[:, :rows], texts)


@compiled
def follow(octets: Octets, longs: Longs, base: int, at: int, stop: int, resume: bool, headers: Longs,
           texts: Longs, gaps: Longs) -> tuple[int, int, int, bool]:
    """Records from ``at`` on, until there is no room for more of them, or of gaps: (records, gaps, where the last
    record ended or the next one begins, whether there may be more)."""
    row, passed, first, fetched, text_end = 0, 0, at, at, 0
    while row < headers.shape[1] and passed < len(gaps):
        if at >= stop or is_blank(longs, at):
            return row, passed, at, False
        if at >= fetched and at - first <= row * SPARSE:
            headers[0, row] = fetch(octets, fetched, min(fetched + AHEAD, stop))  # overwritten by the header
            fetched += AHEAD
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
def fetch(octets: Octets, at: int, stop: int) -> np.uint8:
    """Have these bytes in the processor's cache: all at once, while from record to record each would be waited for.

    Returned is something that is made of them: what nobody needs is not read.
    """
    seen = np.uint8(0)
    for place in range(at, stop, 64):
        seen ^= octets[place]
    return seen


def positions(walk: RecordWalk) -> Longs:
    """Where all records of a walk begin."""
    parts = [headers.at.copy() for headers in walk]  # not all of the headers are to stay in memory
    found: Longs = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return found
