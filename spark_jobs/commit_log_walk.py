"""From candidates to records: those that follow one another without a gap.

A candidate may lie inside another record (a body that holds a copy of a record). Only what is reached from a known
start, record by record, counts. Steps are taken per gap, not per record.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spark_jobs.commit_log_headers import Headers, Positions, Segment, is_blank_at, read_headers, scan_magic
from spark_jobs.consume_queues import ConsumeQueues, Known

ROWS = 32_768
"""Records that are looked at together: their headers stay in the processor's cache."""
WINDOW = 16 * 1024 * 1024
"""Bytes that are scanned together where the queues lack records."""


class Gap(NamedTuple):
    """Bytes [start, stop), as positions in the segment, that hold no record and are no filler."""

    start: int
    stop: int


class RecordWalk:
    """The records of [start, stop) of a segment, beginning with the one at ``start``: iterate over it, once.

    With ``resume`` bytes that are no record are passed over, without it they end the walk. The consume queues say
    where records begin; where they lack one (not dispatched yet, its topic deleted, no queues there) the segment is
    scanned instead. Afterwards ``end`` says where the last record ended, and ``gaps`` what was passed over.
    """

    def __init__(self, segment: Segment, start: int, stop: int, queues: ConsumeQueues, *, resume: bool) -> None:
        self.end = start
        self.gaps: list[Gap] = []
        self._segment = segment
        self._stop = min(stop, segment.size)
        self._resume = resume
        self._known = queues.positions(segment.base + start, segment.base + stop)

    def __iter__(self) -> Iterator[Headers]:
        """Records in order, some ten thousand at a time."""
        at = self._known.at - self._segment.base
        known = Known(at, self._known.queue)
        searched = self.end
        while self._goes_on(searched):
            index = int(np.searchsorted(at, searched))
            if index < len(at) and at[index] == searched:
                yield from self._follow_known(known, index)
                if self.end > searched:
                    searched = self.end
                    continue
            window = min(searched + WINDOW, self._stop)
            headers = read_headers(self._segment, scan_magic(self._segment, searched, window), self._stop)
            yield from self._follow_scanned(headers)
            if not self._resume and self.end < window:
                return
            searched = max(self.end, window)
        if self._resume and searched > self.end and not is_blank_at(self._segment, self.end):
            self.gaps.append(Gap(self.end, self._stop))

    def _goes_on(self, searched: int) -> bool:
        return searched < self._stop and not is_blank_at(self._segment, self.end)

    def _follow_known(self, known: Known, index: int) -> Iterator[Headers]:
        """Records from ``end`` on that the queues know; stops at the first that they do not, or that is none."""
        while index < len(known.at) and known.at[index] == self.end:
            chosen = slice(index, index + ROWS)
            headers = read_headers(self._segment, known.at[chosen], self._stop, known.queue[chosen])
            run = Runs(headers).from_(self.end)
            if run.stop > run.start:
                self.end = int(headers.at[run.stop - 1] + headers.size[run.stop - 1])
                yield headers.part(run)
            if run.stop - run.start < min(ROWS, len(known.at) - index):
                return
            index += ROWS

    def _follow_scanned(self, headers: Headers) -> Iterator[Headers]:
        """Records among scanned candidates; with ``resume`` what lies between them is passed over."""
        runs, chosen = Runs(headers), []
        while True:
            run = runs.from_(self.end)
            if run.stop > run.start:
                chosen.append(np.arange(run.start, run.stop))
                self.end = int(headers.at[run.stop - 1] + headers.size[run.stop - 1])
            index = int(np.searchsorted(headers.at, self.end))
            if not self._resume or index == len(headers.at) or is_blank_at(self._segment, self.end):
                break
            self.gaps.append(Gap(self.end, int(headers.at[index])))
            self.end = int(headers.at[index])
        found = headers.part(np.concatenate(chosen) if chosen else slice(0))
        for low in range(0, len(found.at), ROWS):
            yield found.part(slice(low, low + ROWS))


class Runs:
    """Which of some headers follow one another without a gap."""

    def __init__(self, headers: Headers) -> None:
        self._at = headers.at
        self._breaks = np.flatnonzero(headers.at[:-1] + headers.size[:-1] != headers.at[1:])

    def from_(self, start: int) -> slice:
        """Those from the one at ``start`` on; an empty slice where none begins."""
        index = int(np.searchsorted(self._at, start))
        if index == len(self._at) or self._at[index] != start:
            return slice(0, 0)
        cut = int(np.searchsorted(self._breaks, index))
        return slice(index, int(self._breaks[cut]) + 1 if cut < len(self._breaks) else len(self._at))


def positions(walk: RecordWalk) -> Positions:
    """Where all records of a walk begin."""
    parts = [headers.at for headers in walk]
    found: Positions = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return found
