"""The transformations over hand-made messages."""

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import throughput
from spark_jobs.commit_log_source import pruned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE = 60_000
MESSAGES = [  # physical_offset, segment, topic, queue_id, queue_offset, total_size, body_length, store_ts
    (0, 0, "a", 0, 5, 100, 0, 10),
    (100, 0, "a", 1, 7, 200, 1, MINUTE - 1),
    (300, 0, "b", 0, 0, 300, 2, MINUTE),
    (600, 0, "a", 0, 6, 400, 3, MINUTE + 1),
    (1000, 1000, "a", 0, 7, 500, 256, 2 * MINUTE),
    (1500, 1000, "a", 0, 8, 600, 257, 3 * MINUTE),
]


@pytest.fixture(scope="module")
def facts(spark: "SparkSession") -> "DataFrame":
    messages = spark.createDataFrame(MESSAGES, pruned(*throughput.READS))
    return messages.transform(throughput.with_classes).transform(throughput.counted).persist()


def rows(table: "DataFrame", *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in table.select(*columns or table.columns).collect()]


def test_by_topic(facts: "DataFrame") -> None:
    assert rows(throughput.by_topic(facts)) == [
        ("a", 5, 1800, 517, 2, 100, 360.0, 600, 10, 3 * MINUTE),
        ("b", 1, 300, 2, 1, 300, 300.0, 300, MINUTE, MINUTE)]


def test_by_queue(facts: "DataFrame") -> None:
    columns = ("topic", "queue_id", "messages", "min_queue_offset", "max_queue_offset")
    assert rows(throughput.by_queue(facts), *columns) == [
        ("a", 0, 4, 5, 8), ("a", 1, 1, 7, 7), ("b", 0, 1, 0, 0)]


def test_by_minute(facts: "DataFrame") -> None:
    assert rows(throughput.by_minute(facts)) == [
        (0, "a", 2, 300, 1), (MINUTE, "a", 1, 400, 3), (MINUTE, "b", 1, 300, 2),
        (2 * MINUTE, "a", 1, 500, 256), (3 * MINUTE, "a", 1, 600, 257)]


def test_sizes_are_classed_by_the_next_power_of_two(facts: "DataFrame") -> None:
    assert rows(throughput.by_size(facts), "topic", "size_class", "messages") == [
        ("a", 1, 2), ("a", 4, 1), ("a", 256, 1), ("a", 512, 1), ("b", 2, 1)]


def test_segments_say_what_of_them_are_records(facts: "DataFrame") -> None:
    assert rows(throughput.by_segment(facts)) == [(0, 4, 1000, 1000), (1000, 2, 1100, 2100)]


@pytest.mark.parametrize(("from_ms", "to_ms", "messages"), [
    (None, None, 6), (MINUTE, None, 4), (MINUTE + 59_000, None, 4), (None, MINUTE, 2), (MINUTE, 2 * MINUTE, 2),
    (9 * MINUTE, None, 0)])
def test_the_window_goes_by_whole_minutes(facts: "DataFrame", from_ms: int | None, to_ms: int | None,
                                          messages: int) -> None:
    inside = throughput.in_window(facts, from_ms, to_ms)
    assert sum(row[0] for row in rows(throughput.by_topic(inside), "messages")) == messages
