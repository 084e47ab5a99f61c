"""Records and their fields against the format's own reading of each single record."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record
from broker_core.formats.commit_log_record import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN
from broker_core.formats.commit_log_record import TRANSACTION_ROLLBACK as ROLLED_BACK
from spark_jobs.sources import commit_log_records
from spark_jobs.sources.commit_log_records import (
    Headers,
    RecordWalk,
    Segment,
    first_record,
    follow,
    is_blank_at,
    is_unwritten_at,
    read_headers,
)
from tests.spark_jobs.segments import log_of, raw_record, segment_of
from tests.spark_jobs.stores import encode

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
MAGICS = [MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big")]


def header(data: bytes, at: int = 0, stop: int | None = None, base: int = 0) -> dict[str, int] | None:
    """The header of the record there, None where none is valid."""
    segment = segment_of(data, base)
    stop = segment.size if stop is None else stop
    if at + RECORD_SIZE_MIN > stop:
        return None
    headers = read_headers(segment, np.array([at]), stop)
    assert len(headers.at) == (first_record(segment, at, stop) == at)
    return {name: int(column[0]) for name, column in headers._asdict().items()} if len(headers.at) else None


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
TOPICLESS = [raw_record(0, b""), raw_record(0, b"", v2=True)]


@given(
    record=st.sampled_from(RECORDS),
    at=st.sampled_from([0, 36, 84, 88, 96, 100, 108]),
    value=INTS | st.integers(-120, 400),
)
@example(record=raw_record(0, b""), at=36, value=ROLLED_BACK)
def test_numbers_of_any_value_are_judged_as_the_format_judges_them(record: bytes, at: int, value: int) -> None:
    data = bytearray(record)
    data[at : at + 4] = value.to_bytes(4, "big", signed=True)
    data = data[: len(record)]
    found = header(bytes(data))
    is_placeholder = at == 36 and value & ROLLED_BACK == ROLLED_BACK and record in TOPICLESS
    size = commit_log_record.measure(data, 0, len(data), 0, check_crc=False)
    assert (found["size"] if found else 0) == (0 if is_placeholder else size)


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
    assert walked(data, 7) == ([(7, b"", b"")], len(data), [])


def test_a_record_of_another_place_is_none() -> None:
    data = encode(0, "t", 0, 0, 1000)
    assert header(data, base=1000) is not None
    assert header(data, base=999) is None
    assert header(bytes(1) + data, 1, base=1000) is None


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
def test_a_segment_of_a_few_zero_bytes_is_blank_and_has_no_record(size: int) -> None:
    segment = segment_of(bytes(size))
    assert is_blank_at(segment, 0)
    assert first_record(segment, 0, 1000) is None


def test_an_empty_file_is_an_empty_segment(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    assert Segment.open(str(tmp_path / "empty"), 5) == (b"", 5, tmp_path.parent)


MAGIC = commit_log_record.MAGIC_V1.to_bytes(4, "big")


class Record(NamedTuple):
    """A record as a walk gives it: where, and its texts."""

    at: int
    topic: bytes
    properties: bytes


class Found(NamedTuple):
    """All that a walk gives."""

    records: list[Record]
    end: int
    gaps: list[tuple[int, int]]


def walked(data: bytes, start: int = 0, stop: int | None = None, *, until_unwritten: bool = False) -> Found:
    """What a walk finds."""
    segment, found = segment_of(data), list[Record]()
    walk = RecordWalk(segment, start, len(data) if stop is None else stop, until_unwritten=until_unwritten)
    for headers in walk:
        assert 0 < len(headers.at) <= commit_log_records.ROWS
        assert len(headers.at) == 1 or headers.size.sum() <= commit_log_records.SPAN_BYTES
        for one in map(Headers._make, zip(*(column.tolist() for column in headers), strict=True)):
            topic = data[one.topic_at : one.topic_at + one.topic_length]
            properties = data[one.properties_at : one.properties_at + one.properties_length]
            found.append(Record(one.at, topic, properties))
    return Found(found, walk.end, [tuple(gap) for gap in walk.gaps])


def expected(data: bytes, *, until_unwritten: bool = False) -> Found:
    """What the format finds in all of it, record by record."""

    def size_at(at: int) -> int:
        return commit_log_record.measure(data, at, len(data), at, check_crc=False)

    found, gaps, at, end = [], [], 0, 0
    while len(data) - at >= 8 and not commit_log_record.is_blank(data, at):
        if size := size_at(at):
            found.append(Record(at, commit_log_record.topic_at(data, at), commit_log_record.properties_at(data, at)))
            at = end = at + size
        elif until_unwritten and not any(data[at : at + 8]):
            break
        else:
            after = next((after for after in range(at + 1, len(data)) if size_at(after)), None)
            gaps.append((at, len(data) if after is None else after))
            if after is None:
                break
            at = after
    return Found(found, end, gaps)


@st.composite
def logs(draw: Any) -> bytes:
    """Logs with records, torn ones, those of another place, copies in bodies, fillers, magic numbers, anything."""
    data = b""
    for kind in draw(st.lists(st.integers(0, 9), max_size=12)):
        at = len(data)
        inner = encode(9, "inner", 0, 0, at + 98)
        whole = draw(
            st.sampled_from(
                [
                    encode(1, "topic", 0, 0, at),
                    encode(2, "t" * 200, 0, 0, at, "::1"),
                    raw_record(at, b"\xff", b"\x01\x02", v2=True),
                    encode(3, "t", 0, 0, at, body=MAGIC * 9),
                    encode(4, "t", 0, 0, at, body=bytes(10) + inner + MAGIC),
                ]
            )
        )
        data += {
            0: whole[: draw(st.integers(0, len(whole)))],
            1: encode(5, "elsewhere", 0, 0, at + 1),
            2: MAGIC * draw(st.integers(1, 20)),
            3: draw(st.binary(max_size=60)),
            4: bytes(draw(st.integers(0, 99))),
            5: b"\xff" * 20 + inner,
            6: commit_log_record.blank(8) if draw(st.booleans()) else b"",
        }.get(kind, whole)
    return data


@given(data=logs(), until_unwritten=st.booleans())
def test_a_walk_finds_the_records_that_the_format_finds(data: bytes, until_unwritten: bool) -> None:
    assert walked(data, until_unwritten=until_unwritten) == expected(data, until_unwritten=until_unwritten)


@given(
    data=logs(),
    sizes=st.fixed_dictionaries(
        {
            "ROWS": st.integers(1, 4),
            "FEW_ROWS": st.integers(1, 3),
            "SPAN_BYTES": st.integers(1, 700),
            "LANES_BYTES": st.integers(1, 3000),
            "FIRST_SIZE": st.integers(1, 300),
        }
    ),
)
def test_sizes_of_batches_and_lanes_do_not_change_the_records(data: bytes, sizes: dict[str, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sizes.items():
            patch.setattr(commit_log_records, name, value)
        assert walked(data) == expected(data)


@given(data=logs(), size=st.integers(1, 400), wanted=st.integers(1, 60), few=st.integers(1, 4))
def test_lanes_follow_the_sizes_as_one_does(data: bytes, size: int, wanted: int, few: int) -> None:
    in_order, at = list[int](), 0
    while len(data) - at >= RECORD_SIZE_MIN:
        in_order.append(at)
        length = int.from_bytes(data[at : at + 4], "big", signed=True)
        if length < RECORD_SIZE_MIN:
            break
        at += length
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_log_records, "FEW_ROWS", few)
        found = follow(segment_of(data), 0, len(data), size, wanted).tolist()
    assert found == in_order[: len(found)]
    assert bool(found) == bool(in_order)


@pytest.mark.parametrize(("each", "least"), [(1, 4), (50, 40), (1000, 400)])
def test_many_lanes_are_followed_up_to_one_that_begins_in_a_body(
    monkeypatch: pytest.MonkeyPatch, each: int, least: int
) -> None:
    data = b""
    for number in range(400):
        inner = encode(9, "forged", 0, 0, len(data) + 88 + 50) if number % each == each - 1 else bytes(150)
        data += encode(1, "t", 0, number, len(data), body=bytes(50) + inner + bytes(600))
    monkeypatch.setattr(commit_log_records, "FEW_ROWS", 4)
    assert least <= len(follow(segment_of(data), 0, len(data), len(data) // 400, 400)) <= 400
    assert walked(data) == expected(data)


def test_a_copy_of_a_record_inside_a_body_is_no_record() -> None:
    first = encode(0, "orders", 0, 0, 0)
    inside_at = len(first) + 88 + 10
    body = b"0123456789" + encode(9, "forged", 0, 0, inside_at) + b"tail"
    data = first + encode(1, "orders", 0, 1, len(first), body=body) + bytes(500)
    assert first_record(segment_of(data), inside_at, len(data)) == inside_at
    assert [record.at for record in walked(data).records] == [0, len(first)]


def test_a_range_holds_the_records_that_begin_in_it() -> None:
    data = log_of({"topic": f"t{number}"} for number in range(20))
    at = [record.at for record in expected(data).records]
    found = walked(data, at[5], at[12])
    assert ([record.at for record in found.records], found.end, found.gaps) == (at[5:12], at[12], [])
    assert walked(data, len(data)) == ([], len(data), [])


def test_texts_of_the_largest_size_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    largest, data = 0xFFFF, b""
    for topic, properties in ((255, largest), (largest, largest), (0, largest), (largest, 0), (1, 1)):
        data += raw_record(len(data), b"t" * topic, b"p" * properties, b"body", v2=topic > 255)
    for room in (commit_log_records.SPAN_BYTES, 2 * largest + 2):
        monkeypatch.setattr(commit_log_records, "SPAN_BYTES", room)
        assert walked(data) == expected(data)
        assert len(walked(data).records) == 5


@pytest.mark.parametrize(
    "head",
    [
        MAGIC,
        b"\xda",
        commit_log_record.SIZE_AND_MAGIC.pack(91, commit_log_record.MAGIC_V1),
        commit_log_record.SIZE_AND_MAGIC.pack((1 << 31) - 1, commit_log_record.MAGIC_V2),
    ],
)
def test_bytes_that_look_like_a_record_at_every_offset_are_passed_over(head: bytes) -> None:
    torn = b"\xff" * 8 + head * (300_000 // len(head))
    record = encode(1, "topic", 0, 0, len(torn))
    found = walked(torn + record)
    assert ([one.at for one in found.records], found.gaps) == ([len(torn)], [(0, len(torn))])
