"""Notes on a broker: written whole, and without the commits that never came."""

from pathlib import Path

import pytest

from spark_jobs.errors import LakeError
from spark_jobs.lake.folders import notes_path
from spark_jobs.lake.notes import DELETED, LOST, TORN, Missing, Notes, read_notes, write_notes


def test_written_notes_are_read(tmp_path: Path) -> None:
    notes = Notes("store", missing=[Missing(0, 10, DELETED, 10), Missing(0, 9, LOST, 3, "0@7")], position=30)
    assert read_notes(tmp_path, "b") is None
    write_notes(tmp_path, "b", notes)
    assert read_notes(tmp_path, "b") == notes


def test_notes_of_commits_that_never_came_do_not_count() -> None:
    of_log = [
        Missing(0, 50, TORN, 5),
        Missing(10, 50, DELETED, 10),
        Missing(50, 70, TORN, 6),
        Missing(50, 70, "topic", 1),
    ]
    of_journal = [Missing(0, 9, LOST, 3, "0@7"), Missing(9, 20, LOST, 4, "0@7"), Missing(0, 5, LOST, 1, "1@7")]
    notes = Notes("store", missing=[*of_log, *of_journal])
    found = notes.as_of(50, {"0@7": 9})
    assert found.missing == [*of_log[:2], of_journal[0]]
    assert found.amounts == {TORN: 5, DELETED: 10, LOST: 3}
    assert notes.as_of(70, {"0@7": 20, "1@7": 5}) == notes
    assert notes.amounts == {TORN: 11, DELETED: 10, "topic": 1, LOST: 8}


def test_damaged_notes_are_a_sentence(tmp_path: Path) -> None:
    Path(notes_path(tmp_path, "b")).write_text("{")
    with pytest.raises(LakeError, match=r"b\.json is damaged .* fill it anew"):
        read_notes(tmp_path, "b")
