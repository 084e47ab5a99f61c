"""What short polling would have done instead; the model once more in plain Python."""

import math
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize(
    ("held", "wake"),
    [(1_500_000, 0), (1_500_000, 200), (1_000_000, 0), (1_000_200, 200), (999_999, 5), (3, 3), (100_000, None)],
)
def test_a_hold_that_found_messages(spark: "SparkSession", held: int, wake: int | None) -> None:
    found = polling_savings.asked(
        polling_savings.pulls(
            polls(spark, polling_savings.POLLS, [WOKEN | {"messages": 1, "held_us": held, "wake_us": wake}])
        )
    )
    assert {row[0]: row[1:] for row in rows(found, "method", "requests", "delay")} == {
        LONG: (1, wake),
        SHORT: expected(held, wake, 1_000_000),
        SHORTER: expected(held, wake, 100_000),
    }


@pytest.mark.parametrize("held", [0, 1, 99_999, 100_000, 100_001, 15_000_000, 15_000_001])
def test_a_hold_that_found_nothing(spark: "SparkSession", held: int) -> None:
    found = polling_savings.asked(
        polling_savings.pulls(
            polls(spark, polling_savings.POLLS, [{"kind": "released", "at_ms": 1, "messages": 0, "held_us": held}])
        )
    )
    for method, requests, delay in rows(found, "method", "requests", "delay"):
        assert delay is None
        assert requests == (1 if method == LONG else max(1, math.ceil(held / INTERVALS_US[method])))


@pytest.mark.parametrize(("held", "requests"), [(15_004_000, 15), (14_999_000, 15), (15_000_000, 15)])
def test_a_time_out_that_came_late_was_not_granted_more(spark: "SparkSession", held: int, requests: int) -> None:
    found = polling_savings.asked(
        polling_savings.pulls(
            polls(
                spark,
                polling_savings.POLLS,
                [WOKEN | {"cause": "timeout", "messages": 0, "held_us": held, "granted_ms": 15_000}],
            )
        )
    )
    assert {row[0]: row[1:] for row in rows(found, "method", "requests", "open")} == {
        LONG: (1, held),
        SHORT: (requests, 0),
        SHORTER: (150, 0),
    }


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
