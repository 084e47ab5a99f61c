"""What a turn does at most, whatever waits."""

import tracemalloc

import pytest

from broker_core.store.timer import timer_message_store
from broker_core.store.timer.timer_message import TimerMessage
from tests.fakes.engine import Bench
from tests.fakes.timers import read, sent, small_wheel, timed

__all__ = ["small_wheel"]


def test_a_turn_puts_a_bounded_number_into_the_wheel() -> None:
    bench = Bench()
    for _ in range(200):
        sent(bench, timed(TIMER_DELAY_MS=5000))
    timers, now = bench.context.store.timers, bench.clock.now()
    while timers.behind:
        before = timers.behind
        bench.take(bench.engine.tick(now))
        assert before - timers.behind <= timer_message_store.ENQUEUED_A_TURN
    assert timers.counts.pending == 200


def test_a_turn_reads_a_bounded_number_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    sent(bench, timed(TIMER_DELAY_MS=5000))
    bench.tick()
    timers = bench.context.store.timers
    message = TimerMessage(1_700_000_004_000, 1_700_000_005_000, "orders", "")
    for _ in range(3000):
        timers.put(message, 0, 100, bench.clock.now())
    reads = 0
    unit = timers.timer_log.unit

    def counted(position: int) -> object:
        nonlocal reads
        reads += 1
        return unit(position)

    monkeypatch.setattr(timers.timer_log, "unit", counted)
    now = bench.clock.advance(3500)
    for _ in range(3):
        reads = 0
        timers.advance(now)
        assert 0 < reads <= timer_message_store.READ_A_TURN


def test_messages_of_later_seconds_take_no_memory() -> None:
    bench = Bench()
    sent(bench, timed(TIMER_DELAY_MS=250_000))
    bench.tick()
    timers, now = bench.context.store.timers, bench.clock.now()
    tracemalloc.start()
    for number in range(5_000):
        out_ms = 1_700_000_100_000 + number % 100 * 1000
        timers.put(TimerMessage(out_ms, out_ms + 500, "orders", ""), 0, 100, now)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    files = 5_000 * 52 + (1 << 17)
    assert grown < files + 200_000  # the simulated disk is in memory too
    assert timers.counts.pending == 5_001


def test_old_slots_are_delivered_before_new_messages_need_their_places() -> None:
    bench = Bench()
    sent(bench, timed(b"old", TIMER_DELAY_MS=10_000))
    bench.tick()
    bench.clock.advance(610_000)  # the wheel has 600 slots
    sent(bench, timed(b"new", TIMER_DELAY_MS=1))
    bench.tick(1)
    assert read(bench) == [b"old", b"new"]
