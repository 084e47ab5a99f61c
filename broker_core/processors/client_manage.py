"""Clients that come and go. RocketMQ's ClientManageProcessor and ClientHousekeepingService."""

from broker_core.clock import Now
from broker_core.commands import Done, OpenConnection, Reply
from broker_core.events import ClientConnected, ClientLost
from broker_core.processors.context import Client, Context, Request
from broker_core.processors.pull_message import release


def open_connection(context: Context, request: Request, now: Now) -> Reply:
    command: OpenConnection = request.command
    context.clients[request.connection] = Client(command.client_id, command.protocol, command.remote)
    context.events.emit(ClientConnected, now, command.client_id, command.protocol, command.remote)
    return Done()


def close_connection(context: Context, request: Request, now: Now) -> Reply:
    """The client is gone: release its holds; nobody is left to answer them."""
    holds = context.holds.take_connection(request.connection)
    for held in holds:
        release(context, held, "channel_gone", now, None)
    client = context.clients.pop(request.connection, None)
    if client is not None:
        context.events.emit(ClientLost, now, client.client_id, client.protocol, client.remote, len(holds))
    return Done()
