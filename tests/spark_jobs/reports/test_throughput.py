"""Messages and bytes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.reports import throughput
from tests.fakes import golden_store
from tests.spark_jobs.frames import MINUTE, inputs, rows, table
from tests.spark_jobs.sources.test_commit_log_source import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "physical_offset",
    "segment",
    "topic",
    "queue_id",
    "queue_offset",
    "total_size",
    "body_length",
    "store_ts",
    "born_host",
    "producer_group",
)
MESSAGES = [
    dict(zip(COLUMNS, row, strict=True))
    for row in (
        (0, 0, "a", 0, 5, 100, 0, 10, "10.0.0.1", None),
        (100, 0, "a", 1, 7, 200, 1, MINUTE - 1, "10.0.0.1", None),
        (300, 0, "b", 0, 0, 300, 2, MINUTE, "10.0.0.1", "tx"),
        (600, 0, "a", 0, 6, 400, 3, MINUTE + 1, "10.0.0.2", None),
        (1000, 1000, "a", 0, 7, 500, 256, 2 * MINUTE, "10.0.0.2", None),
        (1500, 1000, "a", 0, 8, 600, 257, 3 * MINUTE, "10.0.0.2", None),
    )
]


@pytest.fixture(scope="module")
def facts(spark: "SparkSession") -> "DataFrame":
    return throughput.facts(inputs(spark, throughput.REPORT, log=MESSAGES))["stored"].persist()


@pytest.mark.parametrize(
    ("name", "columns", "expected"),
    [
        (
            "by_topic",
            (),
            [
                ("a", "messages", 5, 1800, 517, 2, 100, 360.0, 600, 10, 3 * MINUTE),
                ("b", "messages", 1, 300, 2, 1, 300, 300.0, 300, MINUTE, MINUTE),
            ],
        ),
        (
            "by_queue",
            ("topic", "queue_id", "messages", "min_queue_offset", "max_queue_offset"),
            [("a", 0, 4, 5, 8), ("a", 1, 1, 7, 7), ("b", 0, 1, 0, 0)],
        ),
        (
            "by_producer",
            ("topic", "born_host", "producer_group", "messages"),
            [("a", "10.0.0.1", None, 2), ("a", "10.0.0.2", None, 3), ("b", "10.0.0.1", "tx", 1)],
        ),
        (
            "by_minute",
            (),
            [
                (0, "a", 2, 300, 1),
                (MINUTE, "a", 1, 400, 3),
                (MINUTE, "b", 1, 300, 2),
                (2 * MINUTE, "a", 1, 500, 256),
                (3 * MINUTE, "a", 1, 600, 257),
            ],
        ),
        (
            "by_size",
            ("topic", "size_class", "messages"),
            [("a", 1, 2), ("a", 4, 1), ("a", 256, 1), ("a", 512, 1), ("b", 2, 1)],
        ),
    ],
)
def test_tables(facts: "DataFrame", name: str, columns: tuple[str, ...], expected: list[tuple[Any, ...]]) -> None:
    assert rows(table(throughput.REPORT, name, facts), *columns) == expected


def test_by_kind(spark: "SparkSession", facts: "DataFrame") -> None:
    log = [message | {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"} for message in MESSAGES]
    own = throughput.facts(inputs(spark, throughput.REPORT, log=log))["stored"]
    by_kind = table(throughput.REPORT, "by_kind", facts.unionAll(own))
    assert rows(by_kind, "kind", "messages", "bytes") == [("messages", 6, 2100), ("transaction", 6, 2100)]
    assert rows(throughput.figures(facts)) == [(6, 2100, 519)]


def test_the_golden_store_agrees_with_an_independent_count(finished_report: Callable[..., Any], golden: Path) -> None:
    store = golden / "clean-shutdown"
    report = finished_report("throughput", store)
    messages: Counter[tuple[str, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    minutes: Counter[tuple[int, str]] = Counter()
    classes: Counter[tuple[str, int]] = Counter()
    for record in golden_store.records(store):
        messages[record.topic, record.queue_id] += 1
        sizes[record.topic, record.queue_id] += record.size
        minutes[record.store_timestamp // MINUTE * MINUTE, record.topic] += 1
        classes[record.topic, 1 << max(len(record.body) - 1, 0).bit_length()] += 1
    queues = report.table("by_queue")
    assert {(row["topic"], row["queue_id"]): row["messages"] for row in queues} == messages
    assert {(row["topic"], row["queue_id"]): row["bytes"] for row in queues} == sizes
    assert {(row["minute_ts"], row["topic"]): row["messages"] for row in report.table("by_minute")} == minutes
    assert {(row["topic"], row["size_class"]): row["messages"] for row in report.table("by_size")} == classes


def test_the_golden_store_agrees_with_what_was_sent(finished_report: Callable[..., Any], golden: Path) -> None:
    report = finished_report("throughput", golden / "clean-shutdown")
    assert {row["topic"]: row["messages"] for row in report.summary["rows"]} == COUNTS
    sent = golden_store.sent(golden)
    plain = Counter((entry["topic"], entry["queue"]) for entry in sent if entry["kind"] == "ordered")
    assert {
        (row["topic"], row["queue_id"]): row["messages"]
        for row in report.table("by_queue")
        if row["topic"] == "debian-ordered"
    } == plain
    bodies = sum(entry["bodyLength"] for entry in sent if entry["kind"] == "ordered")
    assert next(row["body_bytes"] for row in report.summary["rows"] if row["topic"] == "debian-ordered") == bodies
    producers = {
        (row["topic"], row["born_host"], row["producer_group"]): row["messages"] for row in report.table("by_producer")
    }
    assert producers["debian-transactions", "127.0.0.1", "golden_tx_group"] == 2
    assert producers["debian-packages", "127.0.0.1", None] == 3203
