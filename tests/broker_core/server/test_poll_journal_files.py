"""Blocks into files: rolling, what goes, and a disk that refuses."""

import errno
from collections import Counter
from pathlib import Path

import pytest

from broker_core.formats.poll_journal import MAX_ENTRIES, MAX_STRINGS, JournalEntry, decode_blocks, decode_entries
from broker_core.formats.poll_journal import decode_header as header_of
from broker_core.options import MIB, Options
from broker_core.server.poll_journal_files import HOUR_MS, SPANS, JournalFiles
from tests.fakes.clock import VirtualClock
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/store/polljournal")


class Bench:
    """Journal files in memory, and entries that are numbered by their offset."""

    def __init__(self, files: SimulatedFiles | None = None, **options: int) -> None:
        self.files = files or SimulatedFiles()
        self.clock = VirtualClock()
        self.options = Options(**options)
        self.journal = JournalFiles(self.files, FOLDER, lambda: self.options, 42)
        self.added = 0

    def pass_time(self, ms: float) -> None:
        self.clock.advance(ms)
        self.files.wall_ms = self.clock.now().wall_ms

    def add(self, count: int, client_id: str = "c") -> None:
        for _ in range(count):
            if self.journal.add(entry(self.added, self.clock.now().wall_ms, client_id)):
                self.journal.cut(self.clock.now())
            self.added += 1

    def write(self, count: int = 0, client_id: str = "c") -> None:
        self.add(count, client_id)
        self.journal.cut(self.clock.now())
        self.journal.append(self.clock.now())

    def numbers(self) -> list[int]:
        """Of the files that there are."""
        return [int(name.removesuffix(".journal")) for name in self.files.names(FOLDER)]

    def content(self, number: int) -> bytes:
        return self.files.read(FOLDER / f"{number:020d}.journal") or b""

    def offsets(self) -> list[int]:
        """Of all entries of all files, by which the test knows them."""
        return [found.from_offset for number in self.numbers() for found in decode_entries(self.content(number))]

    def total(self) -> int:
        return sum(len(self.content(number)) for number in self.numbers())

    def lost(self) -> int:
        """What the blocks of all files tell of."""
        return sum(block.lost for number in self.numbers() for block in blocks_of(self.content(number)))


def entry(number: int, at_ms: int, client_id: str = "c") -> JournalEntry:
    return JournalEntry(at_ms, number, *([0] * 9), "orders", "g", client_id, "woken", "arrival")


def blocks_of(data: bytes) -> list:
    header = header_of(data)
    return [] if header is None else list(decode_blocks(data, header))


def test_entries_are_blocks_of_one_file() -> None:
    bench = Bench(broker_name="broker-b")
    bench.write(3)
    bench.write(MAX_ENTRIES + 2)
    bench.write()
    assert bench.offsets() == list(range(MAX_ENTRIES + 5)) and bench.journal.written == MAX_ENTRIES + 5
    header = header_of(bench.content(0))
    assert header is not None and (header.number, header.epoch, header.broker, header.created_ms) == (
        0,
        42,
        "broker-b",
        bench.clock.now().wall_ms,
    )
    assert [block.entries for block in blocks_of(bench.content(0))] == [3, MAX_ENTRIES, 2]


def test_without_entries_there_is_no_file() -> None:
    bench = Bench()
    bench.write()
    bench.journal.close(bench.clock.now())
    assert bench.numbers() == []


def test_each_start_begins_a_file_with_the_next_number() -> None:
    files = SimulatedFiles()
    files.write(FOLDER / f"{41:020d}.journal", b"another")
    files.write(FOLDER / "notes.txt", b"not ours")
    for expected in (42, 43):
        bench = Bench(files)
        bench.write(1)
        assert f"{expected:020d}.journal" in files.names(FOLDER)
        assert header_of(bench.content(expected)) is not None
    assert files.read(FOLDER / f"{41:020d}.journal") == b"another"


def test_a_full_file_is_closed_and_never_exceeds_its_maximum() -> None:
    bench = Bench(poll_journal_file_size=MIB)
    for _ in range(40):
        bench.write(1000)
    assert len(bench.numbers()) > 3 and bench.offsets() == list(range(40_000))
    for number in bench.numbers()[:-1]:
        assert MIB // 2 < len(bench.content(number)) <= MIB
        assert [block.closes for block in blocks_of(bench.content(number))][-2:] == [False, True]


def test_a_file_does_not_take_strings_without_end() -> None:
    bench = Bench()
    for number in range(MAX_STRINGS + 10):
        bench.add(1, f"c{number}")
    bench.write()
    bench.write(1)
    assert bench.numbers() == [0, 1] and bench.offsets() == list(range(MAX_STRINGS + 11))


def test_the_oldest_file_goes_before_there_is_too_much() -> None:
    bench = Bench(poll_journal_file_size=MIB, poll_journal_max_bytes=3 * MIB)
    largest = 0
    for _ in range(100):
        bench.write(1000)
        largest = max(largest, bench.total())
    assert 2 * MIB < largest <= 3 * MIB
    assert bench.offsets() == list(range(100_000))[-len(bench.offsets()) :]


def test_a_small_whole_makes_small_files() -> None:
    bench = Bench(poll_journal_file_size=64 * MIB, poll_journal_max_bytes=2 * MIB)
    for _ in range(60):
        bench.write(1000)
        assert bench.total() <= 2 * MIB
    assert bench.offsets()[-1] == 59_999 and len(bench.offsets()) > 10_000


def test_an_older_journal_counts_too() -> None:
    files = SimulatedFiles()
    for number in range(5):
        files.write(FOLDER / f"{number:020d}.journal", bytes(MIB))
    bench = Bench(files, poll_journal_max_bytes=3 * MIB)
    bench.files.wall_ms = bench.clock.now().wall_ms
    bench.write(1)
    assert bench.numbers() == [3, 4, 5]


def test_a_lowered_maximum_makes_the_journal_smaller() -> None:
    bench = Bench()
    bench.write(40_000)
    bench.options = Options(poll_journal_max_bytes=2 * MIB)
    bench.write(1)
    bench.write(1)
    assert bench.numbers() == [1] and bench.total() < 2 * MIB


def test_no_entry_is_kept_longer_than_it_may_be() -> None:
    bench = Bench(poll_journal_max_hours=24)
    began_ms = bench.clock.now().wall_ms
    for _ in range(24 * 4 * 3):
        bench.pass_time(HOUR_MS / 4)
        now = bench.clock.now()
        bench.journal.remove_expired(now)
        bench.write(1)
        oldest = min(found.at_ms for number in bench.numbers() for found in decode_entries(bench.content(number)))
        assert now.wall_ms - oldest <= 24 * HOUR_MS
        assert now.wall_ms - oldest >= min(22.5 * HOUR_MS, now.wall_ms - began_ms - HOUR_MS / 4)
    assert len(bench.numbers()) == SPANS


def test_the_journal_of_a_broker_without_work_expires_too() -> None:
    bench = Bench(poll_journal_max_hours=24)
    bench.write(1)
    bench.pass_time(HOUR_MS - 1)
    bench.journal.remove_expired(bench.clock.now())
    assert [block.closes for block in blocks_of(bench.content(0))] == [False]
    bench.pass_time(1)
    bench.journal.remove_expired(bench.clock.now())
    bench.journal.remove_expired(bench.clock.now())
    assert [block.closes for block in blocks_of(bench.content(0))] == [False, True]
    bench.pass_time(24 * HOUR_MS)
    bench.journal.remove_expired(bench.clock.now())
    assert bench.numbers() == []
    bench.write(1)
    assert len(bench.numbers()) == 1 and bench.offsets() == [1]


def test_closing_says_what_was_lost_in_the_end() -> None:
    bench = Bench()
    bench.journal.dropped = 3
    bench.write(1)
    bench.journal.dropped = 5
    bench.journal.close(bench.clock.now())
    assert [(block.entries, block.lost) for block in blocks_of(bench.content(0))] == [(1, 3), (0, 2)]


# --- a disk that refuses ---


@pytest.mark.parametrize("nth", [1, 2])
def test_blocks_refused_by_a_full_disk_are_written_when_there_is_room(nth: int) -> None:
    bench = Bench()
    bench.files.fail("append", nth, errno.ENOSPC)
    refused = 0
    for _ in range(3):
        try:
            bench.write(1)
        except OSError:
            refused += 1
    assert refused == 1 and bench.offsets() == [0, 1, 2]
    assert bench.journal.written == 3 and bench.journal.failed == 0


class TornFiles(SimulatedFiles):
    """An append that fails leaves half of what it was given, and cannot take it back."""

    tears = 0

    def append(self, path: Path, data: bytes) -> None:
        if self.tears:
            self.tears -= 1
            super().append(path, data[: len(data) // 2])
            raise OSError(errno.EIO, "simulated")
        super().append(path, data)


def test_a_torn_block_that_stays_ends_its_file_and_lost_entries_are_counted() -> None:
    files = TornFiles()
    bench = Bench(files)
    bench.journal.dropped = 1
    bench.write(2)
    files.tears = 1
    bench.journal.dropped = 4
    with pytest.raises(OSError, match="simulated"):
        bench.write(3)
    bench.add(5)
    bench.write(7)
    assert bench.journal.failed == 15 and bench.journal.written == 2
    bench.write(1)
    bench.write(1)
    assert bench.numbers() == [0, 1]
    assert bench.offsets() == [0, 1, 17, 18] and bench.lost() == 4 + 15


def test_a_file_that_cannot_be_removed_keeps_new_entries_out() -> None:
    bench = Bench(poll_journal_file_size=MIB, poll_journal_max_bytes=2 * MIB)
    for nth in range(1, 100):
        bench.files.fail("remove", nth, errno.EIO)
    refused = 0
    for _ in range(40):
        try:
            bench.write(1000)
        except OSError:
            refused += 1
    assert 0 < refused < 40 and bench.total() <= 2 * MIB
    bench.files.mend()
    bench.write()
    assert bench.offsets()[-1] == bench.added - 1 and bench.journal.written == bench.added


def test_entries_that_wait_at_the_end_are_lost_and_counted() -> None:
    bench = Bench()
    bench.files.fail("append", 1, errno.ENOSPC)
    with pytest.raises(OSError, match="simulated"):
        bench.write(2)
    bench.add(1)
    bench.journal.give_up()
    assert bench.journal.failed == 3
    bench.write(1)
    assert bench.offsets() == [3]


def test_every_entry_is_written_once() -> None:
    bench = Bench(poll_journal_file_size=MIB)
    for size in (1, MAX_ENTRIES - 1, MAX_ENTRIES, MAX_ENTRIES + 1, 3 * MAX_ENTRIES):
        bench.write(size)
    assert Counter(bench.offsets()) == Counter(range(bench.added))
