"""A lake that Spark fills and reads: its tasks may be killed, and what it counted is what is there."""

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.lake import merge as lake_merge
from spark_jobs.lake import tables as lake_tables
from spark_jobs.lake import tasks as lake_tasks
from spark_jobs.lake.lake import Lake, find_lake
from spark_jobs.lake.manifest import TABLES
from spark_jobs.lake.sync import Wanted, sync
from spark_jobs.lake.tables import fill, lake_messages, lake_polls, lake_sums
from spark_jobs.lake.tasks import MESSAGE_COLUMNS, POLL_COLUMNS, SUM_KEYS, SUMS, carry_out
from spark_jobs.reports.steps import summed
from spark_jobs.spark.failures import sentence
from tests.spark_jobs.frames import rows
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal
from tests.spark_jobs.stores import make_store, publish_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000


def filled(spark: "SparkSession", root: Path, **more: Any) -> Lake:
    fill(spark, str(root / "store"), root / "lakes", lambda: 7, lambda percent, doing: None, **more)
    lake = find_lake(root / "lakes", root / "store")
    assert lake is not None
    return lake


def test_spark_fills_a_lake_and_reads_it(spark: "SparkSession", tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    make_journal(tmp_path / "store", [entry(number) for number in range(20)])
    lake = filled(spark, tmp_path)
    assert sorted(rows(lake_messages(spark, lake, ("topic", "queue_id", "physical_offset", "total_size", "body")))) == (
        sorted((*record, None) for record in written.records)
    )
    polls = lake_polls(spark, lake, ("client_id", "at_ms"), BEGIN_MS + 5000, BEGIN_MS + 9000)
    assert sorted(rows(polls)) == [(f"c{number}", BEGIN_MS + 1000 * number) for number in range(5, 9)]


def test_bodies_are_there_if_they_were_asked_for(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 6)
    lake = filled(spark, tmp_path, with_bodies=True)
    assert all(part.with_bodies for part in lake.manifest.messages)
    assert (b"body 0",) in [(bytes(row[0]),) for row in rows(lake_messages(spark, lake, ("body",)))]


def test_what_was_counted_is_what_is_there(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 60)
    lake = filled(spark, tmp_path)
    start, stop = 1_700_000_040_000, 1_700_000_640_000
    assert start % MINUTE == stop % MINUTE == 0
    columns = (
        "topic",
        "queue_id",
        "born_host",
        "producer_group",
        "store_ts",
        "body_length",
        "total_size",
        "queue_offset",
        "physical_offset",
    )
    for window in ((None, None), (start, stop)):
        counted = lake_sums(spark, lake, SUM_KEYS, SUMS, *window)
        expected = summed(lake_messages(spark, lake, columns, *window), SUM_KEYS, SUMS)
        assert sorted(rows(counted), key=repr) == sorted(rows(expected), key=repr)
    with pytest.raises(ValueError, match="has not counted tags"):
        lake_sums(spark, lake, ("tags",), ("messages",))


def test_spark_merges_the_files_of_a_day_and_reads_the_same(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = make_store(tmp_path / "store", 40, step_ms=60 * MINUTE)
    make_journal(tmp_path / "store", *([entry(number, at_ms=BEGIN_MS + 60 * MINUTE * number)] for number in range(40)))
    wanted = Wanted(str(tmp_path / "store"), tmp_path / "lakes")
    with monkeypatch.context() as patch:
        patch.setattr(lake_merge, "FEW", 1 << 30)
        patch.setattr(lake_merge, "MANY", 1 << 30)
        for hours in range(4, 40, 4):
            publish_end(tmp_path / "store", written.records[hours][2])
            sync(wanted, lambda works: [carry_out(work) for work in works], lambda: 7, lambda percent, doing: None)
    before = find_lake(tmp_path / "lakes", tmp_path / "store")
    assert before is not None
    after = filled(spark, tmp_path)
    for table in TABLES:
        assert len(after.manifest.of_table(table)) < len(before.manifest.of_table(table))
    window = (BEGIN_MS // MINUTE * MINUTE + 5 * 60 * MINUTE, BEGIN_MS // MINUTE * MINUTE + 30 * 60 * MINUTE)
    for bounds in ((None, None), window):
        for read, columns in ((lake_messages, MESSAGE_COLUMNS), (lake_polls, POLL_COLUMNS)):
            found, expected = rows(read(spark, after, columns, *bounds)), rows(read(spark, before, columns, *bounds))
            assert sorted(found, key=repr) == sorted(expected, key=repr) and len(found) > 20
        counted = [rows(lake_sums(spark, lake, SUM_KEYS, SUMS, *bounds)) for lake in (after, before)]
        assert sorted(counted[0], key=repr) == sorted(counted[1], key=repr)


def test_an_empty_lake(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 0)
    lake = filled(spark, tmp_path)
    assert rows(lake_messages(spark, lake, ("topic",))) == rows(lake_sums(spark, lake, ("topic",), ("messages",))) == []
    assert rows(lake_polls(spark, lake, ("topic",))) == []


def killed(works: Any, batches: Any) -> Any:
    """Does the work and is killed before it can say so."""
    yield from list(lake_tasks.carry_out_in_spark(works, batches))[:0]
    os._exit(9)


def killed_in_the_middle(works: Any, batches: Any) -> Any:
    """Is killed while its files are being written."""
    lake_tasks.DayFile.finish = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    yield from lake_tasks.carry_out_in_spark(works, batches)


@pytest.mark.parametrize("task", [killed, killed_in_the_middle])
def test_a_task_that_is_killed_leaves_nothing_and_the_next_one_makes_it_whole(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: Any
) -> None:
    written = make_store(tmp_path / "store", 60)
    monkeypatch.setattr(lake_tables, "carry_out_in_spark", task)
    with pytest.raises(Exception, match=r"crashed|exited|EOF"):
        filled(spark, tmp_path)
    assert [path for path in (tmp_path / "lakes").rglob("*") if path.name.endswith((".parquet", ".new"))] == []
    monkeypatch.undo()
    lake = filled(spark, tmp_path)
    assert sorted(rows(lake_messages(spark, lake, ("physical_offset",)))) == [(at,) for _, _, at, _ in written.records]


def test_what_is_cancelled_is_removed_though_its_tasks_go_on(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = make_store(tmp_path / "store", 10)  # one task
    monkeypatch.setattr(lake_tables, "carry_out_in_spark", partial(waits, tmp_path / "begun", tmp_path / "go on"))

    def cancel() -> None:
        wait_for(tmp_path / "begun")
        spark.sparkContext._jsc.sc().cancelJobGroup("cancelled")

    spark.sparkContext.setJobGroup("cancelled", "for a test", interruptOnCancel=True)
    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(Exception, match="cancelled"):
        filled(spark, tmp_path)
    spark.sparkContext._jsc.sc().clearJobGroup()
    canceller.join()
    (folder,) = (tmp_path / "lakes").glob("store-*[0-9a-f]")
    assert list(folder.rglob("*.open")) == []
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    (tmp_path / "go on").touch()
    wait_for(tmp_path / "begun.over")
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    monkeypatch.undo()
    lake = filled(spark, tmp_path)
    assert sorted(rows(lake_messages(spark, lake, ("physical_offset",)))) == [(at,) for _, _, at, _ in written.records]


def waits(begun: Path, go_on: Path, works: Any, batches: Any) -> Any:
    """Does not begin to write before it is told to; says when it is over."""
    begun.touch()
    wait_for(go_on)
    try:
        yield from lake_tasks.carry_out_in_spark(works, batches)
    finally:
        begun.with_name("begun.over").touch()


def wait_for(path: Path) -> None:
    """Until the file is there, half a minute at most."""
    look = threading.Event()
    for _ in range(3000):
        if path.exists():
            return
        look.wait(0.01)
    raise TimeoutError(f"there is no {path}")


def test_a_full_disk_in_a_task_is_a_sentence(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(tmp_path / "store", 60)
    monkeypatch.setattr(lake_tables, "carry_out_in_spark", full)
    with pytest.raises(Exception, match="No space left on device") as raised:
        filled(spark, tmp_path)
    assert sentence(raised.value).startswith("There is no space left on the disk")
    assert [path for path in (tmp_path / "lakes").rglob("*") if path.name.endswith((".parquet", ".new"))] == []


def full(works: Any, batches: Any) -> Any:
    """Does the work, and cannot write the last of it."""
    yield from list(lake_tasks.carry_out_in_spark(works, batches))[:0]
    raise OSError(28, "No space left on device")
