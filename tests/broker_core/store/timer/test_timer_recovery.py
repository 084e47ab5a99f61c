"""Timer messages after a stop, a kill, a power cut, and with files that are damaged."""

import random
from pathlib import Path

import pytest

from broker_core import commands as c
from broker_core.events import DelayedMessagesLost
from broker_core.formats import rocketmq_json, timer_checkpoint
from broker_core.formats.timer_log_unit import UNIT_SIZE
from broker_core.store.timer import timer_message_store
from broker_core.store.timer.timer_message import TimerMessage
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import ROOT, Bench
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.timers import SLOTS, events, read, sent, small_wheel, timed

__all__ = ["events", "small_wheel"]

CHECKPOINT = ROOT / "config" / "timercheck"
WHEEL = ROOT / "timerwheel"
LOG = ROOT / "timerlog" / f"{0:020d}"


def reopened(bench: Bench, seed: int = 2, **options: object) -> Bench:
    return Bench(files=bench.files, clock=bench.clock, seed=seed, **options)


def flushed(bench: Bench) -> None:
    bench.clock.advance(1000)
    bench.tick()
    while bench.flush():
        bench.clock.advance(1000)
        bench.tick()


def with_messages(*delays_ms: int, seed: int = 1) -> Bench:
    bench = Bench(files=SimulatedFiles(random.Random(seed)), clock=VirtualClock())
    for delay_ms in delays_ms:
        sent(bench, timed(b"%d" % delay_ms, TIMER_DELAY_MS=delay_ms))
    bench.tick()
    return bench


def let_pass(bench: Bench, seconds: int) -> None:
    for _ in range(seconds):
        bench.tick(1000)


def test_a_clean_stop_repeats_nothing_and_loses_nothing() -> None:
    bench = with_messages(1100, 1400, 1600, 1900, 9000)
    bench.tick(1500)
    bench.engine.close(bench.clock.now())
    bench = reopened(bench)
    assert bench.engine.counters.timer_messages_now == 3
    bench.tick(99)
    assert read(bench) == [b"1100", b"1400"]
    bench.tick(1)
    assert read(bench) == [b"1100", b"1400", b"1600"]
    sent(bench, timed(b"new", TIMER_DELAY_MS=50))
    bench.tick(50)
    assert read(bench) == [b"1100", b"1400", b"1600", b"new"]
    let_pass(bench, 9)
    assert read(bench) == [b"1100", b"1400", b"1600", b"new", b"1900", b"9000"]
    assert bench.engine.counters.timer_messages_now == 0


def test_a_stop_does_not_move_a_slot_with_too_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_message_store, "MOVED_AT_STOP", 3)
    bench = with_messages(1100, 1400, 1600, 1900)
    bench.tick(1500)
    end = bench.context.store.timers.timer_log.end
    bench.engine.close(bench.clock.now())
    bench = reopened(bench)
    assert bench.context.store.timers.timer_log.end == end
    let_pass(bench, 3)
    assert read(bench) == [b"1100", b"1400", b"1100", b"1400", b"1600", b"1900"]
    assert bench.engine.counters.timer_messages_now == 0


def test_a_stop_leaves_out_entries_that_retention_took_in_the_second() -> None:
    bench = Bench(mapped_file_size_timer_log=4096)
    for number in range(100):
        sent(bench, timed(b"%d" % number, TIMER_DELAY_MS=1100 + number))
    bench.tick(1050)
    timer_log = bench.context.store.timers.timer_log
    assert len(timer_log.take_expired(bench.context.store.commit_log.max_offset)) == 1
    bench.engine.close(bench.clock.now())
    assert [(lost.from_offset, lost.to_offset) for lost in events(bench, DelayedMessagesLost)] == [
        (-(timer_log.begin // UNIT_SIZE), 0)
    ]
    bench = reopened(bench, mapped_file_size_timer_log=4096)
    assert bench.engine.counters.timer_messages_now == 100 - timer_log.begin // UNIT_SIZE
    let_pass(bench, 2)
    assert read(bench) == [b"%d" % number for number in range(timer_log.begin // UNIT_SIZE, 100)]


def test_a_stop_keeps_recalls_of_its_second() -> None:
    bench = with_messages()
    due_ms = bench.clock.now().wall_ms + 1500
    message = sent(bench, timed(TIMER_DELIVER_MS=due_ms))
    bench.tick(1200)
    sent(bench, timed(b"-", TIMER_DELIVER_MS=due_ms, TIMER_DEL_UNIQKEY=message.message_id))
    bench.tick()
    bench.engine.close(bench.clock.now())
    bench = reopened(bench)
    let_pass(bench, 5)
    assert read(bench) == []
    assert bench.engine.counters.timer_messages_now == 0


@pytest.mark.covers("timer-kill")
@pytest.mark.parametrize("flush_at", [0, 1500, 3000])
def test_a_kill_loses_nothing(flush_at: int) -> None:
    bench = with_messages(1000, 1500, 2500, 3500, 60_000)
    bench.tick(flush_at)
    flushed(bench)
    bench.tick(1200)
    bench.files.kill()
    bench = reopened(bench)
    let_pass(bench, 70)
    delivered = read(bench)
    assert set(delivered) == {b"1000", b"1500", b"2500", b"3500", b"60000"}
    assert delivered.count(b"60000") == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_power_cut_loses_nothing_that_was_flushed(seed: int) -> None:
    bench = with_messages(2000, 4500, 5500, 60_000, seed=seed)
    flushed(bench)
    bench.tick(3000)
    for number in range(30):
        sent(bench, timed(b"new %d" % number, TIMER_DELAY_MS=1 + 700 * number))
    bench.tick(seed * 100)
    bench.files.crash()
    bench = reopened(bench)
    let_pass(bench, 70)
    delivered = read(bench)
    assert set(delivered) >= {b"2000", b"4500", b"5500", b"60000"}
    assert delivered.count(b"60000") == 1
    assert bench.engine.counters.timer_messages_now == 0


@pytest.mark.parametrize("path", [WHEEL, LOG, CHECKPOINT])
@pytest.mark.parametrize("damage", ["missing", "cut", "half", "zeros"])
def test_a_damaged_file_loses_nothing(path: Path, damage: str) -> None:
    bench = with_messages(1000, 3500, 3600, 60_000)
    flushed(bench)
    bench.tick(1000)
    flushed(bench)
    data = bench.files.read(path)
    assert data is not None
    bench.engine.close(bench.clock.now())
    if damage == "missing":
        bench.files.remove(path)
    else:
        cut = {"cut": data[:20], "half": data[: len(data) // 2 + 7], "zeros": bytes(len(data))}
        bench.files.write(path, cut[damage])
    bench = reopened(bench)
    let_pass(bench, 70)
    delivered = read(bench)
    assert set(delivered) == {b"1000", b"3500", b"3600", b"60000"}
    assert delivered.count(b"60000") == 1


def test_a_damaged_wheel_repeats_no_message_of_an_earlier_second() -> None:
    bench = with_messages(1000, 60_000)
    let_pass(bench, 5)
    bench.engine.close(bench.clock.now())
    bench.files.remove(WHEEL)
    bench = reopened(bench)
    assert any("made anew" in sentence for sentence in bench.context.store.recovery)
    let_pass(bench, 60)
    assert read(bench) == [b"1000", b"60000"]


def test_a_kill_loses_nothing_although_the_clock_was_set_back_further_than_the_wheel_is_long() -> None:
    """No check point was written before the kill. The new message is for a second in the same place of the wheel."""
    bench = with_messages(300, 1100)
    bench.clock.step_wall(-6 * 2 * SLOTS * 1000)
    bench.files.kill()
    bench = reopened(bench)
    sent(bench, timed(b"new", TIMER_DELAY_MS=1100))
    let_pass(bench, 3)
    assert read(bench) == [b"new"]
    bench.clock.step_wall(6 * 2 * SLOTS * 1000)
    let_pass(bench, 3)
    assert read(bench) == [b"new", b"300", b"1100"]


def test_a_long_stop_delivers_everything_at_the_next_start() -> None:
    bench = with_messages(1000, 5000, 200_000)
    flushed(bench)
    bench.engine.close(bench.clock.now())
    bench.clock.advance(30 * 86_400_000)
    bench = reopened(bench)
    bench.tick()
    bench.tick(1)
    assert read(bench) == [b"1000", b"5000", b"200000"]


def test_the_check_point_is_rocketmqs() -> None:
    bench = with_messages(2000, 3000)
    flushed(bench)
    checkpoint = timer_checkpoint.decode(bench.files.read(CHECKPOINT) or b"")
    timers = bench.context.store.timers
    assert (checkpoint.last_timer_log_flush_pos, checkpoint.last_timer_queue_offset) == (104, 2)
    assert (checkpoint.master_timer_queue_offset, checkpoint.last_read_time_ms) == (2, timers.read_ms)


def test_the_store_of_another_broker_is_left_alone() -> None:
    bench = with_messages(1000)
    bench.engine.close(bench.clock.now())
    bench.files.remove(ROOT / "glassmq")
    foreign = reopened(bench)
    foreign.tick(5000)
    assert foreign.engine.read_only and read(foreign) == []
    totals = foreign.engine.counters.as_dict()
    unknown = {"timer_messages_now", "transactions_pending_now", "messages_invisible_now"}
    assert not unknown & totals.keys()
    answer = foreign.call(c.GetTimerMetrics())
    assert isinstance(answer, c.Failed) and (answer.code, "another broker's" in answer.remark) == (1, True)
    foreign.engine.close(bench.clock.now())
    adopted = reopened(bench, adopt=True)
    adopted.tick(0)
    assert unknown <= adopted.engine.counters.as_dict().keys()
    assert read(adopted) == [b"1000"]


def test_a_timer_log_of_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(mapped_file_size_timer_log=4096, max_message_size=1024)
    for number in range(200):
        sent(bench, timed(b"%d" % number, TIMER_DELAY_MS=2000 + 50 * number))
    bench.tick()
    assert len(bench.files.names(ROOT / "timerlog")) == 3
    bench.files.kill()
    bench = reopened(bench, mapped_file_size_timer_log=4096, max_message_size=1024)
    let_pass(bench, 13)
    assert read(bench) == [b"%d" % number for number in range(200)]
    assert isinstance(bench.call(c.GetTimerMetrics()), c.TimerMetrics)


def test_the_counts_of_topics_are_written_for_rocketmq() -> None:
    bench = with_messages(5000, 6000)
    bench.file_work()
    table = rocketmq_json.decode(bench.files.read(ROOT / "config" / "timermetrics") or b"")
    now = bench.clock.now().wall_ms
    assert table["timingCount"] == {"orders": {"count": 2, "timeStamp": now}}
    let_pass(bench, 6)
    bench.engine.close(bench.clock.now())
    table = rocketmq_json.decode(bench.files.read(ROOT / "config" / "timermetrics") or b"")
    assert table["timingCount"] == {}


def test_an_entry_whose_message_the_log_lost_does_not_count() -> None:
    bench = with_messages(60_000)
    flushed(bench)
    other = bench.send("orders", b"no timer message").messages[0]
    now = bench.clock.now()
    message = TimerMessage(now.wall_ms + 30_000, now.wall_ms + 30_500, "orders", "")
    record = bench.context.store.look_message_by_offset(other.physical_offset)
    assert record is not None
    bench.context.store.timers.put(message, other.physical_offset, len(record), now)
    bench.files.kill()
    bench = reopened(bench)
    assert bench.engine.counters.timer_messages_now == 1
    let_pass(bench, 65)
    assert read(bench) == [b"no timer message", b"60000"]
