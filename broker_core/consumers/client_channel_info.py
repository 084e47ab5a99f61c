"""One connection, and what its client reported about itself."""

from typing import Any

import msgspec

from broker_core.commands import Protocol


class ClientChannelInfo(msgspec.Struct, eq=False, gc=False):
    """RocketMQ's ClientChannelInfo.

    ``number`` grows with every connection, so the newer of two connections of one client is known. ``client_id`` is
    empty until the client has sent it, and does not change afterwards. Times are wall time. ``connected_at_ms`` is
    None for a client of a followed broker, which is not connected here.
    """

    connection: Any
    number: int
    client_id: str
    protocol: Protocol
    remote: str
    connected_at_ms: int | None
    language: str = ""
    version: int = 0
    last_heartbeat_ms: int | None = None
