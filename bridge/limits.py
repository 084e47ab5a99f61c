"""Every bound and period of the bridge in one place, so that tests can make them small."""

import msgspec

MIB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ms, sizes in bytes. Both sides of one bridge must agree on ``alive_ms`` being well below the
    two silences."""

    alive_ms: int = 2000
    """A web process says this often that it is there, and what it wants to watch."""
    away_alive_ms: int = 500
    """The same while the engine does not answer, so that its return is noticed soon."""
    start_wait_ms: int = 5000
    """``start`` of a port waits this long for the engine's first answer, then goes on without."""
    engine_silence_ms: int = 7000
    """A web process that heard nothing from the engine for so long takes it to be away."""
    peer_silence_ms: int = 10_000
    """The engine closes the connections of a web process that it has not heard for so long."""
    call_timeout_ms: int = 10_000
    """Default time-out of a call; a pull gets its suspend time on top."""
    clock_grace_ms: int = 5000
    """How far the clocks of web and engine may differ before the engine refuses a call as too late."""

    batch_count: int = 1024
    batch_bytes: int = MIB
    """A batch ends with the entry that reaches one of the two."""
    message_bytes: int = 64 * MIB
    """Nothing longer is sent or read. A single reply takes half of it at most, since more goes with it."""

    waiting_count: int = 10_000
    waiting_bytes: int = 64 * MIB
    """Commands of one web process that wait to be sent; one more is refused with PortUnavailable."""
    calls: int = 100_000
    """Calls of one web process without an answer yet, held pulls included."""
    call_bytes: int = 256 * MIB
    """Their commands; more than that may wait nowhere on the way to the engine."""
    closings: int = 100_000
    """Closed connections that wait to be reported to the engine."""

    reply_bytes: int = 64 * MIB
    """Replies that wait for one web process; above it pulls are answered that the way back is full."""
    reply_count: int = 100_000
    """One more, and the web process is cut off: it does not read."""
    reply_retry_ms: int = 5000
    """How long the engine tries to hand over one batch of replies before it drops it."""
    drain_ms: int = 5000
    """How long the last replies may take when the engine stops."""

    delta_ms: int = 100
    heartbeat_ms: int = 2000
    """A delta at most and at least this often."""
    delta_backlog: int = 20
    """Deltas that wait for one slow web process; the oldest are dropped, which it sees as a gap."""

    reconnect_first_ms: int = 50
    reconnect_most_ms: int = 1000
    """Pause after a failure of the layer or the socket; doubled each time between these two."""
    connect_ms: int = 10_000
    """An engine whose layer cannot be reached for so long when it starts gives up."""
