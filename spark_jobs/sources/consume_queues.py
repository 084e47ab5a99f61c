"""The consume queues of a local store: where each queue ends, and the store time of a message by its queue offset.

Consume queues may be incomplete, stale, damaged, or in RocksDB. So what they say of a message is checked in the log.
"""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from broker_core.formats.commit_log_record import RecordError, decode
from broker_core.formats.consume_queue_unit import UNIT_SIZE
from spark_jobs.sources.commit_log_due import UNIT
from spark_jobs.sources.commit_log_files import entries

LARGEST_RECORD = 20 * 1024 * 1024
"""Bytes; more than any broker stores as one record."""


class QueueEnd(NamedTuple):
    """The end of a queue: the offset behind its last unit, and the physical offset in that unit."""

    topic: str
    queue_id: int
    end_offset: int
    physical_offset: int


def consume_queue_ends(store: Path) -> Iterator[QueueEnd]:
    """The ends of all queues with a unit."""
    for queue in store.glob("consumequeue/*/*"):
        if not queue.name.isdecimal():
            continue
        for file in reversed(entries(str(queue))):
            try:
                units = np.memmap(file.path, UNIT, "r", shape=(file.size // UNIT_SIZE,))
            except (OSError, ValueError):  # deleted, empty, or no file
                continue
            # The rest of a file is preallocated, so units that have a size come first.
            count = bisect_left(range(len(units)), True, key=lambda index: units["size"][index] <= 0)
            if count and file.name.isdecimal():
                end = int(file.name) // UNIT_SIZE + count
                yield QueueEnd(queue.parent.name, int(queue.name), end, int(units["offset"][count - 1]))
                break


def store_time(store: Path, topic: str, queue_id: int, queue_offset: int) -> int | None:
    """When a message was stored, ms. None if its unit or its record is not there, or is another message's."""
    at = queue_offset * UNIT_SIZE
    unit = _bytes_at(store / "consumequeue" / topic / str(queue_id), at, UNIT_SIZE)
    if len(unit) < UNIT_SIZE:
        return None
    physical, size, _ = np.frombuffer(unit, UNIT)[0].tolist()
    try:
        record = decode(_bytes_at(store / "commitlog", physical, size)) if 0 < size <= LARGEST_RECORD else None
    except RecordError:
        return None
    if record is None or (record.topic, record.queue_id, record.queue_offset) != (topic, queue_id, queue_offset):
        return None
    return record.store_timestamp


def _bytes_at(folder: Path, position: int, size: int) -> bytes:
    """Bytes of a file that is named by the position of its first byte; fewer if they are not there."""
    begins = [int(file.name) for file in entries(str(folder)) if file.is_file and file.name.isdecimal()]
    base = max((begin for begin in begins if begin <= position), default=None)
    if base is None:
        return b""
    try:
        with open(folder / f"{base:020d}", "rb") as file:
            file.seek(position - base)
            return file.read(size)
    except OSError:
        return b""
