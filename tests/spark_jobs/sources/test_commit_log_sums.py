"""Sums made by the source against sums made record by record."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats import commit_log_record
from spark_jobs.sources.commit_log_columns import Columns, Source
from spark_jobs.sources.commit_log_due import DueTimes
from spark_jobs.sources.commit_log_sums import added_up, arrow_sums_schema, size_classes, sums, sums_schema, wanted
from tests.spark_jobs.segments import headers_of, log_of, segment_of
from tests.spark_jobs.sources.test_commit_log_columns import SIZE, opened
from tests.spark_jobs.stores import make_store, segment_path

MINUTE = 60_000


def test_sums_are_those_of_the_records(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60, segment=SIZE)
    source, headers = opened(tmp_path)
    columns = (
        "topic",
        "messages",
        "queue_id",
        "minute_ts",
        "size_class",
        "sum_total_size",
        "min_store_ts",
        "max_end",
        "born_host",
        "tags",
    )
    found = sums(Columns(source, headers, columns), columns)
    data = segment_path(tmp_path, 0).read_bytes()
    expected: dict[tuple[Any, ...], list[int]] = {}
    for topic, queue, offset, size in written.records:
        record = commit_log_record.decode(data, offset)
        stored, length = record.store_timestamp, len(record.body)
        tag = record.properties.partition("TAGS\x01")[2].partition("\x02")[0] or None
        group = (topic, queue, stored // MINUTE * MINUTE, 1 << (length - 1).bit_length(), "127.0.0.1", tag)
        row = expected.setdefault(group, [0, 0, stored, 0])
        row[0], row[1], row[3] = row[0] + 1, row[1] + size, offset + size
    assert len(expected) > 20
    assert {
        (row["topic"], row["queue_id"], row["minute_ts"], row["size_class"], row["born_host"], row["tags"]): [
            row["messages"],
            row["sum_total_size"],
            row["min_store_ts"],
            row["max_end"],
        ]
        for row in found.to_pylist()
    } == expected
    assert found.schema == pa.schema(
        [
            (
                name,
                pa.string()
                if name in ("topic", "born_host", "tags")
                else pa.int32()
                if name == "queue_id"
                else pa.int64(),
            )
            for name in columns
        ]
    )


def test_without_keys_there_is_one_row(tmp_path: Path) -> None:
    written = make_store(tmp_path, 7, segment=SIZE)
    assert sums(Columns(*opened(tmp_path), ()), ("messages", "max_physical_offset")).to_pylist() == [
        {"messages": 7, "max_physical_offset": written.records[-1][2]}
    ]


def test_keys_far_apart_and_many_of_them_are_told_apart(tmp_path: Path) -> None:
    written = make_store(tmp_path, 40, segment=SIZE)
    columns = ("physical_offset", "topic", "store_ts", "messages", "max_store_ts")
    found = sums(Columns(*opened(tmp_path), columns), columns)
    assert [
        (row["topic"], row["physical_offset"])
        for row in sorted(found.to_pylist(), key=lambda row: row["physical_offset"])
    ] == [(topic, at) for topic, _, at, _ in written.records]
    assert all(row["messages"] == 1 and row["max_store_ts"] == row["store_ts"] for row in found.to_pylist())


def test_sums_of_parts_are_added_up() -> None:
    columns = ("messages", "topic", "producer_group", "min_store_ts", "max_end", "queue_id", "sum_total_size")
    schema = arrow_sums_schema(columns)
    rows = [
        (1, "a", None, 5, 100, 0, 10),
        (2, "a", None, 3, 90, 0, 20),
        (4, "a", "tx", 3, 90, 0, 20),
        (8, "b", None, 9, 300, 1, 5),
    ]
    batches = [pa.RecordBatch.from_pylist([dict(zip(columns, row, strict=True))], schema=schema) for row in rows]
    found = pa.Table.from_batches(added_up(batches))
    assert found.schema == schema
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == sorted(
        [(3, "a", None, 3, 100, 0, 30), *rows[2:]], key=lambda row: row[0]
    )
    assert list(added_up([])) == []


def test_size_classes_are_powers_of_two() -> None:
    sizes = [0, 1, 2, 3, 4, 5, 255, 256, 257, 1 << 30, (1 << 30) + 1]
    assert size_classes(np.array(sizes)).tolist() == [1, 1, 2, 4, 4, 8, 256, 256, 512, 1 << 30, 1 << 31]


def test_a_schema_says_what_is_counted_and_by_what() -> None:
    assert sums_schema(("topic", "minute_ts"), ("messages", "max_store_ts")) == (
        "topic string, minute_ts long, messages long, max_store_ts long"
    )
    assert wanted(["topic", "messages", "sum_flag", "minute_ts"]) == (
        ("topic", "minute_ts"),
        (("messages", ""), ("sum", "flag")),
    )


@pytest.mark.parametrize(
    ("keys", "measures"),
    [(("body",), ()), (("colour",), ()), ((), ("sum_topic",)), ((), ("most_flag",)), ((), ("topic",))],
)
def test_what_cannot_be_counted_is_refused(keys: tuple[str, ...], measures: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"cannot be counted|have no sum"):
        sums_schema(keys, measures)


NUMBERS = [(1 << 63) - 1, 0, -(1 << 63), 0, -5, (1 << 63) - 3, (1 << 63) - 1]


def part_of(*columns: str, **fields: Sequence[int | str]) -> Columns:
    """Records whose fields are these, one after the other."""
    segment = segment_of(
        log_of([dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)])
    )
    return Columns(Source(segment, DueTimes(Path("nowhere"))), headers_of(segment), columns)


def test_numbers_from_end_to_end_are_told_apart() -> None:
    columns = ("queue_offset", "messages")
    assert [tuple(row.values()) for row in sums(part_of(*columns, queue_offset=NUMBERS), columns).to_pylist()] == [
        ((1 << 63) - 1, 2),
        (0, 2),
        (-(1 << 63), 1),
        (-5, 1),
        ((1 << 63) - 3, 1),
    ]


def test_the_smallest_and_the_largest_are_found_from_end_to_end() -> None:
    columns = ("topic", "min_queue_offset", "max_queue_offset", "messages")
    topics = ["a", "b", "a", "c", "b", "a", "b"]
    part = part_of(*columns, topic=topics, queue_offset=NUMBERS)
    assert [tuple(row.values()) for row in sums(part, columns).to_pylist()] == [
        (topic, min(of), max(of), len(of))
        for topic in "abc"
        for of in [[number for name, number in zip(topics, NUMBERS, strict=True) if name == topic]]
    ]


VALUES = st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-2, 2)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "TAGS"]), st.sampled_from(["", "TAGS\x01t\x02", "TAGS\x01u"]), VALUES, VALUES
        ),
        min_size=1,
        max_size=30,
    )
)
def test_whatever_the_records_hold_the_sums_are_theirs(drawn: list[tuple[str, str, int, int]]) -> None:
    topics, properties, flags, queues = zip(*drawn, strict=True)
    columns = ("queue_id", "tags", "messages", "topic", "sum_flag", "min_flag", "max_flag")
    part = part_of(*columns, topic=topics, properties=properties, flag=flags, queue_id=queues)
    expected: dict[tuple[int, str | None, str], list[int]] = {}
    for topic, text, flag, queue in drawn:
        expected.setdefault((queue, text[5:6] or None, topic), []).append(flag)
    assert [tuple(row.values()) for row in sums(part, columns).to_pylist()] == [
        (queue, tag, len(of), topic, sum(of), min(of), max(of)) for (queue, tag, topic), of in expected.items()
    ]
