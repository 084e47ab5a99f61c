"""The Delta tables: appends exactly once, compaction, retention, vacuum, and what other tools read."""

import os
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow import parquet

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake import delta, gaps
from spark_jobs.lake.delta import DAY_MS, DROPPED, PARTITIONS, READ_ON_HOURS, Table, begin_of, first_kept
from spark_jobs.lake.tasks import MS_TIMESTAMP, TIMESTAMP, Gap, LakeFile
from tests.spark_jobs import lakes
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal
from tests.spark_jobs.stores import make_store

DAY = date(2026, 1, 31)
BEGIN = begin_of(DAY)


def draft(root: Path, name: str, first: int = 0, rows: int = 10, broker: str = "a", day: date = DAY) -> LakeFile:
    """A file of messages, one a second from the beginning of the day on."""
    path = f"date={day.isoformat()}/broker={broker}/{name}.parquet"
    file = root / "messages" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    times = [begin_of(day) + 1000 * number for number in range(rows)]
    offsets = list(range(first, first + rows))
    parquet.write_table(
        pa.table(
            {
                "physical_offset": offsets,
                "topic": ["t"] * rows,
                "store_ts": pa.array(times, MS_TIMESTAMP).cast(TIMESTAMP),
            }
        ),
        file,
    )
    return LakeFile(path, day, rows, file.stat().st_size, times[0], times[-1], first, first + rows - 1)


def offsets(root: Path) -> list[int]:
    found = DeltaTable(str(root / "messages")).to_pyarrow_table(columns=["physical_offset"])
    return sorted(found.column("physical_offset").to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(tmp_path, "messages")


def test_rows_and_position_come_in_one_commit(tmp_path: Path, table: Table) -> None:
    assert (table.version_of("a"), table.files("a")) == (None, [])
    table.append("a", [draft(tmp_path, "one"), draft(tmp_path, "two", 10)], None, {"{}": 500}, 7)
    again = Table.create(tmp_path, "messages")
    assert (again.version_of("a"), again.version_of("b")) == (500, None)
    first, second = again.files("a")
    assert (first.rows, first.min_ms, first.max_ms, first.day, first.min_offset) == (10, BEGIN, BEGIN + 9000, DAY, 0)
    assert (second.min_offset, Path(second.path).name) == (10, "two.parquet")
    assert offsets(tmp_path) == list(range(20))


def test_a_position_advances_without_rows(tmp_path: Path, table: Table) -> None:
    table.append("a", [], None, {"{}": 7}, 7)
    assert Table.create(tmp_path, "messages").version_of("a") == 7


@pytest.mark.parametrize("opened_before", [True, False])
def test_the_second_append_of_the_same_range_fails(tmp_path: Path, table: Table, opened_before: bool) -> None:
    other = Table.create(tmp_path, "messages") if opened_before else table
    table.append("a", [draft(tmp_path, "mine")], None, {"{}": 100}, 7)
    with pytest.raises(LakeBusyError, match="Another process has filled the lake of a meanwhile"):
        other.append("a", [draft(tmp_path, "its")], None, {"{}": 100}, 7)
    assert offsets(tmp_path) == list(range(10))


def test_another_broker_appends_at_the_same_time(tmp_path: Path, table: Table) -> None:
    other = Table.create(tmp_path, "messages")
    table.append("a", [draft(tmp_path, "mine")], None, {"{}": 100}, 7)
    other.append("b", [draft(tmp_path, "its", 10, broker="b")], None, {"{}": 70}, 7)
    again = Table.create(tmp_path, "messages")
    assert (again.version_of("a"), again.version_of("b")) == (100, 70)
    assert [[file.min_offset for file in again.files(name)] for name in "ab"] == [[0], [10]]


def test_small_files_of_a_day_are_compacted_and_the_rows_stay(tmp_path: Path, table: Table) -> None:
    before = date(2026, 1, 30)
    drafts = [draft(tmp_path, f"{number}", 10 * number, day=before) for number in range(4)]
    table.append("a", [*drafts, draft(tmp_path, "new", 40)], None, {"{}": 1}, 7)
    table.append("b", [draft(tmp_path, "b", 50, broker="b")], None, {"{}": 1}, 7)
    assert table.days_to_compact("a") == [before]
    assert table.compact("a", before, 7) == 4
    assert [(file.rows, file.day) for file in table.files("a")] == [(40, before), (10, DAY)]
    assert (table.files("a")[0].min_ms, table.files("a")[0].min_offset) == (begin_of(before), 0)
    assert offsets(tmp_path) == list(range(60))
    assert table.days_to_compact("a") == []
    assert table.version_of("a") == 1


def test_many_files_of_the_newest_day_are_compacted_too(tmp_path: Path, table: Table) -> None:
    table.append("a", [draft(tmp_path, f"{number}", number, 1) for number in range(31)], None, {"{}": 1}, 7)
    assert table.days_to_compact("a") == []
    table.append("a", [draft(tmp_path, "31", 31, 1)], 1, {"{}": 2}, 7)
    assert table.days_to_compact("a") == [DAY]


def test_days_are_dropped_for_one_broker(tmp_path: Path, table: Table) -> None:
    days = [date(2026, 1, number) for number in (29, 30, 31)]
    drafts = [draft(tmp_path, f"{day.day}", day.day * 10, day=day) for day in days]
    table.append("a", drafts, None, {"{}": 1}, 7)
    table.append("b", [draft(tmp_path, "b", 0, broker="b", day=days[0])], None, {"{}": 1}, 7)
    assert (table.drop_before("a", days[1]), table.drop_before("a", days[1])) == (10, 0)
    assert [file.day for file in table.files("a")] == days[1:]
    assert [file.day for file in table.files("b")] == days[:1]
    assert [table.version_of(DROPPED.format(broker)) for broker in "ab"] == [10, None]
    assert table.drop_before("a", days[2]) == 10
    assert table.version_of(DROPPED.format("a")) == 20


def test_vacuum_leaves_files_to_those_that_read_on(tmp_path: Path, table: Table) -> None:
    table.append("a", [draft(tmp_path, "one")], None, {"{}": 1}, 7)
    killed, recent = (tmp_path / "messages" / draft(tmp_path, name, 90).path for name in ("killed", "recent"))
    then = time.time() - (READ_ON_HOURS + 1) * 3600
    os.utime(killed, (then, then))
    table.vacuum()
    assert (killed.exists(), recent.exists()) == (False, True)
    assert offsets(tmp_path) == list(range(10))


def test_a_table_that_cannot_be_read_is_a_sentence(tmp_path: Path, table: Table) -> None:
    table.append("a", [draft(tmp_path, "one")], None, {"{}": 1}, 7)
    for path in (tmp_path / "messages" / "_delta_log").glob("*.json"):
        path.write_text("{")
    with pytest.raises(LakeError, match="is not a Delta table that can be read"):
        Table.open(tmp_path, "messages")


def test_a_table_of_an_older_format_is_refused(tmp_path: Path) -> None:
    fields = [pa.field("store_ts", pa.int64()), pa.field("date", pa.date32()), pa.field("broker", pa.string())]
    DeltaTable.create(str(tmp_path / "messages"), pa.schema(fields), partition_by=PARTITIONS)
    with pytest.raises(LakeError, match=r"messages has the columns of another version of GlassMQ\. Delete the lake"):
        Table.create(tmp_path, "messages")


def test_there_is_no_table_before_it_is_created(tmp_path: Path) -> None:
    assert Table.open(tmp_path, "messages") is None


def test_other_tools_read_a_filled_lake(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 60, step_ms=3_600_000)
    make_journal(tmp_path / "store", [entry(number) for number in range(20)])
    lakes.fill(tmp_path / "store", tmp_path / "lakes")
    lake = lakes.lake_of(tmp_path / "store", tmp_path / "lakes")
    draft(tmp_path / "lakes", "of a killed writer", 99)
    messages, polls = ([file.path for file in files] for files in (lake.messages, lake.polls))
    found = duckdb.sql(
        "select count(*), min(epoch_ms(store_ts)), max(store_ts - born_ts), sum(total_size) "
        f"from read_parquet({messages})"
    ).fetchall()
    late = timedelta(milliseconds=59 * 3_600_000 - 59)
    size = sum(record[3] for record in make_store(tmp_path / "again", 60, step_ms=3_600_000).records)
    assert found == [(60, BEGIN_MS, late, size)]
    hours = f"select count(*) from read_parquet({messages}) where store_ts < timestamptz '2023-11-15 00:00:00+00'"
    assert duckdb.sql(hours).fetchall() == [(2,)]
    for frame in (
        DeltaTable(str(tmp_path / "lakes" / "messages")).to_pandas(),
        pa.concat_tables(parquet.read_table(path) for path in messages).to_pandas(),
    ):
        assert (len(frame), (frame.store_ts - frame.born_ts).max()) == (60, late)
        assert str(frame.store_ts.min()) == "2023-11-14 22:13:20+00:00"
    (last,) = duckdb.sql(f"select max(at_ts) - min(at_ts) from read_parquet({polls})").fetchall()
    assert last == (timedelta(seconds=19),)


def test_the_first_kept_day_is_counted_in_whole_days() -> None:
    assert first_kept(BEGIN + DAY_MS - 1, 2) == date(2026, 1, 29)
    assert begin_of(date(1970, 1, 2)) == DAY_MS


def test_a_table_that_another_process_creates_meanwhile_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DeltaTable.create

    def overtaken(*given: Any, mode: str, **named: Any) -> None:
        for _ in range(2):
            try:
                real(*given, mode="error", **named)
            except DeltaError as error:
                raise CommitFailedError("protocol changed") from error

    monkeypatch.setattr(DeltaTable, "create", overtaken)
    table = Table.create(tmp_path, "messages")
    table.append("a", [draft(tmp_path, "one")], None, {"{}": 10}, 1)
    assert sum(file.rows for file in table.files("a")) == 10


def test_all_commits_are_on_the_disk_before_the_broker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    for module in (delta, gaps):
        monkeypatch.setattr(module, "sync_to_disk", lambda path: synced.append(Path(path)))
    table = Table.create(tmp_path, "messages")
    for number in range(2):
        table.append("a", [draft(tmp_path, f"{number}", 10 * number)], 10 * number or None, {"{}": 10 * number + 10}, 1)
        table.append("b", [draft(tmp_path, f"{number}", broker="b")], number or None, {"{}": number + 1}, 1)
        gaps.write_gaps(tmp_path, "a", "messages", number, [Gap("damaged", 0, 1, 1)])
    gaps.write_gaps(tmp_path, "a", "messages", 2, [Gap("damaged", 0, 1, 1)])  # removes the version before
    table.drop_before("a", DAY + timedelta(days=1))
    table.vacuum()
    for name in ("messages", "gaps"):
        commits = set((tmp_path / name / "_delta_log").glob("*.json"))
        assert len(commits) >= 5 and commits <= set(synced)
