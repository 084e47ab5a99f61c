"""When the first timer message of a topic is due."""

import pytest

from broker_core import commands as c
from broker_core.store.timer import next_due
from tests.fakes.engine import Bench
from tests.fakes.timers import sent, small_wheel, timed

__all__ = ["small_wheel"]


def first(bench: Bench, topic: str = "orders") -> int | None:
    """ms from now; None if it is not known."""
    now = bench.clock.now()
    steps = next_due.first_due_ms(bench.context.store.timers, topic, now)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return None if end.value is None else end.value - now.wall_ms


def test_the_first_of_the_topic_counts() -> None:
    bench = Bench()
    assert first(bench) is None
    for delay_ms in (20_000, 5_700, 5_200, 5_900, 90_000):
        sent(bench, timed(TIMER_DELAY_MS=delay_ms))
    sent(bench, timed(topic="others", TIMER_DELAY_MS=1500))
    bench.tick()
    assert (first(bench), first(bench, "others"), first(bench, "nobody")) == (5200, 1500, None)
    bench.tick(5200)
    assert first(bench) == 500
    bench.tick(1000)
    assert first(bench) == 20_000 - 6200


def test_a_recalled_message_is_passed_over() -> None:
    bench = Bench()
    message = sent(bench, timed(TIMER_DELAY_MS=5200))
    sent(bench, timed(TIMER_DELAY_MS=5300))
    bench.tick()
    bench.call(c.RecallMessage(topic="orders", recall_handle=message.recall_handle))
    bench.tick()
    assert first(bench) == 5300


def test_a_recalled_message_is_passed_over_also_after_a_stop_moved_both() -> None:
    bench = Bench()
    due_ms = bench.clock.now().wall_ms // 1000 * 1000 + 4001
    message = sent(bench, timed(TIMER_DELIVER_MS=due_ms))
    sent(bench, timed(TIMER_DELIVER_MS=due_ms + 500))
    bench.call(c.RecallMessage(topic="orders", recall_handle=message.recall_handle))
    bench.tick()
    bench.tick(due_ms - 1 - bench.clock.now().wall_ms)
    bench.engine.close(bench.clock.now())
    bench = Bench(files=bench.files, clock=bench.clock, seed=2)
    bench.clock.step_wall(-2000)
    bench.tick()
    assert first(bench) == due_ms + 500 - bench.clock.now().wall_ms


@pytest.mark.parametrize("other_ms", [30_000, 40_000])
def test_the_next_due_time_is_unknown_if_the_first_message_may_be_recalled_elsewhere(other_ms: int) -> None:
    """Beyond the roll window, a message and its recall wait in different slots."""
    bench = Bench(timer_roll_window_slot=10)
    message = sent(bench, timed(TIMER_DELAY_MS=35_500))
    sent(bench, timed(TIMER_DELAY_MS=other_ms))
    bench.tick()
    bench.tick(3000)
    bench.call(c.RecallMessage(topic="orders", recall_handle=message.recall_handle))
    assert first(bench) == (27_000 if other_ms == 30_000 else None), "the recall is on its way"
    bench.tick()
    assert first(bench) == (27_000 if other_ms == 30_000 else None), "the recall is in another slot"


def test_a_message_beyond_the_roll_window_has_its_own_time() -> None:
    bench = Bench(timer_roll_window_slot=10)
    sent(bench, timed(TIMER_DELAY_MS=35_500))
    bench.tick()
    assert first(bench) == 35_500


def test_the_effort_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(next_due, "MOST", 220)
    bench = Bench()
    for _ in range(200):
        sent(bench, timed(topic="others", TIMER_DELAY_MS=3000))
    sent(bench, timed(TIMER_DELAY_MS=9000))
    bench.tick()
    assert first(bench) is None
