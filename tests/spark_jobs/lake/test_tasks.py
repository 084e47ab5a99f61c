"""Parquet files against the records and entries that they were made of."""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from broker_core.formats import commit_log_record
from spark_jobs.errors import LakeError, NotAStoreError
from spark_jobs.lake import tasks as lake_tasks
from spark_jobs.lake.storage import joined
from spark_jobs.lake.tasks import (
    MESSAGE_COLUMNS,
    POLL_COLUMNS,
    TIMESTAMP,
    TIMESTAMPS,
    JournalDone,
    JournalPart,
    LakeFile,
    LogDone,
    Target,
    carry_out,
    carry_out_in_spark,
    digest_of,
    in_lake,
    milliseconds,
    schema_of,
    source_schema,
    write_journal,
    write_log,
)
from spark_jobs.sources.commit_log_columns import NUMBERS
from spark_jobs.sources.commit_log_damage import DAMAGED, Gap
from spark_jobs.sources.commit_log_segments import LogRange
from spark_jobs.sources.poll_journal_files import JournalPosition
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal
from tests.spark_jobs.stores import SEGMENT, Written, make_store, segment_path, tear

SIZE = 1 << 16


def target(root: Path) -> Target:
    return Target(str(root / "lake"), "b", "12345678")


def log_range(root: Path, start: int, end: int, base: int = 0) -> LogRange:
    return LogRange(joined(root, "commitlog", f"{base:020d}"), base, start, end)


def of_log(root: Path, start: int, end: int, *, bodies: bool = False) -> LogDone:
    return write_log(target(root)._replace(with_bodies=bodies), log_range(root, start, end))


@pytest.fixture(autouse=True)
def lake(tmp_path: Path) -> Path:
    for table in ("messages", "polls"):
        (tmp_path / "lake" / table).mkdir(parents=True)
    return tmp_path / "lake"


def table_of(root: Path, draft: LakeFile, name: str = "messages") -> pa.Table:
    return parquet.ParquetFile(root / "lake" / name / draft.path).read()


def times_of(root: Path, draft: LakeFile) -> list[int]:
    """The store times of a file, ms."""
    return milliseconds(table_of(root, draft).column("store_ts")).to_pylist()


def rows_of(root: Path, done: LogDone | JournalDone) -> list[dict[str, Any]]:
    name = "messages" if isinstance(done, LogDone) else "polls"
    return [row for draft in done.files for row in table_of(root, draft, name).to_pylist()]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return make_store(tmp_path, 60, segment=SIZE)


def test_a_range_becomes_a_file_with_its_records(tmp_path: Path, written: Written) -> None:
    start, end = written.records[10][2], written.records[50][2]
    done = of_log(tmp_path, start, end)
    (draft,) = done.files
    assert draft.path == f"date=2023-11-14/broker=b/range={start:020d}-{end:020d}-12345678-0.parquet"
    assert draft.day == date(2023, 11, 14)
    rows = rows_of(tmp_path, done)
    assert [row["physical_offset"] for row in rows] == [record[2] for record in written.records[10:50]]
    assert list(rows[0]) == list(MESSAGE_COLUMNS)
    assert (draft.rows, draft.size) == (40, (tmp_path / "lake" / "messages" / draft.path).stat().st_size)
    times = times_of(tmp_path, draft)
    assert (draft.min_ms, draft.max_ms) == (times[0], times[-1])
    assert times == [BEGIN_MS + 20_000 * number for number in range(10, 50)]
    record = segment_path(tmp_path, 0).read_bytes()[slice(*(written.records[index][2] for index in (49, 50)))]
    assert done.last_record == (written.records[49][2], len(record), digest_of(record))
    assert (draft.min_offset, draft.max_offset) == (start, written.records[49][2])
    assert (done.gaps, done.first_ms, done.last_ms) == ([], times[0], times[-1])


def test_bodies_come_when_they_are_wanted(tmp_path: Path, written: Written) -> None:
    rows = rows_of(tmp_path, of_log(tmp_path, 0, written.end, bodies=True))
    data = segment_path(tmp_path, 0).read_bytes()
    for row, (_, _, offset, _) in zip(rows, written.records, strict=True):
        record = commit_log_record.decode(data, offset)
        assert (row["body"], row["properties"]) == (record.body, record.properties)


def gap_of(written: Written, torn: tuple[int, ...], beside: tuple[int, int]) -> Gap:
    """The gap of some records in a row, with the times of those beside them."""
    start, size = written.records[torn[0]][2], sum(written.records[index][3] for index in torn)
    return Gap(DAMAGED, start, start + size, size, *(BEGIN_MS + 20_000 * index for index in beside))


def test_damage_is_a_gap_between_two_records(tmp_path: Path, written: Written) -> None:
    for index in (5, 6, 20):
        tear(tmp_path, written.records[index][2], 12, SIZE)
    done = of_log(tmp_path, 0, written.end)
    assert done.gaps == [
        gap_of(written, (5, 6), (4, 7)),
        gap_of(written, (20,), (19, 21)),
    ]
    assert len(rows_of(tmp_path, done)) == 57


def test_a_missing_segment_is_reported_as_gone(tmp_path: Path, written: Written) -> None:
    segment_path(tmp_path, 0).unlink()
    assert of_log(tmp_path, 0, written.end) == LogDone(0, written.end, gone=True)


def store_at(root: Path, times: list[int]) -> None:
    """A store with a record of each store time."""
    data = b""
    for number, time in enumerate(times):
        data += commit_log_record.encode(
            topic="t", queue_id=0, queue_offset=number, physical_offset=len(data), body=b"x", store_timestamp=time
        )
    (root / "commitlog").mkdir(parents=True)
    segment_path(root, 0).write_bytes(data)


DAY = 86_400_000


def by_day(root: Path, times: list[int]) -> tuple[LogDone, dict[str, list[int]]]:
    """What becomes of records of these store times, and the times by folder."""
    store_at(root, times)
    done, found = of_log(root, 0, segment_path(root, 0).stat().st_size), dict[str, list[int]]()
    for draft in done.files:
        found.setdefault(Path(draft.path).parts[0].removeprefix("date=1970-01-"), []).extend(times_of(root, draft))
    return done, {day: sorted(times) for day, times in found.items()}


def test_every_day_has_a_file_also_when_the_clock_goes_back(tmp_path: Path) -> None:
    done, found = by_day(tmp_path, [DAY - 1, DAY, 5, 3 * DAY, DAY + 1, -7, 1 << 62])
    assert found == {"01": [5, DAY - 1], "02": [DAY, DAY + 1], "04": [3 * DAY]}
    assert done.gaps == [Gap("store time", 0, done.end, 2, DAY - 1, DAY + 1)]


def test_more_days_than_files_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_tasks, "MOST_DATES", 2)
    monkeypatch.setattr("spark_jobs.sources.commit_log_records.ROWS", 2)
    done, found = by_day(tmp_path, [day * DAY for day in (0, 1, 2, 3, 0, 1, 0, 3)])
    assert found == {"01": [0, 0, 0], "02": [DAY, DAY], "03": [2 * DAY], "04": [3 * DAY, 3 * DAY]}
    assert len({draft.path for draft in done.files}) == len(done.files) >= 4  # more if a day was closed meanwhile


def test_rows_are_written_in_groups(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_tasks, "GROUP_ROWS", 20)
    monkeypatch.setattr("spark_jobs.sources.commit_log_records.ROWS", 10)
    (draft,) = of_log(tmp_path, 0, written.end).files
    metadata = parquet.read_metadata(tmp_path / "lake" / "messages" / draft.path)
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [20, 20, 20]


def part_of(path: Path, start: int = 0, created_ms: int = BEGIN_MS) -> JournalPart:
    return JournalPart(str(path), 0, created_ms, start)


def test_a_journal_file_becomes_a_file_and_is_continued_where_it_ended(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, [entry(number) for number in range(20)], block=5)
    whole = path.read_bytes()
    path.write_bytes(whole[:-300])
    first = write_journal(target(tmp_path), part_of(path))
    read = first.position.end
    assert (first.position.closed, first.is_damaged) == (False, True)
    assert 0 < len(rows_of(tmp_path, first)) < 20
    path.write_bytes(whole)
    second = write_journal(target(tmp_path), part_of(path, read))
    assert (second.position, second.is_damaged) == (JournalPosition(0, BEGIN_MS, len(whole), True), False)
    rows = rows_of(tmp_path, first) + rows_of(tmp_path, second)
    assert [row["client_id"] for row in rows] == [entry(number).client_id for number in range(20)]
    assert list(rows[0]) == ["at_ts" if name == "at_ms" else TIMESTAMPS.get(name, name) for name in POLL_COLUMNS]
    assert first.files[0].path == (
        f"date=2023-11-14/broker=b/file={0:020d}-{BEGIN_MS:013d}-{0:010d}-{read:010d}-12345678-0.parquet"
    )
    third = write_journal(target(tmp_path), part_of(path, len(whole)))
    assert (third.files, third.position) == ([], second.position)


def test_a_journal_file_in_whose_place_another_lies_is_left_alone(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, [entry(1)])

    def passed_over(start: int, created_ms: int) -> bool:
        done = write_journal(target(tmp_path), part_of(path, start, created_ms))
        return done == JournalDone(JournalPosition(0, created_ms, start), is_damaged=True)

    assert passed_over(40, 1)
    path.write_bytes(b"nothing of ours")
    assert passed_over(0, BEGIN_MS)
    path.unlink()
    assert passed_over(9, 7)


def test_spark_gives_numbers_of_works_and_gets_what_became_of_them(tmp_path: Path) -> None:
    written = make_store(tmp_path, 30)
    works = [log_range(tmp_path, 0, SEGMENT), log_range(tmp_path, SEGMENT, written.end, SEGMENT)]
    (journal,) = make_journal(tmp_path, [entry(1)])
    bundles = [works[:1], [part_of(journal), *works]]

    def done(*numbers: int) -> list[Any]:
        batches = [pa.RecordBatch.from_arrays([pa.array([number])], names=["id"]) for number in numbers]
        return [
            msgspec.json.decode(text, type=lake_tasks.Done)
            for batch in carry_out_in_spark(target(tmp_path), bundles, batches)
            for text in batch.column("done").to_pylist()
        ]

    journal_done, *of_log = done(1)
    assert journal_done.position == JournalPosition(0, BEGIN_MS, journal.stat().st_size, True)
    assert [one.start for one in of_log] == [0, SEGMENT]
    assert [one.start for one in done(0, 0)] == [0, 0]
    assert done() == []


def test_columns_that_every_message_has_are_never_null(tmp_path: Path, written: Written) -> None:
    (draft,) = of_log(tmp_path, 0, SIZE, bodies=True).files
    schema = table_of(tmp_path, draft).schema
    assert {field.name for field in schema if not field.nullable} == {*NUMBERS, "topic", "born_host"}


def test_times_are_timestamps_and_null_where_tools_cannot_show_them() -> None:
    made = {"at_ms": [-1, BEGIN_MS + 7, 5], "oldest_store_ms": [None, 253_402_300_799_999, 253_402_300_800_000]}
    rows = [dict(zip(made, values, strict=True)) for values in zip(*made.values(), strict=True)]
    batch = in_lake(pa.RecordBatch.from_pylist(rows, schema=source_schema("polls")), schema_of("polls"))
    assert {batch.schema.field(name).type for name in ("at_ts", "oldest_store_ts")} == {TIMESTAMP}
    assert milliseconds(batch.column("at_ts")).to_pylist() == made["at_ms"]
    assert milliseconds(batch.column("oldest_store_ts")).to_pylist() == [None, 253_402_300_799_999, None]


def test_a_machine_that_does_not_see_the_store_does_not_take_the_log_for_deleted(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="does not see"):
        of_log(tmp_path / "elsewhere", 0, SIZE)


def test_a_machine_that_does_not_see_the_lake_writes_nothing(tmp_path: Path, written: Written, lake: Path) -> None:
    (journal,) = make_journal(tmp_path, [entry(1)])
    shutil.rmtree(lake)
    for work in (log_range(tmp_path, 0, written.end), part_of(journal)):
        with pytest.raises(LakeError, match=r"does not see .* on storage that they share"):
            carry_out(target(tmp_path), work)
    assert not lake.exists()
