"""When delayed messages are due, as the consume queues of SCHEDULE_TOPIC_XXXX know it: nothing in the log says so.

A unit of such a queue holds the deliver time (ms) in place of a tagsCode, or the address of an ext unit that does. A
record whose unit is gone, stale or not made yet has no known time.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_core.formats.consume_queue_ext_unit import ADDRESS_BASE
from broker_core.formats.consume_queue_unit import UNIT_SIZE

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
UNKNOWN = -1
UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_LAST_ADDRESS = -(1 << 31) - 1
"""A tagsCode is a 32-bit hash or a time; whatever is below is an address."""
_TAGS_CODE_AT, _EXT_HEAD = 2, 20
Longs = NDArray[np.int64]


class DueTimes(NamedTuple):
    """The consume queues of delayed messages in one store; on another machine's file system they tell nothing."""

    store: Path

    def of(self, queue_ids: Longs, queue_offsets: Longs, physical_offsets: Longs) -> Longs:
        """The due time of each record of SCHEDULE_TOPIC_XXXX, UNKNOWN where nothing tells it."""
        due = np.full(len(queue_ids), UNKNOWN, np.int64)
        for queue_id in np.unique(queue_ids).tolist():
            mine = np.flatnonzero(queue_ids == queue_id)
            due[mine] = self._of_queue(queue_id, queue_offsets[mine], physical_offsets[mine])
        return due

    def _of_queue(self, queue_id: int, queue_offsets: Longs, physical_offsets: Longs) -> Longs:
        due = np.full(len(queue_offsets), UNKNOWN, np.int64)
        folder = Path(SCHEDULE_TOPIC) / str(queue_id)
        for base, octets in _files(self.store / "consumequeue" / folder):
            units = octets[: len(octets) // UNIT_SIZE * UNIT_SIZE].view(UNIT)
            index = queue_offsets - base // UNIT_SIZE
            inside = np.flatnonzero((index >= 0) & (index < len(units)))
            found = units[index[inside]]
            fresh = (found["offset"] == physical_offsets[inside]) & (found["size"] > 0)
            due[inside[fresh]] = found["tags_code"][fresh]
        addresses = due <= _LAST_ADDRESS
        due[addresses] = _ext_tags_codes(self.store / "consumequeue_ext" / folder, due[addresses] - ADDRESS_BASE)
        return np.where(due > 0, due, UNKNOWN)


def _ext_tags_codes(folder: Path, positions: Longs) -> Longs:
    """The tagsCode of the ext units at these positions of their queue."""
    codes = np.full(len(positions), UNKNOWN, np.int64)
    if not len(positions):
        return codes
    for base, octets in _files(folder):
        if len(octets) < _EXT_HEAD:  # no unit has room in it
            continue
        at = positions - base
        inside = np.flatnonzero((at >= 0) & (at <= len(octets) - _EXT_HEAD))
        anywhere: NDArray[Any] = np.ndarray((len(octets) - 7,), ">i8", octets, strides=(1,))
        codes[inside] = anywhere[at[inside] + _TAGS_CODE_AT]
    return codes


def _files(folder: Path) -> list[tuple[int, NDArray[np.uint8]]]:
    """(position of its first byte in the queue, bytes) of every file of a queue that is there and not empty."""
    found = []
    for path in sorted(folder.glob("[0-9]" * 20)):
        try:
            found.append((int(path.name), np.asarray(np.memmap(path, np.uint8, "r"))))
        except (FileNotFoundError, ValueError):
            continue
    return found
