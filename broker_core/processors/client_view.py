"""Views of the connected clients and their groups."""

from itertools import islice

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import (
    Clients,
    ClientView,
    ConsumerConnections,
    GetClients,
    GetConsumerConnections,
    GetProducerConnections,
    ProducerConnections,
    Reply,
)
from broker_core.consumers.client_channel_info import ClientChannelInfo
from broker_core.errors import NotFoundError, RequestError
from broker_core.processors.context import Context, Request

MAX_CLIENTS = 5000


def client_view(context: Context, client: ClientChannelInfo) -> ClientView:
    connection = client.connection
    return ClientView(
        broker=context.options.broker_name,
        client_id=client.client_id,
        protocol=client.protocol,
        remote=client.remote,
        language=client.language,
        version=client.version,
        connected_at_ms=client.connected_at_ms,
        last_heartbeat_ms=client.last_heartbeat_ms,
        producer_groups=context.producers.groups_of(connection),
        consumer_groups=context.consumers.memberships.groups_of(connection),
        holds=context.holds.count_of_connection(connection),
    )


def get_clients(context: Context, request: Request, now: Now) -> Reply:
    command: GetClients = request.command
    if command.limit < 1:
        raise RequestError("limit is 1 or more", pointer="/limit")
    group = command.group
    wanted = [
        client
        for client in context.clients.values()
        if not group
        or context.consumers.is_member(group, client.connection)
        or context.producers.is_member(group, client.connection)
    ]
    page = islice(wanted, min(command.limit, MAX_CLIENTS))
    return Clients(seq=context.events.seq, total=len(wanted), clients=[client_view(context, client) for client in page])


def get_consumer_connections(context: Context, request: Request, now: Now) -> Reply:
    command: GetConsumerConnections = request.command
    info = context.consumers.get(command.group)
    if info is None:
        raise NotFoundError(
            f"the consumer group[{command.group}] not online", code=ResponseCode.CONSUMER_NOT_ONLINE, pointer="/group"
        )
    return ConsumerConnections(
        group=command.group,
        consume_type=info.consume_type,
        message_model=info.message_model,
        consume_from_where=info.consume_from_where,
        subscriptions=[info.subscriptions[topic] for topic in sorted(info.subscriptions)],
        clients=[client_view(context, client) for client in context.consumers.members(command.group).values()],
    )


def get_producer_connections(context: Context, request: Request, now: Now) -> Reply:
    command: GetProducerConnections = request.command
    names = [command.group] if command.group else sorted(context.producers)
    if command.group and not context.producers.members(command.group):
        raise NotFoundError(
            f"the producer group[{command.group}] not exist", code=ResponseCode.SYSTEM_ERROR, pointer="/group"
        )
    return ProducerConnections(
        groups={
            name: [client_view(context, client) for client in context.producers.members(name).values()]
            for name in names
        }
    )
