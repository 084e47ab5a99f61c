"""The files of a store: in a folder of this machine, or on network storage that is mounted on it."""

import mmap
import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from spark_jobs.errors import UnsupportedUrlError


class Entry(NamedTuple):
    """A file or folder in a folder. ``size``: of a file, bytes. ``modified_ms``: when it was last changed."""

    name: str
    path: str
    is_file: bool
    size: int
    modified_ms: int = 0


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


def entries(folder: str | os.PathLike[str]) -> list[Entry]:
    """What is in a folder, by name; empty if there is no such folder."""
    found = []
    try:
        with os.scandir(folder) as listed:
            for entry in listed:
                try:
                    is_file, status = entry.is_file(), entry.stat()
                    size = status.st_size if is_file else 0
                    found.append(Entry(entry.name, entry.path, is_file, size, status.st_mtime_ns // 1_000_000))
                except FileNotFoundError:  # it was removed this very moment
                    continue
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found)


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
