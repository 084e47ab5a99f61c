"""A lake: the messages of a store, and how its pulls ended, as Parquet files by day, for reports over weeks.

    <lakes>/<store>-<8 digits>/manifest.json
                               messages/date=2026-01-31/range=<first byte>-<behind the last>.parquet
                               sums/date=2026-01-31/range=<first byte>-<behind the last>.parquet
                               polls/date=2026-01-31/file=<number>-<made, ms>-<first byte>-<behind the last>.parquet
                               <8 digits>.open

The digits are those of the store's path. Where another store has taken the place of the one that a lake was filled
from, it gets a lake of its own: ``…-2``, ``…-3``; when the first one comes back, its lake goes on. A lake has one
writer at a time, which holds the lock on it. The file ``<8 digits>.open`` is there while a round is (``round_open``).
"""

import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake.folders import generations, lake_name
from spark_jobs.lake.manifest import TABLES, Manifest, Retired, Witness, read_manifest, sync_folder
from spark_jobs.sources.commit_log_files import read_range
from spark_jobs.sources.commit_log_segments import find_segments, log_begin

logger = logging.getLogger(__name__)

LOCK = "lock"
OPEN = "open"
"""Where it is gone, the files of a round's tasks are not wanted any more: those that come later remove their own."""
READ_ON_MS = 6 * 3_600_000
"""How long files that were merged or dropped are left to whoever reads an earlier manifest: a run of the report worker
ends within an hour, people's own questions may take longer."""


class Lake(NamedTuple):
    """A lake's folder and what is in it."""

    folder: Path
    manifest: Manifest


class Fit(Enum):
    """Whether a store is the one that a lake was filled from."""

    SAME = "same"
    UNKNOWN = "unknown"
    """Nothing that the lake has read is left in the store."""
    OTHER = "other"


def find_lake(lakes: Path, store: str | os.PathLike[str]) -> Lake | None:
    """The lake that was filled from the store that is there now; None where there is none.

    Of those that may be, the newest one. LakeError where one cannot be read and none is surely the one; NotAStoreError.
    """
    best, problem = None, None
    for folder in reversed(generations(lakes, store)):
        try:
            manifest = read_manifest(folder)
        except LakeError as error:
            problem = problem or error
            continue
        found = Fit.OTHER if manifest is None else fit(os.fspath(store), manifest)
        if manifest is not None and found is Fit.SAME:
            return Lake(folder, manifest)
        if manifest is not None and found is Fit.UNKNOWN:
            best = best or Lake(folder, manifest)
    if problem is not None:
        raise problem
    return best


@contextmanager
def locked(lakes: Path, store: str | os.PathLike[str]) -> Iterator[None]:
    """Be the one that writes the lakes of that store. LakeBusyError while somebody else is.

    A process that is killed gives the lock back.
    """
    lakes.mkdir(parents=True, exist_ok=True)
    with open(lakes / f"{lake_name(store)}.{LOCK}", "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LakeBusyError(
                f"The lake of {os.fspath(store)} is being filled by another process; wait for it.",
            ) from error
        yield


def next_generation(lakes: Path, store: str | os.PathLike[str]) -> Path:
    """A folder for a store that is another one than those that lakes are there of."""
    known = generations(lakes, store)
    if not known:
        return lakes / lake_name(store)
    if read_manifest(known[-1]) is None:
        return known[-1]
    number = known[-1].name.removeprefix(lake_name(store)).removeprefix("-")
    return lakes / f"{lake_name(store)}-{int(number or 1) + 1}"


def sweep(folder: Path, now_ms: int = 0) -> int:
    """Remove the files that the manifest on the disk does not name, as killed writers leave them; returns how many.

    Those that it has retired stay until nobody may read them any more; without a time all of them stay. Where one is
    missing that it names, only drafts go: it may be an old copy, and the others what its files were merged into.
    """
    manifest = read_manifest(folder) or Manifest("")
    known = manifest.files() | {file.path for file in still_read(manifest, now_ms)}
    for mark in folder.glob(f"*.{OPEN}"):
        mark.unlink(missing_ok=True)  # before the files are looked for: none comes behind this
    found = {path.relative_to(folder).as_posix(): path for table in TABLES for path in (folder / table).glob("*/*")}
    lost = manifest.files() - found.keys()
    if lost:
        logger.warning("%s has no %s, which its manifest names; no file of it is removed.", folder, min(lost))
    count = 0
    for name, path in found.items():
        if name not in known and not (lost and path.suffix == ".parquet"):
            path.unlink(missing_ok=True)
            count += 1
    for table in TABLES:
        for day in (folder / table).glob("*"):
            with suppress(OSError):  # it has files
                day.rmdir()
    return count


def still_read(manifest: Manifest, now_ms: int) -> list[Retired]:
    """The retired files that somebody who has read an earlier manifest may still open."""
    return [file for file in manifest.retired if now_ms - file.at_ms < READ_ON_MS]


def clean_up(lakes: Path, store: str | os.PathLike[str]) -> None:
    """Remove what a killed writer has left in the lakes of that store. LakeBusyError while somebody else writes.

    Others than the newest are only looked at where a round was under way: somebody may be mending one of them.
    """
    with locked(lakes, store):
        known = generations(lakes, store)
        for folder in known:
            if folder == known[-1] or any(folder.glob(f"*.{OPEN}")):
                with suppress(LakeError):  # its manifest is damaged: nobody can say what is to stay
                    sweep(folder)


@contextmanager
def round_open(folder: Path) -> Iterator[Path]:
    """Meanwhile, what tasks write into that lake is wanted. Yields the file that says so."""
    mark = folder / f"{uuid4().hex[:8]}.{OPEN}"
    mark.touch()
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


def fit(store: str, manifest: Manifest) -> Fit:
    """Whether the store is the one that the lake was filled from: one of the last records lies where it was."""
    known = manifest.witnesses
    if any(witness_at(store, witness.physical_offset, witness.size) == witness for witness in known):
        return Fit.SAME
    return Fit.UNKNOWN if not known or log_begin(store) > known[-1].physical_offset else Fit.OTHER


def witness_at(store: str, physical_offset: int, size: int) -> Witness | None:
    """The record there as it is now; None when its segment is not there."""
    for segment in find_segments(store)[0]:
        if segment.base <= physical_offset < segment.limit:
            start = physical_offset - segment.base
            try:
                found = read_range(segment.path, start, start + size)
            except FileNotFoundError:
                return None
            data = found.buffer[start - found.start : start - found.start + size]
            return Witness(physical_offset, size, hashlib.blake2b(data, digest_size=16).hexdigest())
    return None


def keep_files(folder: Path, names: dict[Path, str]) -> None:
    """Give files that are written their final names below the lake's folder, for good."""
    folders = set()
    for draft, name in names.items():
        path = folder / name
        draft.replace(path)
        folders.add(path.parent)
    for folder in sorted({*folders, *(folder.parent for folder in folders)}):
        sync_folder(folder)
