"""The figures of all reports by day."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import inputs as report_inputs
from spark_jobs.reports import daily_summary
from spark_jobs.reports.daily_summary import ALL_DAYS, ALL_TOPICS, COUNTS, DAILY, FIGURES, PARTS
from spark_jobs.reports.steps import DAY_MS
from spark_jobs.spark.small_tables import small_table
from tests.spark_jobs.driven import BEGIN_MS
from tests.spark_jobs.frames import MINUTE, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_figure_is_one_of_its_report() -> None:
    for report, fact in DAILY:
        assert fact in PARTS[report].figures, report
    assert [headline.name for headline in daily_summary.REPORT.headlines] == [*FIGURES]
    assert {report for report, _ in DAILY} == set(PARTS)
    assert set(FIGURES) >= set(COUNTS)


def test_facts_by_day_and_topic(spark: "SparkSession") -> None:
    facts = small_table(spark, [("a", DAY_MS + MINUTE), ("b", 2 * DAY_MS)], "topic string, minute_ts long")
    found = daily_summary.by_day_and_topic(facts, ())
    assert sorted(rows(found, "about", "day_ts", "since_ts")) == [
        (ALL_TOPICS, ALL_DAYS, 0),
        (ALL_TOPICS, ALL_DAYS, 0),
        (ALL_TOPICS, DAY_MS, DAY_MS),
        (ALL_TOPICS, 2 * DAY_MS, 2 * DAY_MS),
        ("a", ALL_DAYS, 0),
        ("a", DAY_MS, DAY_MS),
        ("b", ALL_DAYS, 0),
        ("b", 2 * DAY_MS, 2 * DAY_MS),
    ]


def test_periods_that_begin_within_a_day(spark: "SparkSession") -> None:
    noon, evening = DAY_MS // 2, DAY_MS * 3 // 4
    facts = small_table(spark, [("a", noon + MINUTE), ("a", evening), ("a", DAY_MS)], "topic string, minute_ts long")
    found = daily_summary.by_day_and_topic(facts, (noon, evening)).where("about = 'a'")
    assert sorted(rows(found, "day_ts", "since_ts")) == [
        (ALL_DAYS, noon),
        (ALL_DAYS, evening),
        (ALL_DAYS, evening),
        (0, noon),
        (0, evening),
        (DAY_MS, DAY_MS),
    ]


def test_a_window_of_one_topic_and_group_and_the_time_before_it(
    finished_report: Callable[..., Any], driven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part reads for itself, as it does if there is much to read."""
    monkeypatch.setattr(report_inputs, "FEW_ROWS", -1)
    window = {"from_ms": BEGIN_MS + MINUTE, "to_ms": BEGIN_MS + 2 * MINUTE, "compare": True}
    summary = finished_report("daily_summary", driven, topic="orders", consumer_group="slow", **window).summary
    figures = {figure["name"]: (figure["value"], figure["before"]) for figure in summary["headlines"]}
    known = {name: figures[name] for name in ("messages", "answers", "holds", "lag", "committed_p99_ms")}
    assert known == {
        "messages": (0, 6),
        "answers": (3, 0),
        "holds": (0, 0),
        "lag": (0, None),
        "committed_p99_ms": (30_000, None),
    }
    assert [row["topic"] for row in summary["rows"]] == ["orders"]
    assert summary["inputs"][0]["messages"] == 8
