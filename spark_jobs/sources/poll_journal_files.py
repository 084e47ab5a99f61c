"""The files of a store's poll journal, and what there is in them: how many entries, how many are missing.

A file is read whole, never mapped: the broker may cut off what a full disk took only a part of.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import NamedTuple

from broker_core.formats.poll_journal import FILE_NAME, FOLDER, decode_blocks, decode_header
from spark_jobs.errors import NotAStoreError

HEAD = 4096
"""Bytes of a file in which its header is."""


class JournalFile(NamedTuple):
    """A file of the journal; ``size`` in bytes when it was looked for."""

    path: str
    number: int
    size: int


class JournalSurvey(NamedTuple):
    """What is in a journal."""

    files: int
    entries: int
    lost: int
    torn_bytes: int
    """Bytes at the ends of files that are no valid block. The newest file of a running broker may have some."""
    unreadable_files: int
    """Files that do not begin as a journal does."""
    cut_off_files: int
    """Files before the newest one that were not closed in order: each may lack what a crash took."""
    foreign_files: tuple[str, ...]
    """What lies in the journal's folder and is no file of it."""
    from_ms: int
    """Smallest time of an entry, 0 without any; ``to_ms`` is the largest."""
    to_ms: int


def find_files(store: str | os.PathLike[str]) -> tuple[list[JournalFile], tuple[str, ...]]:
    """The journal's files, oldest first, and the names of all else in its folder; none where there is no journal.

    NotAStoreError for a path without a journal that is no store either.
    """
    store = Path(store)
    folder = store / FOLDER
    if not folder.is_dir():
        if (store / "commitlog").is_dir() or (store / "glassmq").is_file():
            return [], ()
        raise NotAStoreError(f"{store} is not a store: it has no {FOLDER} folder, and no commitlog folder.")
    found, foreign = [], []
    for path in sorted(folder.iterdir()):
        try:
            status = path.stat()
        except FileNotFoundError:  # it was removed this very moment
            continue
        match = FILE_NAME.fullmatch(path.name)
        if match is None or not S_ISREG(status.st_mode):
            foreign.append(path.name)
            continue
        found.append(JournalFile(str(path), int(match[1]), status.st_size))
    return found, tuple(foreign)


def begins_behind(data: bytes, known: Mapping[str, int]) -> int:
    """Up to which byte a file has been read already: ``known`` says so of the files called ``name_of`` their header."""
    return known.get(name_in(data[:HEAD]), 0)


def name_in(head: bytes) -> str:
    """What the file is called that begins so; empty for one that does not begin as a journal does."""
    header = decode_header(head)
    return "" if header is None else name_of(header.number, header.created_ms)


def name_of(number: int, created_ms: int) -> str:
    """A file that is told apart from others of its number: a store may have been put in another one's place."""
    return f"{number}@{created_ms}"


def read_file(path: str) -> bytes | None:
    """All of a file; None when the broker has removed it."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def survey(store: str | os.PathLike[str], read: Mapping[str, int] = MappingProxyType({})) -> JournalSurvey:
    """What is in the journal of a store: reads all of it. NotAStoreError as ``find_files``.

    What has been ``read`` already, as ``begins_behind`` has it, does not count, but for the files themselves.
    """
    files, foreign = find_files(store)
    entries = lost = torn_bytes = unreadable_files = 0
    times, is_closed = list[int](), dict[int, bool]()
    for file in files:
        data = read_file(file.path)
        if data is None:
            continue
        is_closed[file.number], header = False, decode_header(data)
        if header is None:
            unreadable_files += 1
            continue
        end, behind = header.length, begins_behind(data, read)
        for block in decode_blocks(data, header):
            end, is_closed[file.number] = block.end, block.closes
            if block.end > behind:
                entries += block.entries
                lost += block.lost
                if block.entries:
                    times = [min([*times, block.min_ms]), max([*times, block.max_ms])]
        torn_bytes += len(data) - end
    newest = max(is_closed, default=-1)
    cut_off_files = sum(not closed for number, closed in is_closed.items() if number != newest)
    return JournalSurvey(
        len(is_closed),
        entries,
        lost,
        torn_bytes,
        unreadable_files,
        cut_off_files,
        foreign,
        min(times, default=0),
        max(times, default=0),
    )
