"""Clients: connections, their protocols, and their groups."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.names import OptionalGroupName
from api.http.problems import Problem
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import Model, Unavailable, copied
from bridge.port import ResponseCode, commands, version_text

MOST = 5000


class Client(Model, frozen=True, kw_only=True, gc=False):
    """One client. `version` is RocketMQ's (`5.4.0`), or empty; `last_heartbeat_ms` null: no heartbeat yet.

    At an attached broker `connected_at_ms`, `last_heartbeat_ms` and `holds` are null, because RocketMQ does not report
    them.
    """

    broker: str
    client_id: str
    protocol: commands.Protocol
    remote: str
    language: str
    version: str
    connected_at_ms: int | None
    last_heartbeat_ms: int | None
    producer_groups: list[str]
    consumer_groups: list[str]
    holds: int | None


class Clients(Model, frozen=True, kw_only=True, gc=False):
    """Clients in the order in which they connected. `total` includes those of other pages. `next` is the `after` of the
    next page, if any; with several brokers, ask each of them for its pages."""

    seq: int
    total: int
    clients: list[Client]
    next: int | UnsetType = UNSET
    unavailable: Unavailable | UnsetType = UNSET


class ClientsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: OptionalGroupName = ""
    after: Annotated[
        int, Meta(ge=0, le=(1 << 63) - 1, description="Only clients after those of the page with this `next`.")
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=MOST, description="Maximum number of clients.")] = 1000


class ClientParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[str, Meta(min_length=1, max_length=255, description="The client id that the client sent.")]


def render(client: commands.ClientView) -> Client:
    """A client as the API shows it."""
    return copied(Client, client, version=version_text(client.version))


async def get_clients(request: Request[ClientsParams]) -> Answer:
    """RocketMQ clients and WebSockets with an open connection, in pages."""
    params = request.params
    if params.after:
        await brokers.single_broker(
            params.broker
        )  # each broker numbers its own connections, so a page is of one broker
    command = commands.GetClients(group=params.group, after=params.after, limit=params.limit)
    replies = await brokers.ask_all(params.broker, command, commands.Clients)
    tables = list(replies.by_broker.values())
    more = tables[0].next if len(tables) == 1 else None
    return Answer(
        body=Clients(
            seq=replies.seq,
            total=sum(table.total for table in tables),
            clients=[render(client) for table in tables for client in table.clients],
            next=UNSET if more is None else more,
            unavailable=replies.missing,
        )
    )


async def get_client(request: Request[ClientParams]) -> Answer:
    """The newest connection of the client."""
    wanted = request.params.id
    command = commands.GetClients(client_id=wanted, limit=MOST)
    replies = await brokers.ask_all(request.params.broker, command, commands.Clients)
    found = [client for table in replies.by_broker.values() for client in table.clients if client.client_id == wanted]
    if not found:
        raise Problem(404, f"no client {wanted} is connected", code=ResponseCode.QUERY_NOT_FOUND, pointer="/id")
    return Answer(body=render(max(found, key=lambda client: client.connected_at_ms or 0)))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/clients",
        handler=get_clients,
        group="Groups",
        summary="Clients that are connected",
        params=ClientsParams,
        response=Clients,
        problems=(504,),
    ),
    Route(
        method="GET",
        path="/api/v1/clients/{id}",
        handler=get_client,
        group="Groups",
        summary="One client",
        params=ClientParams,
        response=Client,
        problems=(404, 504),
    ),
)
