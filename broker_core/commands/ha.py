"""Commands of the HA port: what the slaves of this broker report. And how replication is going, for everybody."""

from broker_core.commands.base import Command, Shape


class ReportSlaveMaxOffset(Command, frozen=True):
    """A slave's report on this connection. -> Done. Offsets are physical.

    ``address`` is the slave's. ``slave_ack_offset`` is the end of its log; a negative one acknowledges nothing. The
    slave was sent everything up to ``transferred``.
    """

    address: str
    slave_ack_offset: int
    transferred: int


class RemoveSlave(Command, frozen=True):
    """This connection with a slave has ended for the ``reason``. -> Done. ``refused``: this broker ended it."""

    address: str
    reason: str
    refused: bool


class SlaveView(Shape, frozen=True):
    """A connected slave. Offsets are physical, times ms since 1970.

    ``slave_ack_offset`` is the end of its log by its last report, at ``reported_ms``; ``lag_bytes`` is what it lacks. A
    follower that acknowledges nothing reports a negative offset, and its lag is None. ``in_sync`` as in RocketMQ: it
    lacks less than haMaxGapNotInSync, 256 MiB. ``bytes_per_second`` were sent to it lately; None until that is known.
    """

    address: str
    since_ms: int
    slave_ack_offset: int
    transferred: int
    reported_ms: int
    lag_bytes: int | None
    in_sync: bool
    bytes_per_second: int | None


class RefusedSlave(Shape, frozen=True):
    """The connection with a slave that this broker ended last, at ``at_ms``, wall time."""

    address: str
    reason: str
    at_ms: int


class Replication(Shape, frozen=True):
    """How slaves copy this broker's log. ``ha_listen_port`` is 0 if none can.

    Under SYNC_MASTER a send waits for ``slaves_needed`` slaves, for slaveTimeout at most; ``waiting`` requests do so
    now, and ``timeouts`` were answered FLUSH_SLAVE_TIMEOUT since the broker's start. ``refused`` counts the connections
    that were ended; ``last_refused`` is the last one.
    """

    broker_role: str
    ha_listen_port: int
    slaves_needed: int
    slaves: list[SlaveView]
    waiting: int
    timeouts: int
    refused: int
    last_refused: RefusedSlave | None


HaCommand = ReportSlaveMaxOffset | RemoveSlave
