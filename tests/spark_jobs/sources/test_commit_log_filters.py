"""Conditions applied in the source against the same ones applied to decoded records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_jobs.sources.commit_log_filters import Condition, condition, fulfilling, offsets_within
from tests.spark_jobs.sources.test_commit_log_columns import SIZE, opened
from tests.spark_jobs.stores import make_store

BEGIN = 1_700_000_000_000


@pytest.mark.parametrize(
    ("pushed", "holds"),
    [
        (EqualTo(("topic",), "orders"), lambda topic, queue, number: topic == "orders"),
        (EqualTo(("topic",), "nobody's"), lambda topic, queue, number: False),
        (In(("topic",), ("Größe", "x", None)), lambda topic, queue, number: topic == "Größe"),
        (In(("topic",), ()), lambda topic, queue, number: False),
        (EqualTo(("queue_id",), 2), lambda topic, queue, number: queue == 2),
        (In(("queue_id",), (0, 2)), lambda topic, queue, number: queue != 1),
        (GreaterThan(("store_ts",), BEGIN + 200_000), lambda topic, queue, number: number > 10),
        (GreaterThanOrEqual(("store_ts",), BEGIN + 200_000), lambda topic, queue, number: number >= 10),
        (LessThan(("store_ts",), BEGIN + 200_000), lambda topic, queue, number: number < 10),
        (LessThanOrEqual(("store_ts",), BEGIN + 200_000), lambda topic, queue, number: number <= 10),
        (LessThan(("reconsume_times",), 1), lambda topic, queue, number: number % 4 == 0),
        (IsNotNull(("store_ts",)), lambda topic, queue, number: True),
    ],
)
def test_records_are_chosen_as_the_condition_says(
    tmp_path: Path, pushed: Filter, holds: Callable[[str, int, int], bool]
) -> None:
    written = make_store(tmp_path, 40, segment=SIZE)
    source, headers = opened(tmp_path)
    taken = condition(pushed)
    assert taken is not None
    assert fulfilling(source, headers, [taken]).at.tolist() == [
        offset for number, (topic, queue, offset, _) in enumerate(written.records) if holds(topic, queue, number)
    ]


def test_all_conditions_must_hold(tmp_path: Path) -> None:
    written = make_store(tmp_path, 40, segment=SIZE)
    source, headers = opened(tmp_path)
    both = [Condition("topic", "=", "orders"), Condition("queue_id", "=", 0), Condition("store_ts", "<", 0)]
    assert fulfilling(source, headers, both).at.tolist() == []
    assert fulfilling(source, headers, both[:2]).at.tolist() == [
        offset for topic, queue, offset, _ in written.records if topic == "orders" and queue == 0
    ]


@pytest.mark.parametrize(
    "pushed",
    [
        EqualTo(("tags",), "a"),
        Not(EqualTo(("topic",), "a")),
        StringStartsWith(("topic",), "a"),
        IsNotNull(("tags",)),
        GreaterThan(("topic",), "a"),
        EqualTo(("store_ts",), "5"),
        EqualTo(("topic", "inner"), "a"),
        In(("queue_id",), (1, "2")),
    ],
    ids=str,
)
def test_what_the_source_cannot_tell_is_left_to_spark(pushed: Filter) -> None:
    assert condition(pushed) is None


@pytest.mark.parametrize(
    ("conditions", "offsets"),
    [
        ([], (0, 1 << 63)),
        ([(">", 5)], (6, 1 << 63)),
        ([(">=", 5), ("<=", 9)], (5, 10)),
        ([("<", 9), ("<", 20)], (0, 9)),
        ([("=", 7)], (7, 8)),
        ([("in", (3, 8))], (3, 9)),
        ([("in", ())], (1 << 63, 0)),
        ([("in", None)], (0, 1 << 63)),
    ],
)
def test_offsets_that_no_condition_lets_pass_need_not_be_read(conditions: list[Any], offsets: tuple[int, int]) -> None:
    assert (
        offsets_within([Condition("physical_offset", *one) for one in conditions] + [Condition("store_ts", "=", 1)])
        == offsets
    )
