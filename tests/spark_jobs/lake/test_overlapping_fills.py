"""Two fills of one lake at a time: there is no lock, so the second commit of the same range fails."""

import os
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.errors import LakeBusyError
from spark_jobs.lake.delta import Table
from spark_jobs.lake.state import State
from spark_jobs.lake.sync import Filler, Progress
from spark_jobs.lake.tasks import Done, LakeFile, Target, Work
from spark_jobs.sources.commit_log_damage import DAMAGED, Gap
from tests.spark_jobs import lakes
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.lake.test_sync import active, files_of, fill, lake_of, rows, written
from tests.spark_jobs.lakes import NOW, run_here
from tests.spark_jobs.stores import Written, make_store, publish_end, tear

__all__ = ["written"]


def test_a_fill_goes_on_where_another_broker_is_filled_and_its_days_are_dropped_meanwhile(
    tmp_path: Path, written: Written
) -> None:
    make_store(tmp_path / "other", 5)

    def run(target: Target, works: Sequence[Work]) -> list[Done]:
        assert lakes.fill(tmp_path / "other", tmp_path / "lakes").messages == 5
        table = Table.create(tmp_path / "lakes", "messages", "other")
        assert table.drop_before(max(file.day for file in table.files()) + timedelta(days=1)) == 5
        return run_here(target, works)

    assert fill(tmp_path, run).messages == 40
    assert len(rows(tmp_path)) == 40
    assert lake_of(tmp_path).position == written.records[40][2]


def test_unused_files_may_stay_where_another_broker_s_days_are_dropped_meanwhile(
    tmp_path: Path, two: tuple[Table, Table]
) -> None:
    (day,) = {file.day for file in two[0].files()}
    unused = tmp_path / "lakes" / "messages" / f"date={day}" / "broker=other" / "unused.parquet"
    unused.parent.mkdir()
    unused.touch()
    os.utime(unused, (0, 0))
    assert two[0].drop_before(day + timedelta(days=1)) == 40
    two[1].vacuum(7)
    assert rows(tmp_path) == []


@pytest.mark.parametrize("table", ["polls", "messages"])
@pytest.mark.parametrize("is_first", [True, False])
def test_the_slower_fill_takes_nothing_from_the_faster_one(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch, table: str, is_first: bool
) -> None:
    """Both see damage; the faster one, besides, more of the log, more damage, and a further file of the journal."""
    root, records = tmp_path / "store", written.records
    if not is_first:
        fill(tmp_path)
    publish_end(root, records[48][2])
    tear(root, records[45][2], records[45][3])
    real = Table.append

    def append(part: Table, drafts: Sequence[LakeFile], state: State, now_ms: int) -> None:
        if table == "polls" or state.position is not None:
            monkeypatch.setattr(Table, "append", real)
            shutil.rmtree(root / "polljournal")
            numbers = (range(20), (20,), (21, 22))
            make_journal(root, *([entry(number) for number in file] for file in numbers))
            tear(root, records[50][2], records[50][3])
            publish_end(root, written.end)
            fill(tmp_path)
        real(part, drafts, state, now_ms)

    monkeypatch.setattr(Table, "append", append)
    with pytest.raises(LakeBusyError, match="Another process has filled the lake"):
        fill(tmp_path)
    lake = lake_of(tmp_path)
    assert lake.position == written.end
    assert lake.gaps == [
        Gap(
            DAMAGED,
            records[index][2],
            sum(records[index][2:]),
            records[index][3],
            NOW + 20_000 * (index - 1),
            NOW + 20_000 * (index + 1),
        )
        for index in (45, 50)
    ]
    assert files_of(tmp_path) == active(tmp_path)
    assert fill(tmp_path)[2:4] == (0, 0)
    assert (len(rows(tmp_path)), len(rows(tmp_path, "polls"))) == (58, 23)


def test_a_fill_that_is_overtaken_behind_its_commit_has_done_its_work(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_compact = Filler.compact

    def overtaken(filler: Filler, progress: Progress) -> int:
        monkeypatch.setattr(Filler, "compact", real_compact)
        publish_end(tmp_path / "store", written.end)
        assert fill(tmp_path).messages > 0
        return filler.compact(progress)

    monkeypatch.setattr(Filler, "compact", overtaken)
    assert fill(tmp_path).messages == 40
    assert len(rows(tmp_path)) == len(written.records)
    assert files_of(tmp_path) == active(tmp_path)
    assert fill(tmp_path)[2:4] == (0, 0)


@pytest.fixture
def two(tmp_path: Path, written: Written) -> tuple[Table, Table]:
    """The table of messages, with small files of a day, as two processes have opened it."""
    for index in (10, 20, 30, 40):
        publish_end(tmp_path / "store", written.records[index][2])
        fill(tmp_path)
    return Table.create(tmp_path / "lakes", "messages", "store"), Table.create(tmp_path / "lakes", "messages", "store")


def test_two_processes_that_compact_a_day_compact_it_once(tmp_path: Path, two: tuple[Table, Table]) -> None:
    (day,) = {file.day for file in two[0].files()}
    assert [table.compact(day, 7) > 0 for table in two] == [True, False]
    assert len(rows(tmp_path)) == 40


def test_days_that_one_process_drops_do_not_come_back_by_the_compaction_of_another(
    tmp_path: Path, two: tuple[Table, Table]
) -> None:
    (day,) = {file.day for file in two[0].files()}
    assert two[0].drop_before(day + timedelta(days=1)) == 40
    assert two[1].compact(day, 7) == 0
    assert rows(tmp_path) == []


def test_a_day_that_one_process_compacts_is_dropped_by_another(tmp_path: Path, two: tuple[Table, Table]) -> None:
    (day,) = {file.day for file in two[0].files()}
    assert two[0].compact(day, 7) > 0
    assert two[1].drop_before(day + timedelta(days=1)) == 40
    assert rows(tmp_path) == []
    assert lake_of(tmp_path).dropped.messages == 40


def test_days_are_not_dropped_by_a_process_that_does_not_know_all_of_their_rows(
    tmp_path: Path, written: Written, two: tuple[Table, Table]
) -> None:
    (day,) = {file.day for file in two[0].files()}
    publish_end(tmp_path / "store", written.end)
    fill(tmp_path)
    with pytest.raises(LakeBusyError, match="Another process has filled the lake"):
        two[1].drop_before(day + timedelta(days=1))
    assert len(rows(tmp_path)) == 60
