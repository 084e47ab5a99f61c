"""What a line of the request table is made of, and what its functions are told."""

from collections.abc import Callable
from typing import Any, NamedTuple

from broker_core.commands import Command, Failed, Reply
from broker_core.remoting.remoting_command import RemotingCommand


class Peer:
    """Who asks: the other end of a connection. ``client_id`` is empty until its first heartbeat."""

    __slots__ = ("client_id", "host", "port")

    def __init__(self, host: str, port: int, client_id: str = "") -> None:
        self.host = host
        self.port = port
        self.client_id = client_id


class Identity(NamedTuple):
    """Who answers."""

    broker_name: str
    broker_id: int = 0


class Relay(NamedTuple):
    """No answer yet: ask these clients first, all at once, and make the answer of what they say.

    ``answer`` gets what each of them said, in the order of ``client_ids``; Failed for one that is not there
    (SYSTEM_ERROR) or did not answer within ``timeout_s`` (CONSUME_MSG_TIMEOUT).
    """

    client_ids: list[str]
    code: int
    ext_fields: dict[str, str]
    body: bytes
    timeout_s: float
    answer: Callable[[list[RemotingCommand | Failed]], RemotingCommand]


Decoded = Command | list[Command] | Reply
"""One command; several, whose replies are encoded together; or, where there is nothing to decide, the reply at once."""


Encoded = RemotingCommand | bytes | Relay
"""The response; its whole frame, where that is quicker; or whom to ask first."""


class RequestType(NamedTuple):
    """One request of RocketMQ: what it asks of the engine, and how the engine's reply is said.

    ``decode`` raises RequestError for fields that are missing or malformed. ``encode`` gets the reply (the replies,
    where ``decode`` gave several commands), never a Failed: all requests say that alike.
    """

    decode: Callable[[RemotingCommand, Peer], Decoded]
    encode: Callable[[Any, RemotingCommand, Identity], Encoded]


def encode_done(reply: Reply, request: RemotingCommand, identity: Identity) -> RemotingCommand:
    """The answer of a request that is simply done."""
    return request.response(0)
