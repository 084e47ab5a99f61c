"""Messages for an exact time: there at their millisecond, not before and not after."""

import errno

import pytest

from broker_core import commands as c
from broker_core.events import DelayedMessagesLost, DelayElapsed, MessagesDelayed
from broker_core.formats.message_properties import decode
from broker_core.formats.timer_log_unit import UNIT_SIZE
from broker_core.processors.timer import timer_delivery
from broker_core.store.timer.timer_message import TIMER_TOPIC
from tests.fakes.engine import ROOT, Bench, records
from tests.fakes.timers import content, events, read, sent, small_wheel, timed
from tests.fakes.transactions import begin, end

__all__ = ["small_wheel"]


@pytest.mark.covers("timer")
@pytest.mark.parametrize("delay_ms", [1, 999, 1000, 1001, 1500, 2000, 59_999, 200_000])
def test_a_message_is_delivered_at_its_millisecond(delay_ms: int) -> None:
    bench = Bench()
    sent(bench, timed(TIMER_DELAY_MS=delay_ms))
    bench.tick()
    for _ in range((delay_ms - 1) // 1000):
        bench.tick(1000)
    bench.tick((delay_ms - 1) % 1000)
    assert read(bench) == []
    bench.tick(1)
    assert read(bench) == [b"x"]


def test_the_timer_alone_delivers_it() -> None:
    bench = Bench()
    sent(bench, timed(TIMER_DELAY_MS=2345))
    start = bench.clock.now()
    while not read(bench):
        due = bench.engine.next_deadline()
        assert due is not None
        bench.tick(max(0, due - bench.clock.now().mono_ns) / 1_000_000)
    assert bench.clock.now().wall_ms - start.wall_ms == 2345


def test_without_timer_messages_there_is_no_file_and_no_deadline() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.tick(5000)
    bench.flush()
    assert bench.context.store.timers.next_deadline_ns is None
    assert not [name for folder in (ROOT, ROOT / "config") for name in bench.files.names(folder) if "timer" in name]


def test_the_stored_and_the_delivered_message_have_rocketmqs_properties() -> None:
    bench = Bench()
    now = bench.clock.now().wall_ms
    answer = sent(bench, timed(TIMER_DELIVER_MS=now + 1500, KEYS="k"))
    bench.tick()
    out_ms = (now + 1500 - 1) // 1000 * 1000
    (stored,) = content(bench, TIMER_TOPIC)
    properties = decode(stored.properties)
    assert {name: properties[name] for name in ("TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID", "KEYS")} == {
        "TIMER_OUT_MS": str(out_ms),
        "REAL_TOPIC": "orders",
        "REAL_QID": "0",
        "KEYS": "k",
    }
    assert (answer.queue_id, answer.queue_offset, answer.physical_offset) == (0, 0, stored.physical_offset)
    bench.tick(1500)
    (delivered,) = content(bench)
    after = decode(delivered.properties)
    assert "REAL_TOPIC" not in after and "REAL_QID" not in after
    assert after["TIMER_DEQUEUE_MS"] == str(now + 1500) and after["TIMER_ENQUEUE_MS"] == str(now // 1000 * 1000)
    assert (after["TIMER_OUT_MS"], after["UNIQ_KEY"]) == (str(out_ms), properties["UNIQ_KEY"])


def test_messages_are_delivered_in_the_order_of_their_times() -> None:
    bench = Bench()
    for delay_ms in (3001, 2999, 500, 1500, 1501, 2000):
        sent(bench, timed(str(delay_ms).encode(), TIMER_DELAY_MS=delay_ms))
    for _ in range(40):
        bench.tick(100)
    assert read(bench) == [b"500", b"1500", b"1501", b"2000", b"2999", b"3001"]


def test_messages_of_one_millisecond_keep_their_order() -> None:
    bench = Bench()
    due_ms = bench.clock.now().wall_ms + 5000
    for number in range(150):
        sent(bench, timed(b"%d" % number, TIMER_DELIVER_MS=due_ms))
    bench.tick(4900)
    sent(bench, timed(b"last", TIMER_DELIVER_MS=due_ms))
    bench.tick(100)
    assert read(bench) == [b"%d" % number for number in range(150)] + [b"last"]


def test_a_turn_delivers_a_bounded_number() -> None:
    bench = Bench()
    due_ms = bench.clock.now().wall_ms + 3000
    for _ in range(300):
        sent(bench, timed(TIMER_DELIVER_MS=due_ms))
    bench.tick(2000)
    now = bench.clock.advance(1000)
    while (due := bench.engine.next_deadline()) is not None and due <= now.mono_ns:
        before = bench.engine.counters.delays_elapsed
        bench.take(bench.engine.tick(now))
        assert bench.engine.counters.delays_elapsed - before <= timer_delivery.MESSAGES_A_TURN
    assert bench.engine.counters.delays_elapsed == 300


def test_a_delivery_wakes_a_held_pull() -> None:
    bench = Bench()
    sent(bench, timed(TIMER_DELAY_MS=1234))
    pull = bench.pull("orders", 0)
    bench.tick(1233)
    assert bench.final(pull) is None
    bench.tick(1)
    assert [record.body for record in records(bench.pulled(pull))] == [b"x"]


def test_events_and_counters_say_what_waits() -> None:
    bench = Bench()
    now = bench.clock.now().wall_ms
    sent(bench, timed(TIMER_DELAY_MS=1500))
    sent(bench, timed(TIMER_DELAY_MS=1600, topic="others"))
    bench.tick()
    timers = bench.context.store.timers
    assert timers.counts.by_topic == {"orders": 1, "others": 1} and bench.engine.counters.timer_messages_now == 2
    first, _ = events(bench, MessagesDelayed)
    assert (first.level, first.from_offset, first.to_offset, first.deliver_ms) == (0, 0, 1, now + 1500)
    bench.tick(1550)
    (elapsed,) = events(bench, DelayElapsed)
    assert (elapsed.level, elapsed.from_offset, elapsed.to_offset, elapsed.late_ms) == (0, 0, 1, 50)
    assert timers.counts.by_topic == {"others": 1} and bench.engine.counters.timer_messages_now == 1


def test_a_message_beyond_the_roll_window_is_put_back_and_delivered_once() -> None:
    bench = Bench(timer_roll_window_slot=10)
    sent(bench, timed(TIMER_DELAY_MS=35_500))
    for _ in range(35):
        bench.tick(1000)
    assert read(bench) == []
    rolled = content(bench, TIMER_TOPIC)
    assert [decode(record.properties).get("TIMER_ROLL_TIMES") for record in rolled] == [None, "1", "2", "3"]
    bench.tick(500)
    assert read(bench) == [b"x"]
    assert bench.engine.counters.timer_messages_now == 0
    bench.tick(60_000)
    assert read(bench) == [b"x"]


def test_a_clock_that_jumps_ahead_makes_messages_due() -> None:
    bench = Bench()
    sent(bench, timed(b"a", TIMER_DELAY_MS=100_000))
    sent(bench, timed(b"b", TIMER_DELAY_MS=200_000))
    bench.tick()
    bench.clock.step_wall(150_000)
    bench.tick(1000)
    assert read(bench) == [b"a"]
    sent(bench, timed(b"c", TIMER_DELAY_MS=1))
    bench.tick(1)
    assert read(bench) == [b"a", b"c"]
    bench.clock.step_wall(3_600_000)
    sent(bench, timed(b"d", TIMER_DELAY_MS=1500))
    bench.tick(1000)
    assert read(bench) == [b"a", b"c", b"b"]
    bench.tick(500)
    assert read(bench) == [b"a", b"c", b"b", b"d"]


@pytest.mark.covers("timer-clock")
def test_a_clock_that_is_set_back_delivers_new_messages_at_their_time() -> None:
    bench = Bench()
    sent(bench, timed(b"old", TIMER_DELAY_MS=3_000))
    sent(bench, timed(b"due", TIMER_DELAY_MS=1))
    bench.tick(2000)
    assert read(bench) == [b"due"]
    bench.clock.step_wall(-3_600_000)
    sent(bench, timed(b"new", TIMER_DELAY_MS=1500))
    bench.tick(1499)
    assert read(bench) == [b"due"]
    bench.tick(1)
    assert read(bench) == [b"due", b"new"]
    bench.tick(3_600_000)
    assert read(bench) == [b"due", b"new", b"old"]


@pytest.mark.covers("transaction-delay")
def test_a_transaction_may_be_delivered_at_an_exact_time() -> None:
    bench = Bench()
    due_ms = bench.clock.now().wall_ms + 3456
    place = begin(bench, topic="T", TIMER_DELIVER_MS=str(due_ms))
    bench.tick(1000)
    end(bench, place)
    bench.tick(2455)
    assert read(bench, "T", 1) == []
    bench.tick(1)
    assert read(bench, "T", 1) == [b"x"]


def test_a_full_disk_delays_messages_and_loses_none() -> None:
    bench = Bench()
    sent(bench, timed(TIMER_DELAY_MS=1500))
    bench.files.fail("allocate", 1, errno.ENOSPC)
    bench.tick()
    bench.tick(999)
    timers = bench.context.store.timers
    assert (timers.behind, timers.counts.pending) == (1, 0)
    bench.tick(501)
    assert read(bench) == [b"x"] and bench.engine.counters.timer_messages_now == 0


def test_a_message_whose_record_is_gone_is_reported_as_lost() -> None:
    bench = Bench()
    place = sent(bench, timed(TIMER_DELAY_MS=1500))
    bench.tick()
    file = bench.context.store._log.mapped_files.find(place.physical_offset)
    assert file is not None
    file.write(place.physical_offset, bytes(100))
    bench.tick(2000)
    (lost,) = events(bench, DelayedMessagesLost)
    assert lost.level == 0 and "missing" in lost.reason
    assert bench.engine.counters.delayed_messages_lost == 1
    assert (bench.engine.counters.timer_messages_now, bench.context.store.timers.counts.by_topic) == (0, {})
    assert bench.engine.next_deadline() is None


@pytest.mark.parametrize("restarted", [False, True])
def test_messages_that_retention_took_with_their_entries_are_reported_as_lost(restarted: bool) -> None:
    bench = Bench(mapped_file_size_timer_log=4096)
    for number in range(100):
        sent(bench, timed(topic=("orders", "others")[number % 2], TIMER_DELAY_MS=3001 + number))
    recalled = sent(bench, timed(TIMER_DELAY_MS=4500))
    bench.call(c.RecallMessage(topic="orders", recall_handle=recalled.recall_handle))
    sent(bench, timed(TIMER_DELAY_MS=60_000))
    bench.tick()
    timer_log = bench.context.store.timers.timer_log
    for path in timer_log.take_expired(bench.context.store.commit_log.max_offset):
        bench.files.remove(path)
    if restarted:
        bench.engine.close(bench.clock.now())
        bench = Bench(files=bench.files, clock=bench.clock, seed=2, mapped_file_size_timer_log=4096)
        bench.tick()
    taken = timer_log.begin // UNIT_SIZE
    assert taken > 50 and bench.engine.counters.timer_messages_now == 101
    bench.tick(1500)
    bench.tick(2000)
    (lost,) = events(bench, DelayedMessagesLost)
    assert (lost.level, lost.from_offset, lost.to_offset) == (0, -taken, 0) and "retention" in lost.reason
    assert bench.engine.counters.delayed_messages_lost == taken
    assert len(read(bench)) + len(read(bench, "others")) == 100 - taken
    bench.tick(2000)
    counts = bench.context.store.timers.counts
    assert (counts.pending, counts.by_topic) == (1, {"orders": 1})


def test_recalls_that_retention_took_are_no_messages_that_come_back() -> None:
    """A message may be recalled more than once, so the entries that are gone may be more recalls than messages."""
    bench = Bench(mapped_file_size_timer_log=4096)
    recalled = sent(bench, timed(TIMER_DELAY_MS=3001))
    for _ in range(80):
        bench.call(c.RecallMessage(topic="orders", recall_handle=recalled.recall_handle))
    sent(bench, timed(TIMER_DELAY_MS=3002))
    bench.tick()
    timer_log = bench.context.store.timers.timer_log
    for path in timer_log.take_expired(bench.context.store.commit_log.max_offset):
        bench.files.remove(path)
    assert timer_log.begin > 0
    bench.tick(4000)
    assert events(bench, DelayedMessagesLost) == [] and bench.engine.counters.delayed_messages_lost == 0
    assert bench.engine.counters.timer_messages_now == 0


@pytest.mark.parametrize("mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_message_whose_topic_was_deleted_is_delivered_also_after_a_kill(mode: str) -> None:
    bench = Bench(flush_disk_type=mode)
    bench.call(c.UpdateAndCreateTopic(topic="orders"))
    (request,) = bench.submit(timed(TIMER_DELAY_MS=5000))
    bench.flush()
    assert isinstance(bench.final(request), c.Sent)
    bench.tick(1000)
    assert isinstance(bench.call(c.DeleteTopic(topic="orders")), c.Done)
    bench.files.kill()
    bench = Bench(files=bench.files, clock=bench.clock, seed=2, flush_disk_type=mode)
    bench.tick(3999)
    assert bench.context.topics.get("orders") is None
    bench.tick(1)
    bench.flush()
    bench.tick(0)
    assert read(bench) == [b"x"] and bench.engine.counters.timer_messages_now == 0
