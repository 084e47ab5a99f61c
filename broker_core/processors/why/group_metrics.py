"""The progress of many groups by topic, for a monitoring system that asks again and again.

The work and the answer are bounded: what is beyond the limits is counted and not looked at.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

from broker_core.clock import Now
from broker_core.commands import (
    MAX_METRIC_GROUPS,
    MAX_METRIC_TOPICS,
    BrokerMetrics,
    GetMetrics,
    GroupMetrics,
    GroupQueueView,
    Reply,
    TopicMetrics,
)
from broker_core.errors import RequestError
from broker_core.filters.consumer_filter_data import ConsumerFilterData
from broker_core.filters.filter_factory import TAG
from broker_core.filters.tags import parse_client_subscription
from broker_core.processors.context import Context, Request
from broker_core.processors.group_view import dead_letters
from broker_core.processors.retry_message import DLQ_PREFIX
from broker_core.processors.why.group_facts import condition
from broker_core.processors.why.judged import broker_without_problems, judge_live, lines_of
from broker_core.processors.why.live_state import MAX_QUEUES, QueuesOfGroup, group_names, look_around, queues_of_group
from broker_core.processors.why.timer_figures import ended_transactions, timer_figures
from broker_core.verdicts.progress import QueueProgress
from broker_core.walk import Steps

DLQ_QUEUE = 0
SAMPLE, LEAST_SAMPLE, MOST_SAMPLE = 4096, 16, 1024
"""Messages of a topic that are looked at, shared among its queues, and of one queue at least and at most."""

Wanted = frozenset[int] | ConsumerFilterData
"""What a group filters by: tagsCodes, or an SQL92 filter."""


def get_metrics(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetMetrics = request.command
    max_groups = max(0, min(command.max_groups, MAX_METRIC_GROUPS))
    room = max(0, min(command.max_topics, MAX_METRIC_TOPICS))
    is_page = command.after is not None
    is_estimate = command.estimate and context.options.estimate_accumulation
    names = yield from group_names(context, command.after or "")
    seen = yield from look_around(context, names[:max_groups])
    broker = broker_without_problems(condition(context, now))
    groups: list[GroupMetrics] = []
    left_out = 0
    for group in names[:max_groups]:
        topics = seen.topics_of(context, group)
        if is_page and groups and len(topics) > room:
            break
        looked_at = yield from queues_of_group(context, group, topics, seen, now, alone=command.alone)
        judged = yield from judge_live(context, group, looked_at, seen, broker, now, alone=command.alone)
        rows = yield from _topics(context, group, looked_at, room, is_estimate)
        room -= len(rows)
        configs = (context.topics.get(topic) for topic in topics)
        left_out += max(0, sum(config is not None and config.read_queue_nums > 0 for config in configs) - len(rows))
        groups.append(
            GroupMetrics(
                group=group,
                state=judged.state,
                holds=None if context.store.follows else context.holds.count_of_group(group),
                retrying=seen.retrying(context, group),
                dead_letters=dead_letters(context, group),
                dead_lettered=context.store.max_offset(DLQ_PREFIX + group, DLQ_QUEUE),
                topics=rows,
                verdicts=lines_of(judged, sentences=command.sentences),
            )
        )
        yield
    return BrokerMetrics(
        broker=context.options.broker_name,
        cluster=context.options.broker_cluster_name,
        disk_used_percent=context.store.clean.disk_used_percent,
        slaves=context.ha_service.slaves,
        slave_lag_bytes=context.ha_service.largest_lag(context.store.appended_offset),
        slave_timeouts=context.ha_service.timeouts,
        groups=groups,
        groups_left_out=len(names) - len(groups),
        topics_left_out=left_out,
        next=groups[-1].group if is_page and groups and len(groups) < len(names) else None,
        timers=None if is_page else timer_figures(context, now),
        transactions=None if is_page else ended_transactions(context),
    )


def _topics(
    context: Context, group: str, looked_at: QueuesOfGroup, limit: int, is_estimate: bool
) -> Steps[list[TopicMetrics]]:
    """The group's progress in the first ``limit`` topics. A topic of which not all queues were looked at has none."""
    info = context.consumers.get(group)
    is_shared = info is None or info.message_model != "BROADCASTING"
    cut = looked_at.queues[-1].topic if len(looked_at.queues) > MAX_QUEUES else None
    progress = iter(looked_at.progress)
    rows: list[TopicMetrics] = []
    for topic, views in groupby(looked_at.queues, attrgetter("topic")):
        if topic == cut or len(rows) == limit:
            break
        wanted = _wanted(context, group, topic) if is_estimate else None
        queues = list(views)
        of_topic = list(islice(progress, len(queues))) if is_shared else []
        rows.append((yield from _topic(context, group, topic, queues, of_topic, is_shared, wanted)))
        yield
    return rows


class Waits(NamedTuple):
    """What waits for a group in one queue, in messages; None if it is unknown."""

    lag: int | None
    in_flight: int | None
    ready: int | None


def _topic(
    context: Context,
    group: str,
    topic: str,
    queues: Sequence[GroupQueueView],
    progress: Sequence[QueueProgress],
    is_shared: bool,
    wanted: Wanted | None,
) -> Steps[TopicMetrics]:
    """A group's metrics in one topic. Without ``is_shared`` only deliveries are known: the members keep the offsets.

    With ``wanted``, only messages that it matches count.
    """
    item = context.stats.group_get.get((topic, group))
    ages = [one.oldest_ms for one in progress if one.waiting and one.oldest_ms is not None]
    waits = [
        Waits(_lag(queue, one), _in_flight(queue), _ready(queue)) for one, queue in zip(progress, queues, strict=False)
    ]
    is_empty = is_shared and _sum(one.lag for one in waits) == 0
    if wanted is not None and waits:
        sample = min(max(LEAST_SAMPLE, SAMPLE // len(waits)), MOST_SAMPLE)
        for index, queue in enumerate(queues):
            if waits[index].lag:
                waits[index] = _estimate(context, queue, waits[index], wanted, sample)
                yield
    if context.check_points.messages:
        popped = [context.check_points.in_flight(group, topic, queue.queue_id) for queue in queues]
        waits = [_with_popped(one, number) for one, number in zip(waits, popped, strict=False)]
    return TopicMetrics(
        topic=topic,
        is_system=context.topics.is_system(topic),
        lag=_sum(one.lag for one in waits) if is_shared else None,
        oldest_ms=0 if is_empty else max(ages, default=None),
        in_flight=_sum(one.in_flight for one in waits) if is_shared else None,
        ready=_sum(one.ready for one in waits) if is_shared else None,
        unknown_queues=sum(one.lag is None for one in waits) if is_shared else len(queues),
        delivered=None if item is None else item.nums,
    )


def _wanted(context: Context, group: str, topic: str) -> Wanted | None:
    """The tags or the SQL92 filter that the members of a group subscribe to; None if all messages count.

    As in RocketMQ, all messages of a group without members count, and an SQL92 filter is tested by the bitmaps of the
    messages alone: those without a bitmap count.
    """
    info = context.consumers.get(group)
    subscription = info.subscriptions.get(topic) if info is not None else None
    if subscription is None:
        return None
    if subscription.expression_type != TAG:
        data = context.filters.get(topic, group)
        return data if data is not None and data.expression == subscription.sub_string else None
    try:
        message_filter = parse_client_subscription(subscription.sub_string)
    except RequestError:
        return None
    return None if message_filter is None else message_filter.code_set


def _with_popped(waits: Waits, popped: int) -> Waits:
    """Popped messages are in flight until they are acknowledged; the group's offset has passed them already."""
    return Waits(waits.lag, popped, waits.lag) if popped else waits


def _estimate(context: Context, queue: GroupQueueView, waits: Waits, wanted: Wanted, sample: int) -> Waits:
    """What waits for a group in one queue and may match its filter, from a sample. RocketMQ's estimateMessageCount."""
    if waits.lag is None:
        return waits
    first = queue.max_offset - waits.lag
    count = min(sample, waits.lag)
    seen = context.store.reader.sample(queue.topic, queue.queue_id, first, count, wanted)
    lag = _matching(seen, waits.lag)
    if waits.in_flight is None:
        return Waits(lag, None, None if waits.ready is None else min(lag, waits.ready))
    in_flight = _matching(seen, min(waits.in_flight, waits.lag))
    return Waits(lag, in_flight, None if waits.ready is None else max(0, lag - in_flight))


def _matching(seen: Sequence[bool], count: int) -> int:
    """How many of the first ``count`` messages match; by their share in those that were ``seen`` if these are fewer."""
    if count <= len(seen):
        return sum(seen[:count])
    return count * sum(seen) // len(seen) if seen else count


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum of what is known. It is a lower bound if a number is unknown, and None if that bound is 0."""
    total, is_complete = 0, True
    for number in numbers:
        if number is None:
            is_complete = False
        else:
            total += number
    return total if total or is_complete else None


def _lag(queue: GroupQueueView, progress: QueueProgress) -> int | None:
    """RocketMQ's lag: it counts messages that were deleted before the group consumed them, too."""
    return progress.waiting if not progress.waiting or queue.offset is None else queue.max_offset - queue.offset


def _in_flight(queue: GroupQueueView) -> int | None:
    """The messages that were pulled and are not committed."""
    if queue.max_offset <= queue.min_offset or (queue.offset is not None and queue.offset >= queue.max_offset):
        return 0
    if queue.offset is None or queue.pull_offset is None:
        return None
    return max(0, queue.pull_offset - queue.offset)


def _ready(queue: GroupQueueView) -> int | None:
    """The messages that were not pulled yet."""
    if queue.max_offset <= queue.min_offset:
        return 0
    return None if queue.pull_offset is None else max(0, queue.max_offset - queue.pull_offset)
