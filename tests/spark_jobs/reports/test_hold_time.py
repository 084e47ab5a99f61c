"""How long pulls are held."""

from typing import TYPE_CHECKING

from spark_jobs.reports import hold_time
from tests.spark_jobs.frames import inputs, rows, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOURNAL = [
    {"kind": "woken", "cause": "arrival", "at_ms": 1, "held_us": 2_000, "granted_ms": 15_000},
    {"kind": "woken", "cause": "timeout", "at_ms": 2, "held_us": 15_000_050, "granted_ms": 15_000},
    {"kind": "released", "cause": "channel_gone", "at_ms": 60_001, "held_us": 7_000, "granted_ms": 15_000},
    {"kind": "answered_at_once", "at_ms": 3, "held_us": 0, "granted_ms": 15_000},
    {"kind": "committed", "at_ms": 4},
]


def test_holds_and_how_late_time_outs_are(spark: "SparkSession") -> None:
    facts = hold_time.REPORT.facts(inputs(spark, hold_time.REPORT, journal=JOURNAL))["holds"]
    assert rows(table(hold_time.REPORT, "by_cause", facts)) == [
        ("arrival", 1, 0.3333, 2_000),
        ("channel_gone", 1, 0.3333, 7_000),
        ("timeout", 1, 0.3333, 15_000_050),
    ]
    assert rows(table(hold_time.REPORT, "over_time", facts)) == [
        (0, "arrival", 1, 2_000),
        (0, "timeout", 1, 15_000_050),
        (60_000, "channel_gone", 1, 7_000),
    ]
    ((holds, half, most, late),) = rows(hold_time.figures(facts))
    assert (holds, late) == (3, 50)
    assert abs(half - 7_000) <= 7_000 / 64
    assert abs(most - 15_000_050) <= 15_000_050 / 64
