"""The slaves that copy this broker's log, and up to where they have it."""

from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.commands import RefusedSlave, SlaveView

MAX_GAP_NOT_IN_SYNC = 256 << 20
"""RocketMQ's haMaxGapNotInSync."""
RATE_NS = 1_000_000_000
"""A slave's rate is measured over so long at least."""
RECENT_NS = 30 * 1_000_000_000


class Slave(msgspec.Struct):
    """One connection. Offsets are physical, times wall ms. The rate is measured from ``measured_ns`` on, monotonic."""

    address: str
    since_ms: int
    slave_ack_offset: int
    transferred: int
    reported_ms: int
    measured_ns: int
    measured_offset: int
    bytes_per_second: int | None = None


class HAService:
    """The decisions of RocketMQ's DefaultHAService: who is connected, and what enough slaves have acknowledged."""

    def __init__(self) -> None:
        self._slaves: dict[Any, Slave] = {}
        self._ack_offsets: list[int] = []
        """Acknowledged offsets of all slaves, the highest first."""
        self.has_news = False
        """Whether acknowledged offsets have changed since ``take_news``."""
        self.refused = 0
        self.last_refused: RefusedSlave | None = None
        self.waiting = 0
        """Requests that wait for slaves now."""
        self.timeouts = 0
        self._recent_timeouts = self._timed_out_ns = 0

    @property
    def slaves(self) -> int:
        """How many slaves are connected, without followers that acknowledge nothing."""
        return sum(offset >= 0 for offset in self._ack_offsets)

    def report(self, connection: Any, address: str, slave_ack_offset: int, transferred: int, now: Now) -> bool:
        """Note a slave's report. Returns whether it is the first on this connection."""
        slave = self._slaves.get(connection)
        if slave is None:
            self._slaves[connection] = Slave(
                address, now.wall_ms, slave_ack_offset, transferred, now.wall_ms, now.mono_ns, transferred
            )
        else:
            slave.slave_ack_offset, slave.transferred, slave.reported_ms = slave_ack_offset, transferred, now.wall_ms
            took_ns = now.mono_ns - slave.measured_ns
            if took_ns >= RATE_NS:
                slave.bytes_per_second = (transferred - slave.measured_offset) * 1_000_000_000 // took_ns
                slave.measured_ns, slave.measured_offset = now.mono_ns, transferred
        self._sort()
        return slave is None

    def remove(self, connection: Any) -> Slave | None:
        """Its connection has ended; returns its row if it had reported anything."""
        slave = self._slaves.pop(connection, None)
        self._sort()
        return slave

    def _sort(self) -> None:
        self._ack_offsets = sorted((slave.slave_ack_offset for slave in self._slaves.values()), reverse=True)
        self.has_news = True

    def take_news(self) -> bool:
        """Whether acknowledged offsets have changed since the last call."""
        has_news, self.has_news = self.has_news, False
        return has_news

    def replicated_offset(self, slaves: int) -> int:
        """Physical offset up to which at least so many slaves have the log; -1 if fewer are connected."""
        return self._ack_offsets[slaves - 1] if slaves <= len(self._ack_offsets) else -1

    def note_refused(self, address: str, reason: str, now: Now) -> None:
        """This broker ended a slave's connection."""
        self.refused += 1
        self.last_refused = RefusedSlave(address=address, reason=reason, at_ms=now.wall_ms)

    def note_timeout(self, now_ns: int) -> None:
        """A request was answered FLUSH_SLAVE_TIMEOUT."""
        if not self.recent_timeouts(now_ns):
            self._recent_timeouts = 0
        self.timeouts += 1
        self._recent_timeouts += 1
        self._timed_out_ns = now_ns

    def recent_timeouts(self, now_ns: int) -> int:
        """How many requests were answered so since the last pause of 30 s; 0 if none was in the last 30 s."""
        return self._recent_timeouts if now_ns - self._timed_out_ns <= RECENT_NS else 0

    def largest_lag(self, end: int) -> int | None:
        """Bytes up to ``end`` that the slave furthest behind lacks; None without a slave that acknowledges."""
        acknowledged = [offset for offset in self._ack_offsets if offset >= 0]
        return max(0, end - acknowledged[-1]) if acknowledged else None

    def views(self, end: int) -> list[SlaveView]:
        """All slaves, those connected for the longest time first. ``end`` is that of this broker's log."""
        return [
            SlaveView(
                address=slave.address,
                since_ms=slave.since_ms,
                slave_ack_offset=slave.slave_ack_offset,
                transferred=slave.transferred,
                reported_ms=slave.reported_ms,
                lag_bytes=None if slave.slave_ack_offset < 0 else max(0, end - slave.slave_ack_offset),
                bytes_per_second=slave.bytes_per_second,
                in_sync=slave.slave_ack_offset >= 0 and end - slave.slave_ack_offset < MAX_GAP_NOT_IN_SYNC,
            )
            for slave in self._slaves.values()
        ]
