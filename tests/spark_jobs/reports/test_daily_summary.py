"""The figures of all reports by day."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import inputs as report_inputs
from spark_jobs.reports import daily_summary
from spark_jobs.reports.daily_summary import ALL_DAYS, ALL_TOPICS, DAILY, PARTS
from spark_jobs.reports.steps import DAY_MS
from spark_jobs.spark.small_tables import small_table
from tests.spark_jobs.driven import BEGIN_MS
from tests.spark_jobs.frames import MINUTE, inputs, read, rows
from tests.spark_jobs.sources.test_commit_log_source import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_every_figure_is_one_of_its_report() -> None:
    for figure in DAILY:
        assert figure.fact in PARTS[figure.report].figures, figure
    assert [headline.name for headline in daily_summary.REPORT.headlines] == [figure.name for figure in DAILY]
    assert {figure.report for figure in DAILY} == set(PARTS)


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


def test_the_golden_store(finished_report: Callable[..., Any], golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("throughput", "retries", "consumer_lag", "wakeup_latency")  # all of them take their time
    monkeypatch.setattr(daily_summary, "PARTS", {name: PARTS[name] for name in names})
    summary = finished_report("daily_summary", golden / "clean-shutdown").summary
    assert {row["topic"]: row["messages"] for row in summary["rows"] if row["messages"]} == COUNTS
    assert {name: summary["total"][name] for name in ("messages", "retries", "dead_letters", "lag", "wakeups")} == {
        "messages": 3319,
        "retries": 1,
        "dead_letters": 1,
        "lag": 0,
        "wakeups": None,
    }
    assert len(summary["notes"]) == 1


@pytest.mark.parametrize("name", PARTS)
def test_a_driven_store_says_what_its_reports_say(finished_report: Callable[..., Any], driven: Path, name: str) -> None:
    summary = finished_report("daily_summary", driven).summary
    total = finished_report(name, driven).summary["total"]
    for figure in DAILY:
        if figure.report == name:
            assert summary["total"][figure.name] == total[figure.name], figure


def test_a_driven_store_by_day(finished_report: Callable[..., Any], driven: Path) -> None:
    report = finished_report("daily_summary", driven)
    (day,) = report.table("by_day")
    assert day["day_ts"] == BEGIN_MS // DAY_MS * DAY_MS
    assert (day["messages"], day["answers"], day["lag"], day["queue_imbalance"]) == (8, 5, 3, round(4 * 2 / 7, 3))
    assert {row["topic"]: row["messages"] for row in report.summary["rows"]} == {"orders": 7, "SCHEDULE_TOPIC_XXXX": 1}


def test_parts_without_common_facts_are_read_separately(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daily_summary, "PARTS", {name: PARTS[name] for name in ("hold_time", "empty_polls")})
    asked: list[tuple[list[str], int, int]] = []

    def reading(facts: dict[str, "DataFrame"], part: int, parts: int) -> dict[str, "DataFrame"]:
        asked.append((list(facts), part, parts))
        return read(facts, part, parts)

    journal = [{"kind": "woken", "cause": "timeout", "at_ms": 5, "held_us": 7, "granted_ms": 0, "messages": 0}]
    found = daily_summary.facts(inputs(spark, daily_summary.REPORT, journal=journal)._replace(read=reading))
    assert sorted(asked) == [(["answers"], 1, 2), (["holds"], 0, 2)]
    totals = found["figures"].where(f"about = '{ALL_TOPICS}' and day_ts = {ALL_DAYS}")
    assert {("holds", 1.0), ("answers", 1.0)} <= set(rows(totals, "figure", "value"))


def test_a_summary_of_one_topic_and_one_group(
    finished_report: Callable[..., Any], driven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: PARTS[name] for name in ("throughput", "empty_polls", "consumer_lag")}  # all of them take their time
    monkeypatch.setattr(daily_summary, "PARTS", few)
    report = finished_report("daily_summary", driven, topic="orders", consumer_group="slow")
    total = {name: report.summary["total"][name] for name in ("messages", "answers", "lag")}
    assert total == {"messages": 7, "answers": 3, "lag": 1}
    assert [(row["topic"], row["messages"]) for row in report.summary["rows"]] == [("orders", 7)]
    assert report.summary["inputs"][0]["messages"] == 8


def test_figures_stand_beside_those_of_the_period_before(
    finished_report: Callable[..., Any], driven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {name: PARTS[name] for name in ("throughput", "hold_time", "empty_polls")}  # all of them take their time
    monkeypatch.setattr(daily_summary, "PARTS", few)
    monkeypatch.setattr(report_inputs, "FEW_ROWS", -1)  # each part reads for itself then
    report = finished_report(
        "daily_summary", driven, from_ms=BEGIN_MS + MINUTE, to_ms=BEGIN_MS + 2 * MINUTE, compare=True
    )
    figures = {figure["name"]: (figure["value"], figure["before"]) for figure in report.summary["headlines"]}
    assert figures["messages"] == (0, 6)
    assert figures["answers"] == (3, 2)
    assert figures["holds"] == (0, 3)
