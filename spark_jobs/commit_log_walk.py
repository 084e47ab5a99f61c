"""From candidates to records: those that follow one another without a gap.

A candidate may lie inside another record (a body that holds a copy of a record). Only what is reached from a known
start, record by record, counts. Steps are taken per gap, not per record.
"""

from typing import NamedTuple

import numpy as np

from spark_jobs.commit_log_headers import Headers, Positions, Segment, is_blank_at, read_headers, scan_magic
from spark_jobs.consume_queues import ConsumeQueues


class RecordWalk(NamedTuple):
    """Positions of the records found, and where the last one ends."""

    at: Positions
    end: int
    headers: Headers


def chain(headers: Headers, start: int) -> tuple[list[slice], int]:
    """Which records follow one another from ``start`` on, as slices of ``headers``; and where they end."""
    at, ends = headers.at, headers.at + headers.size
    count = len(at)
    breaks = np.flatnonzero(ends[:-1] != at[1:])
    runs: list[slice] = []
    while True:
        index = int(np.searchsorted(at, start))
        if index == count or at[index] != start:
            return runs, start
        cut = int(np.searchsorted(breaks, index))
        last = int(breaks[cut]) if cut < len(breaks) else count - 1
        runs.append(slice(index, last + 1))
        start = int(ends[last])


def follow(headers: Headers, segment: Segment, start: int, stop: int, *, resume: bool) -> tuple[Headers, int]:
    """The records that follow one another from ``start`` on, and where they end.

    With ``resume`` it goes on from the next candidate behind each place that holds no record.
    """
    runs, end = chain(headers, start)
    while resume and end < stop and not is_blank_at(segment, end):
        index = int(np.searchsorted(headers.at, end))
        if index == len(headers.at):
            break
        more, end = chain(headers, int(headers.at[index]))
        runs.extend(more)
    if len(runs) == 1:
        return headers.part(runs[0]), end
    chosen = [np.arange(run.start, run.stop) for run in runs]
    return headers.part(np.concatenate(chosen) if chosen else slice(0)), end


def walk(segment: Segment, start: int, stop: int, queues: ConsumeQueues, *, resume: bool) -> RecordWalk:
    """The records in [start, stop) of a segment, beginning with the one at ``start``.

    With ``resume`` bytes that are no record are passed over, without it they end the walk. The consume queues say
    where records begin; where they lack one (not dispatched yet, none there) the segment is scanned instead.
    """
    stop = min(stop, segment.size)
    known = queues.positions(segment.base + start, segment.base + stop) - segment.base
    headers, end = follow(read_headers(segment, known, stop), segment, start, stop, resume=False)
    if end < stop and not is_blank_at(segment, end) and (resume or begins_record(segment, end, stop)):
        scanned = read_headers(segment, scan_magic(segment, end, stop), stop)
        headers, end = follow(headers.joined(scanned), segment, start, stop, resume=resume)
    return RecordWalk(headers.at, end, headers)


def begins_record(segment: Segment, at: int, stop: int) -> bool:
    """Whether a valid record begins here."""
    return len(read_headers(segment, np.array([at], np.int64), stop).at) == 1
