"""Parts of a log in memory, made of records that are valid or not."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from broker_core.formats import commit_log_record
from broker_core.formats.commit_log_record import HEADS, LENGTH, MAGIC_V1, MAGIC_V2
from spark_jobs.sources.commit_log_records import Headers, RecordWalk, Segment


def segment_of(data: bytes, base: int = 0, store: Path = Path("nowhere")) -> Segment:
    """A segment that begins at this offset of the log."""
    return Segment(data, base, store)


def log_of(records: Iterable[Mapping[str, Any]], base: int = 0) -> bytes:
    """Records one behind the other, as ``commit_log_record.encode`` makes them of these fields."""
    data = b""
    for fields in records:
        made: dict[str, Any] = {"topic": "t", "queue_id": 0, "queue_offset": 0, "body": b"", **fields}
        data += commit_log_record.encode(**made, physical_offset=base + len(data))
    return data


def raw_record(at: int, topic: bytes, properties: bytes = b"", body: bytes = b"", *, v2: bool = False) -> bytes:
    """A record whose texts are any bytes, of any length that its fields can hold."""
    length = LENGTH.pack(len(topic)) if v2 else bytes([len(topic)])
    size = HEADS[0].size + len(body) + len(length) + len(topic) + 2 + len(properties)
    head = HEADS[0].pack(
        size,
        MAGIC_V2 if v2 else MAGIC_V1,
        commit_log_record.body_crc(body),
        0,
        0,
        0,
        at,
        0,
        0,
        bytes(4),
        0,
        0,
        bytes(4),
        0,
        0,
        0,
        len(body),
    )
    return head + body + length + topic + LENGTH.pack(len(properties)) + properties


def headers_of(segment: Segment) -> Headers:
    """All records of a segment that has some and nothing else."""
    (headers,) = RecordWalk(segment, 0, segment.size)
    return headers
