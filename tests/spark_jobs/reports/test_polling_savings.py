"""What short polling would have done instead; the model once more in plain Python."""

import math
from typing import TYPE_CHECKING

from spark_jobs.reports import polling_savings
from spark_jobs.reports.polling_savings import INTERVALS_US, LONG
from tests.spark_jobs.frames import inputs, polls, rows, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT, SHORTER = INTERVALS_US
WOKEN = {"kind": "woken", "at_ms": 1}


def expected(held: int, wake: int | None, interval: int) -> tuple[int, int | None]:
    """(requests, how late), polling at 0, i, 2i ... until the messages are there."""
    arrived, at, requests = held - (wake or 0), 0, 1
    while at < arrived:
        at += interval
        requests += 1
    return requests, None if wake is None else at - arrived


def test_a_hold_takes_as_many_requests_as_in_the_model(spark: "SparkSession") -> None:
    """Each topic is named after its pull: ``found`` messages or ``nothing``, and after how long."""
    journal, wanted = [], {}
    for held, wake in (
        *((1_500_000, 0), (1_500_000, 200), (1_000_000, 0), (1_000_200, 200), (999_999, 5), (3, 3)),
        (100_000, None),
    ):
        topic = f"found {held} {wake}"
        journal.append(WOKEN | {"topic": topic, "messages": 1, "held_us": held, "wake_us": wake})
        wanted[topic, LONG] = (1, wake, held)
        for method, interval in INTERVALS_US.items():
            wanted[topic, method] = (*expected(held, wake, interval), 0)
    for held in (0, 1, 99_999, 100_000, 100_001, 15_000_000, 15_000_001):
        topic = f"nothing {held}"
        journal.append({"topic": topic, "kind": "released", "at_ms": 1, "messages": 0, "held_us": held})
        wanted[topic, LONG] = (1, None, held)
        for method, interval in INTERVALS_US.items():
            wanted[topic, method] = (max(1, math.ceil(held / interval)), None, 0)
    for held in (15_004_000, 14_999_000, 15_000_000):  # one that came late was not granted more
        topic = f"timeout {held}"
        timeout = {"cause": "timeout", "messages": 0, "held_us": held, "granted_ms": 15_000}
        journal.append(WOKEN | timeout | {"topic": topic})
        wanted |= {(topic, LONG): (1, None, held), (topic, SHORT): (15, None, 0), (topic, SHORTER): (150, None, 0)}
    asked = polling_savings.asked(polling_savings.pulls(polls(spark, polling_savings.POLLS, journal)))
    found = rows(asked, "topic", "method", "requests", "delay", "open")
    assert {row[:2]: row[2:] for row in found} == wanted


def test_a_pull_answered_at_once_is_one_request_in_every_model(spark: "SparkSession") -> None:
    journal = [{"kind": "answered_at_once", "at_ms": 1, "messages": 2, "held_us": 0}, {"kind": "committed", "at_ms": 1}]
    facts = polling_savings.facts(inputs(spark, polling_savings.REPORT, journal=journal))["requests"]
    assert rows(
        table(polling_savings.REPORT, "by_method", facts), "method", "requests", "saved_requests", "samples"
    ) == [
        (LONG, 1, None, 0),
        (SHORT, 1, 0, 0),
        (SHORTER, 1, 0, 0),
    ]
