"""How evenly messages are spread over queues, and work over consumers."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from spark_jobs.reports import skew
from spark_jobs.reports.shape import ALL_BROKERS
from spark_jobs.spark.small_tables import small_table
from tests.spark_jobs.frames import inputs, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GIVEN = {"kind": "answered_at_once", "at_ms": 1}


def test_queues_that_have_nothing_count(spark: "SparkSession") -> None:
    log = [{"queue_id": queue, "store_ts": 1} for queue in (0, 0, 0, 2)]
    facts = skew.REPORT.facts(inputs(spark, skew.REPORT, log=log, topics=[("orders", 4), ("idle", 9)]))["stored"]
    assert rows(skew.by_topic(facts)) == [("orders", 4, 4, 400, 0, 0.75, 3.0, 0.625, 2)]
    assert rows(skew.by_queue(facts), "queue_id", "messages", "messages_share") == [
        (0, 3, 0.75),
        (1, 0, 0.0),
        (2, 1, 0.25),
        (3, 0, 0.0),
    ]


def test_topics_with_few_messages_are_not_the_least_even(spark: "SparkSession") -> None:
    """A single message of a retry lies in one of four queues, and says nothing."""
    retry = [{"topic": "%RETRY%g", "queue_id": 2, "store_ts": 1}]
    log = [{"queue_id": queue, "store_ts": 1} for queue in [0] * 15 + [1] * 5]
    topics = [("orders", 2), ("%RETRY%g", 4)]
    for count, worst in ((20, 1.5), (19, None)):
        facts = skew.REPORT.facts(inputs(spark, skew.REPORT, log=log[:count] + retry, topics=topics))["stored"]
        assert rows(skew.queue_figures(facts)) == [(worst,)]
        assert dict(rows(skew.by_topic(facts), "topic", "imbalance"))["%RETRY%g"] == 4.0


def test_a_queue_that_its_topic_never_had_is_left_out_and_counted(spark: "SparkSession") -> None:
    log = [{"queue_id": queue, "store_ts": 1} for queue in (0, 3, 4, 500)]
    facts = skew.REPORT.facts(inputs(spark, skew.REPORT, log=log, topics=[("orders", 2)]))
    assert rows(skew.by_topic(facts["stored"]), "queues", "messages", "imbalance") == [(4, 2, 2.0)]
    assert rows(facts["left_out"], "reason", "topic", "count") == [("no_queue", "orders", 2)]


def test_queues_of_a_topic_that_no_table_knows(spark: "SparkSession") -> None:
    log = [{"queue_id": queue, "store_ts": 1} for queue in (1, 2)]
    facts = skew.REPORT.facts(inputs(spark, skew.REPORT, log=log))["stored"]
    assert rows(skew.by_topic(facts), "queues", "idle_queues") == [(3, 1)]


def test_queues_of_the_same_number_at_two_brokers_are_two(spark: "SparkSession") -> None:
    stored = (("a", 0), ("a", 0), ("a", 1), ("b", 0))
    log = [{"broker": broker, "queue_id": queue, "store_ts": 1} for broker, queue in stored]
    facts = skew.REPORT.facts(inputs(spark, skew.REPORT, log=log))["stored"].withColumn("broker", F.lit(ALL_BROKERS))
    # 2 of 4 messages lie in one of 3 queues
    assert rows(skew.by_topic(facts), "queues", "queue_id", "imbalance") == [(3, None, 1.5)]


def test_delay_levels_are_not_called_uneven(spark: "SparkSession") -> None:
    log = [{"topic": "SCHEDULE_TOPIC_XXXX", "queue_id": 2, "store_ts": 1}]
    facts = skew.REPORT.facts(inputs(spark, skew.REPORT, log=log, topics=[("SCHEDULE_TOPIC_XXXX", 18)]))["stored"]
    assert rows(skew.queue_figures(facts)) == [(None,)]


def test_clients_of_a_group(spark: "SparkSession") -> None:
    journal = [
        GIVEN | {"client_id": "a", "messages": 6, "bytes": 60},
        GIVEN | {"client_id": "b", "messages": 2},
        GIVEN | {"client_id": "c", "messages": 0},
        GIVEN | {"client_id": "d", "group": "", "messages": 99},
        {"kind": "committed", "at_ms": 1, "client_id": "d"},
        {"kind": "released", "at_ms": 1, "client_id": "d", "messages": 0},
    ]
    facts = skew.REPORT.facts(inputs(spark, skew.REPORT, journal=journal))["given"]
    assert rows(skew.by_group(facts)) == [("orders", "g", 3, 8, "a", 0.75, 2.25, 0.5, 1)]
    assert rows(skew.by_client(facts), "client_id", "queues", "messages", "bytes", "messages_share") == [
        ("a", 1, 6, 60, 0.75),
        ("b", 1, 2, 0, 0.25),
        ("c", 1, 0, 0, 0.0),
    ]
    assert rows(skew.client_figures(facts)) == [(None,)], "8 messages for 3 clients are too few"
    more = [row | {"messages": 10 * (row.get("messages") or 0)} for row in journal]
    facts = skew.REPORT.facts(inputs(spark, skew.REPORT, journal=more))["given"]
    assert rows(skew.client_figures(facts)) == [(2.25,)]


def test_imbalance_and_gini_of_even_and_uneven_amounts(spark: "SparkSession") -> None:
    amounts = {"even": (5, 5, 5), "one": (0, 0, 0, 8), "none": (0, 0), "single": (3,)}
    table = small_table(
        spark,
        [(key, amount, 0) for key, parts in amounts.items() for amount in parts],
        "key string, messages long, bytes long",
    )
    found = skew.uneven(table, "key", part="part").drop("bytes")
    assert rows(found) == [
        ("even", 3, 15, 0.3333, 1.0, 0.0, 0),
        ("none", 2, 0, None, None, None, 2),
        ("one", 4, 8, 1.0, 4.0, 0.75, 3),
        ("single", 1, 3, 1.0, 1.0, 0.0, 0),
    ]
