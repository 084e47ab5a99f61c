"""Where a lake is: a folder, or an ``s3://`` URL. Imports pyarrow only for URLs.

Credentials, region and endpoint come from the environment (``AWS_…``), as for delta-rs and pyarrow anywhere else.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from spark_jobs.errors import UnsupportedUrlError
from spark_jobs.sources.commit_log_files import local_folder

S3 = "s3://"
TABLES = ("messages", "polls")
"""The tables of a lake that have rows of logs and journals."""
Location = str | os.PathLike[str]
"""A folder, or a URL without a ``/`` at its end."""


def lake_location(text: str) -> str:
    """The absolute folder or the ``s3://`` URL that a user has given. UnsupportedUrlError for any other URL."""
    url = urlsplit(text)
    if url.scheme in ("", "file") and url.netloc in ("", "localhost"):
        return str(local_folder(text))
    if url.scheme != "s3" or not url.netloc or not url.path.strip("/") or url.query or url.fragment:
        raise UnsupportedUrlError(
            f"{text} cannot be used for a lake: give a path, a file:// URL, or s3://BUCKET/FOLDER."
        )
    return f"{S3}{url.netloc}/{url.path.strip('/')}"


def is_local(location: Location) -> bool:
    """Whether it is a path of this machine, not a URL."""
    return not os.fspath(location).startswith(S3)


def joined(folder: Location, *names: str) -> str:
    """The path or URL of something below a folder."""
    return "/".join([os.fspath(folder).rstrip("/"), *names])


def filesystem_of(location: Location) -> tuple[Any, str]:
    """(pyarrow's file system, the path in it)."""
    if not is_local(location):
        return _s3(os.fspath(location))
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem(), os.fspath(location)


@lru_cache(256)
def _s3(url: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    path = url.removeprefix(S3)  # any characters, also those that a URI cannot have
    filesystem, _ = FileSystem.from_uri(S3 + path.partition("/")[0])  # without a region it asks for the bucket's
    return filesystem, path


def remove_files(folder: Location, is_unused: Callable[[Any], bool]) -> None:
    """Remove the files below a folder or URL whose pyarrow ``FileInfo`` is unused. OSError."""
    from pyarrow.fs import FileSelector

    filesystem, inside = filesystem_of(folder)
    for info in filesystem.get_file_info(FileSelector(inside, recursive=True, allow_not_found=True)):
        if info.is_file and is_unused(info):
            with suppress(FileNotFoundError):
                filesystem.delete_file(info.path)


def sync_files(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Write local files to the disk, and the names in the three folders above them."""
    files = [Path(path) for path in paths]
    for path in (*files, *{folder for file in files for folder in file.parents[:3]}):
        sync_to_disk(path)


def write_whole(path: Path, data: bytes) -> None:
    """Write a local file that is there as a whole or not at all, and survives a power cut. OSError."""
    draft = path.with_name(f"{path.name}.{uuid4().hex[:8]}.new")
    try:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    sync_to_disk(path.parent)


def sync_to_disk(path: str | os.PathLike[str]) -> None:
    """Have the bytes of a local file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
