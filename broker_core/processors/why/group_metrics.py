"""The progress of many groups by topic, for a monitoring system that asks again and again.

The work and the answer are bounded: what is beyond the limits is counted and not looked at.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

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
from broker_core.processors.context import Context, Request
from broker_core.processors.group_view import dead_letters
from broker_core.processors.retry_message import DLQ_PREFIX
from broker_core.processors.why.live_state import MAX_QUEUES, group_names, live_state, look_around
from broker_core.verdicts.progress import queue_progress
from broker_core.walk import Steps

DLQ_QUEUE = 0


def get_metrics(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetMetrics = request.command
    max_groups = max(0, min(command.max_groups, MAX_METRIC_GROUPS))
    room = max(0, min(command.max_topics, MAX_METRIC_TOPICS))
    is_page = command.after is not None
    names = yield from group_names(context, command.after or "")
    seen = yield from look_around(context, names[:max_groups])
    groups: list[GroupMetrics] = []
    left_out = 0
    for group in names[:max_groups]:
        topics = seen.topics_of(context, group)
        if is_page and groups and len(topics) > room:
            break
        live = yield from live_state(context, group, topics, seen, now)
        rows = yield from _topics(context, group, live.queues, room)
        room -= len(rows)
        configs = (context.topics.get(topic) for topic in topics)
        left_out += max(0, sum(config is not None and config.read_queue_nums > 0 for config in configs) - len(rows))
        groups.append(
            GroupMetrics(
                group=group,
                state=live.state,
                holds=None if context.store.follows else context.holds.count_of_group(group),
                retrying=seen.retrying(context, group),
                dead_letters=dead_letters(context, group),
                dead_lettered=context.store.max_offset(DLQ_PREFIX + group, DLQ_QUEUE),
                topics=rows,
            )
        )
        yield
    return BrokerMetrics(
        broker=context.options.broker_name,
        cluster=context.options.broker_cluster_name,
        disk_used_percent=context.store.clean.disk_used_percent,
        slaves=len(context.ha_service),
        slave_lag_bytes=context.ha_service.largest_lag(context.store.appended_offset),
        slave_timeouts=context.ha_service.timeouts,
        groups=groups,
        groups_left_out=len(names) - len(groups),
        topics_left_out=left_out,
        next=groups[-1].group if is_page and groups and len(groups) < len(names) else None,
    )


def _topics(context: Context, group: str, queues: list[GroupQueueView], limit: int) -> Steps[list[TopicMetrics]]:
    """The group's progress in the first ``limit`` topics. A topic of which not all queues were looked at has none."""
    info = context.consumers.get(group)
    is_shared = info is None or info.message_model != "BROADCASTING"
    cut = queues[-1].topic if len(queues) > MAX_QUEUES else None
    rows: list[TopicMetrics] = []
    for topic, views in groupby(queues, attrgetter("topic")):
        if topic == cut or len(rows) == limit:
            break
        rows.append(_topic(context, group, topic, list(views), is_shared))
        yield
    return rows


def _topic(context: Context, group: str, topic: str, queues: Sequence[GroupQueueView], is_shared: bool) -> TopicMetrics:
    """A group's metrics in one topic. Without ``is_shared`` only deliveries are known: the members keep the offsets."""
    item = context.stats.group_get.get((topic, group))
    progress = [queue_progress(queue) for queue in queues] if is_shared else []
    lag = _sum(one.waiting for one in progress) if is_shared else None
    ages = [one.oldest_ms for one in progress if one.waiting and one.oldest_ms is not None]
    return TopicMetrics(
        topic=topic,
        is_system=context.topics.is_system(topic),
        lag=lag,
        oldest_ms=0 if lag == 0 else max(ages, default=None),
        in_flight=_sum(map(_in_flight, queues)) if is_shared else None,
        ready=_sum(map(_ready, queues)) if is_shared else None,
        unknown_queues=sum(one.waiting is None for one in progress) if is_shared else len(queues),
        delivered=None if item is None else item.nums,
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """The sum of what is known. It is a lower bound if a number is unknown, and None if that bound is 0."""
    total, is_complete = 0, True
    for number in numbers:
        if number is None:
            is_complete = False
        else:
            total += number
    return total if total or is_complete else None


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
