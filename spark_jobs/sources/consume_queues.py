"""The queues of a store: which there are, where each one ends, when a message was stored, when a delayed one is due.

A unit in a queue of SCHEDULE_TOPIC_XXXX holds the deliver time (ms) in place of a tagsCode, or the address of an ext
unit that does; nothing in the log says it. Consume queues may be incomplete, stale, damaged, or in RocksDB. So what
they say of a message is checked in the log.
"""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broker_core.formats import rocketmq_json
from broker_core.formats.commit_log_record import RecordError, decode
from broker_core.formats.consume_queue_ext_unit import ADDRESS_BASE
from broker_core.formats.consume_queue_unit import UNIT_SIZE
from spark_jobs.sources.commit_log_files import read_start

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
MOST_LEVELS = 1024
"""The most queues of SCHEDULE_TOPIC_XXXX, one for each delay level. ``topics.json`` always says 18."""
TABLE_BYTES = 1024 * 1024 * 1024
"""The most that is read of one of the broker's tables."""
UNKNOWN = -1
UNIT = np.dtype([("offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
BATCH_UNIT = np.dtype([*UNIT.descr, ("store_ts", ">i8"), ("base", ">i8"), ("number", ">i2"), ("reserved", ">i8")])
"""A unit of a batch consume queue (``formats/batch_consume_queue_unit.py``): ``number`` messages from ``base`` on."""
LARGEST_RECORD = 20 * 1024 * 1024
"""Bytes; more than any broker stores as one record."""
_LAST_ADDRESS = -(1 << 31) - 1
"""A tagsCode is a 32-bit hash or a time; whatever is below is an address."""
_TAGS_CODE_AT, _EXT_HEAD = 2, 20
Longs = NDArray[np.int64]


class QueueEnd(NamedTuple):
    """The end of a queue: the offset behind its last unit, and the physical offset in that unit."""

    topic: str
    queue_id: int
    end_offset: int
    physical_offset: int


def broker_table(store: str | os.PathLike[str], file: str, name: str) -> dict[str | int, Any]:
    """One of the broker's tables in ``config``; empty when it is missing or incomplete."""
    try:
        table = rocketmq_json.decode(read_start(Path(store, "config", f"{file}.json"), TABLE_BYTES) or b"").get(name)
    except (OSError, rocketmq_json.RocketmqJsonError):
        return {}
    return table if isinstance(table, dict) else {}


def configured_queues(store: str | os.PathLike[str]) -> dict[str, int]:
    """The queues of each topic that can be read or written to, by ``config/topics.json``; empty without that file."""
    found: dict[str, int] = {}
    for name, topic in broker_table(store, "topics", "topicConfigTable").items():
        for key in ("readQueueNums", "writeQueueNums") if isinstance(topic, dict) else ():
            if type(topic.get(key)) is int:
                found[str(name)] = max(found.get(str(name), 0), topic[key])
    return found


def known_queues(store: str | os.PathLike[str]) -> dict[str, int]:
    """How many queues each topic of the broker has, or had before it was given fewer; empty if nothing says so.

    A queue with messages has a folder, unless consume queues are in RocksDB.
    """
    configured, in_folders = configured_queues(store), dict[str, int]()
    for folder in ("consumequeue", "batchconsumequeue"):
        for queue in Path(store, folder).glob("*/*"):
            if queue.name.isdecimal():
                in_folders[queue.parent.name] = max(in_folders.get(queue.parent.name, 0), int(queue.name) + 1)
    if SCHEDULE_TOPIC in configured:
        configured[SCHEDULE_TOPIC] = 0 if SCHEDULE_TOPIC in in_folders else MOST_LEVELS
    return {topic: max(configured.get(topic, 0), in_folders.get(topic, 0)) for topic in configured | in_folders}


def unknown_queues(store: str | os.PathLike[str], found: Iterable[tuple[str, int | None, int]]) -> dict[str, int]:
    """How many messages are in topics and queues that the broker does not have, the fewest first.

    By name, as ``orders`` or ``orders queue 7``. ``found``: (topic, queue id or None, messages). A topic is unknown if
    it was deleted, or if damage changed its name.
    """
    known, unknown = known_queues(store), Counter[str]()
    for topic, queue_id, messages in found if known else ():
        if topic not in known:
            unknown[topic] += messages
        elif queue_id is not None and queue_id >= known[topic]:
            unknown[f"{topic} queue {queue_id}"] += messages
    return dict(sorted(unknown.items(), key=lambda item: item[::-1]))


def consume_queue_ends(store: Path) -> Iterator[QueueEnd]:
    """The ends of all queues with a unit.

    A queue that has a batch consume queue too got it in place of this one, which is not up to date.
    """
    known = set()
    for folder, kind, filled in (("batchconsumequeue", BATCH_UNIT, "number"), ("consumequeue", UNIT, "size")):
        for queue in store.glob(f"{folder}/*/*"):
            key = queue.parent.name, queue.name
            if key in known or not queue.name.isdecimal():
                continue
            for number, unit in _last_unit(queue, kind, filled):
                known.add(key)
                end = int(unit["base"]) + int(unit["number"]) if kind is BATCH_UNIT else number + 1
                yield QueueEnd(queue.parent.name, int(queue.name), end, int(unit["offset"]))


def _last_unit(queue: Path, kind: "np.dtype[Any]", filled: str) -> Iterator[tuple[int, Any]]:
    """The number of a queue's last unit and the unit; nothing for a queue without any."""
    for base, octets in _files(queue, newest_first=True):
        units = _units(octets, kind)
        # The rest of a file is preallocated, so units that are filled come first.
        count = bisect_left(range(len(units)), True, key=lambda index: units[filled][index] <= 0)
        if count:
            yield base // kind.itemsize + count - 1, units[count - 1]
            return


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


def due_times(store: Path, queue_ids: Longs, queue_offsets: Longs, physical_offsets: Longs) -> Longs:
    """When each of these records of SCHEDULE_TOPIC_XXXX is due, ms.

    UNKNOWN where its unit is gone, stale or not made yet, and on a machine that does not see the store.
    """
    due = np.full(len(queue_ids), UNKNOWN, np.int64)
    for queue_id in np.unique(queue_ids).tolist():
        mine = np.flatnonzero(queue_ids == queue_id)
        folder = Path(SCHEDULE_TOPIC) / str(queue_id)
        codes = np.full(len(mine), UNKNOWN, np.int64)
        for base, octets in _files(store / "consumequeue" / folder):
            units = _units(octets)
            index = queue_offsets[mine] - base // UNIT_SIZE
            inside = np.flatnonzero((index >= 0) & (index < len(units)))
            found = units[index[inside]]
            fresh = (found["offset"] == physical_offsets[mine[inside]]) & (found["size"] > 0)
            codes[inside[fresh]] = found["tags_code"][fresh]
        addresses = codes <= _LAST_ADDRESS
        codes[addresses] = _ext_tags_codes(store / "consumequeue_ext" / folder, codes[addresses] - ADDRESS_BASE)
        due[mine] = np.where(codes > 0, codes, UNKNOWN)
    return due


def _ext_tags_codes(folder: Path, positions: Longs) -> Longs:
    """The tagsCode of the ext units at these positions of their queue."""
    codes = np.full(len(positions), UNKNOWN, np.int64)
    for base, octets in _files(folder) if len(positions) else ():
        if len(octets) < _EXT_HEAD:  # no unit has room in it
            continue
        at = positions - base
        inside = np.flatnonzero((at >= 0) & (at <= len(octets) - _EXT_HEAD))
        anywhere: NDArray[Any] = np.ndarray((len(octets) - 7,), ">i8", octets, strides=(1,))
        codes[inside] = anywhere[at[inside] + _TAGS_CODE_AT]
    return codes


def _files(folder: Path, *, newest_first: bool = False) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """(position of its first byte in the queue, bytes) of every file of a queue that is there and not empty."""
    for path in sorted(folder.glob("[0-9]" * 20), reverse=newest_first):
        try:
            yield int(path.name), np.asarray(np.memmap(path, np.uint8, "r"))
        except (OSError, ValueError):  # deleted, empty, or no file
            continue


def _units(octets: NDArray[np.uint8], kind: "np.dtype[Any]" = UNIT) -> NDArray[Any]:
    return octets[: len(octets) // kind.itemsize * kind.itemsize].view(kind)


def _bytes_at(folder: Path, position: int, size: int) -> bytes:
    """Bytes of a file that is named by the position of its first byte; fewer if they are not there."""
    try:
        base = max(int(name) for name in os.listdir(folder) if name.isdecimal() and int(name) <= position)
        with open(folder / f"{base:020d}", "rb") as file:
            file.seek(position - base)
            return file.read(size)
    except (OSError, ValueError):  # there is none
        return b""
