"""The file ``lakePosition``: up to where a lake of Parquet files has taken the messages of a store.

    {"version":1,"physicalOffset":1073741824,"wallMs":1700000000000,"lake":"/data/lake/store-1a2b3c4d"}

Written beside the store by whoever fills the lake, when everything below ``physicalOffset`` is in it for good; read by
the broker before it deletes segments. A store without it has no lake that anybody waits for. GlassMQ's own.
"""

import json
from typing import NamedTuple

FILE_NAME = "lakePosition"
VERSION = 1
MOST_BYTES = 65_536


class LakePosition(NamedTuple):
    """``physical_offset`` in bytes, ``wall_ms`` when it was written, ``lake`` the lake's folder, for people."""

    physical_offset: int
    wall_ms: int
    lake: str


def encode(position: LakePosition) -> bytes:
    """The whole file."""
    return (
        json.dumps(
            {
                "version": VERSION,
                "physicalOffset": position.physical_offset,
                "wallMs": position.wall_ms,
                "lake": position.lake,
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()
        + b"\n"
    )


def decode(data: bytes) -> LakePosition | None:
    """What the file says; None for one that is not whole, or of another version."""
    try:
        found = json.loads(data)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return None
    offset, wall_ms, lake = found.get("physicalOffset"), found.get("wallMs", 0), found.get("lake", "")
    if type(offset) is not int or offset < 0 or type(wall_ms) is not int or not isinstance(lake, str):
        return None
    return LakePosition(offset, wall_ms, lake)
