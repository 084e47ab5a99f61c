"""How many timer messages wait, right after a start and while they are counted."""

import pytest

from broker_core.formats import timer_wheel_slot
from broker_core.store.timer import timer_counts, timer_message_store
from tests.fakes.engine import ROOT, Bench
from tests.fakes.timers import read, sent, small_wheel, timed

__all__ = ["small_wheel"]


def with_many(count: int = 1000) -> Bench:
    """A store, opened again, with messages for two topics; the first are due in 5 s."""
    bench = Bench()
    for number in range(count):
        sent(bench, timed(TIMER_DELAY_MS=5000 + number % 100_000, topic=("orders", "others")[number % 2]))
    bench.tick()
    bench.engine.close(bench.clock.now())
    return Bench(files=bench.files, clock=bench.clock, seed=2)


def test_a_start_reads_the_timer_log_in_pieces() -> None:
    bench = with_many()
    timers = bench.context.store.timers
    counts, reads, unit = timers.counts, [0], timers.timer_log.unit

    def counted(position: int) -> object:
        reads[0] += 1
        return unit(position)

    timers.timer_log.unit = counted  # type: ignore[method-assign,assignment]
    assert (counts.pending, counts.is_complete) == (1000, False)
    turns = 0
    while not counts.is_complete:
        reads[0] = 0
        bench.take(bench.engine.tick(bench.clock.now()))
        assert reads[0] <= timer_message_store.READ_A_TURN
        assert counts.pending == 1000
        turns += 1
    assert turns > 5
    assert counts.by_topic == {"orders": 500, "others": 500}


def test_what_comes_and_goes_while_it_is_counted_is_counted_once() -> None:
    bench = with_many()
    bench.clock.advance(5100)
    sent(bench, timed(b"near", TIMER_DELAY_MS=300))
    sent(bench, timed(b"far", TIMER_DELAY_MS=200_000))
    counts = bench.context.store.timers.counts
    assert not counts.is_complete
    bench.tick()
    assert counts.is_complete
    delivered = len(read(bench)) + len(read(bench, "others"))
    assert delivered == 101
    assert (counts.pending, counts.by_topic) == (901, {"orders": 451, "others": 450})
    for _ in range(210):
        bench.tick(1000)
    assert (counts.pending, counts.by_topic) == (0, {})
    assert len(read(bench)) + len(read(bench, "others")) == 1002


def test_incomplete_counts_are_not_written() -> None:
    bench = with_many()
    path = ROOT / "config" / "timermetrics"
    before = bench.files.read(path)
    bench.clock.advance(5100)
    bench.take(bench.engine.tick(bench.clock.now()))
    bench.take(bench.engine.tick(bench.clock.now()))
    counts = bench.context.store.timers.counts
    assert counts.changed and not counts.is_complete
    bench.file_work()
    assert bench.files.read(path) == before
    bench.tick(10_000)
    bench.file_work()
    assert bench.files.read(path) != before


def test_a_turn_looks_into_a_bounded_number_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_wheel_slot, "TTL_SLOTS", 100_000)
    bench = with_many(2)
    counts, turns = bench.context.store.timers.counts, 0
    while not counts.is_complete:
        before = counts._block
        counts.work(timer_message_store.READ_A_TURN)
        assert counts._block - before <= timer_message_store.READ_A_TURN // timer_counts.BLANK_COST + 1
        turns += 1
    assert 2 <= turns < 10
    assert counts.by_topic == {"orders": 1, "others": 1}
