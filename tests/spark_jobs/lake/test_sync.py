"""A lake filled step by step, with the writer killed at every step, against what was put into the store."""

import builtins
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pyarrow import parquet

from broker_core.formats import lake_position, safe_end
from broker_core.formats.poll_journal import decode_blocks, decode_header
from spark_jobs.errors import LakeBusyError, LakeCancelledError, LakeError, NotAStoreError
from spark_jobs.lake import lake
from spark_jobs.lake import merge as lake_merge
from spark_jobs.lake import sync as lake_sync
from spark_jobs.lake.folders import lake_name
from spark_jobs.lake.lake import READ_ON_MS, Lake, find_lake, locked
from spark_jobs.lake.manifest import Dropped, Manifest
from spark_jobs.lake.merge import due
from spark_jobs.lake.sync import Synced, Wanted, add_journal, rounds, sync
from spark_jobs.lake.tasks import DAY_MS, Done, JournalDone, JournalWork, LogDone, LogWork, MergeWork, Work, carry_out
from spark_jobs.sources import commit_log_segments
from spark_jobs.sources.commit_log_files import joined
from spark_jobs.sources.commit_log_sums import added_up
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal
from tests.spark_jobs.stores import SEGMENT, Written, make_store, publish_end, segment_path, tear

NOW = 1_700_000_000_000
HOUR = 3_600_000


def run_here(works: Sequence[Work]) -> list[Done]:
    """All works in this process, the last one first."""
    return [carry_out(work) for work in reversed(works)]


def fill(root: Path, run: Callable[[Sequence[Work]], list[Done]] = run_here, **more: Any) -> Synced:
    return sync(Wanted(str(root / "store"), root / "lakes", **more), run, lambda: NOW, lambda percent, doing: None)


def lake_of(root: Path) -> Lake:
    found = find_lake(root / "lakes", root / "store")
    assert found is not None
    return found


def rows(root: Path, table: str = "messages") -> list[dict[str, Any]]:
    """What counts: the rows of the files that the manifest names."""
    lake = lake_of(root)
    parts = lake.manifest.messages if table == "messages" else lake.manifest.polls
    return [
        row
        for part in parts
        for file in part.files
        for row in parquet.read_table(lake.folder / file.path, partitioning=None).to_pylist()
    ]


def offsets(root: Path) -> list[int]:
    return sorted(row["physical_offset"] for row in rows(root))


def files_of(root: Path) -> list[str]:
    """Every file below the lake but its manifest."""
    folder = lake_of(root).folder
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    )


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
    assert fill(tmp_path)[1:] == (0, 0, first.position, 0, 0, 0, "safe end", 1, "", True, 0, 0)
    publish_end(tmp_path / "store", written.end)
    second = fill(tmp_path, with_bodies=True)
    assert (second.messages, second.polls, second.position) == (20, 0, written.end)
    assert offsets(tmp_path) == expected(written)
    assert sorted(row["client_id"] for row in rows(tmp_path, "polls")) == sorted(f"c{number}" for number in range(21))
    assert files_of(tmp_path) == sorted(lake_of(tmp_path).manifest.files())
    assert {row["physical_offset"] for row in rows(tmp_path) if "body" in row} == set(expected(written, 40))


def test_the_broker_is_told_what_it_may_delete(tmp_path: Path, written: Written) -> None:
    fill(tmp_path)
    told = lake_position.decode((tmp_path / "store" / "lakePosition").read_bytes())
    assert told == lake_position.LakePosition(written.records[40][2], NOW, str(lake_of(tmp_path).folder))


def test_the_broker_waits_for_the_lake_that_it_knows(tmp_path: Path, written: Written) -> None:
    real = fill(tmp_path)
    publish_end(tmp_path / "store", written.end)
    told = (tmp_path / "store" / "lakePosition").read_bytes()
    trial = Wanted(str(tmp_path / "store"), tmp_path / "trial")

    def try_it() -> Synced:
        return sync(trial, run_here, lambda: NOW, lambda percent, doing: None)

    assert try_it().awaited_lake == str(real.lake)
    assert (tmp_path / "store" / "lakePosition").read_bytes() == told
    assert fill(tmp_path).awaited_lake == ""
    (real.lake / "manifest.json").unlink()
    done = try_it()
    position = lake_position.decode((tmp_path / "store" / "lakePosition").read_bytes())
    assert done.awaited_lake == ""
    assert position is not None and (position.lake, position.physical_offset) == (str(done.lake), written.end)


def test_nothing_is_written_into_a_store_of_rocketmq(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 60)
    before = sorted((tmp_path / "store").rglob("*"))
    assert fill(tmp_path).messages == 60
    assert sorted((tmp_path / "store").rglob("*")) == before


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


def test_what_the_queues_do_not_have_yet_waits(tmp_path: Path, written: Written) -> None:
    dispatched = written.records[30][2]
    data = safe_end.encode(safe_end.SafeEnd(written.end, dispatched, 0, 1, 1, NOW))
    (tmp_path / "store" / safe_end.FILE_NAME).write_bytes(data)
    assert fill(tmp_path).position == dispatched
    publish_end(tmp_path / "store", written.end)
    assert fill(tmp_path).messages == 30


def test_where_a_log_cannot_be_read_on_is_said(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    assert fill(tmp_path)[7:10] == ("unwritten space", 0, "")
    torn = next(offset for offset in expected(written) if offset > SEGMENT + 500)
    root = tmp_path / "torn"
    make_store(root / "store", 60)
    tear(root / "store", torn, 20)
    done = fill(root)
    behind = [path.name for path in sorted((root / "store/commitlog").iterdir())[2:]]
    assert (done.position, done.ended_by, done.segments_unread) == (torn, "invalid record", len(behind))
    manifest = lake_of(root).manifest
    assert (manifest.ended_by, manifest.segments_unread) == ("invalid record", behind)


def test_a_large_log_is_made_to_count_bit_by_bit(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_end(tmp_path / "store", written.end)
    monkeypatch.setattr(lake_sync, "ROUND_BYTES", SEGMENT)
    monkeypatch.setattr(commit_log_segments, "SMALLEST_SHARE", 1000)
    positions, told = [], []

    def run(works: Sequence[Work]) -> list[Done]:
        found = find_lake(tmp_path / "lakes", tmp_path / "store")
        positions.append(found.manifest.position if found else 0)
        return run_here(works)

    sync(
        Wanted(str(tmp_path / "store"), tmp_path / "lakes"),
        run,
        lambda: NOW,
        lambda percent, doing: told.append(percent),
    )
    assert positions == [0, 4096, 8192]
    assert told == sorted(told)
    assert told[-1] < 100
    assert offsets(tmp_path) == expected(written)


def test_a_round_at_a_time(tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_end(tmp_path / "store", written.end)
    monkeypatch.setattr(lake_sync, "ROUND_BYTES", SEGMENT)
    done = [fill(tmp_path, rounds=1) for _ in range(4)]
    assert [one.is_all for one in done] == [False, False, True, True]
    assert [one.position for one in done] == [4096, 8192, written.end, written.end]
    assert offsets(tmp_path) == expected(written)


def test_torn_records_are_counted(tmp_path: Path, written: Written) -> None:
    publish_end(tmp_path / "store", written.end)
    tear(tmp_path / "store", written.records[7][2], 12)
    assert fill(tmp_path).torn_bytes == written.records[7][3]
    assert offsets(tmp_path) == [offset for offset in expected(written) if offset != written.records[7][2]]
    assert sum(part.torn_places for part in lake_of(tmp_path).manifest.messages) == 1


def test_segments_that_were_deleted_unread_are_a_gap(tmp_path: Path, written: Written) -> None:
    fill(tmp_path)
    position = written.records[40][2]
    publish_end(tmp_path / "store", written.end)
    last = max(path for path in (tmp_path / "store/commitlog").iterdir())
    for path in (tmp_path / "store/commitlog").iterdir():
        if path != last:
            path.unlink()
    done = fill(tmp_path)
    assert done.gap_bytes == int(last.name) - position
    (gap,) = lake_of(tmp_path).manifest.gaps
    assert (gap.start, gap.end, gap.noticed_ms) == (position, int(last.name), NOW)
    assert offsets(tmp_path) == [at for at in expected(written) if at < position or at >= int(last.name)]
    assert fill(tmp_path).gap_bytes == 0


def test_a_segment_missing_in_the_middle_is_a_gap_too(tmp_path: Path, written: Written) -> None:
    publish_end(tmp_path / "store", written.end)
    segment_path(tmp_path / "store", 1).unlink()
    assert fill(tmp_path).gap_bytes == SEGMENT
    assert offsets(tmp_path) == [offset for offset in expected(written) if offset // SEGMENT != 1]


def test_a_segment_deleted_while_it_was_to_be_read_is_a_gap(tmp_path: Path, written: Written) -> None:
    publish_end(tmp_path / "store", written.end)

    def run(works: Sequence[Work]) -> list[Done]:
        segment_path(tmp_path / "store", 0).unlink()
        return run_here(works)

    assert fill(tmp_path, run).gap_bytes == SEGMENT
    assert offsets(tmp_path) == [offset for offset in expected(written) if offset >= SEGMENT]
    assert lake_of(tmp_path).manifest.position == written.end


def test_what_is_said_to_be_gone_and_is_there_does_not_count(tmp_path: Path, written: Written) -> None:
    publish_end(tmp_path / "store", written.end)

    def blind(works: Sequence[Work]) -> list[Done]:
        return [
            LogDone(work.start, work.end, [], gone=True) if isinstance(work, LogWork) else carry_out(work)
            for work in works
        ]

    with pytest.raises(LakeError, match="the machine that was to read them did not find them"):
        fill(tmp_path, blind)
    assert find_lake(tmp_path / "lakes", tmp_path / "store") is None
    assert not (tmp_path / "store" / "lakePosition").exists()
    assert fill(tmp_path).messages == 60


def test_another_store_in_the_same_place_gets_a_lake_of_its_own(tmp_path: Path, written: Written) -> None:
    first = fill(tmp_path)
    (tmp_path / "store").rename(tmp_path / "old")
    again = make_store(tmp_path / "store", 20, topics=("other",))
    second = fill(tmp_path)
    assert second.lake.name == f"{first.lake.name}-2"
    assert offsets(tmp_path) == expected(again)
    assert {row["topic"] for row in rows(tmp_path)} == {"other"}
    assert fill(tmp_path).lake == second.lake


def test_stores_that_change_places_have_a_lake_each(tmp_path: Path, written: Written) -> None:
    first = fill(tmp_path)
    make_store(tmp_path / "other", 20, topics=("other",))
    lakes = []
    for _ in range(4):
        (tmp_path / "store").rename(tmp_path / "away")
        (tmp_path / "other").rename(tmp_path / "store")
        (tmp_path / "away").rename(tmp_path / "other")
        lakes.append(fill(tmp_path).lake.name)
    assert lakes == [f"{first.lake.name}-2", first.lake.name] * 2


def test_a_damaged_record_does_not_make_another_lake(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log_segments, "SMALLEST_SHARE", 1000)
    first = fill(tmp_path)
    assert len(lake_of(tmp_path).manifest.witnesses) == 3
    tear(tmp_path / "store", written.records[39][2] + 40, 1)
    publish_end(tmp_path / "store", written.end)
    assert fill(tmp_path)[:2] == (first.lake, 20)


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
    assert (done.polls, done.missing_journal_files) == (20, 2)
    assert lake_of(tmp_path).manifest.missing_journal_files == [2, 3]
    assert fill(tmp_path).missing_journal_files == 0


def test_gaps_of_a_journal_are_noted_once_whatever_its_numbers() -> None:
    def done(number: int, created_ms: int, start: int, end: int) -> JournalDone:
        return JournalDone(number, created_ms, start, end, [])

    manifest = Manifest("store")
    steps = [
        (done(3, 10, 0, 50), []),
        (done(3, 10, 50, 60), []),
        (done(6, 20, 0, 0), []),
        (done(6, 20, 0, 9), [4, 5]),
        (done(7, 30, 0, 9), []),
        (done(6, 20, 9, 20), []),
        (done(0, 40, 0, 9), []),
        (done(3, 50, 0, 9), [1, 2]),
        (done(2, 60, 0, 9), [0, 1]),
    ]
    for one, missing in steps:
        manifest.missing_journal_files = []
        add_journal(manifest, [one])
        assert manifest.missing_journal_files == missing, one
    manifest.missing_journal_files = []
    add_journal(manifest, [done(1, 80, 0, 9), done(3, 70, 0, 9)])
    assert manifest.missing_journal_files == [0], "the file 3 was made before, the numbers began anew behind it"


def test_what_is_no_store_has_no_lake(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        fill(tmp_path)
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    assert fill(tmp_path).messages == 0
    make_store(tmp_path / "made later", 5)
    (tmp_path / "store" / "commitlog").rmdir()
    (tmp_path / "made later" / "commitlog").rename(tmp_path / "store" / "commitlog")
    done = fill(tmp_path)
    assert (done.messages, done.lake.name) == (5, lake_name(tmp_path / "store"))


def test_two_do_not_fill_one_lake(tmp_path: Path, written: Written) -> None:
    with locked(tmp_path / "lakes", tmp_path / "store"), pytest.raises(LakeBusyError):
        fill(tmp_path)
    assert fill(tmp_path).messages == 40


def test_a_full_disk_keeps_nothing_and_spoils_nothing(tmp_path: Path, written: Written) -> None:
    fill(tmp_path)
    before, files = lake_of(tmp_path).manifest, files_of(tmp_path)
    publish_end(tmp_path / "store", written.end)

    def run(works: Sequence[Work]) -> list[Done]:
        run_here(works)
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fill(tmp_path, run)
    assert (lake_of(tmp_path).manifest, files_of(tmp_path)) == (before, files)
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


def store_in_two_stages(root: Path, segments: int) -> tuple[Written, Callable[[], None], Callable[[], None]]:
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
    monkeypatch.setattr(lake_sync, "ROUND_BYTES", 6000)
    monkeypatch.setattr(commit_log_segments, "SMALLEST_SHARE", 2000)
    step, finished = 0, False
    while not finished:
        root = tmp_path / str(step)
        written, half, full = store_in_two_stages(root, step)
        half()
        fill(root)
        full()
        try:
            with killed_at(step) as done:
                fill(root)
                finished = True
        except KilledError:
            pass
        counted = offsets(root)  # what a reader sees meanwhile
        assert counted == expected(written)[: len(counted)]
        with killed_at(step // 2), suppress(KilledError):
            fill(root)
        result = fill(root)
        assert offsets(root) == expected(written), f"killed after {done}"
        assert sorted(row["client_id"] for row in rows(root, "polls")) == sorted(f"c{n}" for n in range(20))
        assert files_of(root) == sorted(lake_of(root).manifest.files())
        told = lake_position.decode((root / "store" / "lakePosition").read_bytes())
        assert told is not None and told.physical_offset == result.position == written.end
        step += 1
    assert step > 40


def test_works_are_cut_into_rounds_by_their_bytes() -> None:
    def log(size: int) -> LogWork:
        return LogWork("s", "l", joined("s", "commitlog"), 0, 0, size, False)

    journal = JournalWork("l", "p", 0, 0, 0)
    half = log(lake_sync.ROUND_BYTES // 2)
    assert list(rounds([journal, half, half, log(1)])) == [[journal, half, half], [log(1)]]
    assert list(rounds([])) == []


class Growing:
    """A store of four days, a message and the end of a pull each hour, that grows a bit at a time."""

    def __init__(self, root: Path, hours: int = 100) -> None:
        self.root, self.now, self._half = root, NOW, hours // 2
        self.written = make_store(root / "store", hours, step_ms=HOUR)
        (root / "store" / "glassmq").write_text("1")
        halves = [
            [entry(number, at_ms=BEGIN_MS + HOUR * number) for number in range(first, first + self._half)]
            for first in (0, self._half)
        ]
        self._journals = make_journal(root / "store", *halves, block=1)
        self._whole = [path.read_bytes() for path in self._journals]

    def grow(self, hours: int) -> None:
        """As it is when so many are over."""
        records = self.written.records
        publish_end(self.root / "store", records[hours][2] if hours < len(records) else self.written.end)
        for number, (path, whole) in enumerate(zip(self._journals, self._whole, strict=True)):
            entries = hours - number * self._half
            header = decode_header(whole)
            assert header is not None
            ends = [block.end for block in decode_blocks(whole, header)]
            path.write_bytes(whole if entries >= self._half else whole[: ends[entries - 1]] if entries > 0 else b"")

    def fill(self, run: Callable[[Sequence[Work]], list[Done]] = run_here, **more: Any) -> Synced:
        return sync(
            Wanted(str(self.root / "store"), self.root / "lakes", **more),
            run,
            lambda: self.now,
            lambda percent, doing: None,
        )

    def fill_bit_by_bit(self, until: int, step: int = 3) -> None:
        for hours in range(step, until + 1, step):
            self.grow(hours)
            self.fill()


def counted(root: Path) -> list[dict[str, Any]]:
    """What the lake has counted, rows of the same keys added up."""
    lake = lake_of(root)
    batches = [
        batch
        for file in lake.manifest.of_table("sums")
        for batch in parquet.read_table(lake.folder / file.path, partitioning=None).to_batches()
    ]
    return sorted((row for batch in added_up(batches) for row in batch.to_pylist()), key=repr)


def unmerged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lake_merge, "FEW", 1 << 30)
    patch.setattr(lake_merge, "MANY", 1 << 30)


def test_what_is_merged_has_the_same_rows_in_the_same_order(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        unmerged(patch)
        (tmp_path / "small").mkdir()
        Growing(tmp_path / "small").fill_bit_by_bit(100)
    (tmp_path / "merged").mkdir()
    store = Growing(tmp_path / "merged")
    store.fill_bit_by_bit(100)
    for table in ("messages", "polls"):
        assert rows(tmp_path / "merged", table) == rows(tmp_path / "small", table)
    assert [row["physical_offset"] for row in rows(tmp_path / "merged")] == expected(store.written)[:99]
    assert counted(tmp_path / "merged") == counted(tmp_path / "small")
    small, merged = (lake_of(tmp_path / name).manifest for name in ("small", "merged"))
    assert (small.position, small.witnesses) == (merged.position, merged.witnesses)
    assert {known: (part.end, part.closed) for known, part in small.journal_ends().items()} == {
        known: (part.end, part.closed) for known, part in merged.journal_ends().items()
    }
    for table in ("messages", "sums", "polls"):
        assert len(small.of_table(table)) > 30
        assert len(merged.of_table(table)) < 20, "two for each day that is over, and those of the last one"


def test_who_has_read_the_manifest_before_can_read_its_files_for_hours(tmp_path: Path) -> None:
    store = Growing(tmp_path)
    store.fill_bit_by_bit(27)
    before = lake_of(tmp_path)
    store.grow(33)
    done = store.fill()
    after = lake_of(tmp_path).manifest
    gone = {file.path for file in after.retired}
    assert before.manifest.files() - after.files() <= gone
    assert (done.messages, len(gone)) == (6, done.merged_files) and len(gone) >= 3 * 8
    store.now += READ_ON_MS - 1
    assert store.fill().merged_files == 0
    assert all((before.folder / path).is_file() for path in before.manifest.files())
    assert files_of(tmp_path) == sorted(after.files() | gone)
    store.now += 1
    store.fill()
    assert files_of(tmp_path) == sorted(after.files())
    assert lake_of(tmp_path).manifest.retired == []


def test_merging_goes_a_round_at_a_time_behind_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Growing(tmp_path)
    with monkeypatch.context() as patch:
        unmerged(patch)
        store.fill_bit_by_bit(99)
    store.grow(100)
    monkeypatch.setattr(lake_merge, "ROUND_BYTES", 1)
    done = [store.fill(rounds=1)]
    merges = len(lake_merge.due(lake_of(tmp_path).manifest, ""))
    done += [store.fill(rounds=1) for _ in range(merges + 1)]
    assert done[0][1:3] == (1, 1) and merges >= 6, "three days that are over, of messages and of ends of pulls"
    assert [one.merged_files > 0 for one in done] == [False, *[True] * merges, False]
    assert [one.is_all for one in done] == [*[False] * merges, True, True]
    assert offsets(tmp_path) == expected(store.written)


def test_what_fails_or_is_cancelled_while_it_merges_has_read_what_is_new(tmp_path: Path) -> None:
    store = Growing(tmp_path)
    store.fill_bit_by_bit(27)

    def full(works: Sequence[Work]) -> list[Done]:
        done = run_here(works)
        if isinstance(works[0], MergeWork):
            raise OSError(errno.ENOSPC, "No space left on device")
        return done

    def cancel(percent: int, doing: str) -> None:
        if "merging" in doing:
            raise LakeCancelledError("cancelled")

    store.grow(40)
    with pytest.raises(OSError, match="No space left"):
        store.fill(full)
    assert offsets(tmp_path) == expected(store.written)[:40]
    assert files_of(tmp_path) == sorted(lake_of(tmp_path).manifest.files())
    store.grow(45)
    with pytest.raises(LakeCancelledError):
        sync(Wanted(str(tmp_path / "store"), tmp_path / "lakes"), run_here, lambda: NOW, cancel)
    assert offsets(tmp_path) == expected(store.written)[:45]
    told = lake_position.decode((tmp_path / "store" / "lakePosition").read_bytes())
    assert told is not None and told.physical_offset == store.written.records[45][2]
    assert store.fill().merged_files > 0
    assert offsets(tmp_path) == expected(store.written)[:45]


def test_a_file_that_cannot_be_merged_is_named_and_what_is_new_is_read_all_the_same(tmp_path: Path) -> None:
    store = Growing(tmp_path)
    store.fill_bit_by_bit(27)
    damaged = lake_of(tmp_path).folder / lake_of(tmp_path).manifest.of_table("polls")[2].path
    whole = damaged.read_bytes()
    damaged.write_bytes(b"x" * len(whole))
    for hours in (33, 36):
        store.grow(hours)
        with pytest.raises(LakeError, match=rf"{damaged.name} cannot be read and merged"):
            store.fill()
        assert offsets(tmp_path) == expected(store.written)[:hours]
    damaged.unlink()
    with pytest.raises(LakeError, match=rf"{damaged.name} cannot be read and merged"):
        store.fill()
    damaged.write_bytes(whole)
    assert store.fill().merged_files > 0


def test_bodies_are_merged_too_and_a_column_of_later_is_null(tmp_path: Path) -> None:
    store = Growing(tmp_path)
    for hours in range(4, 41, 4):
        store.grow(hours)
        store.fill(with_bodies=hours <= 20)
        if hours == 8:
            folder = lake_of(tmp_path).folder
            for file in lake_of(tmp_path).manifest.of_table("messages"):
                table = parquet.read_table(folder / file.path, partitioning=None)
                parquet.write_table(table.drop_columns(["tags"]), folder / file.path, store_schema=False)
    found = rows(tmp_path)
    assert [row["physical_offset"] for row in found] == expected(store.written)[:40]
    assert [row["body"].decode()[:6] for row in found[:20]] == [f"body {number}"[:6] for number in range(20)]
    assert not any("body" in row for row in found[20:])
    assert [row["tags"] for row in found[4:12]] == [*[None] * 4, "tag0", None, "tag2", None]


def test_whenever_the_writer_is_killed_while_it_merges_nothing_is_lost_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Growing(tmp_path / "one")
    with monkeypatch.context() as patch:
        unmerged(patch)
        store.fill_bit_by_bit(35, 5)
    before, everything = lake_of(tmp_path / "one"), expected(store.written)[:35]
    shutil.copytree(tmp_path / "one", tmp_path / "kept")
    step, finished, merged_at = 0, False, 0
    while not finished:
        shutil.rmtree(tmp_path / "one")
        shutil.copytree(tmp_path / "kept", tmp_path / "one")
        with killed_at(step) as done, suppress(KilledError):
            store.fill()
            finished = True
        assert [row["physical_offset"] for row in rows(tmp_path / "one")] == everything, f"killed after {done}"
        assert all((before.folder / path).is_file() for path in before.manifest.files()), "somebody reads them"
        merged_at = merged_at or (step if lake_of(tmp_path / "one").manifest.retired else 0)
        with killed_at(step // 2), suppress(KilledError):
            store.fill()
        store.fill()
        manifest = lake_of(tmp_path / "one").manifest
        assert [row["physical_offset"] for row in rows(tmp_path / "one")] == everything
        assert sum(row["messages"] for row in counted(tmp_path / "one")) == 35
        assert [row["client_id"] for row in rows(tmp_path / "one", "polls")] == [f"c{n}" for n in range(35)]
        assert files_of(tmp_path / "one") == sorted(manifest.files() | {file.path for file in manifest.retired})
        assert len(manifest.files()) < len(before.manifest.files())
        step += 1
    assert 20 < merged_at < step


def test_days_that_are_not_to_be_kept_are_dropped_and_not_read_again(tmp_path: Path) -> None:
    store = Growing(tmp_path)
    store.fill_bit_by_bit(75)
    everything, before = expected(store.written)[:75], lake_of(tmp_path)
    told = (tmp_path / "store" / "lakePosition").read_bytes()
    store.now = NOW + 74 * HOUR
    midnight = store.now // DAY_MS * DAY_MS
    assert store.fill(keep_days=4).dropped_messages == 0
    old = len([number for number in range(75) if NOW + HOUR * number < midnight - DAY_MS])
    done = store.fill(keep_days=1)
    assert (done.messages, done.polls, done.dropped_messages) == (0, 0, old) and 20 < old < 60
    assert [row["physical_offset"] for row in rows(tmp_path)] == everything[old:]
    assert [row["client_id"] for row in rows(tmp_path, "polls")] == [f"c{number}" for number in range(old, 75)]
    assert sum(row["messages"] for row in counted(tmp_path)) == 75 - old
    manifest = lake_of(tmp_path).manifest
    assert manifest.dropped == Dropped(midnight - DAY_MS, old, old)
    assert lake_position.decode(told) == lake_position.decode(
        (tmp_path / "store" / "lakePosition").read_bytes()
    )._replace(wall_ms=NOW)
    assert all((before.folder / path).is_file() for path in before.manifest.files()), "somebody reads them"
    store.now += READ_ON_MS
    for _ in range(2):
        assert store.fill(keep_days=1)[1:3] == (0, 0)
        assert files_of(tmp_path) == sorted(lake_of(tmp_path).manifest.files())
    store.grow(100)
    store.now = NOW + 200 * HOUR
    done = store.fill(keep_days=1)
    assert (done.messages, done.dropped_messages) == (25, 75 - old), "what is old is read first"
    assert store.fill(keep_days=1).dropped_messages == 25
    assert rows(tmp_path) == rows(tmp_path, "polls") == lake_of(tmp_path).manifest.messages == []
    assert store.fill(keep_days=1)[1:4] == (0, 0, store.written.end)


def test_what_is_dropped_stays_dropped_whenever_the_writer_is_killed(tmp_path: Path) -> None:
    step, finished = 0, False
    while not finished:
        store = Growing(tmp_path / str(step), 60)
        store.fill_bit_by_bit(50, 25)
        store.grow(60)
        store.now = NOW + 51 * HOUR
        everything, kept = expected(store.written), [number for number in range(60) if number > 25]
        with killed_at(step) as done, suppress(KilledError):
            store.fill(keep_days=1)
            finished = True
        found = [row["physical_offset"] for row in rows(store.root)]
        assert found in (everything[:50], everything[26:50], everything[26:]), f"killed after {done}"
        store.fill(keep_days=1)
        assert [row["physical_offset"] for row in rows(store.root)] == everything[26:]
        assert [row["client_id"] for row in rows(store.root, "polls")] == [f"c{number}" for number in kept]
        manifest = lake_of(store.root).manifest
        assert (manifest.dropped.messages, manifest.dropped.polls) == (26, 26)
        assert files_of(store.root) == sorted(manifest.files() | {file.path for file in manifest.retired})
        step += 1
    assert step > 20


LONG_MS = 30 * HOUR


class AnyOrder(RuleBasedStateMachine):
    """A lake that is filled, killed, merged and shortened while the log grows, readers read and hours pass."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(lake_merge, "FEW", 2)
        self.patch.setattr(lake_merge, "MANY", 5)
        self.patch.setattr(lake, "READ_ON_MS", LONG_MS)
        self.folder = TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.store = Growing(self.root, 80)
        self.hours = 0
        self.there: list[int] = []
        """Numbers of the messages, and of the ends of pulls, that are in the lake."""
        self.read_ms = 0
        self.reader: tuple[Path, set[str]] | None = None
        self.grow(3)
        self.fill(keep_days=0, with_bodies=False, rounds=None)

    def teardown(self) -> None:
        for _ in range(3):
            self.store.fill()
            self.store.now += LONG_MS
        self.store.fill()
        assert files_of(self.root) == sorted(lake_of(self.root).manifest.files())
        assert due(lake_of(self.root).manifest, "") == []
        self.folder.cleanup()
        self.patch.undo()

    @rule(hours=st.integers(1, 12))
    def grow(self, hours: int) -> None:
        """Hours of work."""
        self.hours = min(self.hours + hours, 80)
        self.store.now += hours * HOUR
        self.store.grow(self.hours)

    @rule(keep_days=st.sampled_from([0, 0, 0, 1, 2]), with_bodies=st.booleans(), rounds=st.sampled_from([1, 1, None]))
    def fill(self, keep_days: int, with_bodies: bool, rounds: int | None) -> None:
        """A fill; a single round of it only merges where there is nothing new."""
        left, new = self.left(keep_days), self.new()
        done = self.store.fill(keep_days=keep_days, with_bodies=with_bodies, rounds=rounds)
        assert (done.messages, done.polls, done.dropped_messages) == (len(new), len(new), len(self.there) - len(left))
        self.there = [*left, *new]

    def new(self) -> list[int]:
        """What the lake has not read yet."""
        known = find_lake(self.root / "lakes", self.root / "store")
        position = known.manifest.position if known else 0
        return [number for number in range(self.hours) if self.store.written.records[number][2] >= position]

    def left(self, keep_days: int) -> list[int]:
        """What stays in the lake before anything new is read."""
        if not keep_days:
            return self.there
        begin = (self.store.now // DAY_MS - keep_days) * DAY_MS
        return [number for number in self.there if NOW + number * HOUR >= begin]

    @rule(step=st.integers(0, 90), keep_days=st.sampled_from([0, 1]))
    def be_killed(self, step: int, keep_days: int) -> None:
        """A fill that is killed after so many steps: all of a part of it counts."""
        left, new = self.left(keep_days), self.new()
        with killed_at(step), suppress(KilledError):
            self.store.fill(keep_days=keep_days)
        found = self.numbers()
        assert found in (self.there, left, [*left, *new])
        self.there = found

    @rule()
    def begin_to_read(self) -> None:
        """Somebody reads the manifest."""
        found = lake_of(self.root)
        self.reader, self.read_ms = (found.folder, found.manifest.files()), self.store.now

    @rule(hours=st.integers(1, 8))
    def wait(self, hours: int) -> None:
        """Time passes."""
        self.store.now += hours * HOUR

    def numbers(self) -> list[int]:
        """Which messages are there, in their order."""
        places = {offset: number for number, offset in enumerate(expected(self.store.written))}
        return [places[row["physical_offset"]] for row in rows(self.root)]

    @invariant()
    def everything_is_there_once(self) -> None:
        """Each table has what the store had, once, in its order."""
        assert self.numbers() == self.there
        assert [row["client_id"] for row in rows(self.root, "polls")] == [f"c{number}" for number in self.there]
        assert sum(row["messages"] for row in counted(self.root)) == len(self.there)

    @invariant()
    def readers_find_their_files(self) -> None:
        """Whoever reads an earlier manifest is not disturbed for hours."""
        if self.reader and self.store.now - self.read_ms < LONG_MS:
            folder, paths = self.reader
            assert all((folder / path).is_file() for path in paths)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = hypothesis_settings(max_examples=25, stateful_step_count=30, deadline=None)
