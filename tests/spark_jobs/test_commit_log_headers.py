"""Vectorised headers against the format's own reading of each single record."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record
from spark_jobs.commit_log_headers import (
    Segment,
    first_record,
    gather,
    is_blank_at,
    is_unwritten_at,
    read_headers,
    scan_magic,
)
from tests.spark_jobs.stores import encode, make_store, segment_path


def segment_of(data: bytes, base: int = 0) -> Segment:
    return Segment(memoryview(data), base, len(data), base)


@given(topic=st.text(min_size=1, max_size=60), properties=st.text(max_size=40), body=st.binary(max_size=300),
       born_v6=st.booleans(), store_v6=st.booleans(), before=st.integers(0, 50), base=st.integers(0, 1 << 40))
def test_places_are_those_of_the_format(topic: str, properties: str, body: bytes, born_v6: bool, store_v6: bool,
                                        before: int, base: int) -> None:
    topic = topic.encode("utf-8", "replace").decode()[:50]
    properties = properties.encode("utf-8", "replace").decode()
    record = commit_log_record.encode(topic=topic, queue_id=1, queue_offset=2, physical_offset=base + before,
        body=body, properties=properties, born_host="::1" if born_v6 else "10.0.0.1",
        store_host="::2" if store_v6 else "10.0.0.2")
    data = bytes(before) + record + bytes(30)
    found = read_headers(segment_of(data, base), np.array([before]), len(data))
    body_at, topic_at, properties_at = commit_log_record.fields_at(data, before)
    assert (found.at.tolist(), found.size.tolist()) == ([before], [len(record)])
    assert (found.body_at[0], found.body_length[0]) == (body_at, len(body))
    topic_bytes = data[found.topic_at[0]:found.topic_at[0] + found.topic_length[0]]
    assert topic_bytes == commit_log_record.topic_at(data, before)
    assert found.properties_at[0] == properties_at + 2
    assert found.topic_at[0] > topic_at


@given(at=st.integers(0, 200), value=st.integers(0, 255))
def test_a_changed_byte_is_judged_as_the_format_judges_it(at: int, value: int) -> None:
    data = bytearray(encode(3, "topic", 1, 2, 0) + encode(4, "topic", 1, 3, 0))
    at = min(at, len(data) - 1)
    data[at] = value
    found = read_headers(segment_of(bytes(data)), np.array([0]), len(data))
    assert found.size.tolist() == [size for size in [commit_log_record.measure(data, 0, len(data), 0,
        check_crc=False)] if size]


def test_a_record_that_goes_on_behind_the_stop_is_none() -> None:
    data = encode(0, "t", 0, 0, 0)
    assert len(read_headers(segment_of(data), np.array([0]), len(data)).at) == 1
    assert len(read_headers(segment_of(data), np.array([0]), len(data) - 1).at) == 0


def test_scanning_finds_every_record(tmp_path: Path) -> None:
    written = make_store(tmp_path, 30)
    segment = Segment.open(str(segment_path(tmp_path, 0)), 0, 0, 4096)
    expected = [offset for _, _, offset, _ in written.records if offset < segment.size]
    assert read_headers(segment, scan_magic(segment, 0, segment.size), segment.size).at.tolist() == expected
    assert first_record(segment, 1, segment.size) == expected[1]
    assert first_record(segment, expected[-1] + 1, segment.size) is None


def test_scanning_sees_a_magic_number_across_the_edge_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.commit_log_headers._SCAN_BLOCK", 7)
    data = bytes(11) + encode(0, "t", 0, 0, 11)
    assert scan_magic(segment_of(data), 0, len(data)).tolist() == [11]
    assert first_record(segment_of(data), 0, len(data)) == 11


def test_joined_and_parted_headers_are_the_same_records() -> None:
    data = encode(0, "t", 0, 0, 0)
    data += encode(1, "t", 0, 1, len(data))
    segment = segment_of(data)
    both = read_headers(segment, scan_magic(segment, 0, len(data)), len(data))
    again = both.part(slice(0, 1)).joined(both.part(slice(1, 2)))
    assert all((mine == theirs).all() for mine, theirs in zip(both, again, strict=True))


def test_fillers_and_unwritten_space() -> None:
    data = commit_log_record.blank(40) + bytes(40)
    assert is_blank_at(segment_of(data), 0)
    assert not is_blank_at(segment_of(data), 8)
    assert is_blank_at(segment_of(data), 41)
    assert is_unwritten_at(segment_of(data), 8)
    assert not is_unwritten_at(segment_of(data), 0)


def test_gathering_nothing_is_an_empty_column() -> None:
    assert gather(segment_of(b""), np.empty(0, np.int64), ">i8").dtype == np.int64


def test_an_empty_file_is_an_empty_segment(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert Segment.open(str(tmp_path / "empty"), 5, 5, 9) == (b"", 5, 0, 5)
