"""Latency from birth to storage, and from storage to delivery."""

from typing import TYPE_CHECKING

from spark_jobs.reports import end_to_end_latency
from spark_jobs.reports.steps import about
from tests.spark_jobs.frames import inputs, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT = end_to_end_latency.REPORT
LOG = [{"queue_offset": offset, "born_ts": 100 - 10 * offset, "store_ts": 100} for offset in range(4)]
GIVEN = {"kind": "answered_at_once", "at_ms": 150, "from_offset": 0, "next_offset": 3, "messages": 3}


def test_a_message_is_delivered_when_it_is_first_given(spark: "SparkSession") -> None:
    journal = [
        GIVEN,
        GIVEN | {"at_ms": 110, "next_offset": 1, "messages": 1},
        GIVEN | {"at_ms": 190, "from_offset": 2, "next_offset": 4, "messages": 2},
        GIVEN | {"at_ms": 170, "group": "h", "from_offset": 3, "next_offset": 4, "messages": 1},
    ]
    given = inputs(spark, REPORT, log=LOG, journal=journal)
    first = end_to_end_latency.first_deliveries(end_to_end_latency.ranges(given.polls))
    assert sorted(rows(first, "group", "queue_offset", "at_ms")) == [
        ("g", 0, 110),
        ("g", 1, 150),
        ("g", 2, 150),
        ("g", 3, 190),
        ("h", 3, 170),
    ]
    out = end_to_end_latency.on_their_way_out(end_to_end_latency.with_times(first, given.messages))
    assert sorted(rows(out.where("`group` = 'g'"), "stage", "value")) == [
        ("born_to_delivered", 10),
        ("born_to_delivered", 60),
        ("born_to_delivered", 70),
        ("born_to_delivered", 120),
        ("stored_to_delivered", 10),
        ("stored_to_delivered", 50),
        ("stored_to_delivered", 50),
        ("stored_to_delivered", 90),
    ]


def test_an_offset_that_is_there_twice_is_one_delivery_of_the_newer_message(spark: "SparkSession") -> None:
    log = [LOG[0], LOG[0] | {"store_ts": 140, "born_ts": 130}]  # the topic was deleted and made again
    given = inputs(spark, REPORT, log=log, journal=[GIVEN | {"next_offset": 1, "messages": 1}])
    first = end_to_end_latency.first_deliveries(end_to_end_latency.ranges(given.polls))
    found = end_to_end_latency.with_times(first, given.messages)
    assert rows(found, "group", "at_ms", "born_ts", "store_ts") == [("g", 150, 130, 140)]


def test_one_group_keeps_the_messages_of_all(spark: "SparkSession") -> None:
    log = [*LOG[:2], LOG[2] | {"born_ts": 101}]
    journal = [
        GIVEN,
        GIVEN | {"group": "h"},
        GIVEN | {"at_ms": 99, "group": "h", "next_offset": 1, "messages": 1},
        GIVEN | {"group": "h", "from_offset": 0, "next_offset": 9, "messages": 2},
    ]
    facts = {
        name: about(rows, None, "g")
        for name, rows in REPORT.facts(inputs(spark, REPORT, log=log, journal=journal)).items()
    }
    assert rows(REPORT.tables["by_topic"].make(facts["stages"]), "topic", "stage", "samples") == [
        ("orders", "born_to_delivered", 3),
        ("orders", "born_to_stored", 2),
        ("orders", "stored_to_delivered", 3),
    ]
    assert {row[0] for row in rows(REPORT.tables["by_group"].make(facts["stages"]), "group")} == {"g"}
    # message 2 was born after it was stored; what is missing of the other group is not told
    assert rows(facts["left_out"], "reason", "group", "count") == [("clock_back", None, 1)]


def test_messages_with_an_unknown_delivery_are_left_out_and_counted(spark: "SparkSession") -> None:
    log = [LOG[0], LOG[1] | {"born_ts": 101}]
    journal = [
        GIVEN,
        GIVEN | {"from_offset": 0, "next_offset": 9, "messages": 2},
        GIVEN | {"at_ms": 60_000 + 99, "group": "early", "next_offset": 1, "messages": 1},
        GIVEN | {"at_ms": 99, "group": "early", "next_offset": 1, "messages": 1},
    ]
    facts = REPORT.facts(inputs(spark, REPORT, log=log, journal=journal))
    # message 1 was born after it was stored, and one was given before it was stored
    assert rows(facts["left_out"], "reason", "group", "count") == [
        ("clock_back", None, 1),
        ("clock_back", "early", 2),
        ("filtered", "g", 2),
        ("not_in_the_log", "g", 1),
    ]
    ((born_to_stored, deliveries, *_),) = rows(end_to_end_latency.figures(facts["stages"]))
    assert (born_to_stored, deliveries) == (0, 2)
