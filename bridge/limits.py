"""All limits and periods of the bridge, in one place so that tests can make them small."""

import msgspec

MIB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ms, sizes in bytes. ``alive_ms`` must be well below both ``engine_silence_ms`` and ``peer_silence_ms``,
    also if the two sides of a bridge have different limits."""

    alive_ms: int = 2000
    """Period of a web process's heartbeats, which also contain what it watches."""
    away_alive_ms: int = 500
    """The same while the engine does not answer, so that its return is noticed soon."""
    start_wait_ms: int = 5000
    """``start`` of a port waits this long for the engine's first answer, then continues without it."""
    engine_silence_ms: int = 7000
    """A web process treats the engine as away after this long without a message from it."""
    peer_silence_ms: int = 10_000
    """The engine closes a web process's connections after this long without a message from it."""
    call_timeout_ms: int = 10_000
    """Default time-out of a call; for a pull or a pop, the time of its hold is added."""
    clock_grace_ms: int = 5000
    """How far the clocks of web and engine may differ before the engine refuses a call as too late."""

    batch_count: int = 1024
    batch_bytes: int = MIB
    """A batch ends with the entry that reaches one of these two."""
    message_bytes: int = 64 * MIB
    """Limit of every message sent or read. A single reply may have half of it, because a message contains more."""

    waiting_count: int = 10_000
    waiting_bytes: int = 64 * MIB
    """Commands of one web process that wait to be sent; one more is refused with PortUnavailable."""
    calls: int = 100_000
    """Calls of one web process without an answer yet, held pulls included."""
    call_bytes: int = 256 * MIB
    """Bytes of the commands of these calls: the limit of what can wait anywhere on the way to the engine."""
    closings: int = 100_000
    """Closed connections that wait to be reported to the engine."""

    reply_bytes: int = 64 * MIB
    """Bytes of replies that wait for one web process; beyond it, its pulls are answered with UnavailableError."""
    reply_count: int = 100_000
    """Replies that wait for one web process; beyond it, its connection is closed, because it does not read."""
    room_wait_ms: int = 30_000
    """How long a reader whose answer exceeded ``reply_bytes`` asks again, in turn with others like it."""
    reply_retry_ms: int = 5000
    """How long the engine tries to send one batch of replies before it drops the batch."""
    drain_ms: int = 5000
    """How long the last replies may take when the engine stops."""

    delta_ms: int = 100
    heartbeat_ms: int = 2000
    """Shortest and longest time between two deltas."""
    delta_backlog: int = 20
    """Deltas that wait for one slow web process; beyond it the oldest are dropped, and it notices the gap."""

    reconnect_first_ms: int = 50
    reconnect_most_ms: int = 1000
    """Shortest and longest pause after a failure of the layer or the socket; it doubles each time."""
    connect_ms: int = 10_000
    """A starting engine gives up if it cannot reach its layer for this long."""


class ArrivalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How slowly a request may arrive. Times in seconds."""

    head: float = 10
    """For the request line and the headers, from their first byte, or from the start of a new connection."""
    body: float = 10
    """For the body, from the end of the headers; longer by one second for each ``body_rate`` bytes received of it."""
    body_rate: int = 16 * 1024
