"""What clients do between two pulls."""

from typing import TYPE_CHECKING, Any

from spark_jobs.reports import slow_consumers
from tests.spark_jobs.frames import inputs, polls, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT = slow_consumers.REPORT
GIVEN = {"kind": "answered_at_once", "held_us": 0}


def given(at: int, begin: int, end: int, **more: Any) -> dict[str, Any]:
    return GIVEN | {"at_ms": at, "from_offset": begin, "next_offset": end, "messages": end - begin} | more


def committed(at: int, offset: int, **more: Any) -> dict[str, Any]:
    return {"kind": "committed", "at_ms": at, "next_offset": offset} | more


def test_away_is_until_the_next_pull_of_the_queue_begins(spark: "SparkSession") -> None:
    journal = [
        given(100, 0, 2),
        given(400, 2, 2, kind="woken", held_us=250_000),
        given(500, 2, 5),
        given(120, 0, 1, queue_id=1),
        given(130, 0, 2, client_id="other"),
        committed(140, 2),
        given(90, 5, 6, client_id="back"),
        given(80, 6, 7, client_id="back", held_us=10_000),
    ]
    found = slow_consumers.away(polls(spark, slow_consumers.POLLS, journal))
    assert sorted(rows(found, "client_id", "value"), key=str) == [
        ("back", 10),
        ("back", None),
        ("c", 50),
        ("c", None),
        ("c", None),
        ("other", None),
    ]


def test_committed_is_until_the_first_commit_that_covers_it(spark: "SparkSession") -> None:
    journal = [
        given(100, 0, 2),
        given(110, 2, 5),
        given(120, 5, 6),
        committed(150, 1),
        committed(160, 2),
        committed(165, 4),
        committed(170, 5),
        committed(900, 5),
        given(800, 0, 2, client_id="again"),
        committed(10, 9, group="h"),
    ]
    found = slow_consumers.committed(polls(spark, slow_consumers.POLLS, journal))
    assert sorted(rows(found, "client_id", "value"), key=str) == [("again", None), ("c", 60), ("c", 60), ("c", None)]


def test_a_client_slower_than_its_group_is_slow(spark: "SparkSession") -> None:
    journal = []
    for client, away in (("a", 100), ("b", 110), ("c", 120), ("slow", 500)):
        at = 0
        for offset in range(12):
            journal.append(given(at, offset, offset + 1, client_id=client))
            at += away
    journal += [given(0, 0, 1, client_id="new"), given(9_000, 1, 1, client_id="new")]
    facts = REPORT.facts(inputs(spark, REPORT, journal=journal))["measures"]
    assert {row[0]: row[1] for row in rows(slow_consumers.by_client(facts), "client_id", "is_slow")} == {
        "a": False,
        "b": False,
        "c": False,
        "slow": True,
        "new": False,
    }
    ((slow, away, committed_ms),) = rows(slow_consumers.figures(facts))
    assert (slow, committed_ms) == (1, None)
    assert away >= 500
