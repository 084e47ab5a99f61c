"""Arrow columns against the same records decoded one by one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record, consume_queue_unit, message_properties
from spark_jobs.sources.commit_log_columns import (
    COLUMN_TYPES,
    NONE,
    PROPERTIES,
    TABLE,
    as_text,
    read_columns,
    read_properties,
    record_batch,
    slices,
)
from spark_jobs.sources.consume_queues import SCHEDULE_TOPIC
from tests.spark_jobs.segments import headers_of, log_of, raw_record, segment_of
from tests.spark_jobs.stores import make_store, segment_path

SIZE = 1 << 16


@pytest.mark.parametrize("born_host", ["10.1.2.3", "2001:db8::1"])
def test_every_column_is_what_the_format_reads(tmp_path: Path, born_host: str) -> None:
    written = make_store(tmp_path, 60, born_host=born_host, segment=SIZE)
    data = segment_path(tmp_path, 0).read_bytes()
    segment = segment_of(data[: written.end])
    rows = record_batch(segment, headers_of(segment), TABLE.arrow(COLUMN_TYPES)).to_pylist()
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


def columns_of(data: bytes, *names: str, store: Path = Path("nowhere")) -> dict[str, pa.Array]:
    segment = segment_of(data, store=store)
    return read_columns(segment, headers_of(segment), names)


def log_with_topics(topics: Sequence[bytes]) -> bytes:
    data = b""
    for topic in topics:
        data += raw_record(len(data), topic, v2=len(topic) > 127)
    return data


def test_topics_are_those_of_the_records_and_each_is_kept_once_where_a_dictionary_is_asked_for() -> None:
    segment = segment_of(log_with_topics(TOPICS))
    expected = [topic.decode("utf-8", "replace") for topic in TOPICS]
    for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        batch = record_batch(segment, headers_of(segment), pa.schema([("topic", kind)]))
        assert batch.column(0).to_pylist() == expected
    names = batch.column(0).dictionary.to_pylist()
    assert len(set(names)) == len(names) == 7


def test_no_records_have_columns_too() -> None:
    segment = segment_of(log_with_topics([b"a"]))
    none = headers_of(segment).part(slice(0))
    batch = record_batch(segment, none, TABLE.arrow(COLUMN_TYPES))
    assert (batch.num_rows, batch.schema) == (0, TABLE.arrow(COLUMN_TYPES))


def test_the_due_time_of_a_delayed_message_comes_from_its_queue(tmp_path: Path) -> None:
    topics = ["orders", SCHEDULE_TOPIC, "orders", SCHEDULE_TOPIC, SCHEDULE_TOPIC]
    data = log_of([{"topic": topic, "queue_id": 3, "queue_offset": number} for number, topic in enumerate(topics)])
    assert columns_of(data, "due_ts", store=tmp_path)["due_ts"].to_pylist() == [None] * 5
    headers, units = headers_of(segment_of(data)), [(0, 0, 0)] * 5
    for number in (1, 3):
        units[number] = (int(headers.at[number]), int(headers.size[number]), 1_700_000_000_000 + number)
    folder = tmp_path / "consumequeue" / SCHEDULE_TOPIC / "3"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(b"".join(consume_queue_unit.UNIT.pack(*unit) for unit in units))
    found = columns_of(data, "due_ts", store=tmp_path)["due_ts"]
    assert found.to_pylist() == [None, 1_700_000_000_001, None, 1_700_000_000_003, None]


def test_properties_can_be_requested_in_any_order() -> None:
    data = log_of([{"properties": f"TAGS\x01t{number}\x02KEYS\x01k{number}"} for number in range(5)])
    for wanted in (("keys", "tags"), ("tags", "topic", "keys")):
        columns = columns_of(data, *wanted)
        assert columns["tags"].to_pylist() == [f"t{number}" for number in range(5)]
        assert columns["keys"].to_pylist() == [f"k{number}" for number in range(5)]


def test_the_schema_is_the_one_spark_is_promised() -> None:
    assert TABLE.arrow(["topic", "total_size", "store_ts", "body"]) == pa.schema(
        [("topic", pa.string()), ("total_size", pa.int32()), ("store_ts", pa.int64()), ("body", pa.binary())]
    )


HOSTS = ["10.0.0.1", "2001:db8::ff", "10.0.0.255", "10.0.0.1", "::1", "2001:db8::ff", "255.255.255.255", "::a00:1"]


@given(st.lists(st.ip_addresses().map(str) | st.sampled_from(HOSTS), min_size=1, max_size=20))
@example([host for host in HOSTS if "." in host])
@example([host for host in HOSTS if ":" in host])
def test_an_address_is_that_of_the_producer_without_its_port(hosts: list[str]) -> None:
    records = [{"born_host": host, "born_port": 1000 + number} for number, host in enumerate(hosts)]
    column = columns_of(log_of(records), "born_host")["born_host"]
    assert column.to_pylist() == hosts
    assert len(column.dictionary) == len(set(hosts))


PLACES = st.lists(st.tuples(st.integers(0, 80), st.integers(NONE, 20)), max_size=30)


def within(data: bytes, drawn: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """The places in order; none goes beyond the next one, or the buffer. Many of them end with it."""
    at = sorted(min(begin, len(data)) for begin, _ in drawn)
    ends = [*at[1:], len(data)]
    return at, [min(length, end - begin) for begin, end, (_, length) in zip(at, ends, drawn, strict=False)]


@given(
    data=st.binary(min_size=8, max_size=80),
    drawn=PLACES,
    kind=st.sampled_from([np.int64, np.int32]),
)
def test_a_column_has_the_bytes_of_each_place(
    data: bytes, drawn: list[tuple[int, int]], kind: type[np.int64 | np.int32]
) -> None:
    at, length = within(data, drawn)
    found = slices(data, np.array(at, kind), np.array(length, kind))
    assert found.type == pa.binary()
    assert found.to_pylist() == [
        None if size == NONE else data[begin : begin + size] for begin, size in zip(at, length, strict=True)
    ]
    assert found.null_count == length.count(NONE)
    found.validate(full=True)


def test_bytes_that_are_no_text_are_replaced() -> None:
    binary = slices(b"ok\xffend\xc3at", np.array([0, 2, 0, 3, 3]), np.array([2, 1, NONE, 3, 4]))
    assert as_text(binary).to_pylist() == ["ok", "\ufffd", None, "end", "end\ufffd"]


NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "REAL_TOPIC", "A_NAME_OF_MORE_THAN_SIXTEEN_LETTERS", "KEY")


def properties(
    texts: Sequence[str], topics: Sequence[int] = (1,), names: Sequence[str] = NAMES
) -> dict[str, list[str | None]]:
    """Of records with these texts, in turn with topics of so many bytes; behind the last text there is nothing."""
    data = b""
    for row, text in enumerate(texts):
        data += raw_record(
            len(data),
            b"t" * topics[row % len(topics)],
            text.encode("utf-8", "surrogateescape"),
            b"\x02TAGS\x01no\x02",
            v2=True,
        )
    segment = segment_of(data)
    headers = headers_of(segment)
    assert len(headers.at) == len(texts)
    return {name: values.to_pylist() for name, values in read_properties(segment, headers, names).items()}


def expected(text: str, name: str) -> str | None:
    """What the format reads; what is no text is replaced."""
    value = message_properties.decode(text).get(name)
    return None if value is None else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


TEXTS = [
    "TAGS\x01a\x02",
    "TAGS\x01a",
    "X\x01y\x02TAGS\x01a\x02",
    "TAGS\x01b\x02TAGS\x01a\x02",
    "MYTAGS\x01a\x02",
    "",
    "TAGS\x01\x02",
    "X\x01TAGS\x01a\x02",
    "TAGS\x01a\nb\x02",
    "TAGS\x01a\x01b\x02",
    "TAGS",
    "X\x01\x02TAGS\x01a\x02",
    "TAGS\x01a\x02TAGS\x01\x02",
    "\x02\x02TAGS\x01größe\x02",
    "\x01x\x02",
    "UNIQ_KEY\x01u\x02",
    "UNIQ_KEYS\x01u\x02",
    "TAGS\x01",
    "KEYS\x01\x01\x02",
    "KEY\x01k\x02KEYS\x01s\x02",
    "KEYS\x01s\x02KEY\x01k",
    "T",
    "TAGS\x01\udcff\x02",
    "\x02" * 200 + "TAGS\x01a",
    "KEYS\x01" + "k" * 30_000,
    "TAGS\x01a\x02" + "X\x01y\x02" * 90,
    "tags\x01a\x02",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_property_is_found_as_the_format_finds_it(text: str) -> None:
    assert properties([text]) == {name: [expected(text, name)] for name in NAMES}


VALUES = st.text("ab\x01ü", max_size=10) | st.integers(50, 140).map(lambda size: "v" * size) | st.just("\udcff")
ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([*NAMES, "", "TAG", "KEYSX"]),
        st.sampled_from(["\x01", ""]),
        VALUES,
        st.sampled_from(["\x02", "\x02\x02"]),
    ),
    max_size=5,
)


@given(
    st.lists(st.tuples(ENTRIES, st.booleans()), max_size=12).filter(len),
    st.lists(st.integers(0, 140), min_size=1, max_size=12),
    st.lists(st.sampled_from(NAMES), max_size=6, unique=True),
)
def test_each_of_many_records_has_its_own_properties(
    drawn: list[tuple[list[tuple[str, ...]], bool]], topics: list[int], names: list[str]
) -> None:
    texts = []
    for entries, is_cut in drawn:
        text = "".join("".join(entry) for entry in entries)
        texts.append(text.rstrip("\x02") if is_cut else text)
    assert properties(texts, topics, names) == {name: [expected(text, name) for text in texts] for name in names}


def test_bytes_of_topics_and_of_other_records_are_no_properties() -> None:
    data = raw_record(0, b"TAGS\x01topic\x02", b"X\x01y")
    data += raw_record(len(data), b"\x02TAGS\x01topic\x02", b"TAGS")
    data += raw_record(len(data), b"\x01z\x02", b"\x01v\x02KEYS\x01")
    data += raw_record(len(data), b"k", b"TAGS\x01t")
    segment = segment_of(data)
    found = read_properties(segment, headers_of(segment), ("TAGS", "KEYS"))
    assert found["TAGS"].to_pylist() == [None, None, None, "t"]
    assert found["KEYS"].to_pylist() == [None] * 4
