"""Which lake is that of a store, and whether a store is the one that a lake was filled from."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake.folders import notes_path
from spark_jobs.lake.lake import Fit, find_lake, fit, record_at
from spark_jobs.lake.notes import LastRecord, Notes
from tests.spark_jobs import lakes
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import make_store, segment_path, tear


@pytest.fixture
def fill(tmp_path: Path) -> Callable[[], str]:
    """Fills the lake of the store in this process; returns the broker's name."""

    return lambda: lakes.fill(tmp_path / "store", tmp_path / "lakes").broker


def test_a_lake_has_rows_files_and_positions(tmp_path: Path, fill: Callable[[], str]) -> None:
    written = make_store(tmp_path / "store", 20)
    make_journal(tmp_path / "store", [entry(number) for number in range(12)])
    assert find_lake(tmp_path / "lakes", tmp_path / "store") is None
    broker = fill()
    lake = lakes.lake_of(tmp_path / "store", tmp_path / "lakes")
    assert (lake.folder, lake.broker) == (str(tmp_path / "lakes"), broker)
    assert lake.position == lake.notes.position == written.end
    assert (sum(file.rows for file in lake.messages), sum(file.rows for file in lake.polls)) == (20, 12)
    assert list(lake.journal.values()) == [(tmp_path / "store/polljournal" / f"{0:020d}.journal").stat().st_size]


def test_the_newest_store_that_fits_is_the_one(tmp_path: Path, fill: Callable[[], str]) -> None:
    make_store(tmp_path / "store", 20)
    first = fill()
    (tmp_path / "store").rename(tmp_path / "old")
    make_store(tmp_path / "store", 20, topics=("other",))
    assert find_lake(tmp_path / "lakes", tmp_path / "store") is None
    assert fill() == f"{first}-2"
    for store, broker in (("old", first), ("store", f"{first}-2")):
        if store == "old":
            (tmp_path / "store").rename(tmp_path / "new")
            (tmp_path / "old").rename(tmp_path / "store")
        else:
            shutil.rmtree(tmp_path / "store")
            (tmp_path / "new").rename(tmp_path / "store")
        lake = find_lake(tmp_path / "lakes", tmp_path / "store")
        assert lake is not None and lake.broker == broker


def test_damaged_notes_are_an_error_when_no_other_lake_fits(tmp_path: Path, fill: Callable[[], str]) -> None:
    make_store(tmp_path / "store", 20)
    broker = fill()
    Path(notes_path(tmp_path / "lakes", f"{broker}-2")).write_text("{")
    assert find_lake(tmp_path / "lakes", tmp_path / "store") is not None
    Path(notes_path(tmp_path / "lakes", broker)).unlink()
    with pytest.raises(LakeError, match="is damaged"):
        find_lake(tmp_path / "lakes", tmp_path / "store")


def test_a_store_is_identified_by_one_of_its_last_records(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    seen = [record_at(str(tmp_path), at, size) for _, _, at, size in written.records[-3:]]
    last = [record for record in seen if record is not None]
    assert len(last) == 3
    notes = Notes("store", last=last)
    assert fit(str(tmp_path), notes) is Fit.SAME
    tear(tmp_path, last[-1].physical_offset + 40, 1)
    assert fit(str(tmp_path), notes) is Fit.SAME
    assert fit(str(tmp_path), Notes("store", last=last[-1:])) is Fit.OTHER
    assert fit(str(tmp_path), Notes("store")) is Fit.UNKNOWN
    segment_path(tmp_path, 0).unlink()
    assert fit(str(tmp_path), Notes("store", last=[LastRecord(5, 10, "x")])) is Fit.UNKNOWN
    assert record_at(str(tmp_path), 5, 10) is None
