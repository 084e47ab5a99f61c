"""The commit log as Spark sees it, over the store that RocketMQ wrote and over damaged ones."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructType

from broker_core.formats import commit_log_record
from spark_jobs.sources import commit_log_records, commit_log_source
from spark_jobs.sources.commit_log_source import CommitLogReader, CommitLogSource, pruned
from tests.fakes import golden_store
from tests.spark_jobs.stores import SEGMENT, make_store, publish_end, segment_path, tear

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS = {
    "debian-packages": 3203,
    "debian-ordered": 100,
    "debian-delayed": 3,
    "debian-transactions": 2,
    "RMQ_SYS_TRANS_HALF_TOPIC": 4,
    "RMQ_SYS_TRANS_OP_HALF_TOPIC": 1,
    "SCHEDULE_TOPIC_XXXX": 4,
    "%RETRY%golden_retry_group": 1,
    "%DLQ%golden_retry_group": 1,
}
"""As tests/golden/README.md says."""


def load(spark: "SparkSession", store: Path, columns: str = "", **options: str) -> "DataFrame":
    reader = spark.read.format("rocketmq_commitlog").options(**options)
    return (reader.schema(columns) if columns else reader).load(str(store))


def independent_counts(store: Path) -> Counter[str]:
    """Records by topic, one after the other, with nothing of spark_jobs."""
    found: Counter[str] = Counter()
    for path in sorted((store / "commitlog").iterdir()):
        data, at, base = path.read_bytes(), 0, int(path.name)
        while size := commit_log_record.measure(data, at, len(data), base + at):
            found[commit_log_record.topic_at(data, at).decode()] += 1
            at += size
    return found


@pytest.mark.parametrize("name", golden_store.STORES)
def test_counts_of_the_golden_store(spark: "SparkSession", golden: Path, name: str) -> None:
    rows = load(spark, golden / name, pruned("topic"), split_bytes="300000").groupBy("topic").count().collect()
    assert {row["topic"]: row["count"] for row in rows} == COUNTS == dict(independent_counts(golden / name))


def test_every_message_that_was_sent_is_there_with_its_tag_and_keys(spark: "SparkSession", golden: Path) -> None:
    expected = {
        (sent["topic"], sent["queue"], sent["offset"]): (sent.get("tag"), sent.get("keys"))
        for sent in golden_store.sent(golden)
        if sent["kind"] == "plain"
    }
    rows = load(spark, golden / "clean-shutdown", pruned("topic", "queue_id", "queue_offset", "tags", "keys")).collect()
    found = {(row["topic"], row["queue_id"], row["queue_offset"]): (row["tags"], row["keys"]) for row in rows}
    assert len(expected) == 3000
    assert {key: found[key] for key in expected} == expected


def test_only_what_is_safe_is_read_and_torn_records_are_left_out(spark: "SparkSession", tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    publish_end(tmp_path, written.records[50][2])
    tear(tmp_path, written.records[20][2], 30)
    rows = load(spark, tmp_path, "physical_offset long", split_bytes="1500").orderBy("physical_offset").collect()
    assert [row["physical_offset"] for row in rows] == [
        offset for index, (_, _, offset, _) in enumerate(written.records[:50]) if index != 20
    ]


def test_two_queries_of_one_table_do_not_get_each_others_conditions(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path, 10)
    table = load(spark, tmp_path, pruned("topic"))
    counts = [rows.count() for rows in (table.where("topic = 'orders'"), table, table.where("topic = 'other'"))]
    assert counts == [5, 10, 0]
    both = table.where("topic = 'orders'").unionByName(table)
    assert both.count() == 15


def test_an_empty_store_is_an_empty_table(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    assert load(spark, tmp_path, "topic string").collect() == []


def test_a_folder_that_is_no_store_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="is not a store: it has no commitlog folder"):
        load(spark, tmp_path, "topic string").count()


def test_an_unknown_column_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path, 1)
    with pytest.raises(AnalysisException, match="no column topic of type int"):
        load(spark, tmp_path, "topic int").count()
    with pytest.raises(ValueError, match="no column colour"):
        pruned("topic", "colour")


def test_bodies_and_properties_come_when_a_schema_names_them(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path, 3)
    assert "body binary" not in CommitLogSource({}).schema()
    rows = load(spark, tmp_path, pruned("properties", "body")).collect()
    assert bytes(rows[1]["body"]) == b"body 1body 1"
    assert rows[1]["properties"].startswith("UNIQ_KEY\x01")


def reader_of(store: Path, **options: str) -> CommitLogReader:
    return CommitLogReader(StructType().add("physical_offset", LongType()), {"path": str(store), **options})


def test_the_ranges_of_a_task_are_read_together(tmp_path: Path) -> None:
    written = make_store(tmp_path, 200, segment=1 << 15)
    assert written.end < 2 << 15
    publish_end(tmp_path, next(at for _, _, at, _ in written.records if at > (1 << 15) + 1000))
    reader = reader_of(tmp_path)
    (part,) = reader.partitions()
    assert [begin for _, _, begin, *_ in part.value[1]] == [0, 1 << 15]
    found = [row["physical_offset"] for batch in reader.read(part) for row in batch.to_pylist()]
    assert found == [at for _, _, at, _ in written.records if at <= (1 << 15) + 1000]
    parts = reader_of(tmp_path, split_bytes="8000").partitions()
    assert len(parts) > 3
    assert found == [
        row["physical_offset"] for each in parts for batch in reader.read(each) for row in batch.to_pylist()
    ]


@pytest.mark.parametrize(
    ("batch_bytes", "rows"), [(1 << 20, [60]), (160, [20, 20, 20]), (200, [30, 30]), (1, [10] * 6)]
)
def test_small_batches_are_joined_for_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_bytes: int, rows: list[int]
) -> None:
    written = make_store(tmp_path, 60, segment=1 << 15)
    monkeypatch.setattr(commit_log_records, "ROWS", 10)
    monkeypatch.setattr(commit_log_source, "BATCH_BYTES", batch_bytes)
    reader = reader_of(tmp_path)
    (part,) = reader.partitions()
    batches = list(reader.read(part))
    assert [batch.num_rows for batch in batches] == rows
    offsets = [offset for batch in batches for offset in batch.column("physical_offset").to_pylist()]
    assert offsets == [at for _, _, at, _ in written.records]


def test_a_segment_that_is_deleted_meanwhile_is_read_as_empty(tmp_path: Path) -> None:
    written = make_store(tmp_path, 60)
    reader = reader_of(tmp_path)
    parts = reader.partitions()
    segment_path(tmp_path, 0).unlink()
    found = [row["physical_offset"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert found == [at for _, _, at, _ in written.records if at >= SEGMENT]
    assert list(reader.read(InputPartition(None))) == []
