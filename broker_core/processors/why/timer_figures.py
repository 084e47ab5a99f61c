"""Figures of the timer wheel and of transactions, for monitoring. RocketMQ's metrics of the same names."""

from heapq import nlargest
from operator import itemgetter

from broker_core.broker_stats import MAX_TOTALS, TopicTotals
from broker_core.clock import Now
from broker_core.commands import EndedTransactions, TimerFigures
from broker_core.processors.context import Context
from broker_core.store.timer.timer_message import TIMER_TOPIC


def timer_figures(context: Context, now: Now) -> TimerFigures | None:
    """None while the timer messages are not loaded, as in the store of another broker."""
    timers = context.store.timers
    if not timers.loaded:
        return None
    counts = timers.counts
    waiting, waiting_left_out = None, 0
    if counts.is_complete:
        waiting = dict(nlargest(MAX_TOTALS, counts.by_topic.items(), key=itemgetter(1)))
        waiting_left_out = sum(counts.by_topic.values()) - sum(waiting.values())
    return TimerFigures(
        enqueue_lag=timers.behind,
        enqueue_latency_ms=_enqueue_latency_ms(context, now),
        dequeue_lag=counts.pending,
        dequeue_latency_ms=timers.dequeue_latency_ms(now.wall_ms),
        waiting=waiting,
        enqueued=dict(counts.enqueued.by_topic),
        dequeued=dict(counts.dequeued.by_topic),
        left_out=waiting_left_out + _left_out(counts.enqueued, counts.dequeued),
    )


def ended_transactions(context: Context) -> EndedTransactions:
    stats = context.stats
    return EndedTransactions(
        committed=dict(stats.committed.by_topic),
        rolled_back=dict(stats.rolled_back.by_topic),
        left_out=_left_out(stats.committed, stats.rolled_back),
    )


def _enqueue_latency_ms(context: Context, now: Now) -> int | None:
    timers = context.store.timers
    if not timers.behind:
        return 0
    stored_ms = context.store.query.store_time(TIMER_TOPIC, 0, timers.queue_offset)
    return None if stored_ms is None else max(0, now.wall_ms - stored_ms)


def _left_out(*totals: TopicTotals) -> int:
    return sum(one.left_out for one in totals)
