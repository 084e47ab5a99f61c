"""Arrow columns against the same records decoded one by one."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record, consume_queue_unit, message_properties
from spark_jobs.sources import commit_log_columns
from spark_jobs.sources.commit_log_columns import (
    COLUMN_TYPES,
    PROPERTIES,
    Columns,
    Source,
    arrow_schema,
    batch_slices,
    record_batches,
)
from spark_jobs.sources.commit_log_due import SCHEDULE_TOPIC, DueTimes
from spark_jobs.sources.commit_log_records import Headers, RecordWalk, Segment
from tests.spark_jobs.segments import headers_of, log_of, raw_record, segment_of
from tests.spark_jobs.stores import make_store, segment_path

SIZE = 1 << 16


def opened(root: Path) -> tuple[Source, Headers]:
    """The first segment of a store, and all of its records."""
    segment = Segment.open(str(segment_path(root, 0)), 0, 0, SIZE)
    headers = next(iter(RecordWalk(segment, 0, segment.size, resume=False)))
    return Source(segment, DueTimes(root)), headers


@pytest.mark.parametrize("born_host", ["10.1.2.3", "2001:db8::1"])
def test_every_column_is_what_the_format_reads(tmp_path: Path, born_host: str) -> None:
    written = make_store(tmp_path, 60, born_host=born_host, segment=SIZE)
    source, headers = opened(tmp_path)
    rows = [row for batch in record_batches(source, headers, list(COLUMN_TYPES)) for row in batch.to_pylist()]
    data = segment_path(tmp_path, 0).read_bytes()
    assert len(rows) == 60
    for row, (_, _, offset, _) in zip(rows, written.records, strict=True):
        record = commit_log_record.decode(data, offset)
        properties = message_properties.decode(record.properties)
        assert row == {
            "physical_offset": offset,
            "segment": 0,
            "topic": record.topic,
            "queue_id": record.queue_id,
            "queue_offset": record.queue_offset,
            "total_size": record.size,
            "body_length": len(record.body),
            "body_crc": record.body_crc,
            "sys_flag": record.sys_flag,
            "flag": record.flag,
            "born_ts": record.born_timestamp,
            "store_ts": record.store_timestamp,
            "reconsume_times": record.reconsume_times,
            "prepared_offset": record.prepared_transaction_offset,
            "born_host": born_host,
            "due_ts": None,
            "properties": record.properties,
            "body": record.body,
        } | {column: properties.get(name) for column, name in PROPERTIES.items()}


def batch_sizes(root: Path, column: str) -> list[int]:
    source, headers = opened(root)
    return [batch.num_rows for batch in record_batches(source, headers, [column])]


def test_batches_are_bounded_in_bytes_of_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path, 20, body=b"x" * 100, segment=SIZE)
    monkeypatch.setattr(commit_log_columns, "BATCH_BYTES", 350)
    assert batch_sizes(tmp_path, "topic") == batch_sizes(tmp_path, "properties") == [20]
    assert batch_sizes(tmp_path, "body") == [3] * 6 + [2]
    monkeypatch.setattr(commit_log_columns, "BATCH_BYTES", 10)
    assert batch_sizes(tmp_path, "body") == [1] * 20


@given(st.lists(st.integers(0, 9) | st.integers(0, 1 << 40), max_size=30), st.integers(1, 60))
def test_the_bodies_of_a_batch_are_as_many_as_fit_or_one(lengths: list[int], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_log_columns, "BATCH_BYTES", most)
        found = [lengths[part] for part in batch_slices(np.array(lengths, np.int64))]
    assert [length for part in found for length in part] == lengths
    assert all(len(part) == 1 or sum(part) <= most for part in found)
    assert all(sum(part) + after[0] > most for part, after in pairwise(found))


TOPICS = [
    b"a",
    "Größe".encode(),
    b"orders-of-2026",
    b"orders-of-2025",
    b"a",
    b"t" * 200,
    b"",
    b"\xff",
    b"\xfe",
    b"\xff",
    b"",
    "\ufffd".encode(),
]


def columns_of(data: bytes, *wanted: str, store: Path = Path("nowhere")) -> Columns:
    segment = segment_of(data)
    return Columns(Source(segment, DueTimes(store)), headers_of(segment), wanted)


def log_with_topics(topics: Sequence[bytes]) -> bytes:
    data = b""
    for topic in topics:
        data += raw_record(len(data), topic, v2=len(topic) > 127)
    return data


def test_topics_are_those_of_the_records_and_each_is_kept_once() -> None:
    columns = columns_of(log_with_topics(TOPICS))
    found = columns.column("topic")
    assert found.to_pylist() == [topic.decode("utf-8", "replace") for topic in TOPICS]
    names = found.dictionary.to_pylist()
    assert len(set(names)) == len(names) == 7
    assert columns.column("topic") is found


def test_topics_of_some_of_the_records() -> None:
    columns = columns_of(log_with_topics(TOPICS))
    for chosen in (slice(2, 5), slice(11, 12), np.arange(12) % 5 == 3, slice(0)):
        part = Columns(Source(segment_of(b""), DueTimes(Path("nowhere"))), columns.headers.part(chosen), ())
        names = [topic.decode("utf-8", "replace") for topic in np.array(TOPICS, object)[chosen]]
        assert part.column("topic").to_pylist() == names


def test_no_records_have_columns_too() -> None:
    segment = segment_of(log_with_topics([b"a"]))
    none = headers_of(segment).part(slice(0))
    names = [name for name in COLUMN_TYPES if name != "body"]
    (batch,) = record_batches(Source(segment, DueTimes(Path("nowhere"))), none, names)
    assert (batch.num_rows, batch.schema) == (0, arrow_schema(names))
    assert list(record_batches(Source(segment, DueTimes(Path("nowhere"))), none, ["body", "topic"])) == []


def test_the_queue_tells_when_a_delayed_message_is_due(tmp_path: Path) -> None:
    topics = ["orders", SCHEDULE_TOPIC, "orders", SCHEDULE_TOPIC, SCHEDULE_TOPIC]
    data = log_of([{"topic": topic, "queue_id": 3, "queue_offset": number} for number, topic in enumerate(topics)])
    columns = columns_of(data, store=tmp_path)
    assert columns.column("due_ts").to_pylist() == [None] * 5
    units = [(0, 0, 0)] * 5
    for number in (1, 3):
        units[number] = (int(columns.headers.at[number]), int(columns.headers.size[number]), 1_700_000_000_000 + number)
    folder = tmp_path / "consumequeue" / SCHEDULE_TOPIC / "3"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(b"".join(consume_queue_unit.UNIT.pack(*unit) for unit in units))
    found = columns_of(data, store=tmp_path).column("due_ts")
    assert found.to_pylist() == [None, 1_700_000_000_001, None, 1_700_000_000_003, None]


def test_properties_are_there_in_whatever_order_they_are_asked_for() -> None:
    data = log_of([{"properties": f"TAGS\x01t{number}\x02KEYS\x01k{number}"} for number in range(5)])
    for wanted in (("keys", "tags"), ("tags", "topic", "keys")):
        columns = columns_of(data, *wanted)
        assert columns.column("tags").to_pylist() == [f"t{number}" for number in range(5)]
        assert columns.column("keys").to_pylist() == [f"k{number}" for number in range(5)]


def test_properties_that_are_no_text_are_replaced() -> None:
    data = raw_record(0, b"t", b"TAGS\x01\xff\x02")
    columns = columns_of(data, "tags")
    assert columns.column("tags").to_pylist() == ["\ufffd"]
    assert columns.column("properties").to_pylist() == ["TAGS\x01\ufffd\x02"]


def test_the_schema_is_the_one_spark_is_promised() -> None:
    assert arrow_schema(["topic", "total_size", "store_ts", "body"]) == pa.schema(
        [("topic", pa.string()), ("total_size", pa.int32()), ("store_ts", pa.int64()), ("body", pa.binary())]
    )
