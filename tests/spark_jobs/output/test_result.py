"""Tables and totals of a period, from facts."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from spark_jobs.job import Period
from spark_jobs.output import result as report_result
from spark_jobs.output.result import compute, step_of
from spark_jobs.reports.shape import Figure, Report, Table
from spark_jobs.reports.steps import DAY_MS, MINUTE_MS
from spark_jobs.spark.small_tables import small_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPORT = Report(
    reads=(),
    polls=(),
    facts=lambda inputs: {},
    tables={
        "by_topic": Table(
            "facts",
            lambda facts: facts.groupBy("broker", "topic").agg(F.sum("messages").alias("messages")),
            worst="messages",
        ),
        "by_minute": Table(
            "facts",
            lambda facts: facts.groupBy("broker", "minute_ts").agg(F.sum("messages").alias("messages")),
        ),
    },
    figures={"facts": lambda facts, *keys: facts.groupBy(*keys).agg(F.sum("messages").alias("messages"))},
    headlines=(Figure("messages", "Messages"),),
    charts=(),
)
OPEN = Period(None, None)


@pytest.fixture(scope="module")
def facts(spark: "SparkSession") -> "dict[str, DataFrame]":
    rows = [("x", "a", 0, 1), ("x", "a", MINUTE_MS, 2), ("x", "b", 2 * MINUTE_MS, 4)]
    left_out = [("clock_back", "a", 0, 3), ("clock_back", "b", 2 * MINUTE_MS, 4), ("filtered", "b", 2 * MINUTE_MS, 0)]
    return {
        "facts": small_table(spark, rows, "broker string, topic string, minute_ts long, messages long"),
        "left_out": small_table(spark, left_out, "reason string, topic string, minute_ts long, count long"),
    }


def test_the_result_of_all_data(facts: "dict[str, DataFrame]") -> None:
    said: list[str] = []
    found = compute(REPORT, facts, OPEN, MINUTE_MS, 1, said.append)
    assert found.tables["by_topic"].to_pylist() == [
        {"broker": "x", "topic": "b", "messages": 4},
        {"broker": "x", "topic": "a", "messages": 3},
    ]
    assert (found.total, found.step_ms, found.cut) == ({"messages": 7}, MINUTE_MS, [])
    assert [(part["reason"], part["count"]) for part in found.left_out] == [("clock_back", 7)]
    assert sorted(said) == ["making by_minute", "making by_topic"]


def test_the_result_of_a_period(facts: "dict[str, DataFrame]") -> None:
    found = compute(REPORT, facts, Period(2 * MINUTE_MS, 4 * MINUTE_MS), MINUTE_MS, 1, lambda doing: None)
    assert found.total == {"messages": 4}
    assert [part["count"] for part in found.left_out] == [4]
    assert found.tables["by_topic"].to_pylist() == [{"broker": "x", "topic": "b", "messages": 4}]


@pytest.mark.parametrize("are_few", [True, False])
def test_several_brokers_have_rows_of_their_own_and_rows_together(facts: "dict[str, DataFrame]", are_few: bool) -> None:
    several = facts | {"facts": facts["facts"].unionAll(facts["facts"].withColumn("broker", F.lit("y")))}
    result = compute(REPORT, several, OPEN, MINUTE_MS, 2, lambda doing: None, are_few)
    assert [tuple(row.values()) for row in result.tables["by_topic"].to_pylist()] == [
        ("*", "b", 8),
        ("*", "a", 6),
        ("x", "b", 4),
        ("y", "b", 4),
        ("x", "a", 3),
        ("y", "a", 3),
    ]
    assert result.total == {"messages": 14}


def test_a_table_that_is_too_long_is_cut(facts: "dict[str, DataFrame]", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_result, "MOST_ROWS", 2)
    found = compute(REPORT, facts, OPEN, MINUTE_MS, 1, lambda doing: None, are_few=False)
    assert found.cut == ["by_minute"]
    assert found.tables["by_minute"]["minute_ts"].to_pylist() == [0, MINUTE_MS]


@pytest.mark.parametrize(
    ("period", "step_ms"),
    [(Period(0, 10 * DAY_MS), 5 * MINUTE_MS), (Period(-10 * DAY_MS, None), 5 * MINUTE_MS), (OPEN, MINUTE_MS)],
)
def test_steps_are_as_short_as_the_time_allows(period: Period, step_ms: int) -> None:
    assert step_of(period, Period(0, 3 * MINUTE_MS)) == step_ms


def test_an_empty_result_has_the_shortest_step(facts: "dict[str, DataFrame]") -> None:
    nothing = {name: rows.where("false") for name, rows in facts.items()}
    assert step_of(OPEN, OPEN) == MINUTE_MS
    assert compute(REPORT, nothing, OPEN, MINUTE_MS, 1, lambda doing: None).total == {"messages": None}


def test_rows_come_by_time_and_then_with_the_worst_first(facts: "dict[str, DataFrame]") -> None:
    """Topics that begin with ``%`` do not come first because of their names."""
    days = Table(
        "facts", lambda facts: facts.selectExpr("broker", "minute_ts div 120000 AS day_ts", "messages"), "messages"
    )
    for are_few in (True, False):
        found = compute(REPORT._replace(tables={"days": days}), facts, OPEN, MINUTE_MS, 1, lambda doing: None, are_few)
        assert found.tables["days"]["messages"].to_pylist() == [2, 1, 4]
