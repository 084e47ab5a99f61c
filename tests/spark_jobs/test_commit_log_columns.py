"""Arrow columns against the same records decoded one by one."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from broker_core.formats import commit_log_record, message_properties
from spark_jobs import commit_log_columns
from spark_jobs.commit_log_columns import COLUMN_TYPES, arrow_schema, property_value, record_batches
from spark_jobs.commit_log_headers import Segment
from spark_jobs.commit_log_walk import walk
from spark_jobs.consume_queues import ConsumeQueues
from tests.spark_jobs.stores import make_store, segment_path

SIZE = 1 << 16


def columns_of(root: Path, *names: str) -> list[dict[str, Any]]:
    segment = Segment.map(str(segment_path(root, 0)), 0)
    found = walk(segment, 0, segment.size, ConsumeQueues.of(root), resume=False)
    return [row for batch in record_batches(segment, found.headers, names) for row in batch.to_pylist()]


@pytest.mark.parametrize("born_host", ["10.1.2.3", "2001:db8::1"])
def test_every_column_is_what_the_format_reads(tmp_path: Path, born_host: str) -> None:
    written = make_store(tmp_path, 60, born_host=born_host, segment=SIZE)
    rows = columns_of(tmp_path, *COLUMN_TYPES)
    data = segment_path(tmp_path, 0).read_bytes()
    assert len(rows) == 60
    for row, (_, _, offset, _) in zip(rows, written.records, strict=True):
        record = commit_log_record.decode(data, offset)
        properties = message_properties.decode(record.properties)
        assert row == {
            "physical_offset": offset, "segment": 0, "topic": record.topic, "queue_id": record.queue_id,
            "queue_offset": record.queue_offset, "total_size": record.size, "body_length": len(record.body),
            "body_crc": record.body_crc, "sys_flag": record.sys_flag, "flag": record.flag,
            "born_ts": record.born_timestamp, "store_ts": record.store_timestamp,
            "reconsume_times": record.reconsume_times, "prepared_offset": record.prepared_transaction_offset,
            "tags": properties.get("TAGS"), "keys": properties.get("KEYS"), "uniq_key": properties["UNIQ_KEY"],
            "real_topic": None, "retry_topic": None, "producer_group": None, "born_host": born_host, "due_ts": None,
            "properties": record.properties, "body": record.body}


def test_batches_are_bounded_in_rows_and_in_bytes_of_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path, 20, body=b"x" * 100, segment=SIZE)
    segment = Segment.map(str(segment_path(tmp_path, 0)), 0)
    headers = walk(segment, 0, segment.size, ConsumeQueues.of(tmp_path), resume=False).headers
    monkeypatch.setattr(commit_log_columns, "BATCH_ROWS", 8)
    monkeypatch.setattr(commit_log_columns, "BATCH_BYTES", 350)
    assert [batch.num_rows for batch in record_batches(segment, headers, ["topic"])] == [8, 8, 4]
    assert [batch.num_rows for batch in record_batches(segment, headers, ["body"])] == [3] * 6 + [2]
    monkeypatch.setattr(commit_log_columns, "BATCH_BYTES", 10)
    assert [batch.num_rows for batch in record_batches(segment, headers, ["body"])] == [1] * 20


def test_the_schema_is_the_one_spark_is_promised() -> None:
    assert arrow_schema(["topic", "total_size", "store_ts", "body"]) == pa.schema([
        ("topic", pa.string()), ("total_size", pa.int32()), ("store_ts", pa.int64()), ("body", pa.binary())])


@pytest.mark.parametrize("text", [
    "TAGS\x01a\x02", "TAGS\x01a", "X\x01y\x02TAGS\x01a\x02", "TAGS\x01b\x02TAGS\x01a\x02", "MYTAGS\x01a\x02", "",
    "TAGS\x01\x02", "X\x01TAGS\x01a\x02", "TAGS\x01a\nb\x02", "TAGS\x01a\x01b\x02", "TAGS", "X\x01\x02TAGS\x01a\x02"])
def test_a_property_is_found_as_the_format_finds_it(text: str) -> None:
    found = property_value(pa.array([text.encode()], pa.binary()), "TAGS").to_pylist()
    assert found == [message_properties.decode(text).get("TAGS")]


def test_bytes_that_are_no_text_are_replaced() -> None:
    found = commit_log_columns.as_text(pa.array([b"ok", b"\xff", None], pa.binary()))
    assert found.to_pylist() == ["ok", "\ufffd", None]
