"""Where records begin, as the consume queues know it: the fastest way to find them, for those they have.

Units are those of ``broker_core.formats.consume_queue_unit``. Within a queue physical offsets ascend, so a range of the
log is a range of each queue, found by bisection. Several units may name one record (RocketMQ's light queues), and a
unit may be stale: readers check the record itself.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_core.formats.consume_queue_unit import UNIT_SIZE

_UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_HOLE_SIZE = 0x7FFFFFFF


class ConsumeQueues(NamedTuple):
    """The files of all consume queues of a store."""

    files: tuple[str, ...]

    @classmethod
    def of(cls, store: Path) -> "ConsumeQueues":
        """Those of a store; none where it has no consume queues."""
        found = (path for path in sorted((store / "consumequeue").glob("*/*/*")) if len(path.name) == 20)
        return cls(tuple(str(path) for path in found if path.name.isdigit()))

    def positions(self, start: int, stop: int) -> NDArray[np.int64]:
        """Physical offsets in [start, stop) that a unit names, ascending, each once."""
        parts = [part for path in self.files if len(part := _offsets_between(path, start, stop))]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def _offsets_between(path: str, start: int, stop: int) -> NDArray[np.int64]:
    """One file's part; empty for a file that is empty, or gone since it was listed."""
    try:
        octets = np.memmap(path, np.uint8, "r")
    except (FileNotFoundError, ValueError):
        return np.empty(0, np.int64)
    units = octets[:len(octets) // UNIT_SIZE * UNIT_SIZE].view(_UNIT)
    written = _first(0, len(units), lambda index: units[index]["size"] <= 0)
    low = _first(0, written, lambda index: units[index]["offset"] >= start and units[index]["size"] != _HOLE_SIZE)
    high = _first(low, written, lambda index: units[index]["offset"] >= stop)
    offsets: NDArray[np.int64] = units["offset"][low:high].astype(np.int64)
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
