"""Answers that bring nothing."""

from typing import TYPE_CHECKING

from spark_jobs.reports import empty_polls
from tests.spark_jobs.frames import inputs, rows, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = {"kind": "answered_at_once", "protocol": "http", "status": "FOUND", "at_ms": 5}
JOURNAL = [
    AT_ONCE | {"messages": 4},
    AT_ONCE | {"messages": 2, "group": "h"},
    AT_ONCE | {"messages": 0, "status": "OFFSET_OVERFLOW_ONE", "protocol": "remoting"},
    {
        "kind": "woken",
        "cause": "timeout",
        "protocol": "http",
        "status": "OFFSET_OVERFLOW_ONE",
        "at_ms": 60_000,
        "messages": 0,
    },
    {"kind": "released", "cause": "channel_gone", "protocol": "http", "at_ms": 60_000, "messages": 0},
    {"kind": "committed", "at_ms": 60_000},
]


def test_answers_by_this_and_that(spark: "SparkSession") -> None:
    facts = empty_polls.REPORT.facts(inputs(spark, empty_polls.REPORT, journal=JOURNAL))["answers"].persist()
    assert rows(table(empty_polls.REPORT, "by_topic", facts)) == [("orders", 4, 2, 0.5, 6, 1.5)]
    assert rows(table(empty_polls.REPORT, "by_group", facts), "group", "protocol", "answers", "empty") == [
        ("g", "http", 2, 1),
        ("g", "remoting", 1, 1),
        ("h", "http", 1, 0),
    ]
    assert rows(table(empty_polls.REPORT, "by_status", facts), "status", "how", "answers") == [
        ("FOUND", "at once", 2),
        ("OFFSET_OVERFLOW_ONE", "at once", 1),
        ("OFFSET_OVERFLOW_ONE", "timeout", 1),
    ]
    assert rows(table(empty_polls.REPORT, "by_minute", facts), "minute_ts", "how", "empty_share") == [
        (0, "at once", 0.3333),
        (60_000, "timeout", 1.0),
    ]
    assert rows(empty_polls.figures(facts)) == [(4, 0.5, 1.5)]
    facts.unpersist()


def test_without_answers_the_share_is_unknown(spark: "SparkSession") -> None:
    facts = empty_polls.REPORT.facts(inputs(spark, empty_polls.REPORT))["answers"]
    assert rows(empty_polls.figures(facts)) == [(0, None, None)]
