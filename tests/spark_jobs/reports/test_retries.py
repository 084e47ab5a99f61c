"""Messages that came back, died, or were put aside for a while."""

from typing import TYPE_CHECKING

from spark_jobs.reports import retries
from spark_jobs.reports.steps import about
from tests.spark_jobs.frames import inputs, rows, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT = retries.REPORT
BACK = {"topic": "%RETRY%g", "retry_topic": "orders", "store_ts": 5}
ASIDE = {"topic": "SCHEDULE_TOPIC_XXXX", "queue_id": 2, "store_ts": 0, "real_topic": "orders", "due_ts": 3_000}


def test_copies_belong_to_the_topic_they_come_from(spark: "SparkSession") -> None:
    log = [
        {"store_ts": 1},
        {"store_ts": 1},
        BACK | {"reconsume_times": 1},
        BACK | {"reconsume_times": 2},
        BACK | {"topic": "%DLQ%g", "reconsume_times": 3},
        {"topic": "%RETRY%h", "store_ts": 60_001, "reconsume_times": 1},
    ]
    facts = REPORT.facts(inputs(spark, REPORT, log=log))["stored"].persist()
    assert rows(table(REPORT, "by_topic", facts)) == [("%RETRY%h", 0, 1, None, 0, 1), ("orders", 2, 2, 1.0, 1, 3)]
    assert rows(table(REPORT, "by_group", facts)) == [("%RETRY%h", "h", 1, 0, 1), ("orders", "g", 2, 1, 3)]
    assert rows(table(REPORT, "by_attempt", facts), "group", "attempt", "fate", "messages") == [
        ("h", 1, "retry", 1),
        ("g", 1, "retry", 1),
        ("g", 2, "retry", 1),
        ("g", 3, "dead letter", 1),
    ]
    assert rows(table(REPORT, "by_minute", facts)) == [(0, "dead letter", 1), (0, "retry", 2), (60_000, "retry", 1)]
    assert rows(REPORT.figures["stored"](facts)) == [(3, 1)]
    facts.unpersist()


def test_messages_published_to_a_retry_topic_did_not_come_back(spark: "SparkSession") -> None:
    log = [{"topic": topic, "store_ts": 1} for topic in ("%RETRY%g", "%RETRY%g", "%DLQ%g")] + [BACK]
    facts = REPORT.facts(inputs(spark, REPORT, log=log))["stored"]
    assert rows(REPORT.figures["stored"](facts)) == [(1, 0)]
    assert rows(table(REPORT, "by_topic", facts), "topic", "messages", "retries", "dead_letters") == [
        ("%RETRY%g", 2, 0, 0),
        ("%DLQ%g", 1, 0, 0),
        ("orders", 0, 1, 0),
    ]


def test_retries_of_pop_belong_to_their_group_and_topic(spark: "SparkSession") -> None:
    log = [
        {"topic": name, "store_ts": 1, "reconsume_times": 1}
        for name in ("%RETRY%g+orders", "%RETRY%g_orders", "%RETRY%h_orders")
    ]
    pop_retries = [("%RETRY%g+orders", "g", "orders"), ("%RETRY%g_orders", "g", "orders")]
    facts = REPORT.facts(inputs(spark, REPORT, log=log, pop_retries=pop_retries))["stored"]
    assert rows(table(REPORT, "by_group", facts)) == [
        ("orders", "g", 2, 0, 1),
        ("%RETRY%h_orders", "h_orders", 1, 0, 1),
    ]


def test_one_group_beside_the_messages_of_all(spark: "SparkSession") -> None:
    log = [{"store_ts": 1}, {"store_ts": 1}, BACK, BACK | {"topic": "%RETRY%h"}]
    facts = about(REPORT.facts(inputs(spark, REPORT, log=log))["stored"], None, "g")
    assert rows(table(REPORT, "by_topic", facts)) == [("orders", 2, 1, 0.5, 0, 0)]
    assert rows(table(REPORT, "by_group", facts), "group", "retries") == [("g", 1)]


def test_the_lateness_of_delayed_messages(spark: "SparkSession") -> None:
    log = [
        ASIDE | {"uniq_key": "A"},
        {"uniq_key": "A", "store_ts": 3_025},
        ASIDE | {"uniq_key": "B"},  # not delivered yet
        ASIDE | {"uniq_key": "C", "due_ts": None},
        {"uniq_key": "C", "store_ts": 3_000},
        ASIDE | {"uniq_key": None},
        {"uniq_key": None, "store_ts": 3_000},
        ASIDE | {"uniq_key": "D"},
        {"uniq_key": "D", "store_ts": 2_990},  # a clock went back
        # the retry of A waits on its own, with the same key
        ASIDE | {"uniq_key": "A", "real_topic": "%RETRY%g", "reconsume_times": 1},
        {"topic": "%RETRY%g", "uniq_key": "A", "reconsume_times": 1, "store_ts": 3_007},
    ]
    facts = REPORT.facts(inputs(spark, REPORT, log=log))
    assert rows(
        retries.delayed_by_level(facts["late"]), "level", "delayed", "delivered", "samples", "min_ms", "max_ms"
    ) == [(3, 6, 4, 2, 7, 25)]
    assert sorted(rows(facts["left_out"], "reason", "count")) == [
        ("clock_back", 1),
        ("no_unique_key", 1),
        ("not_due_known", 1),
    ]
