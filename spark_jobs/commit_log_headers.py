"""The fixed fields of many records at once: vectorised gathers from a mapped segment.

The layout is that of ``broker_core.formats.commit_log_record``; a field of n records costs one fancy index over a view
with a stride of one byte, never a Python step per record.
"""

import mmap
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

Positions: TypeAlias = NDArray[np.int64]

_V6_EXTRA = 12
_SCAN_BLOCK = 16 * 1024 * 1024
_MAGIC_BYTES = tuple(MAGIC_V1.to_bytes(4, "big")[:3])


class Segment(NamedTuple):
    """One commit log file, mapped. Positions are counted from its first byte, ``base`` is that byte's offset."""

    buffer: memoryview
    base: int
    size: int

    @classmethod
    def map(cls, path: str, base: int) -> "Segment":
        """FileNotFoundError when retention was faster."""
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                return cls(memoryview(b""), base, 0)
            return cls(memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)), base, size)

    @property
    def octets(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.buffer, np.uint8)


def gather(segment: Segment, at: Positions, dtype: str) -> NDArray[Any]:
    """The big-endian number of type ``dtype`` at each position, in the machine's byte order."""
    kind = np.dtype(dtype)
    if not len(at):
        return np.empty(0, kind.newbyteorder("="))
    anywhere: NDArray[Any] = np.ndarray((segment.size - kind.itemsize + 1,), kind, segment.buffer, strides=(1,))
    return anywhere[at].astype(kind.newbyteorder("="))


class Headers(NamedTuple):
    """Where the parts of n valid records lie, and their sizes; all columns have the same length."""

    at: Positions
    size: Positions
    sys_flag: NDArray[np.int32]
    body_at: Positions
    body_length: Positions
    topic_at: Positions
    topic_length: Positions
    properties_at: Positions
    properties_length: Positions

    def part(self, chosen: Any) -> "Headers":
        """The same columns for some of the records."""
        return Headers(*(column[chosen] for column in self))

    def joined(self, other: "Headers") -> "Headers":
        """These records, then the others."""
        columns: list[NDArray[Any]] = [np.concatenate((self[index], other[index])) for index in range(len(self))]
        return Headers(*columns)


def read_headers(segment: Segment, at: Positions, stop: int) -> Headers:
    """Headers of those positions where a valid record begins that ends at ``stop`` or before.

    Valid: what ``commit_log_record.measure`` calls so, the checksum of the body aside.
    """
    stop = min(stop, segment.size)
    at = at[at <= stop - RECORD_SIZE_MIN]
    magic = gather(segment, at + 4, ">u4")
    size = gather(segment, at, ">i4").astype(np.int64)
    own = gather(segment, at + 28, ">i8") == at + segment.base
    keep = ((magic == MAGIC_V1) | (magic == MAGIC_V2)) & own & (size >= RECORD_SIZE_MIN) & (size <= stop - at)
    at, size, is_v2 = at[keep], size[keep], magic[keep] == MAGIC_V2
    last = at + size
    sys_flag = gather(segment, at + 36, ">i4")
    body_at = at + 88 + _V6_EXTRA * ((sys_flag & BORN_HOST_V6 != 0).astype(np.int64) + (sys_flag & STORE_HOST_V6 != 0))
    fits = body_at <= last - 3
    body_length = np.where(fits, gather(segment, np.where(fits, body_at - 4, at), ">i4"), -1).astype(np.int64)
    topic_at = body_at + body_length
    fits &= (body_length >= 0) & (topic_at <= last - 3)
    length_at = np.where(fits, topic_at, at)
    lengths = gather(segment, length_at, ">u2"), gather(segment, length_at, ">u1")
    topic_length = np.where(is_v2, *lengths).astype(np.int64)
    topic_at = topic_at + 1 + is_v2
    properties_at = topic_at + topic_length
    fits &= properties_at <= last - 2
    properties_length = gather(segment, np.where(fits, properties_at, at), ">u2").astype(np.int64)
    properties_at = properties_at + 2
    fits &= properties_at + properties_length == last
    return Headers(at, size, sys_flag, body_at, body_length, topic_at, topic_length, properties_at,
        properties_length).part(fits)


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
    for block in range(start, stop, _SCAN_BLOCK):
        found = read_headers(segment, scan_magic(segment, block, min(block + _SCAN_BLOCK, stop)), stop).at
        if len(found):
            return int(found[0])
    return None


def is_blank_at(segment: Segment, at: int) -> bool:
    """Whether the segment's filler begins here; fewer than eight bytes that are left count as one."""
    if segment.size - at < 8:
        return True
    return int.from_bytes(segment.buffer[at + 4:at + 8], "big") == MAGIC_BLANK


def is_unwritten_at(segment: Segment, at: int) -> bool:
    """Whether nothing was ever written here: segments are made full of zeros, and no record begins with a zero."""
    return not any(segment.buffer[at:at + 8])
