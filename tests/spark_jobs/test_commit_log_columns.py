"""Arrow columns against the same records decoded one by one."""

from pathlib import Path

import pyarrow as pa
import pytest

from broker_core.formats import commit_log_record, message_properties
from spark_jobs import commit_log_columns
from spark_jobs.commit_log_columns import COLUMN_TYPES, PROPERTIES, Source, arrow_schema, record_batches
from spark_jobs.commit_log_due import DueTimes
from spark_jobs.commit_log_headers import Headers, Segment
from spark_jobs.commit_log_topics import QueueTopics
from spark_jobs.commit_log_walk import RecordWalk
from spark_jobs.consume_queues import ConsumeQueues
from tests.spark_jobs.stores import make_store, segment_path

SIZE = 1 << 16


def opened(root: Path, *, queues: bool = True) -> tuple[Source, Headers]:
    """The first segment of a store, and all of its records."""
    segment = Segment.open(str(segment_path(root, 0)), 0, 0, SIZE)
    known = ConsumeQueues.of(root) if queues else ConsumeQueues()
    headers = next(iter(RecordWalk(segment, 0, segment.size, known, resume=False)))
    return Source(segment, QueueTopics(known.queues), DueTimes(root)), headers


@pytest.mark.parametrize("queues", [True, False])
@pytest.mark.parametrize("born_host", ["10.1.2.3", "2001:db8::1"])
def test_every_column_is_what_the_format_reads(tmp_path: Path, born_host: str, queues: bool) -> None:
    written = make_store(tmp_path, 60, born_host=born_host, segment=SIZE)
    source, headers = opened(tmp_path, queues=queues)
    rows = [row for batch in record_batches(source, headers, list(COLUMN_TYPES)) for row in batch.to_pylist()]
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
            "born_host": born_host, "due_ts": None, "properties": record.properties, "body": record.body,
        } | {column: properties.get(name) for column, name in PROPERTIES.items()}


def batch_sizes(root: Path, column: str) -> list[int]:
    source, headers = opened(root)
    return [batch.num_rows for batch in record_batches(source, headers, [column])]


def test_batches_are_bounded_in_bytes_of_bodies_and_properties(tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path, 20, body=b"x" * 100, segment=SIZE)
    monkeypatch.setattr(commit_log_columns, "BATCH_BYTES", 350)
    assert batch_sizes(tmp_path, "topic") == [20]
    assert batch_sizes(tmp_path, "body") == [3] * 6 + [2]
    assert len(batch_sizes(tmp_path, "tags")) > 3
    monkeypatch.setattr(commit_log_columns, "BATCH_BYTES", 10)
    assert batch_sizes(tmp_path, "body") == [1] * 20


def test_the_schema_is_the_one_spark_is_promised() -> None:
    assert arrow_schema(["topic", "total_size", "store_ts", "body"]) == pa.schema([
        ("topic", pa.string()), ("total_size", pa.int32()), ("store_ts", pa.int64()), ("body", pa.binary())])
