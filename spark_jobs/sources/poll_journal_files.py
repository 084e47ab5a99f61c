"""The files of a store's poll journal, and what there is in them: how many entries, how many are missing.

A file is read whole, never mapped: the broker may cut off what a full disk took only a part of.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker_core.formats.poll_journal import FILE_NAME, FOLDER, MAX_BLOCK, decode_blocks, decode_header
from spark_jobs.errors import NotAStoreError
from spark_jobs.sources.commit_log_files import range_of_window, read_start

HEAD = 4096
"""Bytes of a file in which its header is."""


class JournalFile(NamedTuple):
    """A file of the journal; ``size`` in bytes when it was looked for. What is before ``start`` was read already."""

    path: str
    number: int
    size: int
    start: int = 0


class JournalPosition(NamedTuple):
    """How far a journal was read: to byte ``end`` of the file of that number. ``closed``: that file has no more.

    ``created_ms`` tells a file from a later one of its number: where the broker finds no file, it begins with 0 again.
    """

    number: int
    created_ms: int
    end: int
    closed: bool = False


class JournalSurvey(NamedTuple):
    """What is in a journal: in all of its ``files``, or in those that may have entries of a window."""

    files: int
    entries: int
    lost: int
    torn_bytes: int
    """Bytes of files behind their last valid block. The newest file of a running broker may have some."""
    torn_entries: int
    """About how many entries these bytes would have."""
    torn_files: list[str]
    """The names of the files with such bytes."""
    cut_off_files: int
    """Files before the newest one that were not closed in order: each may lack what a crash took."""
    files_outside: int
    """Files that were not read because all of their entries were written before or after the window."""
    from_ms: int
    """Smallest time of an entry, 0 without any; ``to_ms`` is the largest."""
    to_ms: int


def find_files(store: str | os.PathLike[str]) -> list[JournalFile]:
    """The journal's files, oldest first; none where there is no journal.

    NotAStoreError for a path without a journal that is no store either.
    """
    store = Path(store)
    folder = store / FOLDER
    if not folder.is_dir():
        if (store / "commitlog").is_dir() or (store / "glassmq").is_file():
            return []
        raise NotAStoreError(f"{store} is not a store: it has no {FOLDER} folder, and no commitlog folder.")
    found = []
    for path in sorted(folder.iterdir()):
        match = FILE_NAME.fullmatch(path.name)
        with suppress(FileNotFoundError):  # it was removed this very moment
            if match and path.is_file():
                found.append(JournalFile(str(path), int(match[1]), path.stat().st_size))
    return found


def files_after(files: Sequence[JournalFile], position: JournalPosition | None) -> list[JournalFile]:
    """The files with what lies behind a position, the position's own file among them, oldest first.

    Where all files were deleted, the numbers begin anew; then files that were made later are behind it.
    """
    if position is None:
        return list(files)
    found = []
    for file in files:
        created_ms = created_ms_of(file) if file.number <= position.number else None
        if file.number == position.number and created_ms in (None, position.created_ms):
            found.append(file._replace(start=position.end))
        elif file.number > position.number or (created_ms or 0) > position.created_ms:
            found.append(file)
    return found


def created_ms_of(file: JournalFile) -> int | None:
    """When a file was made; None for one that does not begin as a journal does."""
    header = decode_header(read_start(file.path, HEAD) or b"")
    return None if header is None else header.created_ms


def begin_of(file: JournalFile) -> int | None:
    """The time of a file's first entries, or when it was made if it has none; None as ``created_ms_of``.

    Entries may be older than their file: they wait while the disk refuses them.
    """
    data = read_start(file.path, HEAD + MAX_BLOCK) or b""
    header = decode_header(data)
    first = next(decode_blocks(data, header), None) if header else None
    if header is None or first is None or not first.entries:
        return None if header is None else header.created_ms
    return first.min_ms


def read_file(path: str) -> bytes | None:
    """All of a file; None when the broker has removed it."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def survey(
    store: str | os.PathLike[str],
    after: JournalPosition | None = None,
    window: tuple[int | None, int | None] = (None, None),
) -> JournalSurvey:
    """What is in the journal of a store, or in what lies ``after`` a position, and in a window of time.

    Checks every byte that the report's tasks read, since a task has no way to tell where it met damage. NotAStoreError
    as ``find_files``.
    """
    files = files_after(find_files(store), after)
    entries = lost = whole_bytes = torn_bytes = 0
    times, is_closed, torn_files = list[int](), dict[int, bool](), list[str]()
    low, high = range_of_window(files, begin_of, *window)
    for file in files[low:high]:
        data = read_file(file.path)
        if data is None:
            continue
        header, is_closed[file.number] = decode_header(data), False
        end = max(file.start, header.length if header else 0)
        for block in decode_blocks(data, header) if header else ():
            is_closed[file.number] = block.closes
            if block.end > file.start:
                end = block.end
                entries += block.entries
                lost += block.lost
                if block.entries:
                    times = [min([*times, block.min_ms]), max([*times, block.max_ms])]
        whole_bytes += end - file.start
        if end < len(data):
            torn_bytes += len(data) - end
            torn_files.append(Path(file.path).name)
    newest = max((file.number for file in files), default=-1)
    cut_off_files = sum(not closed for number, closed in is_closed.items() if number != newest)
    return JournalSurvey(
        len(files),
        entries,
        lost,
        torn_bytes,
        round(torn_bytes * entries / whole_bytes) if whole_bytes else 0,
        torn_files,
        cut_off_files,
        len(files) - (high - low),
        min(times, default=0),
        max(times, default=0),
    )
