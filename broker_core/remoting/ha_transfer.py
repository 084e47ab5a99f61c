"""RocketMQ's default HA protocol, from a slave's side: bytes of the commit log over a connection, without sockets.

    slave -> master    8 bytes    slaveMaxOffset                      a report; the first one says where to begin
    master -> slave   12 bytes    physicalOffset (8)  bodySize (4)    a transfer, followed by bodySize bytes of the log

All numbers are big-endian and signed. A transfer with bodySize 0 is a heartbeat. A transfer begins and ends anywhere
in the log, also inside a record, but never crosses the end of a segment. The protocol has no checksum of its own, so
each record is checked by its CRC and by the physical offset that it contains.
"""

from struct import Struct
from typing import NamedTuple

from broker_core.formats.commit_log_record import (
    BLANK_SIZE,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    measure,
    store_timestamp_at,
)

TRANSFER = Struct(">qi")
REPORT = Struct(">q")

MAX_TRANSFER = 4 << 20
"""A stock slave's read buffer; a larger bodySize is no transfer of a RocketMQ master."""

MAX_RECORD = 64 << 20
"""The largest record or filler that is accepted, because it is in memory until it is whole."""

BLOCK_BYTES = 128 << 10
BLOCK_RECORDS = 100
"""A block ends when it reaches either of these: it is appended and dispatched in one turn of the engine."""

OBSERVED = -(1 << 40)
"""What a follower reports after its first report: by RocketMQ's rules it acknowledges nothing and is not in sync."""


class TransferError(Exception):
    """The master's bytes cannot be followed. The message is a sentence that names the offset."""


class Block(NamedTuple):
    """Whole, checked records of one segment, from ``offset`` on. The last was stored at ``store_timestamp``, ms; 0
    if the block is only the filler at the segment's end."""

    offset: int
    data: bytes
    store_timestamp: int


class HaSlave:
    """One connection to a master, from the report of ``begin`` on. ``begin`` is where a record begins.

    ``received`` is the physical offset after the last byte received, ``confirmed`` the one after the last block
    returned: the end of the last record that is whole and correct.
    """

    def __init__(self, begin: int, segment_size: int) -> None:
        self._segment_size = segment_size
        self._log = bytearray()
        """The bytes from ``confirmed`` to ``received``."""
        self.confirmed = begin
        if begin == 0:
            # A master understands 0 as "from your last segment". It sends all if 1 is reported, and byte 0 of a log is
            # known: it is the highest byte of the size of a record that is smaller than 16 MiB.
            self._log += b"\0"
        self.received = begin + len(self._log)
        self.unsent = REPORT.pack(self.received)
        """Bytes for the master, which ``take_unsent`` returns: at first the report that says where to begin."""
        self.has_begun = False
        """Whether a transfer has arrived. Before that a second report could become the offset to begin from."""
        self._header = bytearray()
        self._header_size = TRANSFER.size
        self._body_left = 0

    @property
    def observer_report(self) -> bytes:
        """The report of a connection that must not be counted as a replica: no message is acknowledged by it."""
        return REPORT.pack(OBSERVED)

    def take_unsent(self) -> bytes:
        """The bytes to send to the master now."""
        unsent, self.unsent = self.unsent, b""
        return unsent

    def feed(self, data: bytes) -> list[Block]:
        """Take bytes of the connection; returns what they complete. TransferError if they are no continuation."""
        with memoryview(data) as view:
            position = 0
            while position < len(view):
                if self._body_left:
                    part = view[position : position + self._body_left]
                    self._log += part
                    self.received += len(part)
                    self._body_left -= len(part)
                    position += len(part)
                    continue
                missing = self._header_size - len(self._header)
                self._header += view[position : position + missing]
                position += min(missing, len(view) - position)
                if len(self._header) == self._header_size:
                    header = bytes(self._header)
                    self._header.clear()
                    self._take_header(header)
        return self._take_blocks()

    def _take_header(self, header: bytes) -> None:
        """Take ``_header_size`` bytes that are not of the log."""
        self._begin_transfer(*TRANSFER.unpack(header))

    def _begin_transfer(self, offset: int, size: int) -> None:
        if not 0 <= size <= MAX_TRANSFER:
            raise TransferError(
                f"the master announced {size} bytes at offset {offset}; this is not a RocketMQ HA port, or it is one "
                "in controller mode"
            )
        if offset != self.received:
            raise TransferError(f"the master sent offset {offset}, but the bytes from {self.received} on are next")
        if offset // self._segment_size != max(offset, offset + size - 1) // self._segment_size:
            raise TransferError(
                f"the master sent {size} bytes at offset {offset} across the end of a segment of {self._segment_size} "
                "bytes; its mappedFileSizeCommitLog differs from the copy's"
            )
        self.has_begun = True
        self._body_left = size

    def _take_blocks(self) -> list[Block]:
        """Cut whole records from the front of the log."""
        blocks: list[Block] = []
        log, start, end, records, stored = self._log, 0, 0, 0, 0
        try:
            while size := self._unit_size(end):
                is_blank = SIZE_AND_MAGIC.unpack_from(log, end)[1] == MAGIC_BLANK
                if not is_blank:
                    stored = store_timestamp_at(log, end)
                end += size
                records += 1
                is_full = records == BLOCK_RECORDS or end - start >= BLOCK_BYTES
                if is_full or (self.confirmed + end) % self._segment_size == 0:
                    blocks.append(Block(self.confirmed + start, bytes(log[start:end]), stored))
                    start, records, stored = end, 0, 0
        finally:
            if end > start:
                blocks.append(Block(self.confirmed + start, bytes(log[start:end]), stored))
            if end:
                del log[:end]
                self.confirmed += end
        return blocks

    def _unit_size(self, at: int) -> int:
        """Size of the record or filler at a position of the log; 0 if it is not complete. TransferError if invalid."""
        log, offset = self._log, self.confirmed + at
        left = len(log) - at
        if left < BLANK_SIZE:
            return 0
        size, magic = SIZE_AND_MAGIC.unpack_from(log, at)
        room = self._segment_size - offset % self._segment_size
        if magic == MAGIC_BLANK:
            is_possible = size == room
        else:
            is_possible = magic in (MAGIC_V1, MAGIC_V2) and RECORD_SIZE_MIN <= size <= room
        if not is_possible:
            raise TransferError(
                f"no record begins at offset {offset}: its size is {size} and its magic code {magic:#x}"
            )
        if size > MAX_RECORD:
            raise TransferError(f"the record at offset {offset} has {size} bytes; at most {MAX_RECORD} can be followed")
        if left < size:
            return 0
        if magic != MAGIC_BLANK and measure(log, at, at + size, offset) != size:
            raise TransferError(
                f"the record at offset {offset} is damaged: its checksum, its lengths or its physical offset are wrong"
            )
        return int(size)
