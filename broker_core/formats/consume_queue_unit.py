"""One entry of a consume queue.

    offset  bytes  field (big-endian, signed)
    ------  -----  ---------------------------------------------------------
         0      8  physical offset of the record in the commit log
         8      4  size of the record
        12      8  tagsCode, or the address of a consume queue ext unit

A hole, (0, 0x7FFFFFFF, 0), stands for a message that the log does not contain. If a queue does not begin at 0, its
first file is filled with holes up to its first unit. A message that recovery could not read leaves a hole too.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct

from broker_core.formats.commit_log_record import Buffer

UNIT = Struct(">qiq")
UNIT_SIZE = 20
HOLE_SIZE = 0x7FFFFFFF
HOLE = UNIT.pack(0, HOLE_SIZE, 0)


@lru_cache(1024)
def _struct_of(count: int) -> Struct:
    return Struct(">" + "qiq" * count)


def encode_units(fields: Sequence[int]) -> bytes:
    """Units from a flat sequence: physical offset, size, tagsCode, physical offset, size, tagsCode, ..."""
    count = len(fields) // 3
    if count == 1:
        return UNIT.pack(*fields)
    if count <= 256:
        return _struct_of(count).pack(*fields)
    return b"".join(encode_units(fields[start : start + 768]) for start in range(0, len(fields), 768))


def decode_units(data: Buffer) -> tuple[int, ...]:
    """The fields of units (a few thousand at most) in one flat tuple; slice it ``[0::3]``, ``[1::3]``, ``[2::3]``."""
    return _struct_of(len(data) // UNIT_SIZE).unpack(data)


def iter_units(data: Buffer) -> Iterator[tuple[int, int, int]]:
    """(physical offset, size, tagsCode) of each unit."""
    return UNIT.iter_unpack(data)


def is_valid(physical_offset: int, size: int) -> bool:
    """Whether a unit was written; the unwritten part of a queue file is zero."""
    return physical_offset >= 0 and size > 0


def is_hole(physical_offset: int, size: int) -> bool:
    """Whether a unit stands for a message that the log does not contain."""
    return physical_offset == 0 and size == HOLE_SIZE
