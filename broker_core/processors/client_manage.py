"""Clients connect, send heartbeats and leave. RocketMQ's ClientManageProcessor and ClientHousekeepingService.

A client is a member of a group from its heartbeat until it unregisters, its connection closes, or no heartbeat arrived
for 120 s. The other members are notified each time. Expiry does not close its connection: the server decides that by
the connection's traffic.
"""

from broker_core.clock import Now
from broker_core.commands import (
    CheckClientConfig,
    CloseConnection,
    ConsumerData,
    Done,
    HeartBeat,
    HeartBeatDone,
    OpenConnection,
    Reply,
    UnregisterClient,
)
from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.consumers.consumer_manager import Registration
from broker_core.consumers.subscription_group_manager import SubscriptionGroupConfig, retry_topic
from broker_core.errors import ConflictError, NotFoundError, RequestError
from broker_core.events import (
    ClientConnected,
    ClientIdentified,
    ClientLost,
    GroupMemberJoined,
    GroupMemberLeft,
    LeaveCause,
    QueueUnlocked,
    SubscriptionChanged,
    TopicChanged,
)
from broker_core.filters.filter_factory import make_client_filter
from broker_core.filters.tags import MAX_EXPRESSION_LENGTH
from broker_core.formats.commit_log_record import TOPIC_LENGTH_MAX
from broker_core.processors.consumer_ids_changed import consumer_ids_changed, retry_topic_created
from broker_core.processors.context import Context, Request, Waking
from broker_core.processors.outcome import failed
from broker_core.processors.pull_message import release
from broker_core.processors.subscription_group import find_or_create_group
from broker_core.topics import MAX_QUEUES, PERM_READ, PERM_WRITE, not_exist, validate_group

MAX_CLIENT_ID_LENGTH = 255
MAX_GROUPS_OF_A_CLIENT = 1024
MAX_TOPICS_OF_A_GROUP = 1024
MAX_TOPICS_OF_A_CLIENT = 10_000
"""In all its groups: a heartbeat is handled in one turn."""


def open_connection(context: Context, request: Request, now: Now) -> Reply:
    command: OpenConnection = request.command
    if request.connection in context.clients:
        raise ConflictError("this connection is open already")
    context.clients[request.connection] = ClientChannelInfo(
        request.connection,
        next(context.connection_numbers),
        command.client_id,
        command.protocol,
        command.remote,
        now.wall_ms,
    )
    context.events.keep(ClientConnected, now, command.client_id, command.protocol, command.remote)
    return Done()


def close_connection(context: Context, request: Request, now: Now) -> Reply:
    """The client is gone: have its holds released without an answer, and remove it from its groups."""
    assert isinstance(request.command, CloseConnection)
    holds = context.holds.leave_connection(request.connection)
    client = context.clients.pop(request.connection, None)
    if client is not None:
        context.producers.leave_all(client)
        for group in context.consumers.leave_all(client):
            _report_member_left(context, group, client.client_id, "channel_closed", now)
        if client.connected_at_ms is not None:
            context.events.keep(ClientLost, now, client.client_id, client.protocol, client.remote, holds)
    return Done()


def release_leaving(context: Context, now: Now, limit: int) -> None:
    """Release up to ``limit`` holds: those of closed connections without an answer, those of deleted topics with an
    error. When the broker stops, run the pulls again."""
    for held, cause in context.holds.take_leaving(limit):
        if cause == "shutdown":
            context.waking.append(Waking(held, cause))
            continue
        release(context, held, cause, now, failed(not_exist(held.many.topic)) if cause == "cancelled" else None)


# --- Heartbeats -----------------------------------------------------------------------------------------------------


def heart_beat(context: Context, request: Request, now: Now) -> Reply:
    command: HeartBeat = request.command
    client = context.clients.get(request.connection)
    if client is None:
        raise ConflictError("the connection of this heartbeat is not open")
    _check(client, command)
    # A client that there is no room for in one more group stays in its groups.
    context.producers.renew(command.producer_groups, client, now.mono_ns)
    context.consumers.memberships.renew([data.group for data in command.consumers], client, now.mono_ns)
    _require_room(context, command)
    _identify(context, client, command, now)
    for group in command.producer_groups:
        context.producers.register(group, client, now.mono_ns)
    changed = False
    for data in command.consumers:
        try:
            config = find_or_create_group(context, data.group, now)
        except NotFoundError:
            continue  # the answers to its pulls say so
        changed |= _register(context, client, data, config, command.without_sub, now)
    return HeartBeatDone(sub_changed=changed)


def _check(client: ClientChannelInfo, command: HeartBeat) -> None:
    """RequestError for a heartbeat that is refused as a whole. Nothing has been changed by then."""
    if not 0 < len(command.client_id) <= MAX_CLIENT_ID_LENGTH:
        raise RequestError(f"a client id has 1 to {MAX_CLIENT_ID_LENGTH} characters", pointer="/client_id")
    if client.client_id not in ("", command.client_id):
        raise ConflictError(
            f"this connection belongs to client {client.client_id}; open another one for another client",
            pointer="/client_id",
        )
    if len(command.consumers) > MAX_GROUPS_OF_A_CLIENT or len(command.producer_groups) > MAX_GROUPS_OF_A_CLIENT:
        raise RequestError(f"a client is in at most {MAX_GROUPS_OF_A_CLIENT} groups of each kind")
    for group in command.producer_groups:
        if not 0 < len(group) <= MAX_CLIENT_ID_LENGTH:
            raise RequestError(f"a producer group has 1 to {MAX_CLIENT_ID_LENGTH} characters")
    if sum(len(data.subscriptions) for data in command.consumers) > MAX_TOPICS_OF_A_CLIENT:
        raise RequestError(f"a client subscribes to at most {MAX_TOPICS_OF_A_CLIENT} topics in all its groups")
    for data in command.consumers:
        _check_group(data)


def _check_group(data: ConsumerData) -> None:
    validate_group(data.group)
    if len(data.subscriptions) > MAX_TOPICS_OF_A_GROUP:
        raise RequestError(f"group {data.group} subscribes to more than {MAX_TOPICS_OF_A_GROUP} topics")
    for subscription in data.subscriptions:
        if not 0 < len(subscription.topic) <= TOPIC_LENGTH_MAX:
            raise RequestError(
                f"a topic has 1 to {TOPIC_LENGTH_MAX} characters; group {data.group} subscribes to one "
                f"with {len(subscription.topic)}"
            )
        if len(subscription.sub_string) > MAX_EXPRESSION_LENGTH:
            raise RequestError(
                f"group {data.group}'s filter for {subscription.topic} has more than {MAX_EXPRESSION_LENGTH} characters"
            )


def _require_room(context: Context, command: HeartBeat) -> None:
    """RequestError or UnavailableError if there is no room for everything in a heartbeat. Nothing is changed."""
    groups = context.subscription_groups
    served = [data for data in command.consumers if data.group in groups or groups.may_create(data.group)]
    groups.require_room(len({data.group for data in served if data.group not in groups}))
    context.topics.require_room(len({data.group for data in served if _lacks_retry_topic(context, data)}))
    context.producers.require_room(command.producer_groups, command.client_id)
    context.consumers.require_room(command.client_id, served, without_sub=command.without_sub)


def _lacks_retry_topic(context: Context, data: ConsumerData) -> bool:
    """Whether the group needs a retry topic and has none. A group created now has RocketMQ's defaults."""
    config = context.subscription_groups.get(data.group)
    return (
        data.message_model == "CLUSTERING"
        and not (context.store.read_only or context.store.follows)
        and (config is None or config.retry_queue_nums > 0)
        and context.topics.get(retry_topic(data.group)) is None
    )


def _identify(context: Context, client: ClientChannelInfo, command: HeartBeat, now: Now) -> None:
    client.protocol, client.language, client.version = command.protocol, command.language, command.version
    follows = context.store.follows  # then nobody knows when the client connected or sent its heartbeats
    client.client_id = command.client_id
    if client.last_heartbeat_ms is None and not follows:
        context.events.keep(
            ClientIdentified, now, client.client_id, client.protocol, client.remote, client.language, client.version
        )
    client.last_heartbeat_ms = None if follows else now.wall_ms


def _register(
    context: Context,
    client: ClientChannelInfo,
    data: ConsumerData,
    config: SubscriptionGroupConfig,
    without_sub: bool,
    now: Now,
) -> bool:
    """Register one group of a heartbeat. Returns whether the group's members or topics changed."""
    if _lacks_retry_topic(context, data):
        _create_retry_topic(context, config, now)
    registration = context.consumers.register(client, data, now.mono_ns, without_sub=without_sub)
    info = context.consumers.get(data.group)
    if info is not None:
        context.filters.register(data.group, info.subscriptions.values(), now)
    _report(context, client, data.group, registration, now)
    if context.store.follows:
        return registration.topics_changed  # its broker notifies the members
    if registration.member in ("joined", "reconnected"):
        consumer_ids_changed(context, data.group, registration.member)
        return True
    if registration.topics_changed:
        consumer_ids_changed(context, data.group, "subscription")
    return registration.topics_changed


def _report(context: Context, client: ClientChannelInfo, group: str, registration: Registration, now: Now) -> None:
    if registration.member == "joined" and context.are_members_known:  # a first look at members is no change of them
        context.events.keep(
            GroupMemberJoined,
            now,
            group,
            client.client_id,
            client.protocol,
            client.remote,
            len(context.consumers.members(group)),
        )
    for update in registration.updates if context.are_members_known else ():
        context.events.keep(
            SubscriptionChanged, now, group, update.topic, client.client_id, update.expression, update.previous
        )


def _create_retry_topic(context: Context, config: SubscriptionGroupConfig, now: Now) -> None:
    topic, _ = context.topics.create_in_send_message_back(
        retry_topic(config.group_name), min(config.retry_queue_nums, MAX_QUEUES), PERM_READ | PERM_WRITE, now
    )
    context.events.emit(
        TopicChanged, now, topic.topic_name, "created", topic.read_queue_nums, topic.write_queue_nums, topic.perm
    )
    retry_topic_created(context, config.group_name, now)


def check_client_config(context: Context, request: Request, now: Now) -> Reply:
    command: CheckClientConfig = request.command
    make_client_filter(
        command.subscription.sub_string,
        command.subscription.expression_type,
        property_filter=context.options.enable_property_filter,
    )
    return Done()


# --- Leaving --------------------------------------------------------------------------------------------------------


def unregister_client(context: Context, request: Request, now: Now) -> Reply:
    """Leave groups; leaving a group twice is no error.

    A request from an older connection of the client, or from another client's connection, is ignored.
    """
    command: UnregisterClient = request.command
    client = context.clients.get(request.connection)
    if client is not None and client.client_id in ("", command.client_id):
        context.producers.leave(command.producer_group, command.client_id, client.number)
        if context.consumers.leave(command.consumer_group, command.client_id, client.number):
            _report_member_left(context, command.consumer_group, command.client_id, "unregister", now)
    return Done()


def expire_clients(context: Context, now: Now, limit: int) -> None:
    """Remove members without a heartbeat for too long; at most ``limit`` of each kind are looked at."""
    context.producers.take_expired(now.mono_ns, limit)
    for group, client_id in context.consumers.take_expired(now.mono_ns, limit):
        _report_member_left(context, group, client_id, "expired", now)


def _report_member_left(context: Context, group: str, client_id: str, cause: LeaveCause, now: Now) -> None:
    """A member was removed: notify the others, and free its locks."""
    members = context.consumers.members(group)
    if not members:
        context.filters.unregister(group, now)
    if context.store.follows:  # its broker notifies the others, and why it left is not known
        context.events.keep(GroupMemberLeft, now, group, client_id, "unlisted", len(members))
        return
    context.events.keep(GroupMemberLeft, now, group, client_id, cause, len(members))
    if cause == "unregister":
        for topic, queue_id in context.locks.unlock_all(group, client_id):
            context.events.keep(QueueUnlocked, now, group, topic, queue_id, client_id, "unregister")
    else:
        context.locks.connection_closed(group, client_id)
    if members:
        consumer_ids_changed(context, group, "left")
    else:
        context.offsets.erase_resets(group)
