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
    Gap,
    Headers,
    RecordWalk,
    Segment,
    first_record,
    is_blank_at,
    is_unwritten_at,
    read_headers,
)
from tests.spark_jobs.segments import headers_of, log_of, raw_record, segment_of
from tests.spark_jobs.stores import encode, make_store, segment_path

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
MAGICS = [MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big")]


def header(data: bytes, at: int = 0, stop: int | None = None, base: int = 0) -> dict[str, int] | None:
    """The header of the record there, None where none is valid."""
    segment = segment_of(data, base)
    stop = segment.size if stop is None else stop
    if at + RECORD_SIZE_MIN > stop:
        return None
    headers, valid = read_headers(segment, np.array([at]), stop)
    found = {name: int(column[0]) for name, column in headers._asdict().items()}
    assert first_record(segment, at, stop) == at if valid[0] else first_record(segment, at, stop) != at
    return found if valid[0] else None


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
@example(record=raw_record(0, b""), at=36, value=ROLLED_BACK)
def test_lengths_of_any_value_are_judged_as_the_format_judges_them(record: bytes, at: int, value: int) -> None:
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


def test_parted_headers_are_the_same_records() -> None:
    headers = headers_of(segment_of(log_of([{"queue_id": number, "topic": f"t{number}"} for number in range(5)])))
    assert headers.part(slice(1, 3)).queue_id.tolist() == [1, 2]
    some = headers.part(np.array([False, True, False, False, True]))
    assert some.queue_id.tolist() == [1, 4]
    assert some.at.tolist() == headers.at[[1, 4]].tolist()
    assert {len(column) for column in some} == {2}


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
    assert Segment.open(str(tmp_path / "empty"), 5) == (b"", 5)


SIZE = 1 << 16
MAGIC = commit_log_record.MAGIC_V1.to_bytes(4, "big")


class Walked(NamedTuple):
    """What a walk found."""

    at: list[int]
    end: int
    gaps: list[Gap]


def walked(root: Path, *, resume: bool, start: int = 0, stop: int = SIZE) -> Walked:
    return walked_in(Segment.open(str(segment_path(root, 0)), 0), start, stop, resume=resume)


def walked_in(segment: Segment, start: int, stop: int, *, resume: bool) -> Walked:
    walk = RecordWalk(segment, start, stop, resume=resume)
    return Walked([at for headers in walk for at in headers.at.tolist()], walk.end, walk.gaps)


def test_a_copy_of_a_record_inside_a_body_is_no_record(tmp_path: Path) -> None:
    first = encode(0, "orders", 0, 0, 0)
    inside_at = len(first) + 88 + 10
    body = b"0123456789" + encode(9, "forged", 0, 0, inside_at) + b"tail"
    outer = encode(1, "orders", 0, 1, len(first), body=body)
    (tmp_path / "commitlog").mkdir()
    segment_path(tmp_path, 0).write_bytes(first + outer + bytes(500))
    segment = Segment.open(str(segment_path(tmp_path, 0)), 0)
    assert first_record(segment, inside_at, segment.size) == inside_at
    assert walked(tmp_path, resume=True).at == [0, len(first)]


def test_a_range_holds_the_records_that_begin_in_it(tmp_path: Path) -> None:
    written = make_store(tmp_path, 20, segment=SIZE)
    start, stop = written.records[5][2], written.records[12][2]
    found = walked(tmp_path, resume=True, start=start, stop=stop)
    assert found == ([record[2] for record in written.records[5:12]], stop, [])


def test_unwritten_space_has_no_records(tmp_path: Path) -> None:
    written = make_store(tmp_path, 2, segment=SIZE)
    assert walked(tmp_path, resume=True, start=written.end) == ([], written.end, [(written.end, SIZE)])
    assert walked(tmp_path, resume=False, start=written.end) == ([], written.end, [])
    assert walked(tmp_path, resume=True, start=SIZE) == ([], SIZE, [])


def test_records_of_both_magics_and_all_addresses_follow_one_another() -> None:
    data, at = b"", []
    for topic in ("t", "t" * 127, "t" * 128, "t" * 200, "t" * 255):
        for born, store in (("10.0.0.1", "::1"), ("::1", "10.0.0.1"), ("::1", "::2"), ("10.0.0.1", "10.0.0.2")):
            at.append(len(data))
            data += commit_log_record.encode(
                topic=topic,
                queue_id=0,
                queue_offset=0,
                physical_offset=len(data),
                body=b"body",
                born_host=born,
                store_host=store,
                properties="KEYS\x01k\x02",
            )
    found = records(segment_of(data), resume=False)
    assert found == expected(data, resume=False)
    assert [one.at for one in found.records] == at


def test_texts_of_the_largest_size_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    largest, data = 0xFFFF, b""
    for topic, properties in ((255, largest), (largest, largest), (0, largest), (largest, 0), (1, 1)):
        data += raw_record(len(data), b"t" * topic, b"p" * properties, b"body", v2=topic > 255)
    for room in (commit_log_records.TEXT_BYTES, 2 * largest + 2):
        monkeypatch.setattr(commit_log_records, "TEXT_BYTES", room)
        found = records(segment_of(data), resume=True)
        assert found == expected(data, resume=True)
        assert len(found.records) == 5


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


def records(segment: Segment, *, resume: bool) -> Found:
    """What the walk finds."""
    walk = RecordWalk(segment, 0, segment.size, resume=resume)
    found = [record for headers in walk for record in texts(segment, headers)]
    return Found(found, walk.end, [tuple(gap) for gap in walk.gaps])


def texts(segment: Segment, headers: Headers) -> list[Record]:
    """The records with their texts."""
    octets = segment.buffer
    assert 0 < len(headers.at) <= commit_log_records.ROWS
    total = int(headers.topic_length.sum() + headers.properties_length.sum())
    assert len(headers.at) == 1 or total <= commit_log_records.TEXT_BYTES
    return [
        Record(at, octets[topic : topic + topic_length], octets[properties : properties + properties_length])
        for at, topic, topic_length, properties, properties_length in zip(
            *(
                column.tolist()
                for column in (
                    headers.at,
                    headers.topic_at,
                    headers.topic_length,
                    headers.properties_at,
                    headers.properties_length,
                )
            ),
            strict=True,
        )
    ]


def expected(data: bytes, *, resume: bool) -> Found:
    """What the format finds, record by record."""

    def size_at(at: int) -> int:
        return commit_log_record.measure(data, at, len(data), at, check_crc=False)

    found, gaps, at = [], [], 0
    while len(data) - at >= 8 and not commit_log_record.is_blank(data, at):
        if size := size_at(at):
            found.append(Record(at, commit_log_record.topic_at(data, at), commit_log_record.properties_at(data, at)))
            at += size
        elif not resume:
            break
        else:
            after = next((after for after in range(at + 1, len(data)) if size_at(after)), None)
            gaps.append((at, len(data) if after is None else after))
            if after is None:
                break
            at = after
    return Found(found, at, gaps)


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


@given(data=logs(), resume=st.booleans())
def test_a_walk_finds_the_records_that_the_format_finds(data: bytes, resume: bool) -> None:
    assert records(segment_of(data), resume=resume) == expected(data, resume=resume)


@given(data=logs(), rows=st.integers(1, 4), few=st.integers(1, 3), text_bytes=st.integers(1, 700))
def test_batch_sizes_do_not_change_the_records(data: bytes, rows: int, few: int, text_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("ROWS", rows), ("FEW_ROWS", few), ("TEXT_BYTES", text_bytes)):
            patch.setattr(commit_log_records, name, value)
        assert records(segment_of(data), resume=True) == expected(data, resume=True)


def test_all_gaps_are_noted() -> None:
    data, at, gaps = b"", [], []
    for number in range(10):
        gaps.append((len(data), len(data) + 1 + number))
        data += b"\xff" * (1 + number)
        at.append(len(data))
        data += raw_record(len(data), b"t")
    assert walked_in(segment_of(data), 0, len(data), resume=True) == (at, len(data), gaps)
    torn = walked_in(segment_of(data + b"\xff" * 20), 0, len(data) + 20, resume=True)
    assert torn == (at, len(data), [*gaps, (len(data), len(data) + 20)])


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
    found = walked_in(segment_of(torn + record), 0, len(torn) + len(record), resume=True)
    assert found == ([len(torn)], len(torn) + len(record), [(0, len(torn))])
