"""A store's commit log, read from its files beside the broker that writes them. Nothing is locked, mapped or written.

The log ends at the safe end if the store has one (``safe_end.py``), else at its first invalid record.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from broker_core.formats import safe_end
from broker_core.formats.commit_log_record import (
    BLANK_SIZE,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    CommitLogRecord,
    RecordError,
    decode,
    is_blank,
    measure,
)

FOLDER = "commitlog"
_SEGMENT_NAME = re.compile(r"\d{20}")
_TRIES = 5


def read_safe_end(store: Path) -> safe_end.SafeEnd | None:
    """The safe end of the store; None without one. A half-written file is read again."""
    for _ in range(_TRIES):
        try:
            with (store / safe_end.FILE_NAME).open("rb") as file:
                published = safe_end.decode(file.read(safe_end.SIZE))
        except FileNotFoundError:
            return None
        if published is not None:
            return published
    return None


def read_records(
    store: Path, offset: int = 0, on_damage: Callable[[int], None] | None = None
) -> Iterator[CommitLogRecord]:
    """The records from physical offset ``offset`` on, up to the end of the log at the time of the call.

    An offset below the first byte that the store still has means that byte. To go on later, pass the end of the last
    record. Raises FileNotFoundError for a folder that is no store, RecordError for an invalid record before the safe
    end, as there is when ``offset`` is not the beginning of a record.

    A store without a safe end ends at its first invalid record. If bytes are written there, ``on_damage`` is called
    with the physical offset: the log is damaged, or a broker is writing a record at the moment.
    """
    published = read_safe_end(store)
    if published is not None:
        offset = max(offset, published.min_offset)
    folder = store / FOLDER
    for base in sorted(int(path.name) for path in folder.iterdir() if _SEGMENT_NAME.fullmatch(path.name)):
        offset = max(offset, base)
        try:
            file = (folder / f"{base:020}").open("rb")
        except FileNotFoundError:
            continue  # the broker has deleted it meanwhile
        with file:
            segment_end = base + os.fstat(file.fileno()).st_size
            if offset >= segment_end:
                continue
            end = segment_end if published is None else min(segment_end, published.flushed_offset)
            file.seek(offset - base)
            while offset < end:
                record = _read_record(file, offset, end)
                if record is None:
                    break
                yield record
                offset += record.size
            if offset < end:
                file.seek(offset - base)
                if not is_blank(file.read(BLANK_SIZE), 0):
                    if published is not None:
                        raise RecordError(f"no valid record begins at physical offset {offset}")
                    file.seek(offset - base)
                    _check_rest(file.read(RECORD_SIZE_MIN), offset, on_damage)
                    return
                offset = segment_end


def _check_rest(data: bytes, offset: int, on_damage: Callable[[int], None] | None) -> None:
    """Report the end of the log unless nothing is written behind it."""
    if on_damage is not None and any(data):
        on_damage(offset)


def _read_record(file: BinaryIO, offset: int, end: int) -> CommitLogRecord | None:
    """The record at the file's position; None if there is no valid one of physical offset ``offset`` before ``end``."""
    head = file.read(SIZE_AND_MAGIC.size)
    size = SIZE_AND_MAGIC.unpack(head)[0] if len(head) == SIZE_AND_MAGIC.size else 0
    if not RECORD_SIZE_MIN <= size <= end - offset:
        return None
    data = head + file.read(size - len(head))
    return decode(data) if measure(data, 0, len(data), offset) == size else None
