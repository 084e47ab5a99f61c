"""The file ``safe_end``: how far others may read a store while it is written, and where recovery may begin.

    offset  bytes  field (big-endian, signed), in a file of 4096 bytes
    ------  -----  --------------------------------------------------------------------------------------
         0      4  "GSE1"
         4      8  flushed_offset      every record below this physical offset is on the disk and will stay
        12      8  dispatched_offset   of all records below this one the queues and the index are on the disk too
        20      8  min_offset          where the log began
        28      8  queue_count         queues there were when the queues were last flushed
        36      8  unit_count          sum of their max offsets
        44      8  wall_ms             when this was written
        52      8  index_count         number of the next entry of the newest index file that has any
        60      4  CRC-32 of the 60 bytes before

GlassMQ's own. A store without it (a real broker's, or one whose file fails its checksum) ends at its first invalid
record. A reader beside a running broker may meet a half-written file: the checksum fails, and it reads again.
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
    """Physical offsets in bytes, ``wall_ms`` in ms."""

    flushed_offset: int
    dispatched_offset: int
    min_offset: int
    queue_count: int
    unit_count: int
    wall_ms: int
    index_count: int = 0


def encode(safe_end: SafeEnd) -> bytes:
    """The 64 bytes at the beginning of the file."""
    data = LAYOUT.pack(MAGIC, *safe_end)
    return data + _CRC.pack(zlib.crc32(data))


def decode(data: bytes) -> SafeEnd | None:
    """What the file says, or None for a file that is missing, cut off or half written."""
    if len(data) < SIZE or data[:4] != MAGIC:
        return None
    if _CRC.unpack_from(data, LAYOUT.size)[0] != zlib.crc32(data[: LAYOUT.size]):
        return None
    return SafeEnd(*LAYOUT.unpack_from(data)[1:])
