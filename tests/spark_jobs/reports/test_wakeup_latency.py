"""From stored over woken to answered."""

from typing import TYPE_CHECKING

from spark_jobs.reports import wakeup_latency
from tests.spark_jobs.frames import inputs, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT = wakeup_latency.REPORT
WOKEN = {"kind": "woken", "cause": "arrival", "messages": 1}
JOURNAL = [
    WOKEN | {"at_ms": 60_005, "wake_us": 300, "oldest_store_ms": 60_003},
    WOKEN | {"at_ms": 60_005, "wake_us": 300, "oldest_store_ms": 60_005},  # stored in the same millisecond
    WOKEN | {"at_ms": 60_005, "wake_us": 29_976, "oldest_store_ms": 60_004},  # in a turn that was long
    WOKEN | {"at_ms": 60_005, "wake_us": 300, "oldest_store_ms": 60_009},  # a clock went back
    WOKEN | {"at_ms": 130_000, "cause": "filter_advanced", "oldest_store_ms": 120_000},
    WOKEN | {"at_ms": 60_005, "cause": "timeout", "messages": 0},
    {"kind": "answered_at_once", "at_ms": 60_005, "messages": 3, "oldest_store_ms": 1},
    {"kind": "committed", "at_ms": 60_005},
]


def test_stages_of_holds_that_ended_with_messages(spark: "SparkSession") -> None:
    given = inputs(spark, REPORT, journal=JOURNAL)
    stages, facts = wakeup_latency.with_stages(given.polls), REPORT.facts(given)
    assert sorted(rows(stages, "stage", "cause", "minute_ts", "value")) == [
        ("stored_to_answered", "arrival", 60_000, -4_000),
        ("stored_to_answered", "arrival", 60_000, 300),
        ("stored_to_answered", "arrival", 60_000, 2_000),
        ("stored_to_answered", "arrival", 60_000, 29_976),
        ("stored_to_answered", "filter_advanced", 120_000, 10_000_000),
        ("stored_to_woken", "arrival", 60_000, -4_000),
        ("stored_to_woken", "arrival", 60_000, 0),
        ("stored_to_woken", "arrival", 60_000, 0),
        ("stored_to_woken", "arrival", 60_000, 1_700),
        *[("woken_to_answered", "arrival", 60_000, 300)] * 3,
        ("woken_to_answered", "arrival", 60_000, 29_976),
    ]
    assert rows(wakeup_latency.figures(facts["stages"]), "wakeups", "wake_p50_us") == [(4, 300)]
    assert rows(facts["left_out"]) == [("clock_back", "orders", "g", 60_000, 2)]
