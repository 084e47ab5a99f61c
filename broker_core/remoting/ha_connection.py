"""RocketMQ's default HA protocol, from the master's side: what a slave reported, and what it is sent next.

The bytes are those of ``ha_transfer.py``. Differences from RocketMQ's master, which checks nothing:

- A slave whose log ends after this broker's is refused. RocketMQ would go on in the middle of a record, and the logs
  would differ from there on.
- A slave that reports more than it was sent is refused. So is one that lacks what retention has deleted.
"""

from typing import NamedTuple

from broker_core.remoting.ha_transfer import REPORT, TRANSFER

TRANSFER_BYTES = 32 << 10
"""RocketMQ's haTransferBatchSize: what one transfer has at most."""


class SlaveRefused(Exception):
    """The slave cannot be served. The message is a sentence that says why and what to do."""


class LogRange(NamedTuple):
    """Physical offsets of a log's beginning and end, and the bytes of each of its segments."""

    begin: int
    end: int
    segment_size: int


class HAConnection:
    """RocketMQ's DefaultHAConnection, without its socket."""

    __slots__ = ("_part", "slave_ack_offset", "transferred")

    def __init__(self) -> None:
        self.slave_ack_offset: int | None = None
        """The last report; None before the first."""
        self.transferred = 0
        """RocketMQ's transferFromWhere: the physical offset up to which the slave was sent everything."""
        self._part = b""

    def feed(self, data: bytes, log: LogRange) -> bool:
        """Take what one read brought; returns whether it completed a report. SlaveRefused.

        If there are several reports, only the last counts, as in RocketMQ.
        """
        data = self._part + data
        end = len(data) - len(data) % REPORT.size
        self._part = data[end:]
        if not end:
            return False
        (offset,) = REPORT.unpack_from(data, end - REPORT.size)
        if self.slave_ack_offset is None:
            self.transferred = _begin(offset, log)
        elif offset > self.transferred:
            raise SlaveRefused(
                f"it reported offset {offset}, but was sent the log up to {self.transferred}: it is no slave of this "
                "broker alone"
            )
        self.slave_ack_offset = offset
        return True

    def next_transfer(self, log: LogRange) -> tuple[int, int] | None:
        """(offset, size) of the bytes to send next, which count as sent; None if nothing is new. SlaveRefused."""
        offset = self.transferred
        if self.slave_ack_offset is None or offset >= log.end:
            return None
        if offset < log.begin:
            raise SlaveRefused(_deleted(offset, log))
        size = min(log.end - offset, log.segment_size - offset % log.segment_size, TRANSFER_BYTES)
        self.transferred = offset + size
        return offset, size

    @property
    def heartbeat(self) -> bytes | None:
        """A transfer without a body; None before the first report, when a slave expects nothing."""
        return None if self.slave_ack_offset is None else TRANSFER.pack(self.transferred, 0)


def _begin(report: int, log: LogRange) -> int:
    """Where sending begins after this first report."""
    if report == 0:
        return max(log.begin, log.end - log.end % log.segment_size)
    if report < 0:
        raise SlaveRefused(f"its first report is {report}, which is no offset")
    if report > log.end:
        raise SlaveRefused(
            f"its log ends at {report}, but this broker's at {log.end}: it has what this broker lost, or is a copy of "
            "another log. Nothing is sent to it; keep its store if it has messages that are missing here, and begin a "
            "slave with an empty store"
        )
    if report < log.begin:
        raise SlaveRefused(_deleted(report, log))
    return report


def _deleted(offset: int, log: LogRange) -> str:
    return (
        f"it needs the log from {offset} on, but retention has deleted it up to {log.begin}: begin a slave with an "
        "empty store"
    )
