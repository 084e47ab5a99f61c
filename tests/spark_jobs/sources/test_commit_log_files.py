"""The files of a store, as its readers see them."""

from pathlib import Path

import pytest

from spark_jobs.errors import UnsupportedUrlError
from spark_jobs.sources.commit_log_files import Entry, entries, local_folder, map_file, read_start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file ``a b`` (20 bytes), the empty file ``none`` and the folder ``inner``."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "a b").write_bytes(bytes(range(20)))
    (tmp_path / "none").write_bytes(b"")
    return tmp_path


def test_entries_are_sorted_by_name(folder: Path) -> None:
    assert [entry._replace(modified_ms=0) for entry in entries(folder)] == [
        Entry("a b", str(folder / "a b"), True, 20),
        Entry("inner", str(folder / "inner"), False, 0),
        Entry("none", str(folder / "none"), True, 0),
    ]
    assert entries(folder / "nothing") == entries(folder / "a b") == []


def test_bytes_of_a_file(folder: Path) -> None:
    assert read_start(folder / "a b", 4) == bytes(range(4))
    assert read_start(folder / "a b", 99) == map_file(folder / "a b")[:] == bytes(range(20))
    assert read_start(folder / "nothing", 4) is None
    assert map_file(folder / "none") == b""
    with pytest.raises(FileNotFoundError):
        map_file(folder / "nothing")


def test_a_folder_is_a_path_or_a_file_url() -> None:
    assert (
        local_folder("file:///a%20b/c") == local_folder("/a b/x/../c") == local_folder("file:/a b/c") == Path("/a b/c")
    )
    for url in ("s3://bucket/store", "file://host/store", "zip://a::file:///b"):
        with pytest.raises(UnsupportedUrlError, match="only folders of this machine"):
            local_folder(url)
