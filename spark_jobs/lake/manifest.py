"""What is in a lake: the file ``manifest.json`` in its folder, written anew after the Parquet files that it names.

The ranges in it are the state: what they cover has been read, what comes behind them has not, and a file that it does
not name does not count, whatever lies in the folder. Fields that are not there have their defaults, so lakes of before
such a field are read on.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from spark_jobs.errors import LakeError

FILE_NAME = "manifest.json"
CUT_SHORT = {
    "invalid record": "what lies there is not a valid record",
    "missing segment": "the next segment is missing",
}
"""Ends of a log behind which there may be more, by their names; in words."""
VERSION = 1
TABLES = ("messages", "sums", "polls")


class LakeFile(msgspec.Struct, frozen=True):
    """A Parquet file, by its path below the lake's folder. Smallest and largest time of its rows, ms."""

    path: str
    rows: int
    size: int
    min_ms: int
    max_ms: int


class LogPart(msgspec.Struct, frozen=True):
    """Bytes [start, end) of the commit log, read: into files, but for ``torn_bytes`` at ``torn_places``."""

    start: int
    end: int
    files: list[LakeFile]
    torn_places: int = 0
    torn_bytes: int = 0
    with_bodies: bool = False
    sums: list[LakeFile] = []
    """Files in which the same messages are counted, by minute."""
    merged: bool = False
    """Whether it was made of several by ``lake_merge``."""

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in (*self.files, *self.sums))


class LogGap(msgspec.Struct, frozen=True):
    """Bytes [start, end) of the commit log that were gone before they could be read."""

    start: int
    end: int
    noticed_ms: int


class JournalPart(msgspec.Struct, frozen=True):
    """Bytes [start, end) of a file of the poll journal, read; the file is known by its number and when it was made."""

    number: int
    created_ms: int
    start: int
    end: int
    closed: bool
    files: list[LakeFile]
    """Where it was merged with parts of other files, the first of them has the rows of all."""
    lost: int = 0
    merged: bool = False

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files)


class Retired(msgspec.Struct, frozen=True):
    """A file that does not count any more since ``at_ms``, left for those who read the manifest before."""

    path: str
    size: int
    at_ms: int


class Dropped(msgspec.Struct, frozen=True):
    """What the lake had and has no more, since it was to keep so many days: of before a time, how many rows."""

    before_ms: int = 0
    messages: int = 0
    polls: int = 0


class Witness(msgspec.Struct, frozen=True):
    """A record that was read: by it the store is known again, or that another one is in its place."""

    physical_offset: int
    size: int
    digest: str


class Manifest(msgspec.Struct):
    """Everything about a lake."""

    store: str
    version: int = VERSION
    position: int = 0
    """Everything of the log below it is in the lake, or in ``gaps``."""
    messages: list[LogPart] = []
    gaps: list[LogGap] = []
    polls: list[JournalPart] = []
    missing_journal_files: list[int] = []
    """Numbers of journal files that were gone before they could be read."""
    witnesses: list[Witness] = []
    """The last records of the last parts, newest last: should one be damaged, the others still tell."""
    synced_ms: int = 0
    ended_by: str = ""
    """Why the log ended where it did when the lake was last filled, as ``commit_log_segments.LogPlan`` has it."""
    segments_unread: list[str] = []
    """Segments behind that end that held something."""
    retired: list[Retired] = []
    dropped: Dropped = Dropped()

    def of_table(self, table: str) -> list[LakeFile]:
        """The files of a table that count, in the order in which they were written."""
        parts = {
            "messages": [part.files for part in self.messages],
            "sums": [part.sums for part in self.messages],
            "polls": [part.files for part in self.polls],
        }[table]
        return [file for files in parts for file in files]

    def files(self) -> set[str]:
        """The paths of all files that count."""
        return {file.path for table in TABLES for file in self.of_table(table)}

    def retire(self, files: Iterable[LakeFile], now_ms: int) -> None:
        """These do not count any more."""
        self.retired = [*self.retired, *(Retired(file.path, file.size, now_ms) for file in files)]

    def journal_ends(self) -> dict[tuple[int, int], JournalPart]:
        """The last part of each journal file, by its number and when it was made."""
        return {(part.number, part.created_ms): part for part in self.polls}


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of the lake in that folder; None where there is none. LakeError for one that cannot be read."""
    try:
        data = (folder / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return None
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise LakeError(
            f"{folder / FILE_NAME} is damaged ({error}): put a copy of it in its place, or remove the "
            "folder, and the lake is filled anew with what the store still has."
        ) from error
    if found.version != VERSION:
        raise LakeError(f"{folder / FILE_NAME} has version {found.version}; this version of GlassMQ reads {VERSION}.")
    return found


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest in the place of the one before, all of it or, with OSError, nothing."""
    write_whole(folder / FILE_NAME, msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file by one that is on the disk, at once. What a killed writer has left is overwritten by the next."""
    draft = path.with_name(f"{path.name}.new")
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until names made, changed or removed in the folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
