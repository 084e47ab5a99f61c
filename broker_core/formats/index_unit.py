"""The hash index file, for finding messages by key.

    bytes                  part (big-endian, signed)
    ---------------------  ---------------------------------------------------------------------------------
    40                     header: beginTimestamp 8, endTimestamp 8, beginPhyOffset 8, endPhyOffset 8,
                           used slots 4, number of the next entry 4 (it begins at 1; entry 0 is never used)
    4 x slots              number of the newest entry of the slot, 0 = none
    20 x entries           key hash 4, physical offset 8, seconds since beginTimestamp 4, previous entry 4

The key text is ``topic#key``, for a tag ``topic#T#tag``. Its hash is the absolute value of Java's hashCode, its slot
the hash modulo slots.
"""

from struct import Struct
from typing import NamedTuple

from broker_core.formats.commit_log_record import Buffer
from broker_core.formats.tags_code import hash_behind, unsigned_hash

HEADER = Struct(">qqqqii")
SLOT = Struct(">i")
ENTRY = Struct(">iqii")
HEADER_SIZE = 40
SLOT_SIZE = 4
ENTRY_SIZE = 20
TAG_KEY = "T#"
"""The key of a tag begins with this."""


class IndexHeader(NamedTuple):
    """RocketMQ's IndexHeader. Times in ms; offsets are physical."""

    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_phy_offset: int = 0
    end_phy_offset: int = 0
    hash_slot_count: int = 0
    index_count: int = 1


class IndexEntry(NamedTuple):
    """``time_diff`` is in seconds since the file's first entry; ``previous`` is the number of another entry."""

    key_hash: int
    physical_offset: int
    time_diff: int
    previous: int


def file_size(slots: int, entries: int) -> int:
    """Size in bytes of a file with this many slots and entries."""
    return HEADER_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * entries


def decode_header(data: Buffer) -> IndexHeader:
    """The header of a file. ``index_count`` is 0 in a file that was never written, and is read as 1."""
    header = IndexHeader(*HEADER.unpack_from(data, 0))
    return header if header.index_count > 0 else header._replace(index_count=1)


def key_hash(topic: str, key: str) -> int:
    """Hash of one key of a topic; never negative."""
    return absolute(hash_behind(unsigned_hash(topic + "#"), key))


def absolute(unsigned: int) -> int:
    """Java's ``Math.abs`` of a hash given as unsigned; 0 for the one value without a positive counterpart."""
    if unsigned < 1 << 31:
        return unsigned
    return (1 << 32) - unsigned if unsigned != 1 << 31 else 0


def time_diff(store_timestamp: int, begin_timestamp: int) -> int:
    """Seconds between two times (ms) as an entry stores them, limited to 0 and the largest 32-bit integer."""
    return min(max((store_timestamp - begin_timestamp) // 1000, 0), 0x7FFFFFFF)
