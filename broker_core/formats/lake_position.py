"""The file ``lakePosition``: how far a lake of Parquet files contains the messages of a store.

    {"version":1,"physicalOffset":1073741824,"wallMs":1700000000000,"lake":"/data/lake"}

The program that fills the lake writes it into the store's folder when the lake durably contains every message before
``physicalOffset``. The broker reads it before it deletes segments. Without this file, retention waits for no lake.
GlassMQ's own.
"""

import json
from typing import NamedTuple

FILE_NAME = "lakePosition"
VERSION = 1
MOST_BYTES = 65_536


class LakePosition(NamedTuple):
    """``physical_offset`` in bytes, ``wall_ms`` the time of writing, ``lake`` the lake's folder or URL."""

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
    """The content of the file; None if it is incomplete, damaged, or of another version."""
    try:
        fields = json.loads(data)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        return None
    offset, wall_ms, lake = fields.get("physicalOffset"), fields.get("wallMs", 0), fields.get("lake", "")
    if type(offset) is not int or offset < 0 or type(wall_ms) is not int or not isinstance(lake, str):
        return None
    return LakePosition(offset, wall_ms, lake)
