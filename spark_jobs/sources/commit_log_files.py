"""Where a store lies: on this machine, on storage that several machines see, or wherever pyarrow or fsspec reach.

A store is named by its folder, or by a URL: ``file:``, those that pyarrow knows (``s3:``, ``gs:``, ``abfs:``,
``hdfs:`` ...), and all others by fsspec, where that is installed, chained ones (``zip://store::s3://...``) too.
"""

import mmap
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from spark_jobs.errors import NotAStoreError, UnsupportedUrlError

CHAINED = "::"
"""Between what lies in what, as fsspec writes it."""


class Entry(NamedTuple):
    """Something in a folder; ``size`` is a file's, in bytes, ``modified_ms`` when it was last changed."""

    name: str
    path: str
    is_file: bool
    size: int
    modified_ms: int = 0


class Bytes(NamedTuple):
    """A part of a file, and where in the file it begins."""

    buffer: memoryview
    start: int


def is_local(path: str | os.PathLike[str]) -> bool:
    """Whether the path is one of this machine's own file system."""
    text = os.fspath(path)
    return "://" not in text or (text.startswith("file:") and CHAINED not in text)


def local_path(path: str | os.PathLike[str]) -> Path:
    """A local path as the machine knows it, also where it was given as a URL."""
    text = os.fspath(path)
    if text.startswith("file://"):
        return Path(unquote(urlsplit(text).path))
    return Path(text.removeprefix("file:"))


def local_folder(path: str) -> Path:
    """The absolute folder that a path or a ``file:`` URL names. UnsupportedUrlError for a URL of another scheme."""
    if not is_local(path) or urlsplit(path).netloc not in ("", "localhost"):
        raise UnsupportedUrlError(
            f"{path} cannot be used here: only folders of this machine can, or network storage that is mounted on it. "
            "Give a path or a file:// URL."
        )
    return local_path(path).resolve()


def joined(folder: str | os.PathLike[str], *names: str) -> str:
    """The path of something below a folder."""
    inside, chained, outside = os.fspath(folder).partition(CHAINED)
    return "/".join([inside.rstrip("/"), *names]) + chained + outside


def entries(folder: str) -> list[Entry]:
    """What is in a folder, by name; nothing when there is no such folder."""
    if not is_local(folder):
        return _remote_entries(folder)
    found = []
    try:
        with os.scandir(local_path(folder)) as listed:
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


def is_folder(path: str) -> bool:
    """Whether there is a folder of that name."""
    if is_local(path):
        return local_path(path).is_dir()
    filesystem, inside = remote(path)
    return bool(filesystem.get_file_info(inside).type.name == "Directory")


def is_file(path: str) -> bool:
    """Whether there is a file of that name."""
    if is_local(path):
        return local_path(path).is_file()
    filesystem, inside = remote(path)
    return bool(filesystem.get_file_info(inside).type.name == "File")


def read_start(path: str, size: int) -> bytes | None:
    """The first ``size`` bytes of a file, fewer where it has no more; None when it is not there."""
    try:
        if is_local(path):
            with open(local_path(path), "rb") as file:
                return file.read(size)
        filesystem, inside = remote(path)
        with filesystem.open_input_file(inside) as file:
            return bytes(file.read(size))
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_range(path: str, start: int, stop: int) -> Bytes:
    """Bytes that hold [start, stop) of a file, as far as it goes: of a local file all of it, mapped.

    FileNotFoundError when retention was faster.
    """
    if is_local(path):
        with open(local_path(path), "rb") as file:
            if file.seek(0, 2) == 0:
                return Bytes(memoryview(b""), 0)
            return Bytes(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), 0)
    filesystem, inside = remote(path)
    with filesystem.open_input_file(inside) as file:
        return Bytes(memoryview(file.read_at(max(stop - start, 0), start)), start)


def _remote_entries(folder: str) -> list[Entry]:
    from pyarrow.fs import FileSelector

    filesystem, inside = remote(folder)
    try:
        found = filesystem.get_file_info(FileSelector(inside, allow_not_found=True))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(
        Entry(
            info.base_name,
            joined(folder, info.base_name),
            info.type.name == "File",
            info.size or 0,
            (info.mtime_ns or 0) // 1_000_000,
        )
        for info in found
    )


@lru_cache(256)
def remote(url: str) -> tuple[Any, str]:
    """(pyarrow's file system, path in it). NotAStoreError where nothing is known of such URLs."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem, S3FileSystem

    environment = os.environ  # noqa: TID251 - executors have no settings; pyarrow reads the other AWS_ variables
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint and url.startswith("s3://") and CHAINED not in url and "?" not in url:
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        return S3FileSystem(endpoint_override=endpoint, region=region), url.removeprefix("s3://")
    if CHAINED not in url:
        try:
            filesystem, path = FileSystem.from_uri(url)
            return filesystem, path
        except ArrowInvalid:  # a scheme that pyarrow does not know
            pass
    try:
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(url)
    except ImportError as error:
        raise NotAStoreError(
            f"{url} cannot be read here: pyarrow does not know such URLs, and fsspec, or what it "
            f"needs for them, is not installed ({error})."
        ) from error
    except ValueError as error:
        raise NotAStoreError(f"{url} cannot be read: {error}.") from error
    return PyFileSystem(FSSpecHandler(filesystem)), path
