"""The file ``safe_end``: how far other processes may read a running store, and where recovery may begin.

    offset  bytes  field (big-endian, signed), in a file of 4096 bytes
    ------  -----  --------------------------------------------------------------------------------------
         0      4  "GSE1"
         4      8  flushed_offset      all records before this physical offset are on the disk and stay there
        12      8  dispatched_offset   queue units and index entries of all records before this are on the disk too
        20      8  min_offset          beginning of the log
        28      8  queue_count         number of queues when the queues were last flushed
        36      8  unit_count          sum of their max offsets
        44      8  timer_ms            no message for an exact time that is due later (wall ms) was delivered; older
                                       files have the time of writing instead
        52      8  index_count         number of the next entry in the newest index file that has entries
        60      4  CRC-32 of the 60 bytes before it

GlassMQ's own. Without a valid ``safe_end``, as in RocketMQ's stores, a store ends at its first invalid record. A reader
beside a running broker may find a half-written file; then the checksum is wrong, and it reads again.
"""

import zlib
from struct import Struct
from typing import NamedTuple

LAYOUT = Struct(">4s7q")
_CRC = Struct(">I")
FILE_NAME = "safe_end"
FILE_SIZE = 4096
SIZE = LAYOUT.size + _CRC.size
MAGIC = b"GSE1"


class SafeEnd(NamedTuple):
    """Physical offsets in bytes, ``timer_ms`` in ms."""

    flushed_offset: int
    dispatched_offset: int
    min_offset: int
    queue_count: int
    unit_count: int
    timer_ms: int
    index_count: int = 0


def encode(safe_end: SafeEnd) -> bytes:
    """The 64 bytes at the beginning of the file."""
    data = LAYOUT.pack(MAGIC, *safe_end)
    return data + _CRC.pack(zlib.crc32(data))


def decode(data: bytes) -> SafeEnd | None:
    """The content of the file; None if it is missing, truncated or half-written."""
    if len(data) < SIZE or data[:4] != MAGIC:
        return None
    if _CRC.unpack_from(data, LAYOUT.size)[0] != zlib.crc32(data[: LAYOUT.size]):
        return None
    return SafeEnd(*LAYOUT.unpack_from(data)[1:])
