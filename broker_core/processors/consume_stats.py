"""How far groups have consumed, as RocketMQ's tools ask for it. Part of RocketMQ's AdminBrokerProcessor."""

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

MAX_QUEUES = 20_000
"""Queues that are looked at for one answer."""

BEHIND_EVERYBODY = (1 << 63) - 1

# --- Progress -------------------------------------------------------------------------------------------------------


def get_consume_stats(context: Context, request: Request, now: Now) -> Reply:
    command: GetConsumeStats = request.command
    topics = command.topics or sorted(context.offsets.topics(command.group))
    stats = _topics_of(context, command.group, topics, now)
    return ConsumeStats(consume_tps=sum(one.consume_tps for one in stats),
                        queues=[queue for one in stats for queue in one.queues])


def get_broker_consume_stats(context: Context, request: Request, now: Now) -> Reply:
    command: GetBrokerConsumeStats = request.command
    groups, looked_at = {}, 0
    for config in context.subscription_groups:
        group = config.group_name
        topics = [topic for topic in sorted(context.offsets.topics(group))
                  if not command.is_order or _is_ordered(context.topics.get(topic))]
        groups[group] = _topics_of(context, group, topics, now)
        looked_at += sum(len(stats.queues) for stats in groups[group])
        if looked_at > MAX_QUEUES:
            raise RequestError(f"the groups of this broker have more than {MAX_QUEUES} queues; ask for one group "
                               "(GET_CONSUME_STATS) at a time")
    queues = [queue for one in groups.values() for stats in one for queue in stats.queues]
    return BrokerConsumeStats(
        broker_addr=_broker_addr(context), groups=groups,
        total_diff=sum(queue.broker_offset - queue.consumer_offset for queue in queues),
        total_inflight_diff=sum(queue.pull_offset - queue.consumer_offset for queue in queues))


def _is_ordered(config: TopicConfig | None) -> bool:
    return config is not None and config.order


def _broker_addr(context: Context) -> str:
    return f"{context.options.broker_ip1}:{context.options.listen_port}"


def _topics_of(context: Context, group: str, topics: list[str], now: Now) -> list[ConsumeStats]:
    """Topics that are gone are passed over, and those that nobody in the group subscribes to (any more)."""
    info = context.consumers.get(group)
    subscriptions = info.subscriptions if info else {}
    return [_topic_stats(context, group, config, now) for topic in topics
            if (config := context.topics.get(topic)) is not None and (not subscriptions or topic in subscriptions)]


def _topic_stats(context: Context, group: str, config: TopicConfig, now: Now) -> ConsumeStats:
    topic, store, pulls = config.topic_name, context.store, context.pulls.queues(group)
    queues = []
    for queue_id in range(config.read_queue_nums):
        offset = context.offsets.query(group, topic, queue_id) or 0
        last = pulls.get((topic, queue_id))
        queues.append(OffsetWrapper(
            topic=topic, queue_id=queue_id, broker_offset=store.max_offset(topic, queue_id), consumer_offset=offset,
            pull_offset=max(offset, last.pull_offset) if last else offset,
            last_timestamp=(store.store_time(topic, queue_id, offset - 1) or 0) if offset else 0))
    return ConsumeStats(consume_tps=context.stats.group_get.tps((topic, group), now.mono_ns), queues=queues)


def query_consume_time_span(context: Context, request: Request, now: Now) -> Reply:
    command: QueryConsumeTimeSpan = request.command
    config = context.topics.require(command.topic)
    return ConsumeTimeSpans(topic=command.topic, spans=[
        _time_span(context, command.topic, command.group, queue_id, now)
        for queue_id in range(config.write_queue_nums)])


def _time_span(context: Context, topic: str, group: str, queue_id: int, now: Now) -> QueueTimeSpan:
    """A group without an offset is at the queue's beginning."""
    store = context.store
    low, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    offset = max(low, context.offsets.query(group, topic, queue_id) or 0)

    def stored(number: int) -> int:
        when = store.store_time(topic, queue_id, number)
        return -1 if when is None else when

    oldest, following = stored(low), stored(offset)
    return QueueTimeSpan(
        queue_id=queue_id, min_timestamp=oldest, max_timestamp=stored(end - 1),
        consume_timestamp=stored(offset - 1) if offset > low else oldest,
        delay_time=max(0, now.wall_ms - following) if following >= 0 else 0)


# --- Who consumes what ----------------------------------------------------------------------------------------------


def query_topic_consume_by_who(context: Context, request: Request, now: Now) -> Reply:
    command: QueryTopicConsumeByWho = request.command
    subscribed = {group for group in context.consumers
                  if (info := context.consumers.get(group)) is not None and command.topic in info.subscriptions}
    stored = {group for group in context.offsets.groups() if context.offsets.topics(group).get(command.topic)}
    return GroupNames(groups=sorted(subscribed | stored))


def query_topics_by_consumer(context: Context, request: Request, now: Now) -> Reply:
    command: QueryTopicsByConsumer = request.command
    return TopicNames(broker_addr=_broker_addr(context), topics=sorted(context.offsets.topics(command.group)))


def query_subscription_by_consumer(context: Context, request: Request, now: Now) -> Reply:
    command: QuerySubscriptionByConsumer = request.command
    info = context.consumers.get(command.group)
    return FoundSubscription(group=command.group, topic=command.topic,
                             subscription=info.subscriptions.get(command.topic) if info else None)


# --- Offsets of several groups --------------------------------------------------------------------------------------


def query_correction_offset(context: Context, request: Request, now: Now) -> Reply:
    """Offsets of messages that are gone do not count."""
    command: QueryCorrectionOffset = request.command
    least: dict[int, int] = {}
    for group in context.offsets.groups():
        if group in command.filter_groups:
            continue
        for queue_id, offset in context.offsets.topics(group).get(command.topic, {}).items():
            if offset >= context.store.min_offset(command.topic, queue_id):
                least[queue_id] = min(offset, least.get(queue_id, offset))
    for queue_id, offset in context.offsets.topics(command.compare_group).get(command.topic, {}).items():
        if least.get(queue_id, offset) > offset:
            least[queue_id] = BEHIND_EVERYBODY
    return CorrectionOffsets(offsets=least)


def clone_group_offset(context: Context, request: Request, now: Now) -> Reply:
    """What there is nothing of to be cloned here may be on another broker of the cluster: that is no error."""
    command: CloneGroupOffset = request.command
    validate_group(command.dest_group)
    require_room(context, command.dest_group)
    info = context.consumers.get(command.src_group)
    subscriptions = info.subscriptions if info and not command.offline else {}
    for topic, offsets in list(context.offsets.topics(command.src_group).items()):
        if command.topic not in ("", topic) or context.topics.get(topic) is None or (
                subscriptions and topic not in subscriptions):
            continue
        for queue_id, offset in offsets.items():
            commit_offset(context, command.dest_group, topic, queue_id, offset, "", now)
    return Done()


def get_all_consumer_offset(context: Context, request: Request, now: Now) -> Reply:
    command: GetAllConsumerOffset = request.command
    assert isinstance(command, GetAllConsumerOffset)
    return OffsetTable(table=context.offsets.as_table())
