"""One sample of what the history keeps, as lists of numbers, so that 10,000 groups cost little.

The lag is that of the list of groups: it says nothing about the reasons, so it needs no facts of the queues.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from broker_core.clock import Now
from broker_core.commands import (
    MAX_HISTORY_GROUPS,
    MAX_HISTORY_TOPICS,
    GetHistorySample,
    HistorySample,
    Reply,
)
from broker_core.processors.context import Context, Request
from broker_core.processors.producers.half_message import GROUP as TRANSACTIONS
from broker_core.processors.retry_message import DLQ_PREFIX, RETRY_PREFIX
from broker_core.walk import Steps, pieces_of

HOLDS_LOOKED_AT = 2000
QUEUES_LOOKED_AT = 500
"""Rows of a piece, each of which takes about a microsecond."""


class Tally:
    """Sums by group and by topic. ``lag`` has only the names whose lag is known."""

    def __init__(self) -> None:
        self.lag: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self.holds: Counter[str] = Counter()


def get_history_sample(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetHistorySample = request.command
    of_groups, of_topics = Tally(), Tally()
    yield from _count_holds(context, of_groups, of_topics)
    yield from _count_deliveries(context, of_groups, of_topics)
    yield from _measure_lag(context, of_groups, of_topics)
    known = {*context.offsets.groups(), *context.pulls.groups(), *of_groups.holds, *context.consumers}
    names = sorted(known - {TRANSACTIONS})
    groups = names[: max(0, min(command.max_groups, MAX_HISTORY_GROUPS))]
    yield
    most = max(0, min(command.max_topics, MAX_HISTORY_TOPICS))
    topics = list(islice(_topics(context), most + 1))
    topics_left_out = sum(1 for _ in _topics(context)) - most if len(topics) > most else 0
    del topics[most:]
    yield
    stored = [context.stats.topic_put.get(topic) for topic in topics]
    counters = context.count()
    return HistorySample(
        broker=context.options.broker_name,
        epoch=context.epoch,
        stored=counters.messages_stored,
        delivered=counters.messages_delivered,
        woken=sum(counters.woken.values()),
        holds=len(context.holds),
        lag=of_groups.lag.total() if of_groups.lag else None,
        wakeup_us=counters.wakeup_us.view(),
        groups=groups,
        group_delivered=[of_groups.delivered[group] for group in groups],
        group_holds=[of_groups.holds[group] for group in groups],
        group_lag=[of_groups.lag.get(group) for group in groups],
        topics=topics,
        topic_stored=[0 if item is None else item.nums for item in stored],
        topic_delivered=[of_topics.delivered[topic] for topic in topics],
        topic_holds=[of_topics.holds[topic] for topic in topics],
        topic_lag=[of_topics.lag.get(topic) for topic in topics],
        groups_left_out=len(names) - len(groups),
        topics_left_out=topics_left_out,
    )


def _topics(context: Context) -> Iterator[str]:
    """The topics that people made, by name: neither the broker's own nor those of retries and dead letters."""
    return (
        topic
        for topic in context.topics.names()
        if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and not context.topics.is_system(topic)
    )


def _count_holds(context: Context, of_groups: Tally, of_topics: Tally) -> Steps[None]:
    for hold_ids in pieces_of(context.holds.ids_after(0), HOLDS_LOOKED_AT):
        for held in map(context.holds.get, hold_ids):
            if held is not None:
                of_topics.holds[held.many.topic] += 1
                if held.group:
                    of_groups.holds[held.group] += 1
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
        if group == TRANSACTIONS:
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
