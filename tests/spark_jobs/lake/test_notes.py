"""Notes on a broker: written whole, and without the commits that never came."""

from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake.folders import notes_path
from spark_jobs.lake.notes import LeftOut, LogGap, Lost, Notes, Torn, read_notes, write_notes


def test_written_notes_are_read(tmp_path: Path) -> None:
    notes = Notes("store", gaps=[LogGap(0, 10, 7)], torn=[Torn(10, 30, 5)], lost=[Lost("0@7", 0, 9, 3)], position=30)
    assert read_notes(tmp_path, "b") is None
    write_notes(tmp_path, "b", notes)
    assert read_notes(tmp_path, "b") == notes
    assert (notes.gap_bytes, notes.torn_bytes) == (10, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


def test_notes_of_a_commit_that_never_came_are_left_out() -> None:
    notes = Notes(
        "store",
        gaps=[LogGap(0, 10, 7), LogGap(50, 60, 7)],
        torn=[Torn(10, 30, 5), Torn(30, 70, 6)],
        left_out=[LeftOut(10, 30, {"topic": 1}), LeftOut(30, 70, {"queue id": 2})],
        lost=[Lost("0@7", 0, 9, 3), Lost("0@7", 9, 20, 4), Lost("1@7", 0, 5, 1)],
    )
    found = notes.as_of(50, {"0@7": 9})
    assert (found.gaps, found.torn, found.lost) == (notes.gaps[:1], notes.torn[:1], notes.lost[:1])
    assert found.left_out == notes.left_out[:1]
    assert notes.as_of(70, {"0@7": 20, "1@7": 5}) == notes


def test_damaged_notes_are_a_sentence(tmp_path: Path) -> None:
    Path(notes_path(tmp_path, "b")).write_text("{")
    with pytest.raises(LakeError, match=r"b\.json is damaged .* fill it anew"):
        read_notes(tmp_path, "b")
