"""The figures of the timer wheel and of transactions, for monitoring."""

import pytest

from broker_core import commands as c
from broker_core.processors.why import timer_figures
from tests.fakes.engine import Bench
from tests.fakes.timers import sent, small_wheel, timed
from tests.fakes.transactions import begin, end

__all__ = ["small_wheel"]


def asked(bench: Bench, **fields: str) -> c.BrokerMetrics:
    reply = bench.call(c.GetMetrics(**fields))
    assert isinstance(reply, c.BrokerMetrics)
    return reply


def figures(bench: Bench) -> c.TimerFigures:
    found = asked(bench).timers
    assert found is not None
    return found


def test_messages_go_through_the_wheel() -> None:
    bench = Bench()
    assert figures(bench) == c.TimerFigures(
        enqueue_lag=0,
        enqueue_latency_ms=0,
        dequeue_lag=0,
        dequeue_latency_ms=0,
        waiting={},
        enqueued={},
        dequeued={},
        left_out=0,
    )
    for topic in ("orders", "orders", "other"):
        bench.call(timed(topic=topic, TIMER_DELAY_MS=5000))
    bench.clock.advance(20)
    waits = figures(bench)
    assert (waits.enqueue_lag, waits.enqueue_latency_ms, waits.dequeue_lag, waits.waiting) == (3, 20, 0, {})
    bench.tick()
    waits = figures(bench)
    assert (waits.enqueue_lag, waits.enqueue_latency_ms, waits.dequeue_lag) == (0, 0, 3)
    assert waits.waiting == waits.enqueued == {"orders": 2, "other": 1} and waits.dequeued == {}
    bench.tick(6000)
    done = figures(bench)
    assert (done.dequeue_lag, done.dequeue_latency_ms, done.waiting) == (0, 0, {})
    assert done.enqueued == done.dequeued == {"orders": 2, "other": 1}


def test_a_recall_is_put_into_the_wheel_and_not_delivered() -> None:
    bench = Bench()
    message = sent(bench, timed(TIMER_DELAY_MS=5000))
    bench.call(c.RecallMessage(topic="orders", recall_handle=message.recall_handle))
    bench.tick(10_000)
    done = figures(bench)
    assert (done.enqueued, done.dequeued, done.dequeue_lag) == ({"orders": 2}, {}, 0)


def test_a_wheel_that_is_behind_says_how_long() -> None:
    bench = Bench()
    bench.call(timed(TIMER_DELAY_MS=5000))
    bench.tick()
    bench.clock.advance(65_000)
    assert figures(bench).dequeue_latency_ms == 64_000
    bench.tick()
    assert figures(bench).dequeue_latency_ms == 0


def test_topics_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_figures, "MAX_TOTALS", 1)
    bench = Bench()
    for topic in ("orders", "other", "other"):
        bench.call(timed(topic=topic, TIMER_DELAY_MS=5000))
    bench.tick()
    assert (figures(bench).waiting, figures(bench).left_out) == ({"other": 2}, 1)


def test_a_deleted_topic_is_forgotten() -> None:
    bench = Bench()
    bench.call(timed(TIMER_DELAY_MS=1000))
    bench.tick(5000)
    assert figures(bench).dequeued == {"orders": 1}
    bench.call(c.DeleteTopic(topic="orders"))
    assert (figures(bench).enqueued, figures(bench).dequeued) == ({}, {})


def test_ends_of_transactions_by_topic() -> None:
    bench = Bench()
    for decision in ("commit", "commit", "rollback"):
        end(bench, begin(bench), decision)
    assert asked(bench).transactions == c.EndedTransactions(
        committed={"orders": 2}, rolled_back={"orders": 1}, left_out=0
    )


def test_a_copy_and_a_page_have_no_figures() -> None:
    assert asked(Bench(follows=True)).timers is None
    page = asked(Bench(), after="")
    assert page.timers is None and page.transactions is None
