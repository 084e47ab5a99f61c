"""One sample of what the history keeps, as lists of numbers, so that 10,000 groups cost little.

The lag is that of the list of groups: it says nothing about the reasons, so it needs no facts of the queues.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from broker_core.clock import Now
from broker_core.commands import (
    MAX_HISTORY_GROUPS,
    MAX_HISTORY_TOPICS,
    GetHistorySample,
    HistorySample,
    Reply,
)
from broker_core.processors.consumer_manage import BROKERS_OWN
from broker_core.processors.context import Context, Request
from broker_core.processors.retry_message import DLQ_PREFIX, RETRY_PREFIX
from broker_core.processors.why.live_state import group_names
from broker_core.wakeup_stats import SLOT_MS, Histograms, percentile_99
from broker_core.walk import Steps, pieces_of

HOLDS_LOOKED_AT = 2000
QUEUES_LOOKED_AT = 500
NAMES_LOOKED_AT = 300
"""Rows that one piece looks at. A hold or a queue takes about a microsecond, a name with wake-ups three."""


class Tally:
    """Sums by group and by topic. ``lag`` has only the names whose lag is known."""

    def __init__(self) -> None:
        self.lag: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self.holds: Counter[str] = Counter()


def get_history_sample(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetHistorySample = request.command
    of_groups, of_topics = Tally(), Tally()
    yield from _count_holds(context, of_topics)
    yield from _count_deliveries(context, of_groups, of_topics)
    yield from _measure_lag(context, of_groups, of_topics)
    names = yield from group_names(context)
    groups = names[: max(0, min(command.max_groups, MAX_HISTORY_GROUPS))]
    yield
    names_of_topics = yield from _topics(context)
    topics = names_of_topics[: max(0, min(command.max_topics, MAX_HISTORY_TOPICS))]
    yield
    wakeups = context.counters.wakeups
    slot = wakeups.slot_at(now.wall_ms - SLOT_MS // 2)
    group_columns = yield from _columns(
        groups,
        of_groups.delivered.__getitem__,
        wakeups.of_groups.get,
        context.holds.count_of_group,
        partial(_percentile, slot.of_groups),
        of_groups.lag.get,
    )
    topic_columns = yield from _columns(
        topics,
        partial(_stored, context),
        of_topics.delivered.__getitem__,
        wakeups.of_topics.get,
        of_topics.holds.__getitem__,
        partial(_percentile, slot.of_topics),
        of_topics.lag.get,
    )
    counters = context.count()
    return HistorySample(
        broker=context.options.broker_name,
        epoch=context.epoch,
        stored=counters.messages_stored,
        delivered=counters.messages_delivered,
        woken=sum(counters.woken.values()),
        holds=len(context.holds),
        lag=of_groups.lag.total() if of_groups.lag else None,
        wake_p99_us=percentile_99(slot.of_broker),
        groups=groups,
        group_columns=group_columns,
        topics=topics,
        topic_columns=topic_columns,
        groups_left_out=len(names) - len(groups),
        topics_left_out=len(names_of_topics) - len(topics),
    )


def _columns(names: list[str], *look_up: Callable[[str], int | None]) -> Steps[list[list[Any]]]:
    """For each function its values of all names, in pieces."""
    columns: list[list[Any]] = [[] for _ in look_up]
    for some in pieces_of(names, NAMES_LOOKED_AT):
        for column, get in zip(columns, look_up, strict=True):
            column += map(get, some)
        yield
    return columns


def _percentile(histograms: Histograms, name: str) -> int | None:
    return percentile_99(histograms[name])


def _stored(context: Context, topic: str) -> int:
    item = context.stats.topic_put.get(topic)
    return 0 if item is None else item.nums


def _topics(context: Context) -> Steps[list[str]]:
    """The topics that people made, by name: neither the broker's own nor those of retries and dead letters."""
    found: list[str] = []
    for names in pieces_of(context.topics.names(), NAMES_LOOKED_AT):
        found += [
            topic
            for topic in names
            if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and not context.topics.is_system(topic)
        ]
        yield
    return found


def _count_holds(context: Context, of_topics: Tally) -> Steps[None]:
    for hold_ids in pieces_of(context.holds.ids_after(0), HOLDS_LOOKED_AT):
        for held in map(context.holds.get, hold_ids):
            if held is not None:
                of_topics.holds[held.many.topic] += 1
        yield


def _count_deliveries(context: Context, of_groups: Tally, of_topics: Tally) -> Steps[None]:
    for keys in pieces_of(context.stats.group_get.keys(), QUEUES_LOOKED_AT):
        for topic, group in keys:
            item = context.stats.group_get.get((topic, group))
            if item is not None:
                of_topics.delivered[topic] += item.nums
                of_groups.delivered[group] += item.nums
        yield


def _measure_lag(context: Context, of_groups: Tally, of_topics: Tally) -> Steps[None]:
    """The messages between the committed offsets and the queues' ends."""
    max_offset, looked_at = context.store.max_offset, 0
    for group in context.offsets.groups():
        if group in BROKERS_OWN:
            continue
        for topic in list(context.offsets.topics(group)):
            offsets = context.offsets.topics(group).get(topic)
            if not offsets or context.topics.get(topic) is None:
                continue
            lag = sum(max(0, max_offset(topic, queue_id) - offset) for queue_id, offset in offsets.items())
            of_groups.lag[group] += lag
            of_topics.lag[topic] += lag
            looked_at += len(offsets)
            if looked_at >= QUEUES_LOOKED_AT:
                looked_at = 0
                yield
    yield
