"""The journal of a real engine: it says what happened, no more and no less, and never stands in the engine's way."""

import errno
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core import commands as c
from broker_core.clock import Now, SystemClock
from broker_core.engine import Engine
from broker_core.event_log import EventLog
from broker_core.events import Event, OffsetCommitted, PullAnswered, PullHeld, PullReleased, PullWoken
from broker_core.formats.message_id import UniqKeyGenerator
from broker_core.formats.poll_journal import FOLDER, JournalEntry, decode_blocks, decode_entries, decode_header
from broker_core.options import Options
from broker_core.server import poll_journal
from broker_core.server.poll_journal import PollJournal, entries
from broker_core.store.files import Files, RealFiles
from tests.fakes.engine import ROOT, SMALL, Bench, send
from tests.fakes.simulated_files import SimulatedFiles

BEGIN_MS = 1_700_000_000_000


class Journalled:
    """A bench whose engine is listened to; ``write`` is the thread's work."""

    def __init__(self, files: SimulatedFiles | None = None, **options: Any) -> None:
        self.files = files or SimulatedFiles()
        self.bench = Bench(files=self.files, **options)
        self.journal = PollJournal(self.files, self.bench.clock)
        assert self.journal.open(self.bench.engine)

    def entries(self) -> list[JournalEntry]:
        self.journal.write()
        return read(self.files)

    @property
    def counted(self) -> tuple[int, int]:
        """(entries, lost), as /metrics has them."""
        counters = self.bench.engine.counters.as_dict()
        return counters["journal_entries"], counters["journal_lost"]


def read(files: Files, root: Path = ROOT) -> list[JournalEntry]:
    folder = root / FOLDER
    return [entry for name in files.names(folder) for entry in decode_entries(files.read(folder / name) or b"")]


def blocks(files: Files, root: Path = ROOT) -> list:
    """Of all files, in their order."""
    found = []
    for name in files.names(root / FOLDER):
        data = files.read(root / FOLDER / name) or b""
        header = decode_header(data)
        assert header is not None
        found += decode_blocks(data, header)
    return found


@pytest.fixture
def journalled() -> Journalled:
    return Journalled()


# --- what happened ---


def answered(at: int, begin: int, end: int, status: str = "FOUND", **more: Any) -> JournalEntry:
    return entry(at, "answered_at_once", begin, **({"next_offset": end, "status": status} | more))


def woken(at: int, begin: int, end: int, cause: str, held_ms: int, status: str = "FOUND", **more: Any) -> JournalEntry:
    fields = {"next_offset": end, "status": status, "cause": cause, "held_us": held_ms * 1000}
    return entry(at, "woken", begin, **(fields | more))


def entry(at: int, kind: str, begin: int, **more: Any) -> JournalEntry:
    """An entry ``at`` ms after the beginning; a pull of group g, for queue 0 of orders, that got nothing."""
    fields: dict[str, Any] = {
        "at_ms": BEGIN_MS + at,
        "from_offset": begin,
        "next_offset": -1,
        "max_offset": 1,
        "oldest_store_ms": -1,
        "held_us": 0,
        "wake_us": -1,
        "granted_ms": 15_000,
        "queue_id": 0,
        "messages": 0,
        "bytes": 0,
        "topic": "orders",
        "group": "g",
        "client_id": "",
        "kind": kind,
        "protocol": "http",
    }
    return JournalEntry(**(fields | more))


def test_pulls_answered_at_once(journalled: Journalled) -> None:
    bench = journalled.bench
    bench.send("orders", b"one", b"two")
    bench.tick(7)
    size = len(bench.pulled(bench.pull("orders", 0, client_id="c@1", protocol="remoting")).records)
    bench.pull("orders", 2, suspend_timeout_ms=0)
    bench.pull("orders", 9, consumer_group="h")
    assert journalled.entries() == [
        answered(
            7,
            0,
            2,
            max_offset=2,
            oldest_store_ms=BEGIN_MS,
            messages=2,
            bytes=size,
            client_id="c@1",
            protocol="remoting",
        ),
        answered(7, 2, 2, "OFFSET_OVERFLOW_ONE", max_offset=2, granted_ms=0),
        answered(7, 9, 2, "OFFSET_OVERFLOW_BADLY", max_offset=2, group="h"),
    ]


def test_holds_by_the_cause_of_their_end(journalled: Journalled) -> None:
    bench = journalled.bench
    bench.send("orders", b"one")
    arrival, filtered = bench.pull("orders", 1), bench.pull("orders", 1, subscription="TagB")
    cancelled = bench.pull("orders", 1, consumer_group="h")
    bench.pull("orders", 1, connection="leaves", client_id="c@2", protocol="websocket")
    bench.pull("orders", 0, suspend_timeout_ms=300, queue_id=3)
    assert journalled.entries() == []
    bench.tick(100)
    bench.submit(c.CancelPull(request_id=cancelled))
    bench.submit(c.CloseConnection(), connection="leaves")
    bench.tick(100)
    bench.send("orders", b"two", tag="TagA")
    size = len(bench.pulled(arrival).records)
    bench.tick(100)
    bench.tick(4700)
    assert bench.final(filtered) is not None
    assert journalled.entries() == [
        entry(100, "released", 1, cause="cancelled", held_us=100_000, group="h"),
        entry(100, "released", 1, cause="channel_gone", held_us=100_000, client_id="c@2", protocol="websocket"),
        woken(
            200, 1, 2, "arrival", 200, wake_us=0, max_offset=2, messages=1, bytes=size, oldest_store_ms=BEGIN_MS + 200
        ),
        woken(300, 0, 0, "timeout", 300, "NO_MATCHED_LOGIC_QUEUE", max_offset=0, queue_id=3, granted_ms=300),
        woken(5000, 1, 2, "filter_advanced", 5000, "NO_MATCHED_MESSAGE", max_offset=2),
    ]
    assert journalled.counted == (5, 0)


def test_short_polls(journalled: Journalled) -> None:
    bench = journalled.bench
    bench.send("orders", b"one")
    bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": False, "shortPollingTimeMills": 250}))
    request = bench.pull("orders", 1)
    bench.send("orders", b"two")
    bench.tick(250)
    size = len(bench.pulled(request).records)
    assert journalled.entries() == [
        woken(
            250, 1, 2, "short_poll", 250, max_offset=2, messages=1, bytes=size, oldest_store_ms=BEGIN_MS, granted_ms=250
        )
    ]


def test_commits_with_a_pull_and_alone_forwards_and_backwards_and_no_commit_that_changes_nothing(
    journalled: Journalled,
) -> None:
    bench = journalled.bench
    bench.send("orders", *[b"x"] * 10)
    bench.pull("orders", 10, commit_offset=4, client_id="c@1")
    for offset in (9, 9, 2):
        bench.call(
            c.UpdateConsumerOffset(
                group="g", client_id="c@3", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=offset)]
            )
        )
    commit = {"granted_ms": -1, "held_us": -1, "messages": -1, "bytes": -1, "protocol": "", "max_offset": 10}
    assert journalled.entries() == [
        entry(0, "committed", -1, next_offset=4, client_id="c@1", **commit),
        entry(0, "committed", 4, next_offset=9, client_id="c@3", **commit),
        entry(0, "committed", 9, next_offset=2, client_id="c@3", **commit),
    ]


def test_a_shutdown_and_the_end_of_the_file(journalled: Journalled) -> None:
    bench = journalled.bench
    bench.send("orders", b"one")
    bench.pull("orders", 1)
    bench.tick(40)
    bench.take(bench.engine.drain(bench.clock.now()))
    journalled.journal.close()
    assert read(journalled.files) == [woken(40, 1, 1, "shutdown", 40, "OFFSET_OVERFLOW_ONE")]
    assert [block.closes for block in blocks(journalled.files)] == [False, True]


def test_many_of_one_turn_have_each_their_own(journalled: Journalled) -> None:
    bench = journalled.bench
    bench.send("orders", b"one")
    for number in range(50):
        bench.tick(10)
        bench.pull("orders", 1, client_id=f"c{number}", subscription="*" if number % 2 else "TagB")
    bench.tick(10)
    bench.send("orders", b"two")
    found = journalled.entries()
    assert [(entry.client_id, entry.held_us) for entry in found] == [
        (f"c{number}", (500 - 10 * number) * 1000) for number in range(1, 50, 2)
    ]


def events_and_entries() -> Iterator[Any]:
    texts = st.text(max_size=8)
    number = st.integers(0, 1 << 40)
    small = st.integers(0, 1 << 30)
    yield st.tuples(
        st.just(PullAnswered),
        st.tuples(
            texts,
            small,
            texts,
            texts,
            st.just(0),
            small,
            st.sampled_from(["FOUND", "OFFSET_RESET"]),
            small,
            small,
            number,
            st.sampled_from(["http", "remoting"]),
            number,
            number,
            small,
            number,
            small,
            small,
        ),
    )
    yield st.tuples(
        st.just(PullReleased),
        st.tuples(
            small,
            texts,
            small,
            texts,
            texts,
            st.sampled_from(["channel_gone", "cancelled", "refused"]),
            small,
            st.sampled_from(["http", "remoting"]),
            number,
            number,
            small,
        ),
    )
    yield st.tuples(st.just(OffsetCommitted), st.tuples(texts, texts, small, number, number, texts, number))
    yield st.tuples(
        st.just(PullHeld), st.tuples(small, texts, small, texts, texts, st.just("http"), number, number, number, texts)
    )


NAMES = {
    PullAnswered: {
        "from_offset": "pull_from_offset",
        "next_offset": "next_begin_offset",
        "max_offset": "queue_max_offset",
        "bytes": "size",
    },
    PullReleased: {"from_offset": "pull_from_offset", "max_offset": "queue_max_offset"},
    OffsetCommitted: {"from_offset": "previous", "next_offset": "offset", "max_offset": "queue_max_offset"},
}
"""Fields of an entry that its event calls otherwise."""


def is_said_by(event: Event, entry: JournalEntry) -> bool:
    """Whether each field of the entry is the event's of that name, or what it is where the event has none."""
    names = NAMES[type(event)]
    none: dict[str, Any] = {
        "at_ms": event.wall_ms,
        "kind": {PullAnswered: "answered_at_once", PullReleased: "released", OffsetCommitted: "committed"}[type(event)],
    }
    if not isinstance(event, OffsetCommitted):
        none |= {"held_us": 0, "messages": 0, "bytes": 0}
    for field in entry.__struct_fields__:
        default = none.get(field, "" if field in ("cause", "status", "protocol") else -1)
        if getattr(entry, field) != getattr(event, names.get(field, field), default):
            return False
    return True


@given(st.lists(st.lists(st.one_of(*events_and_entries()), max_size=6), max_size=6), st.integers(1, 3))
def test_every_emitted_event_is_read_from_the_journal(
    turns: list[list[tuple[Any, tuple[Any, ...]]]], every: int
) -> None:
    journalled = Journalled()
    log, expected = journalled.bench.engine.events, []
    for number, turn in enumerate(turns):
        for kind, fields in turn:
            log.emit(kind, Now(1000 + number, 5), *fields)
            if kind is not PullHeld:
                expected.append(log.last.event())
        log.publish()
        if number % every == 0:
            journalled.journal.write()
    found = journalled.entries()
    assert len(found) == len(expected)
    assert all(map(is_said_by, expected, found))


def test_an_answer_is_joined_with_the_wake_up_before_it() -> None:
    log, turns = EventLog(), []
    log.record_to(turns.append)
    now = Now(5, 5)
    for hold, cause in ((1, "timeout"), (2, "arrival")):
        log.emit(PullWoken, now, hold, "t", 0, "g", "c", cause, 10 * hold, 3 * hold, 0)
        log.emit(PullAnswered, now, "t", 0, "g", "c", hold, 0, "FOUND", 0, 0, 1, "http", 1, 1, 1, -1, 0, 0)
    log.emit(PullAnswered, now, "t", 0, "g", "c", 0, 0, "FOUND", 0, 0, 1, "http", 1, 1, 1, -1, 0, 0)
    log.publish()
    assert [(entry.kind, entry.cause, entry.held_us, entry.wake_us) for entry in entries(turns[0])] == [
        ("woken", "timeout", 10, -1),
        ("woken", "arrival", 20, 6),
        ("answered_at_once", "", 0, -1),
    ]


# --- bounds and faults ---


def test_entries_beyond_the_queue_are_counted_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_journal, "MAX_WAITING", 40)
    monkeypatch.setattr(poll_journal, "HURRY_AT", 20)
    journalled = Journalled()
    bench = journalled.bench
    bench.send("orders", b"one")
    for _ in range(100):
        bench.pull("orders", 0)
    entries_written = len(journalled.entries())
    assert 0 < entries_written < 40
    assert journalled.counted == (entries_written, 100 - entries_written)
    bench.pull("orders", 0)
    journalled.journal.close()
    assert sum(block.lost for block in blocks(journalled.files)) == 100 - entries_written
    assert journalled.counted == (entries_written + 1, 100 - entries_written)


def test_the_thread_is_woken_before_the_queue_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_journal, "HURRY_AT", 20)
    journalled = Journalled()
    journalled.bench.send("orders", b"one")
    assert not journalled.journal._wake.is_set()
    for _ in range(20):
        journalled.bench.pull("orders", 0)
    assert journalled.journal._wake.is_set()


def test_a_failed_write_is_not_repeated_in_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_journal, "HURRY_AT", 20)
    journalled = Journalled()
    journalled.bench.send("orders", b"one")
    journalled.bench.pull("orders", 0)
    journalled.files.fail("append", 1, errno.ENOSPC)
    journalled.journal.write()
    for _ in range(20):
        journalled.bench.pull("orders", 0)
    assert not journalled.journal._wake.is_set()
    assert len(journalled.entries()) == 21


def test_a_full_disk_is_logged_once_and_entries_are_written_when_there_is_room(
    journalled: Journalled, caplog: pytest.LogCaptureFixture
) -> None:
    bench = journalled.bench
    bench.send("orders", b"one")
    for nth in range(1, 4):
        journalled.files.fail("append", nth, errno.ENOSPC)
    with caplog.at_level(logging.WARNING, logger=poll_journal.__name__):
        for _ in range(4):
            bench.pull("orders", 0)
            journalled.journal.write()
    assert [record.getMessage() for record in caplog.records] == [
        "the poll journal cannot be written; trying again: [Errno 28] simulated failure of append",
        "the poll journal can be written again",
    ]
    assert len(journalled.entries()) == 4 and journalled.counted == (4, 0)
    assert bench.engine.counters.journal_write_errors == 3


def test_blocks_refused_by_a_full_disk_until_the_end_are_counted(journalled: Journalled) -> None:
    bench = journalled.bench
    bench.send("orders", b"one")
    bench.pull("orders", 0)
    journalled.journal.write()
    for nth in range(1, 10):
        journalled.files.fail("append", nth, errno.ENOSPC)
    for _ in range(3):
        bench.pull("orders", 0)
        journalled.journal.write()
    bench.pull("orders", 0)
    journalled.journal.close()
    assert journalled.counted == (1, 4)
    assert len(read(journalled.files)) == 1


def test_a_foreign_store_gets_no_journal() -> None:
    files = SimulatedFiles()
    before = Bench(files=files)
    before.send("orders", b"one")
    before.take(before.engine.close(before.clock.now()))
    files.remove(ROOT / "glassmq")
    bench = Bench(files=files)
    assert bench.context.store.read_only
    journal = PollJournal(files, bench.clock)
    journal.start(bench.engine)
    bench.pull("orders", 0)
    journal.stop()
    assert files.names(ROOT / FOLDER) == []


def test_an_option_says_whether_there_is_a_journal() -> None:
    bench = Bench(poll_journal_enable=False)
    journal = PollJournal(bench.files, bench.clock)
    journal.start(bench.engine)
    bench.send("orders", b"one")
    bench.pull("orders", 0)
    journal.stop()
    assert bench.files.names(ROOT / FOLDER) == []


# --- the thread ---


def test_stopping_writes_what_is_there_and_closes_the_file() -> None:
    bench = Bench(poll_journal_flush_interval=10_000)
    journal = PollJournal(bench.files, SystemClock())
    journal.start(bench.engine)
    bench.send("orders", b"one")
    for _ in range(1000):
        bench.pull("orders", 0)
    journal.stop()
    assert len(read(bench.files)) == 1000 and blocks(bench.files)[-1].closes
    bench.pull("orders", 0)
    assert bench.engine.counters.journal_entries == 1000 and bench.engine.counters.journal_lost == 1


def test_a_defect_ends_the_journal_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def defect(turn: object) -> list[JournalEntry]:
        raise ZeroDivisionError

    monkeypatch.setattr(poll_journal, "entries", defect)
    bench = Bench(poll_journal_flush_interval=10)
    journal = PollJournal(bench.files, SystemClock())
    journal.start(bench.engine)
    bench.send("orders", b"one")
    journal._thread.join(60)  # type: ignore[union-attr]
    for _ in range(3):
        bench.pull("orders", 0)
    assert bench.engine.counters.journal_lost == 3
    assert "the poll journal failed" in caplog.text
    journal.stop()


def test_a_disk_that_does_not_answer_does_not_keep_the_broker_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class StuckFiles(SimulatedFiles):
        def append(self, path: Path, data: bytes) -> None:
            reached.set()
            free.wait(60)

    reached, free = poll_journal.Signal(), poll_journal.Signal()
    monkeypatch.setattr(poll_journal, "STOP_SECONDS", 0.01)
    bench = Bench(files=StuckFiles(), poll_journal_flush_interval=10)
    journal = PollJournal(bench.files, SystemClock())
    journal.start(bench.engine)
    bench.send("orders", b"one")
    bench.pull("orders", 0)
    assert reached.wait(60)
    journal.stop()
    assert "the disk does not answer" in caplog.text
    free.set()
    journal._thread.join(60)  # type: ignore[union-attr]


def test_a_journal_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    files, clock = RealFiles(), SystemClock()
    keys = UniqKeyGenerator("127.0.0.1", 1, random.Random(1))
    options = Options(**SMALL, poll_journal_flush_interval=10, poll_journal_file_size=1 << 20)
    engine = Engine.open(tmp_path, options, files, clock, keys.next)
    journal = PollJournal(files, clock)
    journal.start(engine)
    engine.handle_batch([("p", 0, send("orders", b"one"))], clock.now())
    pulls = 20_000
    assert 3 * pulls < poll_journal.MAX_WAITING  # events: however slow the thread is, none is dropped
    seen = 0
    for first in range(0, pulls, 100):
        engine.handle_batch(
            [
                (
                    "c",
                    1,
                    c.PullMessage(
                        topic="orders", queue_id=0, queue_offset=0, client_id=f"c{number % 50}", max_msg_nums=1 + number
                    ),
                )
                for number in range(first, first + 100)
            ],
            clock.now(),
        )
        if first % 1000 == 0:
            found = read(files, tmp_path)
            assert seen <= len(found) <= first + 100
            assert [entry.client_id for entry in found] == [f"c{number % 50}" for number in range(len(found))]
            seen = len(found)
    journal.stop()
    engine.close(clock.now())
    assert engine.counters.journal_lost == 0
    assert len(files.names(tmp_path / FOLDER)) > 1 and len(read(files, tmp_path)) == pulls
