"""Consume progress of groups for RocketMQ's tools. Part of RocketMQ's AdminBrokerProcessor."""

from collections.abc import Iterable
from itertools import chain

from broker_core.clock import Now
from broker_core.commands import (
    BrokerConsumeStats,
    CloneGroupOffset,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    Done,
    FoundSubscription,
    GetAllConsumerOffset,
    GetBrokerConsumeStats,
    GetConsumeStats,
    GroupNames,
    OffsetTable,
    OffsetWrapper,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
    QueueTimeSpan,
    Reply,
    TopicNames,
)
from broker_core.errors import RequestError
from broker_core.processors.consumer_manage import commit_offset, require_room
from broker_core.processors.context import Context, Request
from broker_core.topics import TopicConfig, validate_group
from broker_core.walk import Steps, pieces_of, sort_names

MAX_QUEUES = 10_000
"""Queues looked at for one answer."""

MAX_OFFSETS = 100_000
"""Offsets copied for one answer."""

LOOKED_AT = 500
"""Groups of a piece that are only looked at."""

TIMED = 50
"""Queues of a piece whose messages' times are read."""

BEHIND_EVERYBODY = (1 << 63) - 1

# --- Progress -------------------------------------------------------------------------------------------------------


def get_consume_stats(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetConsumeStats = request.command
    topics = _topics_of(context, command.group, command.topics or context.offsets.topics(command.group))
    _require_few(topics)
    stats = yield from _stats_of(context, command.group, topics, now)
    return ConsumeStats(
        consume_tps=sum((one.consume_tps for one in stats), 0.0),
        queues=[queue for one in stats for queue in one.queues],
    )


def get_broker_consume_stats(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetBrokerConsumeStats = request.command
    topics: dict[str, list[TopicConfig]] = {}
    for group in [config.group_name for config in context.subscription_groups]:
        topics[group] = [
            config
            for config in _topics_of(context, group, context.offsets.topics(group))
            if config.order or not command.is_order
        ]
        yield
    _require_few(chain.from_iterable(topics.values()))
    groups = {}
    for group, wanted in topics.items():
        groups[group] = yield from _stats_of(context, group, wanted, now)
    queues = [queue for one in groups.values() for stats in one for queue in stats.queues]
    return BrokerConsumeStats(
        broker_addr=_broker_addr(context),
        groups=groups,
        total_diff=sum(queue.broker_offset - queue.consumer_offset for queue in queues),
        total_inflight_diff=sum(queue.pull_offset - queue.consumer_offset for queue in queues),
    )


def _broker_addr(context: Context) -> str:
    return f"{context.options.broker_ip1}:{context.options.listen_port}"


def _topics_of(context: Context, group: str, topics: Iterable[str]) -> list[TopicConfig]:
    """Deleted topics and topics without a subscriber in the group are left out."""
    info = context.consumers.get(group)
    subscriptions = info.subscriptions if info else {}
    return [
        config
        for topic in sorted(set(topics))
        if (config := context.topics.get(topic)) is not None and (not subscriptions or topic in subscriptions)
    ]


def _require_few(topics: Iterable[TopicConfig]) -> None:
    if sum(config.read_queue_nums for config in topics) > MAX_QUEUES:
        raise RequestError(
            f"the answer would have more than {MAX_QUEUES} queues; ask for one group, or one topic of it, at a time "
            "(GET_CONSUME_STATS)"
        )


def _stats_of(context: Context, group: str, topics: Iterable[TopicConfig], now: Now) -> Steps[list[ConsumeStats]]:
    stats = []
    for config in topics:
        stats.append(_topic_stats(context, group, config, now))
        yield
    return stats


def _topic_stats(context: Context, group: str, config: TopicConfig, now: Now) -> ConsumeStats:
    topic, store, pulls = config.topic_name, context.store, context.pulls.topics(group).get(config.topic_name, {})
    queues = []
    for queue_id in range(config.read_queue_nums):
        offset, end = context.offsets.query(group, topic, queue_id) or 0, store.max_offset(topic, queue_id)
        last = pulls.get(queue_id)
        queues.append(
            OffsetWrapper(
                topic=topic,
                queue_id=queue_id,
                broker_offset=end,
                consumer_offset=offset,
                pull_offset=max(offset, min(last.pull_offset, end)) if last else offset,
                last_timestamp=(store.store_time(topic, queue_id, offset - 1) or 0) if offset else 0,
            )
        )
    return ConsumeStats(consume_tps=context.stats.group_get.tps((topic, group), now.mono_ns), queues=queues)


def query_consume_time_span(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: QueryConsumeTimeSpan = request.command
    config = context.topics.require(command.topic)
    spans: list[QueueTimeSpan] = []
    for piece in pieces_of(range(config.write_queue_nums), TIMED):
        spans += [_time_span(context, command.topic, command.group, queue_id, now) for queue_id in piece]
        yield
    return ConsumeTimeSpans(topic=command.topic, spans=spans)


def _time_span(context: Context, topic: str, group: str, queue_id: int, now: Now) -> QueueTimeSpan:
    """A group without an offset counts as being at the beginning of the queue."""
    store = context.store
    low, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    offset = max(low, context.offsets.query(group, topic, queue_id) or 0)

    def stored(number: int) -> int:
        when = store.store_time(topic, queue_id, number)
        return -1 if when is None else when

    oldest, following = stored(low), stored(offset)
    return QueueTimeSpan(
        queue_id=queue_id,
        min_timestamp=oldest,
        max_timestamp=stored(end - 1),
        consume_timestamp=stored(offset - 1) if offset > low else oldest,
        delay_time=max(0, now.wall_ms - following) if following >= 0 else 0,
    )


# --- Who consumes what ----------------------------------------------------------------------------------------------


def query_topic_consume_by_who(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: QueryTopicConsumeByWho = request.command
    found = []
    for groups in pieces_of([*context.consumers], LOOKED_AT):
        for group in groups:
            info = context.consumers.get(group)
            if info and command.topic in info.subscriptions:
                found.append(group)
        yield
    for groups in pieces_of(context.offsets.groups_of(command.topic), LOOKED_AT):
        found += [group for group in groups if context.offsets.topics(group).get(command.topic)]
        yield
    return GroupNames(groups=(yield from sort_names(found)))


def query_topics_by_consumer(context: Context, request: Request, now: Now) -> Reply:
    command: QueryTopicsByConsumer = request.command
    return TopicNames(broker_addr=_broker_addr(context), topics=sorted(context.offsets.topics(command.group)))


def query_subscription_by_consumer(context: Context, request: Request, now: Now) -> Reply:
    command: QuerySubscriptionByConsumer = request.command
    info = context.consumers.get(command.group)
    return FoundSubscription(
        group=command.group, topic=command.topic, subscription=info.subscriptions.get(command.topic) if info else None
    )


# --- Offsets of several groups --------------------------------------------------------------------------------------


def query_correction_offset(context: Context, request: Request, now: Now) -> Steps[Reply]:
    """Offsets of deleted messages do not count."""
    command: QueryCorrectionOffset = request.command
    least: dict[int, int] = {}
    filtered = frozenset(command.filter_groups)
    for group in context.offsets.groups_of(command.topic):
        if group in filtered:
            continue
        for queue_id, offset in context.offsets.topics(group).get(command.topic, {}).items():
            if offset >= context.store.min_offset(command.topic, queue_id):
                least[queue_id] = min(offset, least.get(queue_id, offset))
        yield
    for queue_id, offset in context.offsets.topics(command.compare_group).get(command.topic, {}).items():
        if least.get(queue_id, offset) > offset:
            least[queue_id] = BEHIND_EVERYBODY
    return CorrectionOffsets(offsets=least)


def clone_group_offset(context: Context, request: Request, now: Now) -> Reply:
    """A group without offsets here is no error: they may be on another broker of the cluster."""
    command: CloneGroupOffset = request.command
    validate_group(command.dest_group)
    require_room(context, command.dest_group)
    info = context.consumers.get(command.src_group)
    subscriptions = info.subscriptions if info and not command.offline else {}
    wanted = {
        topic: dict(offsets)
        for topic, offsets in context.offsets.topics(command.src_group).items()
        if command.topic in ("", topic)
        and context.topics.get(topic) is not None
        and (not subscriptions or topic in subscriptions)
    }
    if sum(map(len, wanted.values())) > MAX_QUEUES:
        raise RequestError(f"the group has offsets in more than {MAX_QUEUES} queues; clone them topic by topic")
    for topic, offsets in wanted.items():
        for queue_id, offset in offsets.items():
            commit_offset(context, command.dest_group, topic, queue_id, offset, "", now)
    return Done()


def get_all_consumer_offset(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetAllConsumerOffset = request.command
    assert isinstance(command, GetAllConsumerOffset)
    steps, copied = context.offsets.copy_table(), 0
    while True:
        try:
            copied += next(steps)
        except StopIteration as end:
            version = {"counter": context.counters.offsets_committed, "stateVersion": 0, "timestamp": now.wall_ms}
            return OffsetTable(table=end.value | {"dataVersion": version, "groupTopicMap": {}})
        if copied > MAX_OFFSETS:
            raise RequestError(
                f"this broker keeps more than {MAX_OFFSETS} offsets; ask for one group at a time (GET_CONSUME_STATS)"
            )
        yield
