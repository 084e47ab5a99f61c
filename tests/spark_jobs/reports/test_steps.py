"""Steps that several reports take, each by itself."""

from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_jobs.reports.steps import (
    DAY_MS,
    MINUTE_MS,
    MOST_STEPS,
    STEPS_MS,
    about,
    coarser,
    floored,
    in_window,
    reason,
    step_for,
)
from spark_jobs.spark.small_tables import small_table
from tests.spark_jobs.frames import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_minutes_before_1970_too(spark: "SparkSession") -> None:
    table = small_table(spark, [(-1,), (0,), (59_999,), (60_000,)], "ts long")
    assert rows(table.select(floored(F.col("ts")))) == [(-MINUTE_MS,), (0,), (0,), (MINUTE_MS,)]


def test_a_window_goes_by_whole_minutes(spark: "SparkSession") -> None:
    facts = small_table(spark, [(minute * MINUTE_MS,) for minute in range(4)], "minute_ts long")
    for window, kept in (
        *(((None, None), [0, 1, 2, 3]), ((1, None), [1, 2, 3]), ((1.99, None), [1, 2, 3]), ((None, 1), [0])),
        *(((1, 2), [1]), ((1, 1.01), [1]), ((9, None), [])),
    ):
        start, stop = (None if bound is None else int(bound * MINUTE_MS) for bound in window)
        assert [row[0] // MINUTE_MS for row in rows(in_window(facts, start, stop))] == kept, window


def test_facts_of_one_topic_and_group(spark: "SparkSession") -> None:
    facts = small_table(
        spark, [("a", "g"), ("a", "h"), ("b", "g"), ("b", None), ("b", "")], "topic string, group string"
    )
    assert rows(about(facts, "a", "h")) == [("a", "h")]
    assert rows(about(facts, None, "g")) == [
        ("a", "g"),
        ("b", "g"),
        ("b", None),
    ]  # what is of no group stays; '' is of clients without one
    assert len(rows(about(facts.drop("group"), "a", "h"))) == 2  # without groups, those of all


def test_steps_are_nested_and_few_enough() -> None:
    assert all(longer % shorter == 0 for shorter, longer in pairwise(STEPS_MS))
    for minutes in (1, 4320, 4321, 60_000, 10_000_000, 100_000_000):
        step = step_for(minutes * MINUTE_MS)
        assert minutes * MINUTE_MS <= step * MOST_STEPS
    assert step_for(4320 * MINUTE_MS) == MINUTE_MS
    assert step_for(20_000 * DAY_MS) % DAY_MS == 0


def test_longer_steps(spark: "SparkSession") -> None:
    facts = small_table(spark, [(4 * MINUTE_MS,), (5 * MINUTE_MS,)], "minute_ts long")
    assert rows(coarser(facts, 5 * MINUTE_MS)) == [(0,), (5 * MINUTE_MS,)]
    assert coarser(facts, MINUTE_MS) is facts


def test_reasons_are_counted(spark: "SparkSession") -> None:
    facts = small_table(
        spark,
        [("x", "a", 0, 2), ("x", "a", 0, 3), ("x", "b", 0, 1)],
        "broker string, topic string, minute_ts long, samples long",
    )
    assert sorted(rows(reason(facts, "clock_back"))) == [
        ("clock_back", "a", None, 0, 5),
        ("clock_back", "b", None, 0, 1),
    ]
    of_groups = facts.withColumn("group", F.col("samples").cast("string"))
    assert sorted(rows(reason(of_groups, "clock_back"), "topic", "group", "count")) == [
        ("a", "2", 2),
        ("a", "3", 3),
        ("b", "1", 1),
    ]
