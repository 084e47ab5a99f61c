"""Which bytes of a store a report reads: finds the segments and the end of the log, and divides the log into splits.

The log ends at ``safe_end`` if the broker publishes it. Otherwise, as in the store of a real RocketMQ broker, it ends
behind the last valid record. Damage before that does not end the log: the scan resumes at the next valid record. A
segment's size is not the end, because segments are preallocated.

A window of store time leaves out the segments before and behind it. A segment's records were stored between its first
record and that of the next segment, unless the clock was set back (see ``range_of_window``).
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from broker_core.formats import commit_log_record, safe_end
from spark_jobs.errors import NotAStoreError
from spark_jobs.sources.commit_log_bounds import Bounds, first_store_ms
from spark_jobs.sources.commit_log_files import SegmentFile, find_segments, range_of_window, read_start
from spark_jobs.sources.commit_log_records import RecordWalk, Segment, first_record, is_blank_at, is_unwritten_at
from spark_jobs.sources.consume_queues import consume_queue_ends

SMALLEST_SHARE, LARGEST_SHARE = 16 * 1024 * 1024, 1152 * 1024 * 1024
"""Bytes of the log that a task reads, at most a segment and a bit: a task costs some 50 ms, and one that fails begins
anew."""
CHECKED_AT_THE_END = 256
"""Records before an end found by walking whose body checksums are compared: a torn write hides there."""
TAIL_BYTES = 1024 * 1024
"""Bytes before the last record that a consume queue has, from which on records are walked to find the log's end."""


class LogRange(NamedTuple):
    """Bytes [start, stop) of one segment, as global offsets; ``start`` is where a record begins.

    ``task``: the number of the task that reads it. Several ranges may have the same one.
    """

    path: str
    base: int
    start: int
    stop: int
    task: int = 0


class LogPlan(NamedTuple):
    """Which part of a store is read, and which is not."""

    store: str
    ranges: tuple[LogRange, ...]
    start: int
    """Where reading begins; ``log_start``, unless segments before the window are left out."""
    end: int
    ended_by: str
    """Why there: ``safe end``, ``unwritten space``, ``invalid record`` (and no valid one behind it), ``end of the last
    segment``, ``the end asked for``, ``end of the window`` or ``no segment``."""
    segments_unread: tuple[str, ...]
    """Segments behind the end that hold something; those made in advance do not count."""
    foreign_files: tuple[str, ...]
    """Names in the commit log's folder that are no segments."""
    bounds: Bounds
    """Records with a field outside these bounds are left out."""
    log_start: int
    """The first byte that the store has of what was asked for; the log ends at ``log_end``."""
    log_end: int
    segments_outside: int
    """Segments that are not read because their messages were stored before or after the window."""

    @property
    def spans(self) -> list[LogRange]:
        """What is read of each segment, as one range."""
        found: list[LogRange] = []
        for part in self.ranges:
            if found and found[-1].base == part.base:
                found[-1] = found[-1]._replace(stop=part.stop)
            else:
                found.append(part)
        return found


def read_safe_end(store: str | os.PathLike[str]) -> safe_end.SafeEnd | None:
    """The published end; None if there is none. It is read again if a broker is writing it at the moment."""
    for _ in range(5):
        data = read_start(Path(store, safe_end.FILE_NAME), safe_end.SIZE)
        if data is None:
            return None
        found = safe_end.decode(data)
        if found is not None:
            return found
    return None


def log_begin(store: str | os.PathLike[str]) -> int:
    """The offset of the first byte that a store still has. NotAStoreError for a path without a commit log."""
    segments, published = find_segments(store)[0], read_safe_end(store)
    first = segments[0].base if segments else 0
    return first if published is None else max(first, published.min_offset)


def plan_log(
    store: str | os.PathLike[str],
    *,
    start: int = 0,
    end: int | None = None,
    split_bytes: int | Callable[[int], int] = LARGEST_SHARE,
    dispatched: bool = False,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> LogPlan:
    """What a reader of [start, end) reads; without ``end``, up to where the log ends. A record begins at ``start``.

    ``split_bytes`` may be found from how much there is. ``dispatched``: only what the broker's queues have as well.
    Segments without a message stored in [from_ms, to_ms) are left out at both ends.
    NotAStoreError for a path without a commit log.
    """
    segments, foreign = find_segments(store)
    bounds = Bounds.of_store(store, segments)
    published = read_safe_end(store)
    if published is not None:
        start = max(start, published.min_offset)
    if end is not None:
        ended_by = "the end asked for"
    elif published is not None:
        end, ended_by = published.flushed_offset, "safe end"
        if dispatched:
            end = min(end, published.dispatched_offset)
    else:
        end, ended_by = find_end(store, segments, start)
    log_start = max(start, segments[0].base) if segments else start
    log_end = max(log_start, min(end, max((s.limit for s in segments), default=end)))
    unread = [
        f"{segment.base:020d}"
        for segment in segments
        if segment.base >= end and not is_unwritten_at(Segment.open(segment.path, segment.base), 0)
    ]
    known = [segment for segment in segments if max(start, segment.base) < min(end, segment.limit)]
    low, high = range_of_window(known, lambda segment: first_store_ms(segment.path, segment.base), from_ms, to_ms)
    first_offset = log_start if low == 0 else known[low].base
    last_offset, ended_by = (log_end, ended_by) if high == len(known) else (known[high].base, "end of the window")
    wanted = split_bytes(last_offset - first_offset) if callable(split_bytes) else split_bytes
    ranges: list[LogRange] = []
    for segment in known[low:high]:
        ranges.extend(split(segment, max(start, segment.base), min(end, segment.limit), first_offset, wanted))
    return LogPlan(
        os.fspath(store),
        tuple(ranges),
        first_offset,
        max(first_offset, last_offset),
        ended_by,
        tuple(unread),
        foreign,
        bounds,
        log_start,
        log_end,
        len(known) - (high - low),
    )


def find_end(store: str | os.PathLike[str], segments: Sequence[SegmentFile], start: int = 0) -> tuple[int, str]:
    """(end of the log, why there): behind the last valid record of the last segment that was written to.

    Walks only the end of that segment: the consume queues say about where it is. Without them it walks all of it.
    """
    known = [file for file in segments if file.limit > start]
    if not known:
        return max(start, segments[0].base) if segments else 0, "no segment"
    written = (file for file in reversed(known) if not is_unwritten_at(Segment.open(file.path, file.base), 0))
    file = next(written, known[0])
    first = max(start, file.base)
    segment = Segment.open(file.path, file.base)
    low, stop = first - segment.base, file.limit - segment.base
    hint = last_dispatched(store, file.base, file.limit) - TAIL_BYTES - segment.base
    begin = first_record(segment, hint, stop) if hint > low else None
    last: deque[int] = deque(maxlen=CHECKED_AT_THE_END)
    walk = RecordWalk(segment, low if begin is None else begin, stop, until_unwritten=True)
    for headers in walk:
        last.extend(headers.at.tolist())
    end, ended_by = walk.end, "end of the last segment"
    if end < segment.size and not is_blank_at(segment, end):
        ended_by = "unwritten space" if is_unwritten_at(segment, end) else "invalid record"
    for at in reversed(last):
        if commit_log_record.measure(segment.buffer, at, segment.size, segment.base + at):
            break
        end, ended_by = at, "invalid record"
    return segment.base + end, ended_by


def last_dispatched(store: str | os.PathLike[str], start: int, stop: int) -> int:
    """The largest physical offset in [start, stop) with which a consume queue ends; -1 without any.

    Only a hint: consume queues may be incomplete, stale, damaged, or in RocksDB.
    """
    ends = (queue.physical_offset for queue in consume_queue_ends(Path(store)))
    return max((offset for offset in ends if start <= offset < stop), default=-1)


def split(file: SegmentFile, start: int, stop: int, begin: int, split_bytes: int) -> list[LogRange]:
    """[start, stop) of one segment, cut at the first record behind each multiple of ``split_bytes`` from ``begin`` on.

    A task reads what lies between two cuts, in one segment or in several.
    """
    cuts, segment = [start], Segment.open(file.path, file.base)
    for wanted in range(start + split_bytes - (start - begin) % split_bytes, stop, split_bytes):
        at = first_record(segment, wanted - segment.base, stop - segment.base)
        if at is None:
            break
        if cuts[-1] < segment.base + at < stop:
            cuts.append(segment.base + at)
    return [
        LogRange(file.path, file.base, low, high, (low - begin) // split_bytes)
        for low, high in zip(cuts, [*cuts[1:], stop], strict=True)
    ]


def share(size: int, cores: int) -> int:
    """The bytes of a log of ``size`` bytes that one task reads, so that all cores have about as many tasks."""
    tasks = cores * max(1, -(-size // (cores * LARGEST_SHARE)))
    return max(SMALLEST_SHARE, -(-size // max(1, min(tasks, size // SMALLEST_SHARE))))


def filler_size(span: LogRange, end: int) -> int | None:
    """Bytes of a span behind the ``end`` of its last record that are filler; None when the segment is gone."""
    segment = open_segment(span)
    if segment is None:
        return None
    return span.stop - end if end < span.stop and is_blank_at(segment, end - segment.base) else 0


def open_segment(part: LogRange) -> Segment | None:
    """The segment of a range; None if retention has deleted it.

    NotAStoreError where not only this segment is missing: on a cluster's machine that does not see the store. If that
    counted as deleted, all of the log would silently be empty there.
    """
    try:
        return Segment.open(part.path, part.base)
    except FileNotFoundError as error:
        folder = Path(part.path).parent
        if folder.is_dir():
            return None
        raise NotAStoreError(
            f"{socket.gethostname()} does not see {folder}: the machines of a cluster need the store under the same "
            "path, on storage that they share."
        ) from error
