"""Which files a journal has, and what of them is missing."""

from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from broker_core.formats.poll_journal import FOLDER, encode_header, file_name
from spark_jobs.errors import NotAStoreError
from spark_jobs.sources.poll_journal_files import (
    JournalFile,
    JournalPosition,
    JournalSurvey,
    files_after,
    find_files,
    read_file,
    survey,
)
from spark_jobs.sources.poll_journal_source import PollJournalReader
from tests.broker_core.formats.test_poll_journal import with_schema
from tests.spark_jobs.journals import BEGIN_MS, block_ends, entry, make_journal

HOUR = 3_600_000


def test_files_in_their_order_without_what_else_lies_there(tmp_path: Path) -> None:
    paths = make_journal(tmp_path, [entry(0)], [entry(1)])
    for name in ("notes.txt", "7.journal", f"{5:020d}.journal.bak"):
        (tmp_path / "polljournal" / name).write_text("x")
    (tmp_path / "polljournal" / f"{9:020d}.journal").mkdir()
    (tmp_path / "polljournal" / f"{8:020d}.journal").symlink_to("removed since the folder was listed")
    files = find_files(tmp_path)
    assert files == [JournalFile(str(path), number, path.stat().st_size) for number, path in enumerate(paths)]


def test_a_store_may_have_no_journal(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="is not a store: it has no polljournal folder"):
        find_files(tmp_path)
    (tmp_path / "glassmq").write_text("1")
    assert find_files(tmp_path) == []
    (tmp_path / "glassmq").unlink()
    (tmp_path / "commitlog").mkdir()
    assert survey(tmp_path)[:3] == (0, 0, 0)
    assert read_file(str(tmp_path / "gone")) is None


def test_a_survey_counts_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    paths = make_journal(
        tmp_path, map(entry, range(25)), map(entry, range(25, 30)), [], map(entry, range(30, 50)), lost=2
    )
    whole = survey(tmp_path)
    assert whole == JournalSurvey(4, 50, 2 * 6, 0, 0, [], 0, 0, BEGIN_MS, BEGIN_MS + 49_000)
    data = paths[0].read_bytes()
    paths[0].write_bytes(data[:-41])  # in the middle of its last entry
    paths[1].write_bytes(b"x" * 500)
    paths[3].write_bytes(paths[3].read_bytes()[:-40])  # not closed: it is being written
    harmed = survey(tmp_path)
    last_block = 40 + 5 * 80 + 8 * -(-sum(2 + len(f"c{number}") for number in range(20, 25)) // 8)
    assert harmed[:4] == (4, 40, 2 * 4, last_block - 1 + 500)
    assert harmed[5:7] == ([paths[0].name, paths[1].name], 2)
    assert 9 <= harmed.torn_entries <= 12


def test_times_are_the_smallest_and_the_largest_when_the_clock_goes_back(tmp_path: Path) -> None:
    make_journal(tmp_path, [entry(0, at_ms=at) for at in (500, 900, 700, 100, 300)], block=2)
    assert survey(tmp_path)[-2:] == (100, 900)


def test_files_that_were_written_before_or_after_a_window_are_not_read(tmp_path: Path) -> None:
    """Each has the entries of an hour."""
    hours = [[entry(0, at_ms=HOUR * hour + 60_000 * minute) for minute in range(60)] for hour in range(10)]
    paths = make_journal(tmp_path, *hours, created_ms=range(0, 10 * HOUR, HOUR))
    whole, window = survey(tmp_path), (4 * HOUR, 5 * HOUR)
    found = survey(tmp_path, None, window)
    assert (found.files, found.entries, found.cut_off_files) == (10, 4 * 60, 0), "an hour is allowed for the clock"
    assert (found.from_ms, found.to_ms) == (2 * HOUR, 6 * HOUR - 60_000)
    reader = PollJournalReader(
        StructType(), {"path": str(tmp_path), "from_ms": str(window[0]), "to_ms": str(window[1])}
    )
    read = [file.number for part in reader.partitions() for file in part.value]
    assert read == [2, 3, 4, 5]
    paths[1].write_bytes(b"damaged")
    assert survey(tmp_path, None, window) == found
    paths[3].write_bytes(b"damaged")
    assert survey(tmp_path, None, window)[1:] == (180, 0, 7, 0, [paths[3].name], 1, 6, 2 * HOUR, 6 * HOUR - 60_000)
    assert (
        survey(tmp_path, None, (50 * HOUR, None)).entries == 60 and survey(tmp_path, None, (None, -HOUR)).entries == 0
    )
    assert whole.entries == 600


def test_entries_that_waited_for_the_disk_are_older_than_their_file(tmp_path: Path) -> None:
    """The file was made two hours after its first entry, which is in the window."""
    make_journal(tmp_path, [entry(0, at_ms=0)], [entry(0, at_ms=1)], [], created_ms=(0, 2 * HOUR, 4 * HOUR))
    assert survey(tmp_path, None, (0, 60_000)).entries == 2


def test_entries_of_an_older_schema_count(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / file_name(0)).write_bytes(with_schema(0, 44))
    found = survey(tmp_path)
    assert (found.entries, found.torn_bytes, found.from_ms, found.to_ms) == (2, 0, 100, 200)


def test_entries_that_were_read_before_are_not_counted_again(tmp_path: Path) -> None:
    (file,) = make_journal(tmp_path, [entry(number) for number in range(20)], lost=3)
    data, whole = file.read_bytes(), survey(tmp_path)
    first, *_ = block_ends(data)
    rest = JournalSurvey(1, 10, whole.lost - 3, 0, 0, [], 0, 0, BEGIN_MS + 10_000, BEGIN_MS + 19_000)
    assert survey(tmp_path, JournalPosition(0, BEGIN_MS, first)) == rest
    nothing = survey(tmp_path, JournalPosition(0, BEGIN_MS, len(data), True))
    assert nothing == JournalSurvey(1, 0, 0, 0, 0, [], 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (None, [(0, 0), (1, 0), (2, 0)]),
        (JournalPosition(1, 20, 55), [(1, 55), (2, 0)]),
        (JournalPosition(2, 30, 55), [(2, 55)]),
        (JournalPosition(4, 30, 55), []),
        (JournalPosition(4, 15, 55), [(1, 0), (2, 0)]),
        (JournalPosition(1, 5, 55), [(0, 0), (1, 0), (2, 0)]),
        (JournalPosition(1, 99, 55), [(2, 0)]),
    ],
    ids=["nothing read", "its file", "the last file", "deleted", "begun anew", "begun anew, same number", "clock back"],
)
def test_the_files_behind_a_position(
    tmp_path: Path, position: JournalPosition | None, expected: list[tuple[int, int]]
) -> None:
    for number in range(3):
        path = tmp_path / FOLDER / file_name(number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode_header(number, 10 * (number + 1), 42, "broker-a"))
    files = find_files(tmp_path)
    assert [(file.number, file.start) for file in files_after(files, position)] == expected


def test_a_damaged_file_is_the_one_that_it_was(tmp_path: Path) -> None:
    paths = make_journal(tmp_path, [entry(0)], [entry(1)])
    paths[1].write_bytes(b"x" * 100)
    files = files_after(find_files(tmp_path), JournalPosition(1, BEGIN_MS, 55))
    assert [(file.number, file.start) for file in files] == [(1, 55)]
