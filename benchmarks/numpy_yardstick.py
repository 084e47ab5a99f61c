"""The yardstick of the Spark benchmark: the same sums by NumPy alone, from consume queues and record headers.

It computes count, bytes, largest queue offset and largest latency (born to stored) by topic, queue and minute, in
several processes, each with a part of the log. So it shows what this machine's cores achieve with plain code that
reads one field at a time. It makes the checks that no scan can omit: each record has a magic number, contains its own
physical offset, and ends where the next one begins. Topics come from the queues; it does not read the lengths of
bodies, addresses and properties.
"""

import itertools
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import ROOT  # noqa: F401 - makes the project importable

from broker_core.formats import safe_end
from broker_core.formats.commit_log_record import MAGIC_V1, MAGIC_V2

UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags", ">i8")])
MINUTE_MS = 60_000


class Part(NamedTuple):
    """Bytes [low, high) of the log, all in one segment."""

    store: str
    segment: str
    low: int
    high: int


def parts(store: Path, processes: int) -> list[Part]:
    """Every segment, divided into as many parts as there are processes."""
    published = safe_end.decode((store / safe_end.FILE_NAME).read_bytes())
    assert published is not None
    found = []
    for segment in sorted((store / "commitlog").iterdir()):
        base = int(segment.name)
        end = min(published.flushed_offset, base + segment.stat().st_size)
        if end > base:
            cuts = np.linspace(base, end, processes + 1).astype(int)
            found += [Part(str(store), str(segment), int(low), int(high)) for low, high in itertools.pairwise(cuts)]
    return found


def measure(part: Part) -> tuple[int, dict[tuple[int, int], tuple[int, int, int, int]]]:
    """(messages, sums by number of the queue among all topics' and minute). ValueError for an invalid record."""
    log, base = np.memmap(part.segment, np.uint8, "r"), int(Path(part.segment).name)
    at, queues = [], []
    for number, path in enumerate(sorted(Path(part.store, "consumequeue").glob("*/*/*"))):
        units = np.memmap(path, UNIT, "r")
        offsets = units["offset"].astype(np.int64)
        found = offsets[(offsets >= part.low) & (offsets < part.high) & (units["size"] > 0)]
        at.append(found - base)
        queues.append(np.full(len(found), number))
    places = np.concatenate(at)
    order = np.argsort(places)
    places, queue = places[order], np.concatenate(queues)[order]

    def field(place: int, kind: str) -> Any:
        anywhere: Any = np.ndarray((len(log) - np.dtype(kind).itemsize + 1,), kind, log, strides=(1,))
        return anywhere[places + place].astype(np.int64)

    size, queue_offset, born, stored = field(0, ">i4"), field(20, ">i8"), field(40, ">i8"), field(56, ">i8")
    magic, physical_offset = field(4, ">u4"), field(28, ">i8")
    if not ((magic == MAGIC_V1) | (magic == MAGIC_V2)).all() or (physical_offset != places + base).any():
        raise ValueError(f"{part.segment} has an invalid record at a position that is in a queue.")
    if (places[:-1] + size[:-1] != places[1:]).any():
        raise ValueError(f"{part.segment} has records that are in no queue.")
    minute = stored // MINUTE_MS
    first = int(minute.min())
    minutes = int(minute.max()) - first + 1
    key = queue * minutes + minute - first
    many = int(key.max()) + 1
    count, total = np.bincount(key, minlength=many), np.bincount(key, size, minlength=many)
    most, late = np.zeros(many, np.int64), np.zeros(many, np.int64)
    np.maximum.at(most, key, queue_offset)
    np.maximum.at(late, key, stored - born)
    return int(count.sum()), {
        (int(place) // minutes, int(place) % minutes + first): (
            int(count[place]),
            int(total[place]),
            int(most[place]),
            int(late[place]),
        )
        for place in np.flatnonzero(count)
    }


def yardstick(store: Path, pool: Pool, processes: int = 2) -> int:
    """Number of messages of the store, computed by a pool of ``processes`` processes."""
    return sum(count for count, _ in pool.map(measure, parts(store, processes), chunksize=1))
