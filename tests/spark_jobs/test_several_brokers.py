"""Reports over the stores of several brokers: each broker's rows, and those of all together."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker_core import commands as c
from spark_jobs.hosting import runs
from spark_jobs.inputs import RunInputs, StoreInputs
from spark_jobs.job import BrokerStore, Job
from spark_jobs.reports import load
from spark_jobs.run import run_report
from tests.fakes.engine import ROOT
from tests.fakes.followed import SEGMENT, append, blocks_of, follower, log_of, master
from tests.fakes.name_server import topic_config
from tests.spark_jobs.driven import Driven, copy
from tests.spark_jobs.lakes import fill
from tests.spark_jobs.test_run import now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000


def write_store(folder: Path, messages: int, committed: int, end_ms: int) -> Path:
    """A broker whose group ``g`` has committed so many of the messages in queue 0 of ``orders``."""
    driven = Driven()
    driven.bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=2, write_queues=2))
    driven.send("orders", messages)
    driven.at(1_000)
    driven.pull("orders", 0, "g", "c1")
    driven.commit("orders", committed, "g", "c1")
    driven.at(end_ms)
    driven.send("orders", queue=1)
    return driven.save(folder)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[BrokerStore, ...]:
    """Three brokers with 6, 3 and 2 messages, of which ``g`` has not committed 1, 0 and 1 in queue 0."""
    folder = tmp_path_factory.mktemp("cluster")
    written = {"broker-a": (5, 4, 5 * MINUTE), "broker-b": (2, 2, MINUTE), "broker-c": (1, 0, 3 * MINUTE)}
    return tuple(BrokerStore(name, write_store(folder / name, *story)) for name, story in written.items())


def run(spark: "SparkSession", report: str, stores: tuple[BrokerStore, ...], folder: Path) -> dict[str, Any]:
    return run_report(
        Job(report, stores, folder), lambda _: nullcontext(spark), now, lambda percent, doing, until=0: None
    )


def amounts(summary: dict[str, Any], column: str) -> dict[str, Any]:
    return {row["broker"]: row[column] for row in summary["rows"] if row["topic"] == "orders"}


def test_topics_have_rows_of_each_broker_and_of_all(
    spark: "SparkSession", stores: tuple[BrokerStore, ...], tmp_path: Path
) -> None:
    summary = run(spark, "throughput", stores, tmp_path / "all")
    assert amounts(summary, "messages") == {"*": 11, "broker-a": 6, "broker-b": 3, "broker-c": 2}
    assert amounts(summary, "queues") == {"*": 6, "broker-a": 2, "broker-b": 2, "broker-c": 2}
    assert [row["broker"] for row in summary["rows"]] == ["*", "broker-a", "broker-b", "broker-c"]
    assert summary["total"]["messages"] == 11
    assert [(source["broker"], source["messages"]) for source in summary["inputs"]] == [
        ("broker-a", 6),
        ("broker-b", 3),
        ("broker-c", 2),
    ]
    assert "; at 3 brokers: broker-a, broker-b, broker-c<" in (tmp_path / "all/report.html").read_text()
    alone = run(spark, "throughput", stores[1:2], tmp_path / "alone")
    assert amounts(alone, "messages") == {"broker-b": 3}


def test_the_lag_of_a_group_is_that_of_all_its_brokers(
    spark: "SparkSession", stores: tuple[BrokerStore, ...], tmp_path: Path
) -> None:
    """At one common end, though the brokers' logs end at different times."""
    summary = run(spark, "consumer_lag", stores, tmp_path / "lag")
    assert amounts(summary, "lag") == {"*": 2, "broker-a": 1, "broker-b": 0, "broker-c": 1}
    assert amounts(summary, "queues") == {"*": 3, "broker-a": 1, "broker-b": 1, "broker-c": 1}
    assert summary["total"]["lag"] == 2
    assert {row["broker"] for row in summary["rows"]} == {"*", "broker-a", "broker-b", "broker-c"}


def write_copy(folder: Path, messages: int, begin: int = 0) -> tuple[Path, int]:
    """A copy of a broker's log from the segment at ``begin`` on, whose group ``g`` has read two messages of a queue.

    Returns the store and the number of messages in the copy.
    """
    log = log_of(master(messages))
    bench = follower()
    append(bench, blocks_of(log, begin))
    bench.call(c.ReplicateTables(topics=[topic_config("orders", 3), topic_config("payments", 3)]))
    first = bench.context.store.min_offset("orders", 1)
    bench.call(c.ReplicateTables(offsets=[c.ReplicatedOffsets(group="g", topic="orders", offsets={1: first + 2})]))
    bench.clock.advance(MINUTE)
    bench.tick()
    bench.file_work()
    while bench.flush():
        pass
    copy(bench.files, ROOT, folder)
    queues = [(topic, queue) for topic in ("orders", "payments") for queue in range(3)]
    return folder, sum(
        bench.context.store.max_offset(*queue) - bench.context.store.min_offset(*queue) for queue in queues
    )


def test_reports_and_lakes_read_copies_of_attached_brokers(
    spark: "SparkSession", tmp_path: Path, settings: Any
) -> None:
    settings.GLASSMQ_DATA_DIR, settings.GLASSMQ_ATTACH = tmp_path, "10.0.0.1:9876"
    _, whole = write_copy(tmp_path / "attached" / "broker-a" / "store", 90)
    _, part = write_copy(tmp_path / "attached" / "broker-b" / "store", 200, begin=SEGMENT)
    counts = {"broker-a": whole, "broker-b": part}
    assert whole == 90 and 0 < part < 200
    report = "consumer_lag"
    stores = [StoreInputs(name, store, load(report)) for name, store in runs.stores()]
    read = RunInputs(spark, stores, report).of(report)
    assert sorted(read.messages.groupBy("broker").count().collect()) == sorted(counts.items())
    assert [row[:4] for row in read.table("offsets").collect()] == [(name, "g", "orders", 1) for name in counts]
    for name, store in runs.stores():
        assert fill(store, tmp_path / "lakes", broker=name).messages == counts[name]
