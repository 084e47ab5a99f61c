"""Where records begin, as the consume queues know it: the fastest way to find them, for those they have.

Units are those of ``broker_core.formats.consume_queue_unit``. Within a queue physical offsets ascend, so a range of the
log is a range of each queue, found by bisection. Several units may name one record (RocketMQ's light queues), and a
unit may be stale: readers check the record itself.
"""

import mmap
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_core.formats.consume_queue_unit import HOLE_SIZE, UNIT, UNIT_SIZE
from spark_jobs.commit_log_files import entries, is_local, joined, local_path

Longs = NDArray[np.int64]
Places = NDArray[np.int32]

_UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_SCANNED_WHILE_A_FILE_OPENS = 64 * 1024
"""Bytes of the log that are scanned in the time that one file of a queue takes to be opened and bisected."""


class Known(NamedTuple):
    """Physical offsets that units name, ascending, each once, and which queue names each (-1: several do)."""

    at: Longs
    queue: Places


class ConsumeQueues(NamedTuple):
    """All consume queues of a store: (topic, queue id) of each, and their files as (path, place of its queue)."""

    queues: tuple[tuple[str, int], ...] = ()
    files: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, store: str | os.PathLike[str]) -> "ConsumeQueues":
        """Those of a store. None where it has no consume queues, and where reading many small pieces would take longer
        than to scan the log: on file systems of other machines."""
        if not is_local(store):
            return cls()
        queues: list[tuple[str, int]] = []
        files: list[tuple[str, int]] = []
        for topic in entries(joined(local_path(store), "consumequeue")):
            for queue in entries(topic.path):
                if not queue.name.isdecimal():
                    continue
                names = [file.path for file in entries(queue.path) if len(file.name) == 20 and file.name.isdecimal()]
                files += [(path, len(queues)) for path in names]
                queues.append((topic.name, int(queue.name)))
        return cls(tuple(queues), tuple(files))

    def positions(self, start: int, stop: int) -> Known:
        """What units name in [start, stop) of the log; nothing where scanning so short a range is faster."""
        parts = []
        if len(self.files) * _SCANNED_WHILE_A_FILE_OPENS <= max(stop - start, 1 << 26):
            bits = len(self.queues).bit_length()
            for path, queue in self.files:
                found = _offsets_between(path, start, stop)
                if len(found):
                    parts.append((found - start) << bits | queue)
        if not parts:
            return Known(np.empty(0, np.int64), np.empty(0, np.int32))
        both = np.concatenate(parts)
        both.sort()
        at, queue_of = (both >> bits) + start, (both & ((1 << bits) - 1)).astype(np.int32)
        again = np.flatnonzero(at[1:] == at[:-1])
        if len(again):
            queue_of[again] = queue_of[again + 1] = -1
            at, queue_of = np.delete(at, again), np.delete(queue_of, again)
        return Known(at, queue_of)


def _offsets_between(path: str, start: int, stop: int) -> Longs:
    """One file's part; empty for a file that is empty, or gone since it was listed."""
    try:
        with open(path, "rb") as file:
            units = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, ValueError):
        return np.empty(0, np.int64)
    unit_at = UNIT.unpack_from

    def reaches(offset: int) -> Callable[[int], bool]:
        """Whether a unit is a hole's end, names this offset or a later one, or was never written."""
        def at(index: int) -> bool:
            physical_offset, size, _ = unit_at(units, index * UNIT_SIZE)
            return bool(size <= 0 or (physical_offset >= offset and size != HOLE_SIZE))
        return at

    count = len(units) // UNIT_SIZE
    low = _first(0, count, reaches(start))
    high = _first(low, count, reaches(stop))
    found = np.frombuffer(units, _UNIT, high - low, low * UNIT_SIZE) if high > low else np.empty(0, _UNIT)
    offsets: Longs = found["offset"].astype(np.int64)
    return offsets


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first index in [low, high) from which on ``holds``, ``high`` when there is none."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
