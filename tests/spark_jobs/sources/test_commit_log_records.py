"""Compiled headers against the format's own reading of each single record."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record
from broker_core.formats.commit_log_record import MAGIC_V1, MAGIC_V2
from spark_jobs.sources.commit_log_loops import put_header
from spark_jobs.sources.commit_log_records import Headers, Segment, first_record, is_blank_at, is_unwritten_at
from tests.spark_jobs.segments import headers_of, log_of, raw_record, segment_of
from tests.spark_jobs.stores import encode, make_store, segment_path

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
MAGICS = [MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big")]


def header(data: bytes, at: int = 0, stop: int | None = None, base: int = 0) -> dict[str, int] | None:
    """The header of the record there, None where none is valid."""
    segment, room = segment_of(data, base), Headers.room(3)
    room[:] = -99
    size = put_header(segment.octets, segment.longs, base, at, segment.size if stop is None else stop, room, 1)
    assert (room[:, ::2] == -99).all(), "another record's row was written"
    if not size:
        return None
    found = dict(zip(Headers._fields, room[:, 1].tolist(), strict=False))
    assert (found["at"], found["size"]) == (at, size)
    return found


@given(
    topic=st.text(min_size=1, max_size=60) | st.just("t" * 200),
    properties=st.text(max_size=40),
    body=st.binary(max_size=300),
    born_v6=st.booleans(),
    store_v6=st.booleans(),
    before=st.integers(0, 50),
    behind=st.integers(0, 9),
    base=st.integers(0, 1 << 40),
    numbers=st.fixed_dictionaries(
        {
            "queue_id": INTS,
            "flag": INTS,
            "sys_flag": INTS,
            "reconsume_times": INTS,
            "queue_offset": LONGS,
            "born_timestamp": LONGS,
            "store_timestamp": LONGS,
            "prepared_transaction_offset": LONGS,
        }
    ),
)
def test_fields_and_places_are_those_of_the_format(
    topic: str,
    properties: str,
    body: bytes,
    born_v6: bool,
    store_v6: bool,
    before: int,
    behind: int,
    base: int,
    numbers: dict[str, int],
) -> None:
    topic = topic.encode("utf-8", "replace").decode()
    properties = properties.encode("utf-8", "replace").decode()
    record = commit_log_record.encode(
        topic=topic,
        physical_offset=base + before,
        body=body,
        properties=properties,
        born_host="::1" if born_v6 else "10.0.0.1",
        store_host="::2" if store_v6 else "10.0.0.2",
        **numbers,
    )
    data = bytes(before) + record + bytes(behind)
    decoded = commit_log_record.decode(data, before)
    body_at, topic_field_at, properties_field_at = commit_log_record.fields_at(data, before)
    topic_length = len(topic.encode())
    found = header(data, before, base=base)
    assert found is not None
    born_host = found.pop("born_host")
    assert born_v6 or born_host == 0x0A000001
    assert found == {
        "at": before,
        "size": len(record),
        "body_crc": decoded.body_crc,
        "queue_id": decoded.queue_id,
        "flag": decoded.flag,
        "queue_offset": decoded.queue_offset,
        "sys_flag": decoded.sys_flag,
        "born_ts": decoded.born_timestamp,
        "store_ts": decoded.store_timestamp,
        "reconsume_times": decoded.reconsume_times,
        "prepared_offset": decoded.prepared_transaction_offset,
        "body_at": body_at,
        "body_length": len(body),
        "topic_at": properties_field_at - topic_length,
        "topic_length": topic_length,
        "properties_at": properties_field_at + 2,
        "properties_length": len(properties.encode()),
    }
    assert found["topic_at"] - topic_field_at == (1 if topic_length <= 127 else 2)


RECORDS = [
    encode(3, "topic", 1, 2, 0),
    encode(3, "t" * 200, 1, 2, 0),
    encode(3, "topic", 1, 2, 0, "::1"),
    log_of([{"store_host": "::1", "born_host": "::2"}]),
    raw_record(0, b""),
    raw_record(0, b"", v2=True),
    raw_record(0, b"t" * 255, b"p" * 40, b"b" * 20),
]
CHANGED = st.tuples(st.integers(0, 400), st.integers(0, 255))


@given(
    record=st.sampled_from(RECORDS),
    changed=st.lists(CHANGED, max_size=3),
    cut=st.integers(0, 40),
    is_cut_off=st.booleans(),
    behind=st.binary(max_size=12),
)
@example(record=RECORDS[0], changed=[], cut=0, is_cut_off=False, behind=b"")
def test_changed_bytes_and_cut_records_are_judged_as_the_format_judges_them(
    record: bytes, changed: list[tuple[int, int]], cut: int, is_cut_off: bool, behind: bytes
) -> None:
    data = bytearray(record + behind)
    for at, value in changed:
        data[min(at, len(data) - 1)] = value
    stop = max(8, len(data) - cut)
    if is_cut_off:
        del data[stop:]
    found = header(bytes(data), stop=stop)
    assert (found["size"] if found else 0) == commit_log_record.measure(data, 0, stop, 0, check_crc=False)


@given(
    record=st.sampled_from(RECORDS),
    at=st.sampled_from([0, 36, 84, 88, 96, 100, 108]),
    value=INTS | st.integers(-120, 400),
)
def test_lengths_of_any_value_are_judged_as_the_format_judges_them(record: bytes, at: int, value: int) -> None:
    data = bytearray(record)
    data[at : at + 4] = value.to_bytes(4, "big", signed=True)
    data = data[: len(record)]
    found = header(bytes(data))
    assert (found["size"] if found else 0) == commit_log_record.measure(data, 0, len(data), 0, check_crc=False)


@pytest.mark.parametrize("record", RECORDS)
def test_every_byte_of_a_record_counts(record: bytes) -> None:
    for at in range(len(record)):
        data = bytearray(record)
        data[at] ^= 0xFF
        found = header(bytes(data))
        assert (found["size"] if found else 0) == commit_log_record.measure(data, 0, len(data), 0, check_crc=False)
        assert header(record, stop=at) is None
        assert header(record[: max(at, 8)], stop=at) is None
    assert header(record) is not None


@pytest.mark.parametrize("v2", [False, True])
def test_a_topic_of_any_length_is_judged_as_the_format_judges_it(v2: bool) -> None:
    record = bytearray(raw_record(0, b"t" * 50, v2=v2))
    for length in range(256):
        record[88 + v2] = length
        found = header(bytes(record))
        assert (found["size"] if found else 0) == commit_log_record.measure(record, 0, len(record), 0, check_crc=False)
        assert (found is not None) == (length == 50)


def test_a_body_shorter_than_nothing_is_none() -> None:
    record = bytearray(raw_record(0, b"t" * 255))
    record[84:89] = b"\xff\xff\xff\xff" + record[89:90]  # its last byte would be the length of the topic
    data = bytes(record[:88]) + b"t" * 255 + bytes(2)
    data = len(data).to_bytes(4, "big") + data[4:]
    assert commit_log_record.measure(data, 0, len(data), 0, check_crc=False) == 0
    assert header(data) is None


def test_the_smallest_record_is_found_at_the_very_end() -> None:
    record = raw_record(7, b"")
    assert len(record) == commit_log_record.RECORD_SIZE_MIN
    data = b"\xda" * 7 + record
    assert first_record(segment_of(data), 0, len(data)) == first_record(segment_of(data), 7, len(data)) == 7
    assert first_record(segment_of(data), 8, len(data)) is None


def test_a_record_of_another_place_is_none() -> None:
    data = encode(0, "t", 0, 0, 1000)
    assert header(data, base=1000) is not None
    assert header(data, base=999) is None
    assert header(bytes(1) + data, 1, base=1000) is None


def test_scanning_finds_every_record(tmp_path: Path) -> None:
    written = make_store(tmp_path, 30)
    segment = Segment.open(str(segment_path(tmp_path, 0)), 0, 0, 4096)
    expected = [offset for _, _, offset, _ in written.records if offset < segment.size]
    for before, at in zip([-1, *expected], expected, strict=False):
        assert first_record(segment, before + 1, segment.size) == first_record(segment, at, segment.size) == at
    assert first_record(segment, expected[-1] + 1, segment.size) is None


@st.composite
def litter(draw: Any) -> bytes:
    """Records, parts of them, records of another place, magic numbers and anything else."""
    data = b""
    for kind in draw(st.lists(st.integers(0, 5), max_size=7)):
        at = len(data)
        record = draw(
            st.sampled_from(
                [
                    encode(1, "topic", 0, 0, at),
                    raw_record(at, b"", v2=True),
                    encode(2, "topic", 0, 0, at, "::1"),
                    raw_record(at, b"t", body=raw_record(at + 88, b"inside")),
                ]
            )
        )
        data += [
            record,
            record[: draw(st.integers(0, len(record)))],
            encode(3, "t", 0, 0, at + 1),
            draw(st.sampled_from(MAGICS)) * draw(st.integers(1, 30)),
            draw(st.binary(max_size=100)),
            record,
        ][kind]
    return data


@given(data=litter(), start=st.integers(0, 300), cut=st.integers(0, 100))
def test_the_first_record_is_the_first_that_the_format_accepts(data: bytes, start: int, cut: int) -> None:
    stop = max(0, len(data) - cut)
    expected = next(
        (at for at in range(start, stop) if commit_log_record.measure(data, at, stop, at, check_crc=False)), None
    )
    assert first_record(segment_of(data), start, stop) == expected
    assert first_record(segment_of(data[:stop]), start, stop + 1000) == expected


def test_parted_headers_are_the_same_records() -> None:
    headers = headers_of(segment_of(log_of([{"queue_id": number, "topic": f"t{number}"} for number in range(5)])))
    assert headers.part(slice(1, 3)).queue_id.tolist() == [1, 2]
    some = headers.part(np.array([False, True, False, False, True]))
    assert some.queue_id.tolist() == [1, 4]
    assert some.at.tolist() == headers.at[[1, 4]].tolist()
    assert some.texts_end == headers.texts_end > headers.part(slice(0, 3)).texts_end
    assert headers.part(slice(0)).texts_end == 0
    assert {len(column) for column in some[:-1]} == {2}


def test_fillers_and_unwritten_space() -> None:
    data = commit_log_record.blank(40) + bytes(40)
    assert is_blank_at(segment_of(data), 0)
    assert not is_blank_at(segment_of(data), 8)
    assert not is_blank_at(segment_of(data), 40)
    assert is_blank_at(segment_of(data), 41)
    assert is_blank_at(segment_of(data), 48)
    assert is_unwritten_at(segment_of(data), 8)
    assert not is_unwritten_at(segment_of(data), 0)


@pytest.mark.parametrize("size", range(8))
def test_in_a_few_bytes_there_is_no_record_but_a_filler(size: int) -> None:
    segment = segment_of(bytes(size))
    assert (len(segment.octets), len(segment.longs)) == (size, 0)
    assert is_blank_at(segment, 0)
    assert first_record(segment, 0, 1000) is None


def test_an_empty_file_is_an_empty_segment(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert Segment.open(str(tmp_path / "empty"), 5, 5, 9) == (b"", 5, 0, 5)
