"""Which records are found, one after the other and around places that hold none."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record
from spark_jobs.sources import commit_log_records
from spark_jobs.sources.commit_log_records import Gap, Headers, RecordWalk, Segment, first_record
from tests.spark_jobs.segments import raw_record, segment_of
from tests.spark_jobs.stores import encode, make_store, segment_path, tear

SIZE = 1 << 16
MAGIC = commit_log_record.MAGIC_V1.to_bytes(4, "big")


class Walked(NamedTuple):
    """What a walk found."""

    at: list[int]
    end: int
    gaps: list[Gap]


def walked(root: Path, *, resume: bool, start: int = 0, stop: int = SIZE) -> Walked:
    return walked_in(Segment.open(str(segment_path(root, 0)), 0, start, stop), start, stop, resume=resume)


def walked_in(segment: Segment, start: int, stop: int, *, resume: bool) -> Walked:
    walk = RecordWalk(segment, start, stop, resume=resume)
    return Walked([at for headers in walk for at in headers.at.tolist()], walk.end, walk.gaps)


@pytest.mark.parametrize("resume", [True, False])
def test_every_record_once(tmp_path: Path, resume: bool) -> None:
    written = make_store(tmp_path, 100, segment=SIZE)
    found = walked(tmp_path, resume=resume)
    assert found == (
        [offset for _, _, offset, _ in written.records],
        written.end,
        [(written.end, SIZE)] if resume else [],
    )


def test_a_torn_record_ends_the_walk(tmp_path: Path) -> None:
    written = make_store(tmp_path, 20, segment=SIZE)
    torn = written.records[7][2]
    tear(tmp_path, torn, 12, SIZE)
    found = walked(tmp_path, resume=False)
    assert (len(found.at), found.end, found.gaps) == (7, torn, [])


def test_with_resume_only_the_torn_records_are_missing(tmp_path: Path) -> None:
    written = make_store(tmp_path, 20, segment=SIZE)
    torn = (0, 7, 8, 15)
    for index in torn:
        tear(tmp_path, written.records[index][2], 12, SIZE)
    found = walked(tmp_path, resume=True, stop=written.end)
    begins = [record[2] for record in written.records]
    assert found == (
        [at for index, at in enumerate(begins) if index not in torn],
        written.end,
        [(0, begins[1]), (begins[7], begins[9]), (begins[15], begins[16])],
    )


def test_a_copy_of_a_record_inside_a_body_is_no_record(tmp_path: Path) -> None:
    first = encode(0, "orders", 0, 0, 0)
    inside_at = len(first) + 88 + 10
    body = b"0123456789" + encode(9, "forged", 0, 0, inside_at) + b"tail"
    outer = encode(1, "orders", 0, 1, len(first), body=body)
    (tmp_path / "commitlog").mkdir()
    segment_path(tmp_path, 0).write_bytes(first + outer + bytes(500))
    segment = Segment.open(str(segment_path(tmp_path, 0)), 0, 0, SIZE)
    assert first_record(segment, inside_at, segment.size) == inside_at
    assert walked(tmp_path, resume=True).at == [0, len(first)]


def test_a_range_holds_the_records_that_begin_in_it(tmp_path: Path) -> None:
    written = make_store(tmp_path, 20, segment=SIZE)
    start, stop = written.records[5][2], written.records[12][2]
    found = walked(tmp_path, resume=True, start=start, stop=stop)
    assert found == ([record[2] for record in written.records[5:12]], stop, [])


def test_nothing_begins_where_nothing_was_written(tmp_path: Path) -> None:
    written = make_store(tmp_path, 2, segment=SIZE)
    assert walked(tmp_path, resume=True, start=written.end) == ([], written.end, [(written.end, SIZE)])
    assert walked(tmp_path, resume=False, start=written.end) == ([], written.end, [])
    assert walked(tmp_path, resume=True, start=SIZE) == ([], SIZE, [])


@pytest.mark.parametrize("size", range(10))
def test_where_a_few_bytes_are_left_nothing_begins(size: int) -> None:
    found = walked_in(segment_of(bytes(size)), 0, 1000, resume=True)
    assert found == ([], 0, [(0, size)] if size >= 8 else [])


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
    found = [record for headers in walk for record in texts(headers)]
    return Found(found, walk.end, [tuple(gap) for gap in walk.gaps])


def texts(headers: Headers) -> list[Record]:
    """The records with their texts."""
    octets = headers.texts.tobytes()
    assert 0 < len(headers.at) <= commit_log_records.ROWS
    assert headers.texts_end <= commit_log_records.TEXT_BYTES
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
def test_of_any_log_there_is_found_what_the_format_finds(data: bytes, resume: bool) -> None:
    assert records(segment_of(data), resume=resume) == expected(data, resume=resume)


@given(data=logs(), rows=st.integers(1, 4), gaps=st.integers(1, 3), text_bytes=st.integers(300, 700))
def test_what_is_looked_at_together_changes_nothing(data: bytes, rows: int, gaps: int, text_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("ROWS", rows), ("GAPS", gaps), ("TEXT_BYTES", text_bytes)):
            patch.setattr(commit_log_records, name, value)
        assert records(segment_of(data), resume=True) == expected(data, resume=True)


def test_as_many_records_and_texts_are_given_at_a_time_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b""
    for _ in range(10):
        data += raw_record(len(data), b"topic", b"x" * 93)  # with the length between them they take 100 bytes

    def sizes() -> list[int]:
        return [len(headers.at) for headers in RecordWalk(segment_of(data), 0, len(data), resume=False)]

    assert sizes() == [10]
    monkeypatch.setattr(commit_log_records, "ROWS", 4)
    assert sizes() == [4, 4, 2]
    for room, together in ((299, 2), (300, 3), (100, 1)):
        monkeypatch.setattr(commit_log_records, "TEXT_BYTES", room)
        assert sizes() == [together] * (10 // together) + [10 % together] * (10 % together > 0)


@pytest.mark.parametrize("most", [1, 2, 3, 10, 11, 1000])
def test_as_many_gaps_as_there_are_at_a_time_are_all_noted(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(commit_log_records, "GAPS", most)
    data, at, gaps = b"", [], []
    for number in range(10):
        gaps.append((len(data), len(data) + 1 + number))
        data += b"\xff" * (1 + number)
        at.append(len(data))
        data += raw_record(len(data), b"t")
    assert walked_in(segment_of(data), 0, len(data), resume=True) == (at, len(data), gaps)
    torn = walked_in(segment_of(data + b"\xff" * 20), 0, len(data) + 20, resume=True)
    assert torn == (at, len(data), [*gaps, (len(data), len(data) + 20)])


@given(st.binary(max_size=3000), st.booleans())
def test_bytes_that_are_no_log_hold_nothing(data: bytes, resume: bool) -> None:
    found = walked_in(segment_of(data), 0, len(data), resume=resume)
    assert (found.at, found.end) == ([], 0)


@pytest.mark.parametrize(
    "head",
    [
        MAGIC,
        b"\xda",
        commit_log_record.SIZE_AND_MAGIC.pack(91, commit_log_record.MAGIC_V1),
        commit_log_record.SIZE_AND_MAGIC.pack((1 << 31) - 1, commit_log_record.MAGIC_V2),
    ],
)
def test_what_begins_as_a_record_everywhere_is_passed_over(head: bytes) -> None:
    torn = b"\xff" * 8 + head * (300_000 // len(head))
    record = encode(1, "topic", 0, 0, len(torn))
    found = walked_in(segment_of(torn + record), 0, len(torn) + len(record), resume=True)
    assert found == ([len(torn)], len(torn) + len(record), [(0, len(torn))])


@pytest.mark.parametrize("body", [100, 5000, 400_000])
def test_records_far_apart_and_close_together_are_all_found(body: int) -> None:
    data, at = b"", []
    for size in [0] * 50 + [body] * 8 + [0] * 2000:
        at.append(len(data))
        data += raw_record(len(data), b"t", body=bytes(size))
    assert walked_in(segment_of(data), 0, len(data), resume=True) == (at, len(data), [])
