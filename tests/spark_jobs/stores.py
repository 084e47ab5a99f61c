"""Small stores for tests, written record by record with the broker's own formats."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from broker_core.formats import commit_log_record, message_properties, safe_end

SEGMENT = 4096


@dataclass
class Written:
    """What was put into a store: (topic, queue, physical offset, size) of every record, and where the log ends."""

    records: list[tuple[str, int, int, int]] = field(default_factory=list)
    end: int = 0


def make_store(
    root: Path,
    count: int,
    *,
    topics: tuple[str, ...] = ("orders", "stock"),
    born_host: str = "127.0.0.1",
    body: bytes | None = None,
    segment: int = SEGMENT,
    step_ms: int = 20_000,
    queues: int = 3,
) -> Written:
    """A store of ``count`` records in segments of ``segment`` bytes, with fillers; each body its own number."""
    (root / "commitlog").mkdir(parents=True)
    written, segments, offsets = Written(), [bytearray(segment)], {}
    for number in range(count):
        topic, queue = topics[number % len(topics)], number % queues
        offset = offsets.get((topic, queue), 0)
        position = written.end % segment
        record = encode(number, topic, queue, offset, written.end, born_host, body, step_ms)
        if len(record) + 8 > segment - position:
            segments[-1][position : position + 8] = commit_log_record.blank(segment - position)
            written.end += segment - position
            segments.append(bytearray(segment))
            record, position = encode(number, topic, queue, offset, written.end, born_host, body, step_ms), 0
        segments[-1][position : position + len(record)] = record
        written.records.append((topic, queue, written.end, len(record)))
        offsets[topic, queue] = offset + 1
        written.end += len(record)
    for index, data in enumerate(segments):
        segment_path(root, index, segment).write_bytes(data)
    return written


def encode(
    number: int,
    topic: str,
    queue: int,
    offset: int,
    physical: int,
    born_host: str = "127.0.0.1",
    body: bytes | None = None,
    step_ms: int = 20_000,
) -> bytes:
    """Record ``number``: tag on every second one, keys on every third, stored ``step_ms`` after the one before."""
    properties = {"UNIQ_KEY": f"{number:032X}"}
    if number % 2 == 0:
        properties["TAGS"] = f"tag{number % 4}"
    if number % 3 == 0:
        properties["KEYS"] = f"k{number} größer"
    return commit_log_record.encode(
        topic=topic,
        queue_id=queue,
        queue_offset=offset,
        physical_offset=physical,
        body=f"body {number}".encode() * (1 + number % 5) if body is None else body,
        flag=number,
        properties=message_properties.encode(properties),
        born_timestamp=1_700_000_000_000 + number,
        born_host=born_host,
        store_timestamp=1_700_000_000_000 + step_ms * number,
        reconsume_times=number % 4,
        prepared_transaction_offset=number * 7,
    )


def segment_path(root: Path, index: int, segment: int = SEGMENT) -> Path:
    """The file of a segment."""
    return root / "commitlog" / f"{index * segment:020d}"


def write_topics(root: Path, **queues: int) -> None:
    """A table of topics with so many queues each."""
    (root / "config").mkdir()
    table = {topic: {"readQueueNums": count, "writeQueueNums": 1} for topic, count in queues.items()}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


def publish_end(root: Path, end: int) -> None:
    """The safe end that a running broker publishes."""
    data = safe_end.encode(safe_end.SafeEnd(end, end, 0, 1, 1, 1_700_000_000_000))
    (root / safe_end.FILE_NAME).write_bytes(data.ljust(safe_end.FILE_SIZE, b"\0"))


def tear(root: Path, offset: int, size: int, segment: int = SEGMENT) -> None:
    """Overwrite bytes of the log with what no record is made of."""
    path = segment_path(root, offset // segment, segment)
    data = bytearray(path.read_bytes())
    data[offset % segment : offset % segment + size] = b"\xff" * size
    path.write_bytes(data)
