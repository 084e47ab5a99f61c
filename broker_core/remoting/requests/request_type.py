"""The types of the request table: its entries, and the arguments of their functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_core.commands import Command, Failed, Reply
from broker_core.remoting.remoting_command import RemotingCommand


class Peer:
    """The client of a request. ``client_id`` is empty until its first heartbeat."""

    __slots__ = ("client_id", "host", "port")

    def __init__(self, host: str, port: int, client_id: str = "") -> None:
        self.host = host
        self.port = port
        self.client_id = client_id


class Identity(NamedTuple):
    """The broker that answers."""

    broker_name: str
    broker_id: int = 0


class Relay(NamedTuple):
    """No answer yet: ask these clients first, all at once, and build the answer from theirs.

    ``answer`` gets their answers in the order of ``client_ids``, with Failed for a client that is not connected
    (SYSTEM_ERROR) or did not answer within ``timeout_s`` (CONSUME_MSG_TIMEOUT).
    """

    client_ids: list[str]
    code: int
    ext_fields: dict[str, str]
    body: bytes
    timeout_s: float
    answer: Callable[[list[RemotingCommand | Failed]], RemotingCommand]


Decoded = Command | list[Command] | Reply
"""One command, several commands with one common answer, or the reply itself if the engine is not needed."""


Encoded = RemotingCommand | bytes | Relay
"""The response, or its whole frame where that is quicker, or the clients to ask first."""


class RequestType(NamedTuple):
    """One request of RocketMQ: how it becomes a command, and how the reply becomes a response.

    ``decode`` raises RequestError for missing or malformed fields. ``encode`` gets the reply, or the replies if
    ``decode`` returned several commands. It never gets a Failed, which all requests encode alike.
    """

    decode: Callable[[RemotingCommand, Peer], Decoded]
    encode: Callable[[Any, RemotingCommand, Identity], Encoded]


def encode_done(reply: Reply, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """The response to a request that returns nothing."""
    return request.response(0)
