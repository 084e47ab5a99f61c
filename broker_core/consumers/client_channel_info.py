"""One connection, and what the client at its other end said of itself."""

from typing import Any

import msgspec

from broker_core.commands import Protocol


class ClientChannelInfo(msgspec.Struct, eq=False, gc=False):
    """RocketMQ's ClientChannelInfo.

    ``number`` grows with every connection, so of two connections of one client the newer one is known. ``client_id``
    is empty until the client has said it; it says the same one ever after. ``last_heartbeat_ms`` is wall time.
    """

    connection: Any
    number: int
    client_id: str
    protocol: Protocol
    remote: str
    connected_at_ms: int
    language: str = ""
    version: int = 0
    last_heartbeat_ms: int | None = None
