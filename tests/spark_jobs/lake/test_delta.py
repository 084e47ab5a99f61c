"""The Delta tables: appends exactly once, compaction, retention, vacuum, and what other tools read."""

import os
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow import parquet

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake import delta, storage, tasks
from spark_jobs.lake.delta import (
    DAY_MS,
    PARTITIONS,
    READ_ON_HOURS,
    Table,
    begin_of,
    first_kept,
    plain_schema,
    rows_of,
)
from spark_jobs.lake.state import State, write_state
from spark_jobs.lake.tasks import MS_TIMESTAMP, TIMESTAMP, LakeFile
from spark_jobs.sources.commit_log_damage import Gap
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
def tables(tmp_path: Path) -> list[Table]:
    """The messages of the brokers ``a`` and ``b``, opened before anything was there."""
    assert Table.open(tmp_path, "messages", "a") is None
    return [Table.create(tmp_path, "messages", broker) for broker in "ab"]


def reopened(root: Path, broker: str = "a") -> Table:
    return Table.create(root, "messages", broker)


def test_rows_and_state_come_in_one_commit_beside_those_of_other_brokers(tmp_path: Path, tables: list[Table]) -> None:
    assert (tables[0].state, tables[0].files()) == (State(), [])
    gaps = [Gap("damaged", 3, 5, 2)]
    tables[0].append([draft(tmp_path, "one"), draft(tmp_path, "two", 10)], State(500, gaps=gaps), 7)
    tables[1].append([draft(tmp_path, "b", 20, broker="b")], State(70), 7)
    tables[0].append([], State(600), 7)
    assert [reopened(tmp_path, broker).state for broker in "abc"] == [State(600), State(70), State()]
    assert [[file.min_offset for file in reopened(tmp_path, name).files()] for name in "abc"] == [[0, 10], [20], []]
    first, second = reopened(tmp_path).files()
    assert (first.rows, first.min_ms, first.max_ms, first.day, first.written_ms) == (10, BEGIN, BEGIN + 9000, DAY, 7)
    assert Path(second.path).name == "two.parquet"
    assert offsets(tmp_path) == list(range(30))
    assert DeltaTable(str(tmp_path / "messages")).transaction_version("a") == 600


def test_the_second_append_behind_a_state_fails(tmp_path: Path, tables: list[Table]) -> None:
    other = reopened(tmp_path)
    tables[0].append([draft(tmp_path, "mine")], State(100), 7)
    with pytest.raises(LakeBusyError, match="Another process has filled the lake of a meanwhile"):
        other.append([draft(tmp_path, "its")], State(100), 7)
    with pytest.raises(LakeBusyError, match="Another process has filled the lake of a meanwhile"):
        other.append([], State(100), 7)
    assert offsets(tmp_path) == list(range(10))


def test_an_append_whose_answer_is_lost_has_succeeded(
    tmp_path: Path, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Table._write

    def forget(*given: Any) -> None:
        write(*given)
        raise CommitFailedError("412 Precondition Failed")

    monkeypatch.setattr(Table, "_write", forget)
    for number in range(2):
        tables[0].append([draft(tmp_path, f"{number}", 10 * number)], State(100 + number), 7)
    assert (tables[0].state, reopened(tmp_path).state) == (State(101), State(101))
    assert offsets(tmp_path) == list(range(20))


def test_small_files_of_a_day_are_compacted_and_the_rows_stay(tmp_path: Path, tables: list[Table]) -> None:
    table, before = tables[0], date(2026, 1, 30)
    drafts = [draft(tmp_path, f"{number}", 10 * number, day=before) for number in range(4)]
    table.append([*drafts, draft(tmp_path, "new", 40)], State(1), 7)
    tables[1].append([draft(tmp_path, "b", 50, broker="b")], State(1), 7)
    assert table.days_to_compact() == [before]
    assert table.compact(before, 7) == 4
    assert [(file.rows, file.day) for file in table.files()] == [(40, before), (10, DAY)]
    assert (table.files()[0].min_ms, table.files()[0].min_offset) == (begin_of(before), 0)
    assert offsets(tmp_path) == list(range(60))
    assert table.days_to_compact() == []
    assert reopened(tmp_path).state == State(1)


def test_a_compaction_reads_a_file_when_it_has_written_the_ones_before(
    tmp_path: Path, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the rows of all files would be in memory."""
    tables[0].append([draft(tmp_path, f"{number}", 10 * number) for number in range(4)], State(1), 7)
    events, read, write = list[str](), delta.rows_of, parquet.ParquetWriter.write_table

    def rows_of(paths: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for path in paths:
            events.append("read")
            yield from read([path], schema)

    def write_table(writer: parquet.ParquetWriter, rows: pa.Table, *more: Any) -> None:
        events.append(f"write {rows.num_rows}")
        write(writer, rows, *more)

    monkeypatch.setattr(delta, "rows_of", rows_of)
    monkeypatch.setattr(parquet.ParquetWriter, "write_table", write_table)
    monkeypatch.setattr(tasks, "GROUP_ROWS", 15)
    assert tables[0].compact(DAY, 7) == 4
    assert events == ["read", "read", "write 20"] * 2
    [file] = tables[0].files()
    assert (file.rows, file.min_offset, file.max_offset) == (40, 0, 39)
    groups = parquet.read_metadata(file.path)
    assert [groups.row_group(index).num_rows for index in range(groups.num_row_groups)] == [15, 5, 15, 5]
    assert file.size == Path(file.path).stat().st_size


def test_files_are_opened_one_after_the_other(tmp_path: Path) -> None:
    """A row group at a time, with null for what a file lacks."""
    path = tmp_path / "messages" / draft(tmp_path, "one").path
    rows = rows_of([str(path), str(tmp_path / "gone.parquet")], plain_schema("messages"))
    first = next(rows)
    assert first.num_rows == 10 and first.schema == plain_schema("messages")
    assert first.column("body").null_count == 10
    with pytest.raises(FileNotFoundError):
        next(rows)


def test_large_rows_have_smaller_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([bytes(1000)] * 10)], names=["body"])
    monkeypatch.setattr(tasks, "GROUP_BYTES", 2 * batch.nbytes)
    assert [rows.num_rows for rows in tasks.in_row_groups([batch] * 5)] == [20, 20, 10]


def test_a_compaction_that_fails_leaves_no_files(
    tmp_path: Path, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables[0].append([draft(tmp_path, f"{number}", 10 * number) for number in range(4)], State(1), 7)

    def fail(*_: object) -> None:
        assert list((tmp_path / "messages").glob("*/*/compacted=*"))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Table, "_write", fail)
    with pytest.raises(OSError, match="No space left"):
        tables[0].compact(DAY, 7)
    assert not list((tmp_path / "messages").glob("*/*/compacted=*"))
    assert offsets(tmp_path) == list(range(40))


def test_a_compaction_leaves_alone_what_another_process_has_compacted_meanwhile(
    tmp_path: Path, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, seen = tables[0], Table._committed
    table.append([draft(tmp_path, f"{number}", 10 * number) for number in range(8)], State(1), 7)
    monkeypatch.setattr(delta, "FILE_BYTES", 4 * max(file.size for file in table.files()))

    def compacted_first(table: Table) -> None:
        monkeypatch.setattr(Table, "_committed", seen)
        assert reopened(tmp_path).compact(DAY, 7)
        seen(table)

    monkeypatch.setattr(Table, "_committed", compacted_first)
    assert table.compact(DAY, 7) == 4
    assert offsets(tmp_path) == list(range(80))


def test_many_files_of_the_newest_day_are_compacted_too(tmp_path: Path, tables: list[Table]) -> None:
    tables[0].append([draft(tmp_path, f"{number}", number, 1) for number in range(31)], State(1), 7)
    assert tables[0].days_to_compact() == []
    tables[0].append([draft(tmp_path, "31", 31, 1)], State(2), 7)
    assert tables[0].days_to_compact() == [DAY]


def test_days_are_dropped_for_one_broker(tmp_path: Path, tables: list[Table]) -> None:
    table, days = tables[0], [date(2026, 1, number) for number in (29, 30, 31)]
    table.append([draft(tmp_path, f"{day.day}", day.day * 10, day=day) for day in days], State(1), 7)
    tables[1].append([draft(tmp_path, "b", 0, broker="b", day=days[0])], State(1), 7)
    assert (table.drop_before(days[1]), table.drop_before(days[1])) == (10, 0)
    assert [file.day for file in table.files()] == days[1:]
    assert [reopened(tmp_path, broker).state for broker in "ab"] == [
        State(1, dropped=10, dropped_before_ms=begin_of(days[1])),
        State(1),
    ]
    assert [file.day for file in reopened(tmp_path, "b").files()] == days[:1]
    assert table.drop_before(days[2]) == 10
    assert reopened(tmp_path).state.dropped == 20


def test_vacuum_leaves_files_to_those_that_read_on(tmp_path: Path, tables: list[Table]) -> None:
    tables[0].append([draft(tmp_path, "one")], State(1), 7)
    killed, recent = (tmp_path / "messages" / draft(tmp_path, name, 90).path for name in ("killed", "recent"))
    (state,) = (tmp_path / "state" / "a").iterdir()
    for _ in range(2):
        write_state(tmp_path, "a", "messages", State(2))
    then = time.time() - (READ_ON_HOURS + 1) * 3600
    for path in (killed, *(tmp_path / "state" / "a").iterdir()):
        os.utime(path, (then, then - (path == state)))
    tables[0].vacuum(int(time.time() * 1000))
    assert (killed.exists(), recent.exists()) == (False, True)
    assert state.exists() and len([*state.parent.iterdir()]) == 2
    assert offsets(tmp_path) == list(range(10))


def test_a_table_that_cannot_be_read_is_a_sentence(tmp_path: Path, tables: list[Table]) -> None:
    for path in (tmp_path / "messages" / "_delta_log").glob("*.json"):
        path.write_text("{")
    with pytest.raises(LakeError, match="is not a Delta table that can be read"):
        Table.open(tmp_path, "messages", "a")


@pytest.mark.parametrize("is_same_schema", [True, False])
def test_a_table_of_an_older_format_is_refused(tmp_path: Path, is_same_schema: bool) -> None:
    fields = [pa.field("store_ts", pa.int64()), pa.field("date", pa.date32()), pa.field("broker", pa.string())]
    schema = delta.delta_schema("messages") if is_same_schema else Schema.from_arrow(pa.schema(fields))
    table = DeltaTable.create(str(tmp_path / "messages"), schema, partition_by=PARTITIONS)
    properties = delta.properties_of({"a": 7})  # the position of a broker without a state
    table.create_write_transaction([], "append", schema, PARTITIONS, commit_properties=properties)
    with pytest.raises(LakeError, match=r"messages was written by another version of GlassMQ\. Delete the lake"):
        Table.create(tmp_path, "messages", "a")


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
    table = reopened(tmp_path)
    table.append([draft(tmp_path, "one")], State(10), 1)
    assert sum(file.rows for file in table.files()) == 10


def test_all_commits_are_on_the_disk_before_the_broker_is_told(
    tmp_path: Path, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(storage, "sync_to_disk", lambda path: synced.append(Path(path)))
    for number in range(2):
        for table, broker in zip(tables, "ab", strict=True):
            table.append([draft(tmp_path, f"{number}", 10 * number, broker=broker)], State(10 * number), 1)
    tables[0].drop_before(DAY + timedelta(days=1))
    tables[0].vacuum(1)
    commits, states = set((tmp_path / "messages" / "_delta_log").glob("*.json")), set((tmp_path / "state").glob("*/*"))
    assert (len(commits), len(states)) == (6, 5)
    assert commits | states | {path.parent for path in states} <= set(synced)
    synced.clear()
    reopened(tmp_path).sync()
    assert max(commits) in synced, "the process that made it may have been killed"
