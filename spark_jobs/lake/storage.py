"""Where a lake is: a folder, or an ``s3://`` URL. Imports pyarrow only for URLs.

Credentials, region and endpoint come from the environment (``AWS_…``), as for delta-rs and pyarrow anywhere else.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from spark_jobs.errors import UnsupportedUrlError
from spark_jobs.sources.commit_log_files import is_local, joined, local_folder, local_path, remote

Location = str | os.PathLike[str]
"""A folder, or a URL without a ``/`` at its end."""


def lake_location(text: str) -> str:
    """The absolute folder or the ``s3://`` URL that a user has given. UnsupportedUrlError for any other URL."""
    url = urlsplit(text)
    if url.scheme != "s3" and is_local(text) and url.netloc in ("", "localhost"):
        return str(local_folder(text))
    if url.scheme != "s3" or not url.netloc or not url.path.strip("/") or url.query or url.fragment:
        raise UnsupportedUrlError(
            f"{text} cannot be used for a lake: give a path, a file:// URL, or s3://BUCKET/FOLDER."
        )
    return f"s3://{url.netloc}/{url.path.strip('/')}"


def filesystem_of(location: Location) -> tuple[Any, str]:
    """(pyarrow's file system, the path in it)."""
    if not is_local(location):
        return remote(os.fspath(location))
    from pyarrow.fs import LocalFileSystem

    return LocalFileSystem(), str(local_path(location))


def files_of(root: str, broker: str) -> dict[str, int]:
    """The Parquet files of a broker in the folder of a table, active or not: bytes by path."""
    if is_local(root):
        found = local_path(root).glob(f"date=*/broker={broker}/*.parquet")
        return {str(path): path.stat().st_size for path in found}
    from pyarrow.fs import FileSelector

    filesystem, inside = remote(root)
    listed = filesystem.get_file_info(FileSelector(inside, recursive=True, allow_not_found=True))
    return {
        joined(root, info.path.removeprefix(inside).lstrip("/")): info.size
        for info in listed
        if f"/broker={broker}/" in info.path and info.path.endswith(".parquet")
    }


def remove_file(path: str) -> None:
    """Remove a file, if it is there."""
    if is_local(path):
        local_path(path).unlink(missing_ok=True)
        return
    filesystem, inside = remote(path)
    with suppress(FileNotFoundError):
        filesystem.delete_file(inside)


def make_folder(location: Location) -> None:
    """Create a folder. Behind a URL there is nothing to create."""
    if is_local(location):
        local_path(location).mkdir(parents=True, exist_ok=True)


def write_whole(location: Location, data: bytes) -> None:
    """Write a file that is there as a whole or not at all, and survives a power cut. OSError."""
    if not is_local(location):
        filesystem, inside = remote(os.fspath(location))
        with filesystem.open_output_stream(inside) as file:  # an object appears when it is complete
            file.write(data)
        return
    path = local_path(location)
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
    sync_folder(path.parent)


def sync_file(path: str) -> None:
    """Have a local file's bytes on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Have a folder's names on the disk."""
    sync_file(str(folder))
