"""The poll journal as Spark sees it. Reports on a store that the engine wrote are in ``tests/spark_jobs/reports``."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from spark_jobs.sources.poll_journal_files import JournalFile, JournalPosition
from spark_jobs.sources.poll_journal_source import PollJournalReader, PollJournalSource, pruned, split
from tests.fakes import golden_store
from tests.spark_jobs.journals import BEGIN_MS, block_ends, entry, make_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(spark: "SparkSession", store: Path, columns: str = "", **options: str) -> "DataFrame":
    reader = spark.read.format("glassmq_poll_journal").options(**options)
    return (reader.schema(columns) if columns else reader).load(str(store))


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
    first, *_ = block_ends(paths[1].read_bytes())
    found = load(spark, tmp_path, pruned("at_ms"), after=json.dumps(JournalPosition(1, BEGIN_MS, first)))
    assert sorted((row["at_ms"] - BEGIN_MS) // 1000 for row in found.collect()) == list(range(30, 60))


def test_a_store_of_rocketmq_is_an_empty_table(spark: "SparkSession", golden: Path) -> None:
    assert load(spark, golden / golden_store.STORES[0]).count() == 0


def test_what_is_no_store_or_no_column_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="is not a store: it has no polljournal folder"):
        load(spark, tmp_path, pruned("topic")).count()
    make_journal(tmp_path, [entry(0)])
    with pytest.raises(AnalysisException, match="no column topic of type int"):
        load(spark, tmp_path, "topic int").count()
    with pytest.raises(ValueError, match="no column colour"):
        pruned("topic", "colour")


def test_an_option_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="from_ms is a whole number, not 'yesterday'"):
        PollJournalReader(StructType(), {"path": "store", "from_ms": "yesterday"})
    with pytest.raises(ValueError, match="say which store"):
        PollJournalSource({}).reader(StructType())


def test_small_files_share_a_task() -> None:
    files = [JournalFile(str(number), number, size) for number, size in enumerate((10, 10, 90, 5, 200, 1, 0))]
    assert [[file.size for file in part] for part in split(files, 100)] == [[10, 10], [90, 5], [200], [1, 0]]
    assert split([], 100) == []
