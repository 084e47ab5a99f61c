"""A lake filled step by step, with the writer killed at every step, against what was put into the store."""

import builtins
import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from broker_core.formats import lake_position, safe_end
from spark_jobs.errors import LakeError
from spark_jobs.lake import storage
from spark_jobs.lake import sync as lake_sync
from spark_jobs.lake.delta import DAY_MS
from spark_jobs.lake.lake import Dropped, Lake, find_lake
from spark_jobs.lake.storage import TABLES
from spark_jobs.lake.sync import RunTasks, Synced, read_on
from spark_jobs.lake.tasks import CUT_OFF, LOST, UNREAD, Done, JournalDone, LogDone, Target, Work
from spark_jobs.sources import commit_log_segments
from spark_jobs.sources.commit_log_damage import DELETED, Gap
from spark_jobs.sources.commit_log_segments import LogRange
from spark_jobs.sources.poll_journal_files import JournalPosition
from tests.spark_jobs import lakes
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.lakes import NOW, run_here
from tests.spark_jobs.stores import SEGMENT, Written, make_store, publish_end, segment_path, tear

HOUR = 3_600_000


def fill(root: Path, run: RunTasks = run_here, **more: Any) -> Synced:
    return lakes.fill(root / "store", root / "lakes", run, **more)


def fill_all(root: Path) -> Synced:
    while not (done := fill(root)).is_all:
        pass
    return done


def lake_of(root: Path) -> Lake:
    return lakes.lake_of(root / "store", root / "lakes")


def rows(root: Path, table: str = "messages") -> list[dict[str, Any]]:
    """The rows of the active files."""
    lake = lake_of(root)
    return [
        row
        for file in (lake.messages if table == "messages" else lake.polls)
        for row in parquet.ParquetFile(file.path).read().to_pylist()
    ]


def offsets(root: Path) -> list[int]:
    return sorted(row["physical_offset"] for row in rows(root))


def files_of(root: Path) -> list[str]:
    """Every Parquet file of the tables."""
    return sorted(str(path) for table in TABLES for path in (root / "lakes" / table).glob("date=*/*/*"))


def active(root: Path) -> list[str]:
    """The active files of the tables."""
    lake = lake_of(root)
    return sorted(file.path for file in (*lake.messages, *lake.polls))


def expected(written: Written, first: int = 0) -> list[int]:
    return [record[2] for record in written.records[first:]]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    made = make_store(tmp_path / "store", 60)
    publish_end(tmp_path / "store", made.records[40][2])
    (tmp_path / "store" / "glassmq").write_text("1")
    make_journal(tmp_path / "store", [entry(number) for number in range(20)], [entry(20)])
    return made


def test_everything_is_there_once_and_what_is_new_follows(tmp_path: Path, written: Written) -> None:
    first = fill(tmp_path)
    assert (first.messages, first.polls, first.position) == (40, 21, written.records[40][2])
    assert fill(tmp_path)[2:] == (0, 0, first.position, {}, "safe end", 1, True, "", 0, 0)
    publish_end(tmp_path / "store", written.end)
    second = fill(tmp_path, with_bodies=True)
    assert (second.messages, second.polls, second.position) == (20, 0, written.end)
    assert offsets(tmp_path) == expected(written)
    assert sorted(row["client_id"] for row in rows(tmp_path, "polls")) == sorted(f"c{number}" for number in range(21))
    assert files_of(tmp_path) == active(tmp_path)
    with_bodies = {row["physical_offset"] for row in rows(tmp_path) if row.get("body") is not None}
    assert with_bodies == set(expected(written, 40))


def test_the_broker_waits_for_the_lake_that_it_knows(tmp_path: Path, written: Written) -> None:
    real = fill(tmp_path)
    publish_end(tmp_path / "store", written.end)
    told = (tmp_path / "store" / "lakePosition").read_bytes()
    assert lake_position.decode(told) == lake_position.LakePosition(written.records[40][2], NOW, real.lake)

    def try_it() -> Synced:
        return lakes.fill(tmp_path / "store", tmp_path / "trial")

    assert try_it().awaited_lake == real.lake
    assert (tmp_path / "store" / "lakePosition").read_bytes() == told
    assert fill(tmp_path).awaited_lake == ""
    shutil.rmtree(real.lake)
    done = try_it()
    position = lake_position.decode((tmp_path / "store" / "lakePosition").read_bytes())
    assert done.awaited_lake == ""
    assert position is not None and position.physical_offset == written.end
    assert position.lake == done.lake


def test_a_commit_of_a_killed_process_is_on_the_disk_before_the_broker_is_told(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    commits = {max((tmp_path / "lakes" / name / "_delta_log").glob("*.json")) for name in TABLES}
    synced: list[Path] = []
    monkeypatch.setattr(storage, "sync_to_disk", lambda path: synced.append(Path(path)))
    fill(tmp_path)
    assert commits <= {*synced[: synced.index(tmp_path / "store")]}


def test_a_store_without_a_safe_end_is_read_on_from_where_it_ended(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    last = written.records[45][2]
    whole = segment_path(tmp_path / "store", last // SEGMENT).read_bytes()
    later = {path: path.read_bytes() for path in (tmp_path / "store/commitlog").iterdir() if int(path.name) > last}
    for path in later:
        path.unlink()
    cut = last % SEGMENT + 30  # a record that is being written
    segment_path(tmp_path / "store", last // SEGMENT).write_bytes(whole[:cut] + bytes(SEGMENT - cut))
    assert (fill(tmp_path).position, offsets(tmp_path)) == (last, expected(written)[:45])
    segment_path(tmp_path / "store", last // SEGMENT).write_bytes(whole)
    for path, data in later.items():
        path.write_bytes(data)
    assert fill(tmp_path).messages == 15
    assert offsets(tmp_path) == expected(written)


def test_messages_that_are_not_dispatched_yet_wait_for_the_next_fill(tmp_path: Path, written: Written) -> None:
    dispatched = written.records[30][2]
    data = safe_end.encode(safe_end.SafeEnd(written.end, dispatched, 0, 1, 1, NOW))
    (tmp_path / "store" / safe_end.FILE_NAME).write_bytes(data)
    assert fill(tmp_path).position == dispatched
    publish_end(tmp_path / "store", written.end)
    assert fill(tmp_path).messages == 30


def test_a_log_whose_last_record_is_damaged_is_read_on_when_it_grows(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    last = written.records[-1][2]
    tear(tmp_path / "store", last, 20)
    done = fill(tmp_path)
    assert (done.position, done.ended_by) == (last, "invalid record")
    shutil.rmtree(tmp_path / "store")
    make_store(tmp_path / "store", 60)
    assert fill(tmp_path).messages == 1
    assert offsets(tmp_path) == expected(written)


def test_a_large_log_is_filled_bit_by_bit(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_end(tmp_path / "store", written.end)
    monkeypatch.setattr(lake_sync, "ROUND_BYTES", SEGMENT)
    monkeypatch.setattr(commit_log_segments, "SMALLEST_SHARE", 1000)
    done = [fill(tmp_path) for _ in range(4)]
    assert [one.is_all for one in done] == [False, False, True, True]
    assert [one.position for one in done] == [4096, 8192, written.end, written.end]
    assert offsets(tmp_path) == expected(written)


def test_segments_that_were_deleted_unread_are_a_gap(tmp_path: Path, written: Written) -> None:
    fill(tmp_path)
    position = written.records[40][2]
    publish_end(tmp_path / "store", written.end)
    last = max(path for path in (tmp_path / "store/commitlog").iterdir())
    for path in (tmp_path / "store/commitlog").iterdir():
        if path != last:
            path.unlink()
    done = fill(tmp_path)
    assert done.missing[DELETED] == int(last.name) - position
    first = next(index for index, record in enumerate(written.records) if record[2] >= int(last.name))
    times = (NOW + 20_000 * 39, NOW + 20_000 * first)
    assert lake_of(tmp_path).gaps == [Gap(DELETED, position, int(last.name), int(last.name) - position, *times)]
    assert offsets(tmp_path) == [at for at in expected(written) if at < position or at >= int(last.name)]
    assert fill(tmp_path).missing == {}


def test_a_segment_missing_in_the_middle_is_a_gap_too(tmp_path: Path, written: Written) -> None:
    publish_end(tmp_path / "store", written.end)
    segment_path(tmp_path / "store", 1).unlink()
    assert fill(tmp_path).missing[DELETED] == SEGMENT
    assert offsets(tmp_path) == [offset for offset in expected(written) if offset // SEGMENT != 1]


def test_a_segment_deleted_while_it_was_to_be_read_is_a_gap(tmp_path: Path, written: Written) -> None:
    publish_end(tmp_path / "store", written.end)

    def run(target: Target, works: Sequence[Work]) -> list[Done]:
        segment_path(tmp_path / "store", 0).unlink()
        return run_here(target, works)

    assert fill(tmp_path, run).missing[DELETED] == SEGMENT
    assert offsets(tmp_path) == [offset for offset in expected(written) if offset >= SEGMENT]
    assert lake_of(tmp_path).position == written.end


def test_a_segment_reported_gone_that_exists_fails_the_fill(tmp_path: Path, written: Written) -> None:
    publish_end(tmp_path / "store", written.end)

    def blind(target: Target, works: Sequence[Work]) -> list[Done]:
        return [LogDone(*work[2:4], gone=True) for work in works if isinstance(work, LogRange)]

    with pytest.raises(LakeError, match="the machine that was to read them did not find them"):
        fill(tmp_path, blind)
    assert (find_lake(tmp_path / "lakes", "store"), files_of(tmp_path)) == (None, [])
    assert not (tmp_path / "store" / "lakePosition").exists()
    assert fill(tmp_path).messages == 60


def test_another_store_in_the_place_of_a_broker_is_refused(tmp_path: Path, written: Written) -> None:
    fill(tmp_path)
    (tmp_path / "store").rename(tmp_path / "old")
    again = make_store(tmp_path / "store", 60, topics=("other",))
    with pytest.raises(LakeError, match=r"is not the one that the lake in .*lakes has of store: .*--broker NAME"):
        fill(tmp_path)
    lakes.fill(tmp_path / "store", tmp_path / "lakes", broker="store-2")
    assert offsets(tmp_path) == expected(written, 0)[:40]
    other = find_lake(tmp_path / "lakes", "store-2")
    assert other is not None and sum(file.rows for file in other.messages) == len(again.records)


def test_a_name_that_cannot_be_a_folder_is_refused(tmp_path: Path, written: Written) -> None:
    for name in ("a/b", "", ".x", "a'b", "größe"):
        with pytest.raises(LakeError, match="Give it another one by --broker NAME"):
            lakes.fill(tmp_path / "store", tmp_path / "lakes", broker=name)


def test_a_journal_is_read_on_and_what_was_deleted_of_it_is_noted(tmp_path: Path, written: Written) -> None:
    folder = tmp_path / "store" / "polljournal"
    whole = (folder / f"{1:020d}.journal").read_bytes()
    (folder / f"{1:020d}.journal").write_bytes(whole[:-60])
    assert fill(tmp_path).polls == 20
    (folder / f"{1:020d}.journal").write_bytes(whole)
    assert fill(tmp_path).polls == 1
    assert fill(tmp_path).polls == 0
    (folder / f"{0:020d}.journal").rename(folder / f"{4:020d}.journal")
    (folder / f"{1:020d}.journal").unlink()
    done = fill(tmp_path)
    assert (done.polls, done.missing[UNREAD]) == (20, 2)
    assert lake_of(tmp_path).unread_files == 2
    assert fill(tmp_path).missing == {}


def test_what_is_missing_of_a_journal_is_counted_when_it_is_passed() -> None:
    def done(number: int, created_ms: int, end: int, closed: bool = True, **more: Any) -> JournalDone:
        return JournalDone(JournalPosition(number, created_ms, end, closed), **more)

    position = None
    for files, missing in [
        ([done(3, 10, 50, False)], {}),
        ([done(3, 10, 60)], {}),
        ([done(6, 20, 9)], {UNREAD: 2}),
        ([done(7, 30, 9, lost=4)], {LOST: 4}),
        ([done(0, 40, 9)], {}),
        ([done(3, 50, 9)], {UNREAD: 2}),
        ([done(2, 60, 9, False)], {UNREAD: 2}),
        ([done(2, 60, 9, False), done(3, 61, 9, False)], {CUT_OFF: 1}),
        ([done(3, 61, 9, False, is_damaged=True), done(4, 62, 9, False)], {UNREAD: 1}),
        ([done(5, 63, 9, False)], {UNREAD: 1}),
        ([done(5, 63, 9, False, is_damaged=True), done(8, 64, 9)], {UNREAD: 3}),
        ([done(3, 5, 9), done(4, 4, 9)], {UNREAD: 3}),
    ]:
        position, found = read_on(position, files)
        assert found == missing, files
        assert position == files[-1].position


def test_a_full_disk_keeps_nothing_and_spoils_nothing(tmp_path: Path, written: Written) -> None:
    fill(tmp_path)
    before, files = lake_of(tmp_path), files_of(tmp_path)
    publish_end(tmp_path / "store", written.end)

    def run(target: Target, works: Sequence[Work]) -> list[Done]:
        run_here(target, works)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fill(tmp_path, run)
    assert (lake_of(tmp_path), files_of(tmp_path)) == (before, files)
    assert fill(tmp_path).messages == 20
    assert offsets(tmp_path) == expected(written)


class KilledError(BaseException):
    """The process is no more: nothing that it would do after this happens."""


@contextmanager
def killed_at(step: int) -> Iterator[list[str]]:
    """Let ``step`` things happen to the disk, none after them. Yields what was done."""
    done: list[str] = []
    with pytest.MonkeyPatch.context() as patch:

        def counted(name: str, real: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
            def call(*args: Any, **more: Any) -> Any:
                if counts(*args, **more):
                    if len(done) == step:
                        raise KilledError
                    done.append(name)
                return real(*args, **more)

            return call

        for name in ("replace", "unlink", "mkdir", "rmdir"):
            patch.setattr(Path, name, counted(name, getattr(Path, name), lambda *_, **__: True))
        patch.setattr(os, "fsync", counted("fsync", os.fsync, lambda *_: True))
        patch.setattr(builtins, "open", counted("open", builtins.open, lambda path, mode="r", *_, **__: "w" in mode))
        yield done


def store_in_two_stages(root: Path) -> tuple[Written, Callable[[], None], Callable[[], None]]:
    """A store, and what makes it have its first part, and all of it."""
    written = make_store(root / "store", 60)
    (root / "store" / "glassmq").write_text("1")
    (journal,) = make_journal(root / "store", [entry(number) for number in range(20)])
    whole = journal.read_bytes()

    def half() -> None:
        publish_end(root / "store", written.records[30][2])
        journal.write_bytes(whole[:-500])

    def full() -> None:
        publish_end(root / "store", written.end)
        journal.write_bytes(whole)

    return written, half, full


def test_whenever_the_writer_is_killed_the_next_one_makes_it_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message is there once, and so is each gap: those of a killed fill do not count."""
    monkeypatch.setattr(lake_sync, "ROUND_BYTES", 6000)
    monkeypatch.setattr(commit_log_segments, "SMALLEST_SHARE", 2000)
    step, finished = 0, False
    while not finished:
        root = tmp_path / str(step)
        written, half, full = store_in_two_stages(root)
        damaged = [written.records[index][2] for index in (10, 50)]
        whole = [at for at in expected(written) if at not in damaged]
        for at in damaged:
            tear(root / "store", at, 20)
        half()
        fill(root)
        full()
        with suppress(KilledError), killed_at(step) as done:
            fill_all(root)
            finished = True
        lake, counted = lake_of(root), offsets(root)  # what a reader sees meanwhile
        assert counted == whole[: len(counted)]
        assert [gap.start for gap in lake.gaps] == [at for at in damaged if at < (lake.position or 0)]
        with suppress(KilledError), killed_at(step // 2):
            fill_all(root)
        result = fill_all(root)
        assert offsets(root) == whole, f"killed after {done}"
        assert [gap.start for gap in lake_of(root).gaps] == damaged
        assert sorted(row["client_id"] for row in rows(root, "polls")) == sorted(f"c{n}" for n in range(20))
        told = lake_position.decode((root / "store" / "lakePosition").read_bytes())
        assert told is not None and told.physical_offset == result.position == written.end
        step += 1
    assert step > 20


def test_hourly_fills_of_some_days_leave_few_files_and_every_row(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60, step_ms=HOUR)
    entries = [entry(number, at_ms=NOW + HOUR * number) for number in range(60)]
    for hours in range(2, 62, 2):
        publish_end(tmp_path / "store", written.records[hours][2] if hours < 60 else written.end)
        shutil.rmtree(tmp_path / "store" / "polljournal", ignore_errors=True)
        make_journal(tmp_path / "store", *([one] for one in entries[:hours]))
        done = fill(tmp_path)
    lake = lake_of(tmp_path)
    for files in (lake.messages, lake.polls):
        days = Counter(file.day for file in files)
        assert len(days) == 4
        assert all(days[day] <= 4 for day in sorted(days)[:2]), days
    assert done.position == lake.position == written.end
    at_once = tmp_path / "at once"
    at_once.mkdir()
    (tmp_path / "store").rename(at_once / "store")
    fill(at_once)
    for table, key in (("messages", "physical_offset"), ("polls", "client_id")):
        found, whole = (
            sorted(
                ({name: value for name, value in row.items() if value is not None} for row in rows(root, table)),
                key=lambda row: row[key],
            )
            for root in (tmp_path, at_once)
        )
        assert len(found) == 60 and found == whole


def test_days_that_are_too_old_are_dropped_and_not_read_again(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60, step_ms=HOUR)
    fill(tmp_path)
    now = NOW + 60 * HOUR
    before_ms = (now // DAY_MS - 1) * DAY_MS

    def keep_one_day() -> Synced:
        return fill(tmp_path, keep_days=1, now_ms=now)

    old = sum(NOW + HOUR * number < before_ms for number in range(60))
    assert keep_one_day().dropped_messages == old > 0
    assert offsets(tmp_path) == expected(written, old)
    assert lake_of(tmp_path).dropped == Dropped(before_ms, old, 0)
    assert keep_one_day()[2:4] == (0, 0)
    assert lake_of(tmp_path).dropped == Dropped(before_ms, old, 0)
