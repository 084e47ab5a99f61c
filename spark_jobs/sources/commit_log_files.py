"""The files of a store: in a folder of this machine, or on network storage that is mounted on it."""

import mmap
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from spark_jobs.errors import NotAStoreError, UnsupportedUrlError

SEGMENT_NAME = re.compile(r"\d{20}")
CLOCK_SLACK_MS = 3_600_000
"""By how much a clock may have been set back without anything being missed in a window of time."""
_File = TypeVar("_File")


class SegmentFile(NamedTuple):
    """A file of the commit log: global offset of its first byte, and of the byte behind its last usable one.

    ``modified_ms``: when it was last changed.
    """

    path: str
    base: int
    limit: int
    modified_ms: int


def local_folder(path: str | os.PathLike[str]) -> Path:
    """The absolute folder that a path or a ``file:`` URL names. UnsupportedUrlError for a URL of another scheme."""
    text = os.fspath(path)
    url = urlsplit(text)
    if url.netloc not in ("", "localhost") or ("://" in text and url.scheme != "file"):
        raise UnsupportedUrlError(
            f"{text} cannot be used here: only folders of this machine can, or network storage that is mounted on it. "
            "Give a path or a file:// URL."
        )
    return Path(unquote(url.path) if text.startswith("file://") else text.removeprefix("file:")).resolve()


def find_segments(store: str | os.PathLike[str]) -> tuple[list[SegmentFile], tuple[str, ...]]:
    """Segments in order, and the names of all else in the folder. NotAStoreError when there is no commit log."""
    folder = Path(store, "commitlog")
    if not folder.is_dir():
        if Path(store, "glassmq").is_file():
            return [], ()
        raise NotAStoreError(f"{os.fspath(store)} is not a store: it has no commitlog folder.")
    segments: list[SegmentFile] = []
    foreign = []
    for path in sorted(folder.iterdir()):
        try:
            status = path.stat()
        except FileNotFoundError:  # it was removed this very moment
            continue
        if not SEGMENT_NAME.fullmatch(path.name) or not S_ISREG(status.st_mode):
            foreign.append(path.name)
            continue
        base = int(path.name)
        if segments:
            segments[-1] = segments[-1]._replace(limit=min(segments[-1].limit, base))
        segments.append(SegmentFile(str(path), base, base + status.st_size, status.st_mtime_ns // 1_000_000))
    return segments, tuple(foreign)


def range_of_window(
    files: Sequence[_File], begin_of: Callable[[_File], int | None], from_ms: int | None, to_ms: int | None
) -> tuple[int, int]:
    """[low, high) of the files: the shortest run that has all that was written in [from_ms, to_ms).

    ``begin_of``: when the first record or entry of a file was written. The file before it ends then. A damaged file of
    which this is not known does not shorten the run.
    """
    low, high = 0, len(files)
    if from_ms is None and to_ms is None:
        return low, high
    begins = [begin_of(file) for file in files]
    if from_ms is not None:
        for index, begin in enumerate(begins):
            if begin is not None and begin + CLOCK_SLACK_MS >= from_ms:
                break
            low = low if begin is None else index
    if to_ms is not None:
        for index in reversed(range(low, len(files))):
            begin = begins[index]
            if begin is not None and begin - CLOCK_SLACK_MS < to_ms:
                break
            high = high if begin is None else index
    return low, high


def read_start(path: str | os.PathLike[str], size: int) -> bytes | None:
    """The first ``size`` bytes of a file, fewer if it has no more; None if it does not exist."""
    try:
        with open(path, "rb") as file:
            return file.read(size)
    except (FileNotFoundError, NotADirectoryError):
        return None


def map_file(path: str | os.PathLike[str]) -> mmap.mmap | bytes:
    """The bytes of a file, mapped into memory if there are any. FileNotFoundError if retention has deleted it."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
