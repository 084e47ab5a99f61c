"""The records of a part of the log: each begins where the one before it ends.

A valid record may lie inside another one (a body that holds a copy of it). Only what is reached from a known start,
record by record, counts.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spark_jobs.sources.commit_log_headers import Headers, Segment, Texts
from spark_jobs.sources.commit_log_loops import Longs, follow

ROWS = 16_200
"""Records that are looked at together. Columns of a power of two would lie in the same few places of the cache."""
TEXT_BYTES = 4 * 1024 * 1024
"""Bytes of their topics and properties; a single record has at most 131 kB of them."""
GAPS = 1024
"""Places without a record that are passed over together."""


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
            rows, passed, self.end, goes_on = follow(
                segment.octets, segment.longs, segment.base, self.end, self._stop, self._resume, room, texts.longs, gaps
            )
            self.gaps += [Gap(start, stop) for start, stop in gaps[:passed].tolist()]
            if rows:
                yield Headers.of(room[:, :rows], texts)


def positions(walk: RecordWalk) -> Longs:
    """Where all records of a walk begin."""
    parts = [headers.at.copy() for headers in walk]  # not all of the headers are to stay in memory
    found: Longs = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return found
