"""The files of a store, as its readers see them."""

from pathlib import Path

import pytest

from spark_jobs.errors import NotAStoreError, UnsupportedUrlError
from spark_jobs.sources.commit_log_files import (
    find_segments,
    local_folder,
    map_file,
    range_of_window,
    read_start,
)
from tests.spark_jobs.stores import SEGMENT, make_store, segment_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the file ``a b`` (20 bytes), the empty file ``none`` and the folder ``inner``."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "a b").write_bytes(bytes(range(20)))
    (tmp_path / "none").write_bytes(b"")
    return tmp_path


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


def test_a_store_without_a_log_is_distinguished_from_a_folder_that_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="is not a store"):
        find_segments(tmp_path)
    (tmp_path / "glassmq").write_text("1")
    assert find_segments(tmp_path) == ([], ())


def test_segments_in_their_order_and_what_else_is_there(tmp_path: Path) -> None:
    make_store(tmp_path, 60)
    path = segment_path(tmp_path, 1)
    path.write_bytes(path.read_bytes() + b"more than there is room for")
    (tmp_path / "commitlog" / "notes.txt").write_text("not a segment")
    (tmp_path / "commitlog" / f"{7 * SEGMENT:020d}").mkdir()
    segment_path(tmp_path, 8).symlink_to("removed since the folder was listed")
    found, others = find_segments(tmp_path)
    assert [(segment.base, segment.limit) for segment in found] == [
        (index * SEGMENT, (index + 1) * SEGMENT) for index in range(len(found))
    ]
    assert [segment.modified_ms for segment in found] == [
        segment_path(tmp_path, index).stat().st_mtime_ns // 1_000_000 for index in range(len(found))
    ]
    assert others == (f"{7 * SEGMENT:020d}", "notes.txt")


HOURS = (0, 2, 4, 6, 8)


@pytest.mark.parametrize(
    ("begins", "window", "expected"),
    [
        (HOURS, (None, None), (0, 5)),
        (HOURS, (4.5, None), (1, 5)),
        (HOURS, (None, 4.5), (0, 3)),
        (HOURS, (5.5, 6.5), (2, 4)),
        (HOURS, (-10, -9), (0, 0)),
        (HOURS, (100, None), (4, 5)),
        ((0, None, None, 6), (6.5, None), (0, 4)),
        ((0, None, None, 6), (7.5, None), (3, 4)),
        ((0, None, None, 6), (None, 1.5), (0, 3)),
        ((0, 50, 4, 6), (10, None), (0, 4)),
        ((0, 50, 4, 6), (None, 3), (0, 1)),
        ((), (1, 2), (0, 0)),
    ],
)
def test_files_of_a_window_by_when_they_begin(
    begins: tuple[int | None, ...], window: tuple[float | None, float | None], expected: tuple[int, int]
) -> None:
    """Times are in hours. The clock may have been set back by one. None is damage, and 50 a clock that was ahead."""

    def ms(hours: float | None) -> int | None:
        return None if hours is None else round(hours * 3_600_000)

    assert range_of_window(begins, ms, *map(ms, window)) == expected
