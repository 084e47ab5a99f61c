"""The poll journal as Spark sees it: of a broker that runs, and of files that are harmed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from broker_core import commands as c
from broker_core.clock import SystemClock
from broker_core.engine import Engine
from broker_core.formats.poll_journal import decode_blocks, decode_header
from broker_core.options import Options
from broker_core.server.poll_journal import PollJournal
from broker_core.store.files import RealFiles
from spark_jobs.sources.poll_journal_files import JournalFile, JournalPosition
from spark_jobs.sources.poll_journal_source import PollJournalReader, PollJournalSource, pruned, split
from tests.fakes import golden_store
from tests.fakes.engine import SMALL, context_of, send
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(spark: "SparkSession", store: Path, columns: str = "", **options: str) -> "DataFrame":
    reader = spark.read.format("glassmq_poll_journal").options(**options)
    return (reader.schema(columns) if columns else reader).load(str(store))


def test_the_journal_of_a_running_broker_is_read(spark: "SparkSession", tmp_path: Path) -> None:
    clock = SystemClock()
    engine = Engine.open(tmp_path, Options(**SMALL), RealFiles(), clock, lambda count: f"{count:032X}")
    journal = PollJournal(RealFiles(), clock)
    assert journal.open(engine)
    engine.handle_batch([("p", 0, send("orders", b"one"))], clock.now())
    for number in range(300):
        engine.handle_batch(
            [
                (
                    "c",
                    number,
                    c.PullMessage(
                        topic="orders",
                        queue_id=0,
                        queue_offset=1,
                        suspend_timeout_ms=15_000,
                        consumer_group=f"g{number % 3}",
                        client_id=f"c{number}",
                        commit_offset=number,
                    ),
                )
            ],
            clock.now(),
        )
    engine.handle_batch([("p", 0, send("orders", b"two"))], clock.now())
    while context_of(engine).waking:
        engine.tick(clock.now())
    journal.write()  # the file is not closed, and goes on
    polls = load(spark, tmp_path).cache()
    counts = {(row["kind"], row["cause"]): row["count"] for row in polls.groupBy("kind", "cause").count().collect()}
    assert counts == {("woken", "arrival"): 300, ("committed", None): 300}
    assert polls.select("client_id").distinct().count() == 300
    by_group = polls.where("kind = 'woken'").groupBy("group").sum("messages").collect()
    assert {row["group"]: row["sum(messages)"] for row in by_group} == {"g0": 100, "g1": 100, "g2": 100}
    journal.close()
    engine.close(clock.now())


def test_columns_and_times_are_chosen_and_harmed_files_are_read_as_far_as_they_are_whole(
    spark: "SparkSession", tmp_path: Path
) -> None:
    paths = make_journal(tmp_path, map(entry, range(50)), map(entry, range(50, 100)), map(entry, range(100, 150)))
    paths[1].write_bytes(paths[1].read_bytes()[:-45])
    paths[2].write_bytes(b"")
    found = load(spark, tmp_path, pruned("group", "at_ms"), split_bytes="1", from_ms=str(BEGIN_MS + 30_000))
    assert found.columns == ["group", "at_ms"]
    rows = sorted((row["at_ms"] - BEGIN_MS) // 1000 for row in found.collect())
    assert rows == list(range(30, 90))
    assert load(spark, tmp_path, pruned("at_ms"), to_ms=str(BEGIN_MS)).count() == 0


def test_what_is_before_a_position_is_left_out(spark: "SparkSession", tmp_path: Path) -> None:
    paths = make_journal(tmp_path, map(entry, range(20)), map(entry, range(20, 40)), map(entry, range(40, 60)))
    header = decode_header(paths[1].read_bytes())
    assert header is not None
    first = next(iter(decode_blocks(paths[1].read_bytes(), header)))
    found = load(spark, tmp_path, pruned("at_ms"), after=json.dumps(JournalPosition(1, BEGIN_MS, first.end)))
    assert sorted((row["at_ms"] - BEGIN_MS) // 1000 for row in found.collect()) == list(range(30, 60))


def test_a_store_of_rocketmq_is_an_empty_table(spark: "SparkSession", golden: Path) -> None:
    assert load(spark, golden / golden_store.STORES[0]).count() == 0


def test_a_folder_without_a_journal_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="is not a store: it has no polljournal folder"):
        load(spark, tmp_path, pruned("topic")).count()


def test_an_unknown_column_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    make_journal(tmp_path, [entry(0)])
    with pytest.raises(AnalysisException, match="no column topic of type int"):
        load(spark, tmp_path, "topic int").count()
    with pytest.raises(ValueError, match="no column colour"):
        pruned("topic", "colour")


def test_an_option_that_is_no_number_is_refused() -> None:
    from pyspark.sql.types import StructType

    with pytest.raises(ValueError, match="from_ms is a whole number, not 'yesterday'"):
        PollJournalReader(StructType(), {"path": "store", "from_ms": "yesterday"})
    with pytest.raises(ValueError, match="say which store"):
        PollJournalSource({}).reader(StructType())


def test_small_files_share_a_task() -> None:
    files = [JournalFile(str(number), number, size) for number, size in enumerate((10, 10, 90, 5, 200, 1, 0))]
    assert [[file.size for file in part] for part in split(files, 100)] == [[10, 10], [90, 5], [200], [1, 0]]
    assert split([], 100) == []
