import errno
from pathlib import Path

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.formats.safe_end import decode
from broker_core.options import Options
from broker_core.store.flush import PAGE, FlushSchedule
from tests.fakes.engine import Bench, send
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.store_cases import SMALL_SYNC, at, flush, message, open_store

ROOT = Path("/store")
MS = 1_000_000


def test_a_sync_flush_is_due_at_once_and_an_async_one_by_pages_or_time() -> None:
    schedule = FlushSchedule(lambda: SMALL_SYNC, at(0))
    assert schedule.log_due_ns(0) is None
    assert schedule.log_due_ns(1) == 0
    schedule = FlushSchedule(lambda: Options(), at(0))
    assert schedule.log_due_ns(1) == 10_000 * MS
    assert schedule.log_due_ns(4 * PAGE) == 500 * MS
    schedule.begun(at(300), log=True, queues=False)
    assert schedule.under_way
    assert schedule.log_due_ns(4 * PAGE) == 800 * MS
    assert schedule.queues_due_ns(True) == 1000 * MS
    assert schedule.queues_due_ns(False) is None
    schedule.begun(at(300), log=False, queues=True)
    assert schedule.queues_due_ns(True) == 1300 * MS


def test_the_safe_end_follows_the_flush_and_is_never_ahead_of_it() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, SMALL_SYNC, files=files)
    store.append([message(1)], at(1))
    assert flush(store, 5000)
    store.append([message(2)], at(1))
    store.reput()
    due = store.next_flush(at(6000))
    assert due is not None
    assert due.with_queues
    before = decode(files.read(ROOT / "safe_end") or b"")
    assert before is not None
    assert before.flushed_offset == 0
    store.append([message(3)], at(1))
    store.flushed(due.run(), at(6001))
    after = decode(files.read(ROOT / "safe_end") or b"")
    assert after is not None
    assert 0 < after.dispatched_offset < after.flushed_offset == store.flushed_offset < store.appended_offset
    for ms in (8000, 10_000, 12_000):
        store.reput()
        flush(store, ms)
    last = decode(files.read(ROOT / "safe_end") or b"")
    assert last is not None
    assert last.dispatched_offset == last.flushed_offset == store.appended_offset
    assert (last.queue_count, last.unit_count, last.index_count) == (1, 3, 4)


def test_a_flush_survives_the_removal_of_its_files() -> None:
    files = SimulatedFiles()
    store = open_store(ROOT, files=files)
    store.append([message(number, topic="U") for number in range(5)], at(1))
    store.append([message(6)], at(1))
    store.reput()
    due = store.next_flush(at(100_000))
    assert due is not None
    store.delete_topic("U")
    store.flushed(due.run(), at(100_001))
    assert store.flushed_offset == store.appended_offset
    assert files.names(ROOT / "consumequeue") == ["T"]


def test_an_index_on_a_full_disk_is_tried_again_a_period_later() -> None:
    bench = Bench(max_index_num=20, max_hash_slot_num=10)
    bench.send("orders", b"warm")
    for nth in range(1, 60):
        bench.files.fail("create", nth, errno.ENOSPC)
    bench.submit(*(send("orders", b"x") for _ in range(40)))
    bench.tick()
    bench.clock.advance(2000)
    flushes = 0
    while bench.flush():
        flushes += 1
        assert flushes < 5
    bench.clock.advance(2000)
    assert bench.flush()


def test_checkpoints_written_during_a_topic_deletion_are_written_again() -> None:
    bench = Bench()
    bench.send("deleted", b"1")
    bench.send("kept", b"1")
    bench.tick(20_000)
    flush = bench.engine.next_flush(bench.clock.now())
    assert flush is not None and flush.with_queues
    (request,) = bench.submit(c.DeleteTopic(topic="deleted"))
    bench.file_work()
    flush.run()
    bench.take(bench.engine.flushed(flush, 0, bench.clock.now()))
    assert bench.final(request) is None
    assert bench.flush() and bench.final(request) == c.Done()
    bench.files.kill()
    again = Bench(files=bench.files, clock=bench.clock)
    assert again.context.store.queues() == [("kept", 0)]


def restarted(bench: Bench) -> Bench:
    """The bench's broker after a kill."""
    bench.files.kill()
    return Bench(files=bench.files, clock=bench.clock)


def flush_all(bench: Bench) -> None:
    bench.tick(20_000)
    while bench.flush():
        pass
    bench.file_work()


def test_a_deletion_is_answered_when_a_kill_cannot_bring_the_topic_back() -> None:
    bench = Bench()
    for topic in ("first", "second", "kept"):
        bench.send(topic, b"1")
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="second", queue_id=0, offset=1)]))
    flush_all(bench)
    bench.call(c.DeleteTopic(topic="first"))
    bench.send("kept", b"2")
    flush_all(bench)
    (request,) = bench.submit(c.DeleteTopic(topic="second"))
    assert bench.flush() and bench.final(request) is None  # its tables are not written yet
    bench.file_work()
    bench.tick(0)  # the copy of the offsets is complete
    bench.file_work()
    assert bench.final(request) == c.Done()
    again = restarted(bench)
    assert again.context.store.queues() == [("kept", 0)] and again.context.topics.get("second") is None
    assert again.context.offsets.query("g", "second", 0) is None


def test_a_kill_during_a_deletion_brings_no_other_topic_back() -> None:
    bench = Bench()
    for topic in ("first", "second", "kept"):
        bench.send(topic, b"1")
    flush_all(bench)
    bench.call(c.DeleteTopic(topic="first"))
    bench.send("kept", b"2")
    flush_all(bench)
    (request,) = bench.submit(c.DeleteTopic(topic="second"))
    bench.file_work()
    assert bench.final(request) is None
    assert restarted(bench).context.store.queues() == [("kept", 0)]


def test_the_offsets_of_a_deleted_topic_are_not_those_of_its_successor_after_a_kill() -> None:
    bench = Bench()
    bench.send("orders", *[b"old"] * 10)
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=10)]))
    bench.file_work()  # the offsets are not due again for 5 s
    bench.call(c.DeleteTopic(topic="orders"))
    bench.send("orders", b"new")
    assert restarted(bench).context.offsets.query("g", "orders", 0) is None


def test_a_deletion_that_the_disk_does_not_confirm_is_answered_as_such() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    (request,) = bench.submit(c.DeleteTopic(topic="orders"))
    bench.tick(5_000)
    late = bench.final(request)
    assert isinstance(late, c.Failed) and late.code == ResponseCode.FLUSH_DISK_TIMEOUT
    bench.flush()
    bench.file_work()
    assert bench.final(request) is late


def test_a_deletion_is_answered_at_the_latest_when_the_broker_stops() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    (request,) = bench.submit(c.DeleteTopic(topic="orders"))
    bench.take(bench.engine.close(bench.clock.now()))
    assert bench.final(request) == c.Done()
