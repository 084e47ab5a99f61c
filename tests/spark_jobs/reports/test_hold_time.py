"""How long pulls are held."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    assert rows(hold_time.by_cause(facts)) == [
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


def test_a_driven_store(finished_report: Callable[..., Any], driven: Path) -> None:
    report = finished_report("hold_time", driven)
    held = {row["cause"]: row["held_us"] for row in report.table("by_cause")}
    assert held == {"arrival": 1_500_000, "timeout": 15_000_000, "channel_gone": 3_300_000}
    assert {row["measure"]: (row["samples"], row["min_us"], row["max_us"]) for row in report.summary["rows"]} == {
        "held": (3, 1_500_000, 15_000_000),
        "late": (1, 0, 0),
    }
    assert report.table("over_time") == [
        {"minute_ts": 1_700_000_040_000, "cause": cause, "holds": 1, "held_us": held[cause]}
        for cause in ("arrival", "channel_gone", "timeout")
    ]
