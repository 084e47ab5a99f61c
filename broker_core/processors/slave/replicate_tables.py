"""The tables of the followed broker: topics, groups, offsets, and its clients. RocketMQ's SlaveSynchronize."""

from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.commands import Done, ReplicatedOffsets, ReplicateMember, ReplicatePulls, ReplicateTables, Reply
from broker_core.commands.clients import HeartBeat
from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.consumers.subscription_group_manager import is_system_group
from broker_core.errors import RequestError
from broker_core.events import OffsetCommitted, SubscriptionGroupChanged, TopicChanged
from broker_core.processors import client_manage
from broker_core.processors.admin_broker import remove_topic
from broker_core.processors.consumer_manage import group_queue_offset
from broker_core.processors.context import Context, Request
from broker_core.processors.slave.following import store_of
from broker_core.topics import MAX_QUEUES, TopicConfig

REMOVED_A_ROUND = 20
"""Topics, and groups, that are removed in one turn; the rest waits for the next round."""


def replicate_tables(context: Context, request: Request, now: Now) -> Reply:
    """RequestError for entries that are not RocketMQ's; the entries before them are taken."""
    command: ReplicateTables = request.command
    following = context.following
    if command.begin_topics:
        following.topics = set()
    for entry in command.topics:
        following.topics.add(_replicate_topic(context, entry, now))
    if command.end_topics:
        _remove_missing_topics(context, now)
    if command.begin_groups:
        following.groups = set()
    for entry in command.groups:
        following.groups.add(_replicate_group(context, entry, now))
    if command.end_groups:
        _remove_missing_groups(context, now)
    for offsets in command.offsets:
        _replicate_offsets(context, offsets, now)
    for ends in command.ends:
        store_of(context).set_ends(ends.topic, ends.offsets)
    if command.delay_offsets:
        context.store.delayed.replicate(command.delay_offsets)
    return Done()


def _replicate_topic(context: Context, entry: dict[str, Any], now: Now) -> str:
    try:
        config = msgspec.convert(entry, TopicConfig, strict=False)
    except msgspec.ValidationError as error:
        raise RequestError(f"the followed broker's topic cannot be read: {error}") from error
    if not 0 <= config.queue_nums <= MAX_QUEUES:
        raise RequestError(f"topic {config.topic_name} of the followed broker has {config.queue_nums} queues")
    old = context.topics.get(config.topic_name)
    context.topics.put(config, now)
    if config != old and not _is_first_round(context):
        context.events.emit(
            TopicChanged,
            now,
            config.topic_name,
            "updated" if old else "created",
            config.read_queue_nums,
            config.write_queue_nums,
            config.perm,
        )
    return config.topic_name


def _is_first_round(context: Context) -> bool:
    """Whether the tables have not been complete yet, so that what is new here is not new at the followed broker."""
    return context.following.report.tables_ms is None


def _remove_missing_topics(context: Context, now: Now) -> None:
    """Remove topics that two rounds did not contain: one of them may be older than a message of a new topic."""
    following, topics = context.following, context.topics
    missing = {name for name in topics.names() if name not in following.topics and not topics.is_system(name)}
    for name in sorted(missing & following.missing_topics)[:REMOVED_A_ROUND]:
        remove_topic(context, name, now)
        store_of(context).set_ends(name, {})
    following.missing_topics = missing


def _replicate_group(context: Context, entry: dict[str, Any], now: Now) -> str:
    groups = context.subscription_groups
    version = groups.data_version
    is_known = str(entry.get("groupName")) in groups
    name = groups.replicate(entry, now).group_name
    if groups.data_version != version and not _is_first_round(context):
        context.events.keep(SubscriptionGroupChanged, now, name, "updated" if is_known else "created")
    return name


def _remove_missing_groups(context: Context, now: Now) -> None:
    following, groups = context.following, context.subscription_groups
    names = (config.group_name for config in groups)
    missing = {name for name in names if name not in following.groups and not is_system_group(name)}
    for name in sorted(missing & following.missing_groups)[:REMOVED_A_ROUND]:
        if groups.delete(name, now):
            context.stats.forget_group(name)
            context.counters.wakeups.forget_group(name)
            context.events.keep(SubscriptionGroupChanged, now, name, "deleted")
        context.offsets.remove_group(name)
        context.pulls.remove_group(name)
    following.missing_groups = missing


def _replicate_offsets(context: Context, entry: ReplicatedOffsets, now: Now) -> None:
    """Note changed offsets like commits of the group's members, which are not known."""
    group, topic = entry.group, entry.topic
    for queue_id, offset in entry.offsets.items():
        previous = context.offsets.commit(group, topic, queue_id, offset)
        if previous == offset:
            continue
        context.counters.offsets_committed += 1
        end = context.store.max_offset(topic, queue_id)
        if previous is not None and offset > previous:
            context.stats.group_get.add(((topic, group), offset - previous, 0, now.mono_ns))
            context.pulls.moved(group, topic, queue_id, offset, end, now.mono_ns)
        context.events.emit(
            OffsetCommitted, now, group, topic, queue_id, offset, -1 if previous is None else previous, "", end
        )


def replicate_pulls(context: Context, request: Request, now: Now) -> Reply:
    """Note which members have which messages. A message was handed to its client after it was stored."""
    command: ReplicatePulls = request.command
    for pull in command.pulls:
        if context.topics.get(pull.topic) is None:
            continue
        at = group_queue_offset(context, pull.topic, pull.queue_id, pull.pull_offset - pull.handed, now)
        context.pulls.replicate(
            command.group,
            pull.topic,
            pull.queue_id,
            pull.client_id,
            pull.pull_offset,
            pull.handed,
            now.mono_ns,
            pull.handed_ms_ago if at.lag_ms is None else min(pull.handed_ms_ago, at.lag_ms),
            pull.polled_ms_ago,
        )
    return Done()


def replicate_member(context: Context, request: Request, now: Now) -> Reply:
    """A client of the followed broker becomes a member here as well. It gets no notices, as it is not connected."""
    command: ReplicateMember = request.command
    if request.connection not in context.clients:
        context.clients[request.connection] = ClientChannelInfo(
            request.connection, next(context.connection_numbers), "", "remoting", command.remote, connected_at_ms=None
        )
    beat = HeartBeat(
        client_id=command.client_id,
        protocol="remoting",
        language=command.language,
        version=command.version,
        consumers=[command.consumer],
    )
    client_manage.heart_beat(context, msgspec.structs.replace(request, command=beat), now)
    return Done()
