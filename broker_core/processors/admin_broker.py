"""Topics, queues, the broker itself. RocketMQ's AdminBrokerProcessor."""

from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    BrokerConfig,
    BrokerView,
    DeleteTopic,
    Done,
    FoundOffset,
    GetBrokerConfig,
    GetEarliestMsgStoreTime,
    GetMaxOffset,
    GetMinOffset,
    GetQueues,
    GetTopic,
    GetTopicConfigs,
    GetTopics,
    GetTopicStats,
    Queues,
    QueueView,
    Reply,
    SearchOffset,
    StorePositions,
    StoreTime,
    TopicConfigs,
    Topics,
    TopicStats,
    TopicView,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
    UpdateBrokerConfig,
)
from broker_core.errors import NotFoundError, RequestError
from broker_core.events import ConfigChanged, TopicChanged
from broker_core.formats.pop_check_point import pop_retry_topics
from broker_core.options import DESCRIPTIONS, PYTHON_NAMES, change_options
from broker_core.processors.context import Context, Deletion, Request
from broker_core.processors.group_commit import DeletionCommit
from broker_core.processors.ha.ha_connections import replication
from broker_core.topics import TopicConfig, validate_topic
from broker_core.version import VERSION
from broker_core.walk import Steps, page_limit, pieces_of, queue_of_text


def topic_view(context: Context, config: TopicConfig, now: Now) -> TopicView:
    """A topic as the API shows it; ``messages`` counts those still in its queues."""
    name = config.topic_name
    return TopicView(
        broker=context.options.broker_name,
        topic=name,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        perm=config.perm,
        system=context.topics.is_system(name),
        messages=context.store.message_count(name, config.queue_nums),
        put_tps=context.stats.topic_put.tps(name, now.mono_ns),
    )


def get_topics(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetTopics = request.command
    seq = context.events.seq
    views: list[TopicView] = []
    for name in context.topics.names(command.after):
        config = context.topics.get(name)
        if config is None or name == command.after or (context.topics.is_system(name) and not command.system):
            continue
        if command.limit and len(views) == command.limit:
            return Topics(seq=seq, topics=views, next=views[-1].topic)
        views.append(topic_view(context, config, now))
        yield
    return Topics(seq=seq, topics=views)


def get_topic(context: Context, request: Request, now: Now) -> Reply:
    command: GetTopic = request.command
    return Topics(seq=context.events.seq, topics=[topic_view(context, context.topics.require(command.topic), now)])


def update_and_create_topic(context: Context, request: Request, now: Now) -> Reply:
    command: UpdateAndCreateTopic = request.command
    context.require_writable()
    new = _changed(context, command)
    _put(context, new, now)
    return Topics(seq=context.events.seq, topics=[topic_view(context, new, now)])


def update_and_create_topic_list(context: Context, request: Request, now: Now) -> Reply:
    """All topics are checked before any is changed."""
    command: UpdateAndCreateTopicList = request.command
    context.require_writable()
    wanted = {topic.topic: _changed(context, topic) for topic in command.topics}
    context.topics.require_room(sum(context.topics.get(topic) is None for topic in wanted))
    for new in wanted.values():
        _put(context, new, now)
    return Done()


def _changed(context: Context, command: UpdateAndCreateTopic) -> TopicConfig:
    return context.topics.changed_config(
        command.topic,
        command.read_queues,
        command.write_queues,
        command.perm,
        order=command.order,
        filter_type=command.filter_type,
        sys_flag=command.sys_flag,
        attributes=command.attributes,
    )


def _put(context: Context, new: TopicConfig, now: Now) -> None:
    old = context.topics.get(new.topic_name)
    context.topics.put(new, now)
    if new != old:
        context.events.emit(
            TopicChanged,
            now,
            new.topic_name,
            "updated" if old else "created",
            new.read_queue_nums,
            new.write_queue_nums,
            new.perm,
        )


def get_topic_configs(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetTopicConfigs = request.command
    version = context.topics.data_version
    wanted = [context.topics.require(command.topic)] if command.topic else list(context.topics)
    configs: dict[str, dict[str, Any]] = {}
    for piece in pieces_of(wanted):
        configs |= {config.topic_name: msgspec.to_builtins(config) for config in piece}
        yield
    return TopicConfigs(data_version=version, configs=configs)


def get_topic_stats(context: Context, request: Request, now: Now) -> Reply:
    command: GetTopicStats = request.command
    config = context.topics.require(command.topic)
    return TopicStats(
        queues=[context.queue_view(command.topic, queue_id) for queue_id in range(config.queue_nums)],
        put_tps=context.stats.topic_put.tps(command.topic, now.mono_ns),
    )


def delete_topic(context: Context, request: Request, now: Now) -> Reply | None:
    """Delete a topic at once. ``DeletionCommit`` answers when no kill of the broker can bring it back."""
    command: DeleteTopic = request.command
    context.require_writable()
    if context.topics.get(validate_topic(command.topic)) is None:
        if command.missing_ok:
            return Done()
        raise NotFoundError(
            f"topic {command.topic} does not exist on this broker, so it cannot be deleted; check its name",
            code=ResponseCode.TOPIC_NOT_EXIST,
            pointer="/topic",
        )
    remove_topic(context, command.topic, now)
    deadline_ns = now.mono_ns + context.options.sync_flush_timeout * 1_000_000
    context.deletions.append(Deletion(request.connection, request.request_id, deadline_ns, set(DeletionCommit.LEFT)))
    return None


def remove_topic(context: Context, topic: str, now: Now) -> None:
    """Remove a topic and its queues in memory. NotFoundError if there is none, RequestError for a system topic."""
    config = context.topics.require(topic)
    context.topics.delete(topic, now)
    for name in [name for group in context.offsets.groups_of(topic) for name in pop_retry_topics(topic, group)]:
        if context.topics.get(name) is not None:
            remove_topic(context, name, now)
    context.stats.forget_topic(topic)
    context.counters.wakeups.forget_topic(topic)
    context.store.timers.counts.enqueued.forget(topic)
    context.store.timers.counts.dequeued.forget(topic)
    context.offsets.remove_topic(topic)
    context.check_points.remove_topic(topic)
    context.order_infos.remove_where(lambda of_topic, _: of_topic == topic)
    context.request_modes.remove_topic(topic)
    context.store.delete_topic(topic)
    context.round_robin.pop(topic, None)
    context.events.emit(
        TopicChanged, now, topic, "deleted", config.read_queue_nums, config.write_queue_nums, config.perm
    )
    context.holds.leave_topic(topic)


def get_queues(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetQueues = request.command
    limit = page_limit(command.limit)
    after, after_id = queue_of_text(command.after)
    names = [context.topics.require(command.topic).topic_name] if command.topic else context.topics.names(after)
    seq = context.events.seq
    views: list[QueueView] = []
    for name in names:
        config = context.topics.get(name)
        first = after_id + 1 if name == after else 0
        for queue_ids in pieces_of(range(first, config.queue_nums if config is not None else 0)):
            room = limit - len(views)
            views += [context.queue_view(name, queue_id) for queue_id in queue_ids[:room]]
            if len(queue_ids) > room:
                return Queues(seq=seq, queues=views, next=f"{views[-1].topic}@{views[-1].queue_id}")
            yield
    return Queues(seq=seq, queues=views)


def _require_queue(context: Context, name: str, queue_id: int) -> None:
    topic = context.topics.require(name)
    if not 0 <= queue_id < topic.queue_nums:
        raise RequestError(f"topic {name} has no queue {queue_id}", pointer="/queue_id")


def get_max_offset(context: Context, request: Request, now: Now) -> Reply:
    """0 for a queue that does not exist, as in RocketMQ: clients ask before the first message is sent."""
    command: GetMaxOffset = request.command
    validate_topic(command.topic)
    context.require_complete_queues()
    return FoundOffset(offset=context.store.max_offset(command.topic, command.queue_id))


def get_min_offset(context: Context, request: Request, now: Now) -> Reply:
    command: GetMinOffset = request.command
    _require_queue(context, command.topic, command.queue_id)
    context.require_complete_queues()
    return FoundOffset(offset=context.store.min_offset(command.topic, command.queue_id))


def get_earliest_msg_store_time(context: Context, request: Request, now: Now) -> Reply:
    command: GetEarliestMsgStoreTime = request.command
    _require_queue(context, command.topic, command.queue_id)
    store, topic, queue_id = context.store, command.topic, command.queue_id
    stored = store.store_time(topic, queue_id, store.min_offset(topic, queue_id))
    return StoreTime(timestamp_ms=-1 if stored is None else stored)


def search_offset(context: Context, request: Request, now: Now) -> Reply:
    command: SearchOffset = request.command
    _require_queue(context, command.topic, command.queue_id)
    context.require_complete_queues()
    return FoundOffset(
        offset=context.store.offset_by_time(command.topic, command.queue_id, command.timestamp_ms, command.boundary)
    )


def positions(context: Context) -> StorePositions:
    store = context.store
    return StorePositions(
        min=store.min_physical_offset,
        appended=store.appended_offset,
        flushed=store.flushed_offset,
        dispatched=store.dispatched_offset,
    )


def get_broker(context: Context, request: Request, now: Now) -> Reply:
    options, store = context.options, context.store
    return BrokerView(
        broker=options.broker_name,
        epoch=context.epoch,
        seq=context.events.seq,
        role="SLAVE" if store.follows else "MASTER",
        version=VERSION,
        started_at_ms=context.started.wall_ms,
        uptime_ms=(now.mono_ns - context.started.mono_ns) // 1_000_000,
        read_only=store.read_only,
        problem=context.problem(),
        positions=positions(context),
        config=_config(context),
        changeable=[name for name, entry in DESCRIPTIONS.items() if entry["changeable"]],
        recovery=list(store.recovery),
        store_path=str(store.root),
        replication=replication(context),
    )


def update_broker_config(context: Context, request: Request, now: Now) -> Reply:
    """Change options. If long polling is switched on or off, holds with messages to read are answered."""
    command: UpdateBrokerConfig = request.command
    if not command.changes:
        raise RequestError("no option to change")
    old = context.options
    new = change_options(old, command.changes)
    context.change_options(new, now)
    for name in command.changes:
        old_value, new_value = getattr(old, PYTHON_NAMES[name]), getattr(new, PYTHON_NAMES[name])
        if old_value != new_value:
            context.events.emit(ConfigChanged, now, name, new_value, old_value)
    if new.long_polling_enable != old.long_polling_enable:
        context.holds.start_check(afresh=True)
    return get_broker(context, request, now)


def get_broker_config(context: Context, request: Request, now: Now) -> Reply:
    command: GetBrokerConfig = request.command
    assert isinstance(command, GetBrokerConfig)
    return BrokerConfig(config=_config(context), data_version=context.config_version)


def _config(context: Context) -> dict[str, Any]:
    return {name: getattr(context.options, python) for name, python in PYTHON_NAMES.items()}
