"""The periods of a job."""

from pathlib import Path
from typing import Any

import pytest

from spark_jobs.errors import WindowError
from spark_jobs.job import BrokerStore, Job, Period, periods

MINUTE = 60_000


def job(**more: Any) -> Job:
    return Job("throughput", (BrokerStore("a", Path("store")),), Path("out"), **more)


def test_the_period_before_has_the_same_length() -> None:
    assert periods(job()) == [Period(None, None)]
    assert periods(job(from_ms=MINUTE, to_ms=4 * MINUTE, compare=True)) == [
        Period(MINUTE, 4 * MINUTE),
        Period(-2 * MINUTE, MINUTE),
    ]


@pytest.mark.parametrize(
    "more",
    [
        {"from_ms": MINUTE, "to_ms": -MINUTE},
        {"from_ms": 2 * MINUTE, "to_ms": 2 * MINUTE},
        {"compare": True},
        {"compare": True, "from_ms": MINUTE},
        {"compare": True, "to_ms": MINUTE},
        {"from_ms": MINUTE + 1},
        {"to_ms": MINUTE - 1},
    ],
)
def test_impossible_windows_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(WindowError):
        periods(job(**more))
