"""Two fills of one lake at a time, and a report that opens the lake during a fill."""

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from spark_jobs.errors import LakeBusyError
from spark_jobs.lake import lake as lake_module
from spark_jobs.lake import sync as lake_sync
from spark_jobs.lake.delta import Table
from spark_jobs.lake.folders import TABLES, lake_name
from spark_jobs.lake.lake import find_lake
from spark_jobs.lake.notes import TORN, Notes, read_notes, write_notes
from spark_jobs.lake.storage import Location
from spark_jobs.lake.sync import Filler, Progress
from spark_jobs.lake.tasks import Done, Work
from spark_jobs.sources.poll_journal_files import survey
from tests.spark_jobs import lakes
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.lake.test_sync import active, files_of, fill, lake_of, rows, written
from tests.spark_jobs.lakes import run_here
from tests.spark_jobs.stores import Written, make_store, publish_end, tear

__all__ = ["written"]


def test_a_second_fill_of_a_store_is_refused_while_one_is_under_way(tmp_path: Path, written: Written) -> None:
    make_store(tmp_path / "other", 5)

    def run(works: Sequence[Work]) -> list[Done]:
        with pytest.raises(LakeBusyError, match=r"Another process fills the lake of store-.* at this moment"):
            fill(tmp_path)
        assert lakes.fill(tmp_path / "other", tmp_path / "lakes").messages == 5, "another store does not wait"
        return run_here(works)

    assert fill(tmp_path, run).messages == 40
    assert fill(tmp_path)[2:4] == (0, 0)
    assert len(rows(tmp_path)) == 40
    assert sum(file.rows for file in lakes.lake_of(tmp_path / "other", tmp_path / "lakes").messages) == 5


@pytest.mark.parametrize("moment", ["before the notes are written", "before the commit"])
def test_without_a_lock_the_slower_fill_takes_nothing_from_the_faster_one(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """As in S3. The faster fill reads a file of the journal and damage that the slower one has not seen."""
    root, records = tmp_path / "store", written.records
    monkeypatch.setattr(lake_sync, "locked", lambda *_: nullcontext())
    fill(tmp_path)
    publish_end(root, records[44][2])
    real_append = Table.append

    def overtake() -> None:
        monkeypatch.setattr(Table, "append", real_append)
        shutil.rmtree(root / "polljournal")
        make_journal(root, [entry(number) for number in range(20)], [entry(20)], [entry(number) for number in (21, 22)])
        tear(root, records[50][2], records[50][3])
        publish_end(root, written.end)
        assert fill(tmp_path).polls == 2

    def run(works: Sequence[Work]) -> list[Done]:
        done = run_here(works)
        if moment == "before the notes are written":
            overtake()
        else:
            monkeypatch.setattr(Table, "append", lambda *given: (overtake(), real_append(*given)))
        return done

    with pytest.raises(LakeBusyError, match="Another process has filled the lake"):
        fill(tmp_path, run)
    assert (lake_of(tmp_path).position, lake_of(tmp_path).notes.amounts) == (written.end, {TORN: records[50][3]})
    assert files_of(tmp_path) == active(tmp_path)
    assert fill(tmp_path)[2:4] == (0, 0)
    assert len(rows(tmp_path, "polls")) == 23


def test_without_a_lock_a_fill_that_is_overtaken_behind_its_commit_keeps_what_it_has_committed(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_sync, "locked", lambda *_: nullcontext())
    real_compact = Filler.compact

    def overtaken(filler: Filler, progress: Progress) -> int:
        monkeypatch.setattr(Filler, "compact", real_compact)
        publish_end(tmp_path / "store", written.end)
        assert fill(tmp_path).messages > 0
        return filler.compact(progress)

    monkeypatch.setattr(Filler, "compact", overtaken)
    with pytest.raises(LakeBusyError, match=r"What this fill had committed before is in the lake; its other files are"):
        fill(tmp_path)
    assert len(rows(tmp_path)) == len(written.records)
    assert files_of(tmp_path) == active(tmp_path)
    assert fill(tmp_path)[2:4] == (0, 0)


def test_a_file_of_the_journal_that_the_notes_lack_is_not_read_again(tmp_path: Path, written: Written) -> None:
    broker = fill(tmp_path).broker
    notes = read_notes(tmp_path / "lakes", broker)
    assert notes is not None
    notes.journal = []
    write_notes(tmp_path / "lakes", broker, notes)
    assert len(lake_of(tmp_path).journal) == 2
    assert fill(tmp_path).polls == 0
    assert len(rows(tmp_path, "polls")) == 21


def test_a_reader_during_a_fill_counts_no_file_of_the_journal_twice(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    real = lake_module.read_notes

    def overtaken(lakes: Location, broker: str) -> Notes | None:
        """Another process fills the lake between the notes and the tables."""
        monkeypatch.setattr(lake_module, "read_notes", real)
        notes = real(lakes, broker)
        shutil.rmtree(tmp_path / "store" / "polljournal")
        make_journal(tmp_path / "store", [entry(number) for number in range(20)], [entry(20)], [entry(21)])
        assert fill(tmp_path).polls == 1
        return notes

    monkeypatch.setattr(lake_module, "read_notes", overtaken)
    lake = lake_of(tmp_path)
    entries = sum(file.rows for file in lake.polls) + survey(tmp_path / "store", lake.journal).entries
    assert entries == 22


def test_a_reader_during_a_fill_misses_no_file_of_the_journal_that_the_tables_have(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are opened first: notes read later have the name of every file in them, even of deleted ones."""
    fill(tmp_path)
    opened: list[str] = []
    real_open, real_read = Table.open, lake_module.read_notes
    monkeypatch.setattr(Table, "open", lambda lakes, name: (opened.append(name), real_open(lakes, name))[1])
    monkeypatch.setattr(
        lake_module, "read_notes", lambda *arguments: (opened.append("notes"), real_read(*arguments))[1]
    )
    lake_of(tmp_path)
    assert opened == [*TABLES, "notes"]


def test_of_two_first_fills_only_one_takes_the_name_of_the_broker(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lake_sync.locked

    def overtaken(lakes: Location, broker: str) -> AbstractContextManager[None]:
        """Another process fills the lake between the choice of the name and the lock."""
        monkeypatch.setattr(lake_sync, "locked", real)
        assert fill(tmp_path).messages == 40
        return real(lakes, broker)

    monkeypatch.setattr(lake_sync, "locked", overtaken)
    with pytest.raises(LakeBusyError, match="Another process has filled the lake"):
        fill(tmp_path)
    assert fill(tmp_path)[2:4] == (0, 0)
    assert len(rows(tmp_path)) == 40


def move_to_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lake_module, lake_sync):
        monkeypatch.setattr(module, "gethostname", lambda: "elsewhere")


def test_another_machines_store_of_the_same_path_is_another_broker(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log begins behind what the lake has, so no record says whose it is."""
    first, store = fill(tmp_path), tmp_path / "store"
    shutil.rmtree(store)
    make_store(store, 200)
    for segment in (store / "commitlog").iterdir():
        if int(segment.name) <= first.position:
            segment.unlink()
    assert lake_of(tmp_path).broker == first.broker, "on the same machine it goes on with a gap"
    move_to_another_machine(monkeypatch)
    assert find_lake(tmp_path / "lakes", store) is None
    other = fill(tmp_path)
    assert (other.broker, other.gap_bytes) == (f"{first.broker}-2", 0)


def test_another_machines_store_of_the_same_path_does_not_wait(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers with equal paths that share a lake, and whose schedules fill it at the same minute."""
    first, store = fill(tmp_path), tmp_path / "store"
    publish_end(store, written.end)

    def run(works: Sequence[Work]) -> list[Done]:
        done = run_here(works)
        store.rename(tmp_path / "of the first")
        make_store(store, 5, step_ms=7)
        with monkeypatch.context() as elsewhere:
            move_to_another_machine(elsewhere)
            other = fill(tmp_path)
        assert (other.broker, other.messages) == (f"{first.broker}-2", 5)
        store.rename(tmp_path / "of the other")
        (tmp_path / "of the first").rename(store)
        return done

    assert fill(tmp_path, run).broker == first.broker
    assert len(rows(tmp_path)) == len(written.records)


def test_two_machines_that_begin_at_the_same_moment_are_told_apart(tmp_path: Path, written: Written) -> None:
    broker = lake_name(tmp_path / "store")

    def run(works: Sequence[Work]) -> list[Done]:
        write_notes(tmp_path / "lakes", broker, Notes("store", host="elsewhere"))
        return run_here(works)

    with pytest.raises(LakeBusyError, match="Another process has filled the lake"):
        fill(tmp_path, run)
    assert fill(tmp_path).broker == f"{broker}-2"
    assert len(rows(tmp_path)) == 40
