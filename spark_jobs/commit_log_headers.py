"""The fixed fields of many records at once: vectorised gathers from a segment in memory.

The layout is that of ``broker_core.formats.commit_log_record``. A fancy index over a view with a stride of one byte
copies what n records begin with, as one piece each; never a Python step per record.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from broker_core.formats.commit_log_record import (
    BORN_HOST_V6,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
    STORE_HOST_V6,
)
from spark_jobs.commit_log_files import read_range

Positions: TypeAlias = NDArray[np.int64]

UNNAMED = -1
"""No consume queue, or more than one, names the record."""
_V6_EXTRA = 12
_SCAN_BLOCK = 16 * 1024 * 1024
_MAGIC_BYTES = tuple(MAGIC_V1.to_bytes(4, "big")[:3])
_FIXED = np.dtype([("size", ">i4"), ("magic", ">u4"), ("body_crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"),
    ("queue_offset", ">i8"), ("physical_offset", ">i8"), ("sys_flag", ">i4"), ("born_ts", ">i8"), ("born_host", ">u4"),
    ("born_port", ">i4"), ("store_ts", ">i8"), ("store_host", ">u4"), ("store_port", ">i4"), ("reconsume_times", ">i4"),
    ("prepared_offset", ">i8"), ("body_length", ">i4")])
"""What records begin with whose addresses are IPv4."""
_STORE_TS_AT = 56
_LAST = np.dtype([("reconsume_times", ">i4"), ("prepared_offset", ">i8"), ("body_length", ">i4")])
"""What is between the addresses and the body."""


class Segment(NamedTuple):
    """A commit log file, or a part of it, in memory.

    Positions are counted from its first byte, whose offset in the log is ``base``; the file begins at ``file_base``.
    """

    buffer: memoryview
    base: int
    size: int
    file_base: int

    @classmethod
    def open(cls, path: str, file_base: int, start: int, stop: int) -> "Segment":
        """What is needed to read [start, stop) of the log. FileNotFoundError when retention was faster."""
        found = read_range(path, start - file_base, stop - file_base)
        return cls(found.buffer, file_base + found.start, len(found.buffer), file_base)

    @property
    def octets(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.buffer, np.uint8)


def gather(segment: Segment, at: Positions, dtype: str) -> NDArray[Any]:
    """The big-endian number of type ``dtype`` at each position, in the machine's byte order."""
    kind = np.dtype(dtype)
    return _anywhere(segment, at, kind).astype(kind.newbyteorder("="))


def _anywhere(segment: Segment, at: Positions, kind: np.dtype[Any]) -> NDArray[Any]:
    """What lies at each position, as it is; a structure is copied as one piece."""
    if not len(at):
        return np.empty(0, kind)
    whole = np.dtype(f"V{kind.itemsize}") if kind.names else kind
    found: NDArray[Any] = np.ndarray((segment.size - kind.itemsize + 1,), whole, segment.buffer, strides=(1,))[at]
    return found.view(kind)


class Headers(NamedTuple):
    """Where the parts of n valid records lie, and their sizes; all columns have the same length.

    ``queue`` is the place, in ``ConsumeQueues.queues``, of the queue that names the record, or UNNAMED. ``fixed`` are
    the fields before the body as they are in the log, addresses and ports only where they are IPv4.
    """

    at: Positions
    size: Positions
    sys_flag: NDArray[np.int32]
    body_at: Positions
    body_length: Positions
    topic_at: Positions
    topic_length: Positions
    properties_at: Positions
    properties_length: Positions
    queue: NDArray[np.int32]
    fixed: NDArray[Any]

    def number(self, name: str) -> NDArray[Any]:
        """One of the fixed fields, in the machine's byte order."""
        field = self.fixed[name]
        return field.astype(field.dtype.newbyteorder("="))

    def part(self, chosen: Any) -> "Headers":
        """The same columns for some of the records."""
        return Headers(*(column[chosen] for column in self))

    def joined(self, other: "Headers") -> "Headers":
        """These records, then the others."""
        columns: list[NDArray[Any]] = [np.concatenate((self[index], other[index])) for index in range(len(self))]
        return Headers(*columns)


def read_headers(segment: Segment, at: Positions, stop: int, queue: NDArray[np.int32] | None = None) -> Headers:
    """Headers of those positions where a valid record begins that ends at ``stop`` or before.

    Valid: what ``commit_log_record.measure`` calls so, the checksum of the body aside.
    """
    queue = np.full(len(at), UNNAMED, np.int32) if queue is None else queue
    stop = min(stop, segment.size)
    if len(at) and at[-1] > stop - RECORD_SIZE_MIN:  # they ascend
        near = at <= stop - RECORD_SIZE_MIN
        at, queue = at[near], queue[near]
    fixed = _anywhere(segment, at, _FIXED)
    magic, size = fixed["magic"].astype(np.uint32), fixed["size"].astype(np.int64)
    last, is_v2 = at + size, magic == MAGIC_V2
    keep = (magic == MAGIC_V1) | is_v2
    keep &= fixed["physical_offset"].astype(np.int64) - segment.base == at
    keep &= (size >= RECORD_SIZE_MIN) & (last <= stop)
    if not keep.all():
        at, size, last, is_v2, queue, fixed = at[keep], size[keep], last[keep], is_v2[keep], queue[keep], fixed[keep]
    body_at, sys_flag = at + _FIXED.itemsize, fixed["sys_flag"].astype(np.int32)
    v6 = sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)
    if v6.any():
        body_at += _V6_EXTRA * ((v6 & BORN_HOST_V6 != 0).astype(np.int64) + (v6 & STORE_HOST_V6 != 0))
        _read_moved(segment, fixed, np.flatnonzero((v6 != 0) & (body_at <= last - 3)), at, body_at)
    fits = body_at <= last - 3
    body_length = fixed["body_length"].astype(np.int64)
    topic_at = body_at + body_length
    fits &= (body_length >= 0) & (topic_at <= last - 3)
    length_at = _where(fits, topic_at, at)
    topic_length = gather(segment, length_at, ">u1").astype(np.int64)
    topic_at = topic_at + 1
    if is_v2.any():
        topic_length[is_v2] = gather(segment, length_at[is_v2], ">u2")
        topic_at += is_v2
    properties_at = topic_at + topic_length
    fits &= properties_at <= last - 2
    properties_length = gather(segment, _where(fits, properties_at, at), ">u2").astype(np.int64)
    properties_at = properties_at + 2
    fits &= properties_at + properties_length == last
    found = Headers(at, size, sys_flag, body_at, body_length, topic_at, topic_length, properties_at,
        properties_length, queue, fixed)
    return found if fits.all() else found.part(fits)


def _read_moved(segment: Segment, fixed: NDArray[Any], moved: Positions, at: Positions, body_at: Positions) -> None:
    """Set the fields right that IPv6 addresses have moved, of the records ``moved``."""
    born_v6 = (fixed["sys_flag"][moved] & BORN_HOST_V6 != 0).astype(np.int64)
    fixed["store_ts"][moved] = gather(segment, at[moved] + _STORE_TS_AT + _V6_EXTRA * born_v6, ">i8")
    last = _anywhere(segment, body_at[moved] - _LAST.itemsize, _LAST)
    for name in ("reconsume_times", "prepared_offset", "body_length"):
        fixed[name][moved] = last[name]


def _where(fits: NDArray[np.bool_], wanted: Positions, instead: Positions) -> Positions:
    return wanted if fits.all() else np.where(fits, wanted, instead)


def scan_magic(segment: Segment, start: int, stop: int) -> Positions:
    """Every position in [start, stop) where a record might begin, by its magic number."""
    found = []
    octets = segment.octets
    a, b, c = _MAGIC_BYTES
    stop = min(stop, segment.size)
    for block in range(start, stop, _SCAN_BLOCK):
        block_stop = min(block + _SCAN_BLOCK, stop)
        high = min(block_stop + 4, segment.size)
        hits: Positions = np.flatnonzero(octets[block + 4:high] == a).astype(np.int64) + block
        hits = hits[hits + 8 <= segment.size]
        hits = hits[(octets[hits + 5] == b) & (octets[hits + 6] == c)]
        found.append(hits)
    positions: Positions = np.concatenate(found) if found else np.empty(0, np.int64)
    return positions


def first_record(segment: Segment, start: int, stop: int) -> int | None:
    """The first position from ``start`` on where a valid record begins, None when there is none before ``stop``."""
    step = 64 * 1024
    while start < stop:
        found = read_headers(segment, scan_magic(segment, start, min(start + step, stop)), stop).at
        if len(found):
            return int(found[0])
        start += step
        step = min(step * 4, _SCAN_BLOCK)
    return None


def is_blank_at(segment: Segment, at: int) -> bool:
    """Whether the segment's filler begins here; fewer than eight bytes that are left count as one."""
    if segment.size - at < 8:
        return True
    return int.from_bytes(segment.buffer[at + 4:at + 8], "big") == MAGIC_BLANK


def is_unwritten_at(segment: Segment, at: int) -> bool:
    """Whether nothing was ever written here: segments are made full of zeros, and no record begins with a zero."""
    return not any(segment.buffer[at:at + 8])
