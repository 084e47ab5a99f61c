"""The same store on this machine and behind URLs: pyarrow's, fsspec's, a zip file's."""

import shutil
from pathlib import Path

import fsspec
import pytest

from spark_jobs.errors import NotAStoreError
from spark_jobs.sources.commit_log_files import (
    Entry,
    entries,
    is_file,
    is_folder,
    is_local,
    joined,
    local_path,
    read_range,
    read_start,
)


@pytest.fixture(params=["path", "file:", "file://", "memory://", "local://", "zip://"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder with the file ``commitlog/a b`` (20 bytes), the empty file ``none`` and the folder ``inner``."""
    folder = tmp_path / "my store"
    (folder / "commitlog" / "inner").mkdir(parents=True)
    (folder / "commitlog" / "a b").write_bytes(bytes(range(20)))
    (folder / "commitlog" / "none").write_bytes(b"")
    (folder / "commitlog" / "inner" / "x").write_bytes(b"x")
    kind = request.param
    if kind == "path":
        return str(folder)
    if kind == "memory://":
        memory = fsspec.filesystem("memory")
        place = f"/store-{tmp_path.name}"
        memory.put(f"{folder}/", f"{place}/", recursive=True)
        return f"memory:/{place}"
    if kind == "zip://":
        archive = shutil.make_archive(str(tmp_path / "archive"), "zip", tmp_path, "my store")
        return f"zip://my store::file://{archive}"
    return f"{kind}{str(folder).replace(' ', '%20') if kind == 'file://' else folder}"


def test_a_folder_has_what_is_in_it(store: str) -> None:
    folder = joined(store, "commitlog")
    assert [entry._replace(path="", modified_ms=0) for entry in entries(folder)] == [
        Entry("a b", "", True, 20),
        Entry("inner", "", False, 0),
        Entry("none", "", True, 0),
    ]
    assert (is_folder(folder), is_file(folder), is_folder(joined(store, "nothing"))) == (True, False, False)
    assert is_file(joined(folder, "a b"))
    assert entries(joined(store, "nothing")) == []
    (inner,) = entries(joined(folder, "inner"))
    assert read_start(inner.path, 5) == b"x"


def test_bytes_of_a_file(store: str) -> None:
    path = next(entry.path for entry in entries(joined(store, "commitlog")) if entry.name == "a b")
    assert read_start(path, 4) == bytes(range(4))
    assert read_start(path, 99) == bytes(range(20))
    assert read_start(joined(store, "nothing"), 4) is None
    for start, stop in ((5, 9), (0, 20), (15, 99)):
        found = read_range(path, start, stop)
        assert bytes(found.buffer[start - found.start : stop - found.start]) == bytes(range(start, min(stop, 20)))
    assert bytes(read_range(joined(store, "commitlog", "none"), 0, 0).buffer) == b""
    with pytest.raises(FileNotFoundError):
        read_range(joined(store, "nothing"), 0, 4)


def test_local_paths_are_recognized() -> None:
    assert all(map(is_local, ("/a/b", Path("a"), "file:/a", "file:///a")))
    assert not any(map(is_local, ("s3://a/b", "memory://a", "zip://a::file:///b")))
    assert local_path("file:///a%20b/c") == Path("/a b/c")
    assert local_path("file:/a b") == local_path("/a b") == Path("/a b")


def test_a_name_goes_before_what_it_is_chained_to() -> None:
    assert joined("zip://store/::s3://bucket/x.zip", "a", "b") == "zip://store/a/b::s3://bucket/x.zip"
    assert joined("/store/", "a") == "/store/a"


def test_a_url_of_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(NotAStoreError, match="nobody://there cannot be read"):
        entries("nobody://there")
