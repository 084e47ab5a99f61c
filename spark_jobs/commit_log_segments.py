"""Which bytes of a store a report reads: segments found, end of the log known, the range cut into splits.

Where the log ends: at ``safe_end`` where the broker publishes one, else, as for a real RocketMQ broker's store, at its
first invalid record. A segment's size is no end, since segments are preallocated.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from broker_core.formats import commit_log_record, safe_end
from spark_jobs.commit_log_headers import Segment, first_record, is_blank_at, is_unwritten_at
from spark_jobs.commit_log_walk import RecordWalk, walk
from spark_jobs.consume_queues import ConsumeQueues
from spark_jobs.errors import NotAStoreError

SEGMENT_NAME = re.compile(r"\d{20}")
DEFAULT_SPLIT_BYTES = 128 * 1024 * 1024
CHECKED_AT_THE_END = 256
"""Records before an end found by walking whose body checksums are compared: a torn write hides there."""


class SegmentFile(NamedTuple):
    """A file of the commit log: global offset of its first byte, and of the byte behind its last usable one."""

    path: str
    base: int
    limit: int


class LogRange(NamedTuple):
    """Bytes [start, stop) of one segment, as global offsets; ``start`` is where a record begins."""

    path: str
    base: int
    start: int
    stop: int


class LogPlan(NamedTuple):
    """What of a store is read, and what is not."""

    store: str
    ranges: tuple[LogRange, ...]
    start: int
    end: int
    ended_by: str
    """Why there: ``safe end``, ``unwritten space``, ``invalid record``, ``end of the last segment``, ``missing
    segment``, ``the end asked for`` or ``no segment``."""
    segments_unread: tuple[str, ...]
    """Segments behind the end that hold something; those made in advance do not count."""
    foreign_files: tuple[str, ...]
    """What lies in the commit log's folder and is no segment."""


def find_segments(store: Path) -> tuple[list[SegmentFile], tuple[str, ...]]:
    """Segments in order, and the names of all else in the folder. NotAStoreError when there is no commit log."""
    folder = store / "commitlog"
    if not folder.is_dir():
        if (store / "glassmq").is_file():
            return [], ()
        raise NotAStoreError(f"{store} is not a store: it has no commitlog folder.")
    found, foreign = [], []
    for path in sorted(folder.iterdir()):
        if SEGMENT_NAME.fullmatch(path.name) and path.is_file():
            found.append((int(path.name), path))
        else:
            foreign.append(path.name)
    segments = []
    for index, (base, path) in enumerate(found):
        limit = base + path.stat().st_size
        if index + 1 < len(found):
            limit = min(limit, found[index + 1][0])
        segments.append(SegmentFile(str(path), base, limit))
    return segments, tuple(foreign)


def read_safe_end(store: Path) -> safe_end.SafeEnd | None:
    """The published end; read again while a broker is just writing it, None where there is none."""
    for _ in range(5):
        try:
            with open(store / safe_end.FILE_NAME, "rb") as file:
                found = safe_end.decode(file.read(safe_end.SIZE))
        except FileNotFoundError:
            return None
        if found is not None:
            return found
    return None


def plan_log(store: str | Path, *, start: int = 0, end: int | None = None,
             split_bytes: int = DEFAULT_SPLIT_BYTES) -> LogPlan:
    """What a reader of [start, end) reads; without ``end``, up to where the log ends.

    NotAStoreError for a path without a commit log.
    """
    store = Path(store)
    segments, foreign = find_segments(store)
    published = read_safe_end(store)
    if published is not None:
        start = max(start, published.min_offset)
    walks: dict[str, RecordWalk] = {}
    if end is not None:
        ended_by = "the end asked for"
    elif published is not None:
        end, ended_by = published.flushed_offset, "safe end"
    else:
        end, ended_by, walks = find_end(store, segments)
    ranges: list[LogRange] = []
    unread = []
    for segment in segments:
        first, stop = max(start, segment.base), min(end, segment.limit)
        if stop > first:
            ranges.extend(split(segment, first, stop, split_bytes, walks.get(segment.path)))
        elif segment.base >= end and not is_unwritten_at(Segment.map(segment.path, segment.base), 0):
            unread.append(Path(segment.path).name)
    first_offset = max(start, segments[0].base) if segments else start
    last_offset = max(first_offset, min(end, max((s.limit for s in segments), default=end)))
    return LogPlan(str(store), tuple(ranges), first_offset, last_offset, ended_by, tuple(unread), foreign)


def find_end(store: Path, segments: Sequence[SegmentFile]) -> tuple[int, str, dict[str, RecordWalk]]:
    """(end of the log, why there, records found on the way by segment): up to the first invalid record."""
    queues = ConsumeQueues.of(store)
    walks: dict[str, RecordWalk] = {}
    end, ended_by = segments[0].base if segments else 0, "no segment"
    for index, file in enumerate(segments):
        segment = Segment.map(file.path, file.base)
        found = walk(segment, 0, file.limit - file.base, queues, resume=False)
        walks[file.path] = found
        end, is_last = file.base + found.end, index + 1 == len(segments)
        if found.end < segment.size and not is_blank_at(segment, found.end):
            ended_by = "unwritten space" if is_unwritten_at(segment, found.end) else "invalid record"
            break
        ended_by = "end of the last segment"
        if not is_last and segments[index + 1].base != file.limit:
            ended_by = "missing segment"
            break
    return check_tail(end, ended_by, segments, walks)


def check_tail(end: int, ended_by: str, segments: Sequence[SegmentFile],
               walks: dict[str, RecordWalk]) -> tuple[int, str, dict[str, RecordWalk]]:
    """``find_end``'s answer, earlier where one of the last records fails the checksum of its body."""
    for file in reversed(segments):
        found = walks.get(file.path)
        if found is None or not len(found.at):
            continue
        segment = Segment.map(file.path, file.base)
        for at in found.at[-CHECKED_AT_THE_END:].tolist():
            if not commit_log_record.measure(segment.buffer, at, segment.size, file.base + at):
                return file.base + at, "invalid record", walks
        break
    return end, ended_by, walks


def split(file: SegmentFile, start: int, stop: int, split_bytes: int, found: RecordWalk | None) -> list[LogRange]:
    """[start, stop) of one segment in pieces of about ``split_bytes``, each beginning with a record."""
    wanted = range(start + split_bytes, stop, split_bytes)
    if not wanted:
        return [LogRange(file.path, file.base, start, stop)]
    segment = Segment.map(file.path, file.base)
    cuts = [start]
    for position in wanted:
        if found is not None:
            index = int(np.searchsorted(found.at, position - file.base))
            at = int(found.at[index]) if index < len(found.at) else None
        else:
            at = first_record(segment, position - file.base, stop - file.base)
        if at is None:
            break
        if cuts[-1] < file.base + at < stop:
            cuts.append(file.base + at)
    return [LogRange(file.path, file.base, low, high) for low, high in zip(cuts, [*cuts[1:], stop], strict=True)]


def filler_size(path: str, base: int, end: int, stop: int) -> int | None:
    """Bytes of [end, stop), behind a segment's last record, that are its filler; None when the segment is gone."""
    try:
        segment = Segment.map(path, base)
    except FileNotFoundError:
        return None
    return stop - end if end < stop and is_blank_at(segment, end - base) else 0
