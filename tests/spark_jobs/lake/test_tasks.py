"""Parquet files against the records and entries that they were made of."""

import errno
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from broker_core.formats import commit_log_record
from spark_jobs.errors import LakeError, NotAStoreError
from spark_jobs.lake import tasks as lake_tasks
from spark_jobs.lake.tasks import (
    MESSAGE_COLUMNS,
    POLL_COLUMNS,
    Draft,
    JournalDone,
    JournalWork,
    LogDone,
    LogWork,
    MergeWork,
    carry_out,
    carry_out_in_spark,
)
from spark_jobs.sources import commit_log_sums, commit_log_walk
from spark_jobs.sources.commit_log_columns import NUMBERS
from spark_jobs.sources.commit_log_files import joined
from spark_jobs.sources.commit_log_sums import added_up
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal
from tests.spark_jobs.stores import SEGMENT, Written, make_store, segment_path, tear

SIZE = 1 << 16


def log_work(root: Path, start: int, end: int, *, bodies: bool = False, base: int = 0) -> LogWork:
    return LogWork(str(root), str(root / "lake"), joined(root, "commitlog", f"{base:020d}"), base, start, end, bodies)


@pytest.fixture(autouse=True)
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


def rows_of(done: LogDone | JournalDone) -> list[dict[str, Any]]:
    return [row for draft in done.drafts for row in parquet.read_table(draft.draft).to_pylist()]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return make_store(tmp_path, 60, segment=SIZE)


def test_a_range_becomes_a_file_with_its_records(tmp_path: Path, written: Written) -> None:
    start, end = written.records[10][2], written.records[50][2]
    done = carry_out(log_work(tmp_path, start, end))
    assert isinstance(done, LogDone)
    (draft,) = done.drafts
    assert draft.path == f"messages/date=2023-11-14/range={start:020d}-{end:020d}.parquet"
    assert Path(draft.draft).name.startswith(Path(draft.path).name) and draft.draft.endswith(".new")
    rows = rows_of(done)
    assert [row["physical_offset"] for row in rows] == [record[2] for record in written.records[10:50]]
    assert list(rows[0]) == list(MESSAGE_COLUMNS)
    assert (draft.rows, draft.size) == (40, Path(draft.draft).stat().st_size)
    assert (draft.min_ms, draft.max_ms) == (rows[0]["store_ts"], rows[-1]["store_ts"])
    assert (done.last_offset, done.last_size) == written.records[49][2:]
    assert (done.torn_places, done.gone) == (0, False)


def test_bodies_come_when_they_are_wanted(tmp_path: Path, written: Written) -> None:
    rows = rows_of(carry_out(log_work(tmp_path, 0, written.end, bodies=True)))
    data = segment_path(tmp_path, 0).read_bytes()
    for row, (_, _, offset, _) in zip(rows, written.records, strict=True):
        record = commit_log_record.decode(data, offset)
        assert (row["body"], row["properties"]) == (record.body, record.properties)


def test_torn_places_are_counted(tmp_path: Path, written: Written) -> None:
    for index in (5, 6, 20):
        tear(tmp_path, written.records[index][2], 12, SIZE)
    done = carry_out(log_work(tmp_path, 0, written.end))
    assert isinstance(done, LogDone)
    assert (done.torn_places, done.torn_bytes) == (2, sum(written.records[index][3] for index in (5, 6, 20)))
    assert len(rows_of(done)) == 57


def test_a_segment_that_is_gone_is_said_to_be(tmp_path: Path, written: Written) -> None:
    segment_path(tmp_path, 0).unlink()
    assert carry_out(log_work(tmp_path, 0, written.end)) == LogDone(0, written.end, [], gone=True)


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


def test_every_day_has_a_file_also_when_the_clock_goes_back_or_mad(tmp_path: Path) -> None:
    times = [DAY - 1, DAY, 5, 3 * DAY, DAY + 1, -7, 1 << 62]
    store_at(tmp_path, times)
    done = carry_out(log_work(tmp_path, 0, segment_path(tmp_path, 0).stat().st_size))
    found = {
        Path(draft.path).parent.name: sorted(parquet.read_table(draft.draft).column("store_ts").to_pylist())
        for draft in done.drafts
    }
    assert found == {
        "date=1970-01-01": [-7, 5, DAY - 1],
        "date=1970-01-02": [DAY, DAY + 1],
        "date=1970-01-04": [3 * DAY],
        "date=9999-12-31": [1 << 62],
    }


def test_more_days_than_files_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_tasks, "MOST_DATES", 2)
    monkeypatch.setattr("spark_jobs.sources.commit_log_walk.ROWS", 2)
    times = [day * DAY for day in (0, 1, 2, 3, 0, 1, 0, 3)]
    store_at(tmp_path, times)
    done = carry_out(log_work(tmp_path, 0, segment_path(tmp_path, 0).stat().st_size))
    assert sorted(row["store_ts"] for row in rows_of(done)) == sorted(times)
    assert len({draft.path for draft in done.drafts}) == len(done.drafts) > 4
    assert all(
        row["store_ts"] // DAY == day_of(draft.path)
        for draft in done.drafts
        for row in parquet.read_table(draft.draft).to_pylist()
    )


def day_of(path: str) -> int:
    return int(datetime.fromisoformat(path.split("date=")[1][:10]).replace(tzinfo=UTC).timestamp() * 1000) // DAY


def test_rows_are_written_in_groups(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_tasks, "GROUP_ROWS", 20)
    monkeypatch.setattr("spark_jobs.sources.commit_log_walk.ROWS", 10)
    (draft,) = carry_out(log_work(tmp_path, 0, written.end)).drafts
    metadata = parquet.read_metadata(draft.draft)
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [20, 20, 20]


def test_a_full_disk_leaves_nothing(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lake_tasks.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        carry_out(log_work(tmp_path, 0, written.end))
    assert [path for path in (tmp_path / "lake").rglob("*") if path.is_file()] == []


def journal_work(root: Path, path: Path, start: int = 0, created_ms: int | None = None) -> JournalWork:
    from broker_core.formats.poll_journal import decode_header

    header = decode_header(path.read_bytes())
    made = header.created_ms if header else 0
    return JournalWork(str(root / "lake"), str(path), 0, made if created_ms is None else created_ms, start)


def test_a_journal_file_becomes_a_file_and_goes_on_where_it_ended(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, [entry(number) for number in range(20)], block=5)
    whole = path.read_bytes()
    path.write_bytes(whole[:-300])
    first = carry_out(journal_work(tmp_path, path))
    assert isinstance(first, JournalDone)
    assert not first.closed and 0 < len(rows_of(first)) < 20
    path.write_bytes(whole)
    second = carry_out(journal_work(tmp_path, path, first.end))
    assert isinstance(second, JournalDone)
    assert (second.start, second.end, second.closed) == (first.end, len(whole), True)
    rows = rows_of(first) + rows_of(second)
    assert [row["client_id"] for row in rows] == [entry(number).client_id for number in range(20)]
    assert list(rows[0]) == list(POLL_COLUMNS)
    assert first.drafts[0].path == (
        f"polls/date=2023-11-14/file={0:020d}-{BEGIN_MS:013d}-{0:010d}-{first.end:010d}.parquet"
    )
    third = carry_out(journal_work(tmp_path, path, second.end))
    assert (third.drafts, third.end) == ([], second.end)


def test_a_journal_file_in_whose_place_another_lies_is_left_alone(tmp_path: Path) -> None:
    (path,) = make_journal(tmp_path, [entry(1)])
    assert carry_out(journal_work(tmp_path, path, 40, created_ms=1)) == JournalDone(0, 1, 40, 40, [])
    path.write_bytes(b"nothing of ours")
    assert carry_out(journal_work(tmp_path, path)) == JournalDone(0, 0, 0, 0, [])
    path.unlink()
    assert carry_out(JournalWork(str(tmp_path), str(path), 3, 7, 9)) == JournalDone(3, 7, 9, 9, [])


def put(lake: Path, drafts: Iterable[Draft]) -> list[str]:
    """Give drafts their names, as the round does; these."""
    names = []
    for draft in drafts:
        Path(draft.draft).replace(lake / draft.path)
        names.append(draft.path)
    return names


@pytest.mark.parametrize("bodies", [False, True])
def test_files_are_merged_row_by_row_as_if_they_had_been_written_at_once(
    tmp_path: Path, lake: Path, written: Written, bodies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_tasks, "GROUP_ROWS", 25)
    monkeypatch.setattr(lake_tasks, "WRITTEN_ROWS", 10)
    cuts = [0, *(written.records[index][2] for index in (7, 20, 21, 50)), written.end]
    parts = [carry_out(log_work(tmp_path, start, end, bodies=bodies)) for start, end in pairwise(cuts)]
    (whole,) = carry_out(log_work(tmp_path, 0, written.end, bodies=bodies)).files[:1]
    names = [put(lake, part.files[:1])[0] for part in parts]
    done = carry_out(MergeWork(str(lake), "messages", "together", names, bodies))
    (merged,) = done.files
    assert merged.path == "messages/date=2023-11-14/together.parquet"
    assert parquet.read_table(merged.draft).equals(parquet.read_table(whole.draft))
    assert (merged.rows, merged.min_ms, merged.max_ms) == (whole.rows, whole.min_ms, whole.max_ms)
    one, other = parquet.read_metadata(merged.draft), parquet.read_metadata(whole.draft)
    groups = [one.row_group(index) for index in range(one.num_row_groups)]
    assert [group.num_rows for group in groups] == [31, 29], "files of 7, 13, 1, 29 and 10 rows"
    for column in range(other.num_columns):
        ours, its = groups[0].column(column), other.row_group(0).column(column)
        assert (ours.encodings, ours.compression) == (its.encodings, its.compression)
    assert parquet.read_schema(merged.draft).equals(parquet.read_schema(whole.draft))


def test_sums_of_the_same_keys_are_added_up_when_they_are_merged(tmp_path: Path, lake: Path) -> None:
    written = make_store(tmp_path, 60, segment=SIZE, step_ms=100)
    cuts = [0, *(record[2] for record in written.records[1:]), written.end]
    parts = [carry_out(log_work(tmp_path, start, end)) for start, end in pairwise(cuts)]
    whole = carry_out(log_work(tmp_path, 0, written.end)).files[1]
    names = [put(lake, part.files[1:])[0] for part in parts]
    (merged,) = carry_out(MergeWork(str(lake), "sums", "together", names)).files
    keys = [(name, "ascending") for name in lake_tasks.SUM_KEYS]
    assert parquet.read_table(merged.draft).sort_by(keys).equals(parquet.read_table(whole.draft).sort_by(keys))
    assert merged.rows < len(names) == 60


def test_files_of_several_days_are_merged_day_by_day(tmp_path: Path, lake: Path) -> None:
    times = [DAY - 2, DAY - 1, DAY, DAY - 1, DAY + 7, DAY + 1]
    store_at(tmp_path, times)
    end = segment_path(tmp_path, 0).stat().st_size
    cuts = [end * number // 6 for number in range(0, 7, 2)]
    parts = [carry_out(log_work(tmp_path, start, end)) for start, end in pairwise(cuts)]
    names = [name for part in parts for name in put(lake, [file for file in part.files if "messages" in file.path])]
    assert len(names) == 4
    done = carry_out(MergeWork(str(lake), "messages", "together", names))
    found = [parquet.read_table(draft.draft).column("store_ts").to_pylist() for draft in done.files]
    assert found == [[DAY - 2, DAY - 1, DAY - 1], [DAY, DAY + 7, DAY + 1]]


def test_what_cannot_be_read_is_not_merged_and_leaves_nothing(tmp_path: Path, lake: Path, written: Written) -> None:
    (name,) = put(lake, carry_out(log_work(tmp_path, 0, written.end)).files[:1])
    damaged = lake / "messages" / "damaged.parquet"
    damaged.write_bytes((lake / name).read_bytes()[:-100])
    for bad in ("messages/damaged.parquet", "messages/gone.parquet"):
        with pytest.raises(LakeError, match=rf"{bad} cannot be read and merged with the other files of its day"):
            carry_out(MergeWork(str(lake), "messages", "together", [name, bad]))
    assert not list(lake.rglob("together*"))


def test_spark_gives_numbers_of_works_and_gets_what_became_of_them(tmp_path: Path) -> None:
    written = make_store(tmp_path, 30)
    works = [log_work(tmp_path, 0, SEGMENT), log_work(tmp_path, SEGMENT, written.end, base=SEGMENT)]
    (journal,) = make_journal(tmp_path, [entry(1)])
    encoded = [msgspec.json.encode(bundle) for bundle in (works[:1], [journal_work(tmp_path, journal), *works])]

    def done(*numbers: int) -> list[LogDone | JournalDone]:
        batches = [pa.RecordBatch.from_arrays([pa.array([number])], names=["id"]) for number in numbers]
        return [
            msgspec.json.decode(text, type=lake_tasks.Done)
            for batch in carry_out_in_spark(encoded, batches)
            for text in batch.column("done").to_pylist()
        ]

    assert [(type(one), one.start) for one in done(1)] == [(JournalDone, 0), (LogDone, 0), (LogDone, SEGMENT)]
    assert [one.start for one in done(0, 0)] == [0, 0]
    assert done() == []


def test_messages_are_counted_beside(tmp_path: Path, written: Written) -> None:
    done = carry_out(log_work(tmp_path, 0, SIZE))
    assert isinstance(done, LogDone)
    assert {draft.path.partition("/")[0] for draft in done.files} == {"messages", "sums"}
    sums = [row for draft in done.sums for row in parquet.read_table(draft.draft).to_pylist()]
    messages = rows_of(done)
    assert sum(row["messages"] for row in sums) == len(messages)
    assert sum(row["sum_total_size"] for row in sums) == sum(row["total_size"] for row in messages)
    assert len({tuple(row[name] for name in lake_tasks.SUM_KEYS) for row in sums}) == len(sums) < len(messages) * 2
    assert {row["topic"] for row in sums} == {row["topic"] for row in messages}
    schema = parquet.read_schema(done.drafts[0].draft)
    assert schema.field("topic").type == schema.field("born_host").type == pa.string()


def test_columns_that_every_message_has_are_never_null(tmp_path: Path, written: Written) -> None:
    schema = parquet.read_schema(carry_out(log_work(tmp_path, 0, SIZE, bodies=True)).drafts[0].draft)
    assert {field.name for field in schema if not field.nullable} == {*NUMBERS, "topic", "born_host"}


def test_a_machine_that_does_not_see_the_store_does_not_take_the_log_for_deleted(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="does not see"):
        carry_out(log_work(tmp_path / "elsewhere", 0, SIZE))


def test_a_machine_that_does_not_see_the_lake_writes_nothing(tmp_path: Path, written: Written, lake: Path) -> None:
    (journal,) = make_journal(tmp_path, [entry(1)])
    lake.rmdir()
    for work in (log_work(tmp_path, 0, written.end), journal_work(tmp_path, journal)):
        with pytest.raises(LakeError, match=r"does not see .* on storage that they share"):
            carry_out(work)
    assert not lake.exists()


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_sums_that_wait_are_written_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(commit_log_sums, "WAITING_SUMS", most)
    monkeypatch.setattr(commit_log_walk, "ROWS", 5)
    together = []

    def counted(batches: Sequence[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        together.append(len(batches))
        return added_up(batches)

    monkeypatch.setattr(commit_log_sums, "added_up", counted)
    written = make_store(tmp_path, 30, segment=SIZE)
    (tmp_path / "lake").mkdir(exist_ok=True)
    done = carry_out(log_work(tmp_path, 0, written.end))
    assert isinstance(done, LogDone)
    assert together == ([6] if most else [1, 1, 1, 1, 1, 1, 0])
    rows = [row for draft in done.sums for row in parquet.read_table(draft.draft).to_pylist()]
    assert sum(row["messages"] for row in rows) == 30
