"""Views of the connected clients and their groups."""

from bisect import bisect_right
from collections.abc import Sequence

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
from broker_core.walk import Steps, page_limit, pieces_of

MAX_CLIENTS = 20_000
"""Of one answer."""

LOOKED_AT = 2000
"""Clients of a piece that are only looked at."""


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
        holds=context.holds.count_of_connection(connection) if client.connected_at_ms is not None else None,
    )


def get_clients(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetClients = request.command
    limit, group, seq = page_limit(command.limit), command.group, context.events.seq
    wanted = list(context.clients.values())
    if command.client_id:
        wanted = [client for client in wanted if client.client_id == command.client_id]
    if group:
        everybody, wanted = wanted, []
        for piece in pieces_of(everybody, LOOKED_AT):
            wanted += [
                client
                for client in piece
                if context.consumers.is_member(group, client.connection)
                or context.producers.is_member(group, client.connection)
            ]
            yield
    page = wanted[bisect_right(wanted, command.after, key=_number) :][: limit + 1]
    following = page[limit - 1].number if len(page) > limit else None
    views = yield from _views(context, page[:limit])
    return Clients(seq=seq, total=len(wanted), clients=views, next=following)


def _number(client: ClientChannelInfo) -> int:
    return client.number


def _views(context: Context, clients: Sequence[ClientChannelInfo]) -> Steps[list[ClientView]]:
    views: list[ClientView] = []
    for piece in pieces_of(clients):
        views += [client_view(context, client) for client in piece]
        yield
    return views


def get_consumer_connections(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetConsumerConnections = request.command
    info = context.consumers.get(command.group)
    if info is None:
        raise NotFoundError(
            f"the consumer group[{command.group}] not online", code=ResponseCode.CONSUMER_NOT_ONLINE, pointer="/group"
        )
    subscriptions = [info.subscriptions[topic] for topic in sorted(info.subscriptions)]
    members = list(context.consumers.members(command.group).values())
    _require_few(len(members))
    return ConsumerConnections(
        group=command.group,
        consume_type=info.consume_type,
        message_model=info.message_model,
        consume_from_where=info.consume_from_where,
        subscriptions=subscriptions,
        clients=(yield from _views(context, members)),
    )


def _require_few(clients: int) -> None:
    if clients > MAX_CLIENTS:
        raise RequestError(f"the answer would have {clients} clients; the limit is {MAX_CLIENTS}")


def get_producer_connections(context: Context, request: Request, now: Now) -> Steps[Reply]:
    command: GetProducerConnections = request.command
    names = [command.group] if command.group else sorted(context.producers)
    if command.group and not context.producers.members(command.group):
        raise NotFoundError(
            f"the producer group[{command.group}] not exist", code=ResponseCode.SYSTEM_ERROR, pointer="/group"
        )
    _require_few(sum(len(context.producers.members(name)) for name in names))
    groups = {}
    for name in names:
        groups[name] = yield from _views(context, list(context.producers.members(name).values()))
    return ProducerConnections(groups=groups)
