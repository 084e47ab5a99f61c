"""A lake that Spark fills and reads, and tasks that are killed."""

import json
import os
import re
import shutil
import signal
import time
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command

from spark_jobs.lake import delta
from spark_jobs.lake import tables as lake_tables
from spark_jobs.lake import tasks as lake_tasks
from spark_jobs.lake.lake import Lake
from spark_jobs.lake.tables import fill, lake_messages, lake_polls
from spark_jobs.spark.failures import sentence
from tests.fakes.s3_server import s3_server
from tests.spark_jobs import lakes
from tests.spark_jobs.frames import rows
from tests.spark_jobs.journals import BEGIN_MS, entry, make_journal
from tests.spark_jobs.stores import make_store, publish_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000


def now() -> int:
    """The time by which vacuum deletes files that were replaced, ms."""
    return int(time.time() * 1000)


def filled(spark: "SparkSession", root: Path, **more: Any) -> Lake:
    fill(spark, str(root / "store"), "store", root / "lakes", now(), lambda percent, doing: None, **more)
    return lakes.lake_of(root / "store", root / "lakes")


def test_spark_fills_a_lake_and_reads_it(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 0)
    lake = filled(spark, tmp_path)
    for read in (lake_messages, lake_polls):
        assert rows(read(spark, lake, ("topic",))) == []
    shutil.rmtree(tmp_path / "store")
    written = make_store(tmp_path / "store", 60)
    make_journal(tmp_path / "store", [entry(number) for number in range(20)])
    lake = filled(spark, tmp_path)
    assert sorted(rows(lake_messages(spark, lake, ("topic", "queue_id", "physical_offset", "total_size", "body")))) == (
        sorted((*record, None) for record in written.records)
    )
    polls = lake_polls(spark, lake, ("client_id", "at_ms"), BEGIN_MS + 5000, BEGIN_MS + 9000)
    assert sorted(rows(polls)) == [(f"c{number}", BEGIN_MS + 1000 * number) for number in range(5, 9)]


def test_a_report_reads_a_busy_bucket_and_a_fill_writes_it(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, out = tmp_path / "store", tmp_path / "out"
    written = make_store(store, 40, step_ms=60 * MINUTE)
    publish_end(store, written.records[20][2])
    with s3_server(fail_every=10) as url:
        for name, value in os.environ.items():  # of Spark's tasks too
            if name.startswith("AWS_"):
                monkeypatch.setitem(spark.sparkContext.environment, name, value)
        lakes.fill(store, url, now_ms=7)
        publish_end(store, written.end)
        where = ("--store", str(store), "--lake", url)
        window = ("--from", "2023-11-15T16:00", "--to", "2023-11-15T20:00")
        call_command(
            "report", "run", "throughput", *where, *window, "--out", str(out), stdout=StringIO(), stderr=StringIO()
        )
        call_command("lake", "sync", *where, stdout=StringIO(), stderr=StringIO())
        assert sorted(rows(lake_messages(spark, lakes.lake_of(store, url), ("physical_offset",)))) == [
            (at,) for _, _, at, _ in written.records
        ]
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["total"]["messages"], summary["inputs"][0]["lake"]["messages"]) == (4, 2), (
        "two are in the log alone"
    )


def killed(*given: Any) -> Any:
    """Does the work and is killed before it can say so."""
    yield from list(lake_tasks.carry_out_in_spark(*given))[:0]
    os._exit(9)


def killed_in_the_middle(*given: Any) -> Any:
    """Is killed while its files are being written."""
    lake_tasks.draft_of = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    yield from lake_tasks.carry_out_in_spark(*given)


def full(*given: Any) -> Any:
    """Do the work, and fail at the end as on a full disk."""
    yield from list(lake_tasks.carry_out_in_spark(*given))[:0]
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (killed, "crashed|exited|EOF"),
        (killed_in_the_middle, "crashed|exited|EOF"),
        (full, "No space left on device"),
    ],
)
def test_a_task_that_fails_leaves_nothing_and_the_next_one_makes_it_whole(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: Any, said: str
) -> None:
    written = make_store(tmp_path / "store", 60)
    monkeypatch.setattr(lake_tables, "carry_out_in_spark", task)
    with pytest.raises(Exception, match=said) as raised:
        filled(spark, tmp_path)
    assert (task is full) == sentence(raised.value).startswith("There is no space left on the disk")
    assert list((tmp_path / "lakes").rglob("*.parquet")) == []
    monkeypatch.undo()
    lake = filled(spark, tmp_path)
    assert sorted(rows(lake_messages(spark, lake, ("physical_offset",)))) == [(at,) for _, _, at, _ in written.records]


def test_a_window_opens_only_the_files_of_its_days(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 120, step_ms=60 * MINUTE)
    make_journal(tmp_path / "store", *([entry(number, at_ms=BEGIN_MS + 1440 * MINUTE * number)] for number in range(5)))
    lake = filled(spark, tmp_path)
    days = sorted({file.day for file in lake.messages})
    assert len(days) == 6
    begin = delta.begin_of(days[3])

    def opened(read: Any, *window: int) -> list[str]:
        files = read(spark, lake, ("topic",), *window).inputFiles()
        return sorted({Path(path).parts[-3].removeprefix("date=") for path in files})

    for read in (lake_messages, lake_polls):
        assert opened(read, begin, begin + 1440 * MINUTE) == [str(days[3])]
    assert opened(lake_messages, begin - 60 * MINUTE, begin + 60 * MINUTE) == [str(days[2]), str(days[3])]
    assert opened(lake_messages) == list(map(str, days))


def test_a_window_is_compared_with_the_statistics_of_row_groups(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path / "store", 120, step_ms=1000)
    lake = filled(spark, tmp_path)
    lake_messages(spark, lake, ("topic",), BEGIN_MS + MINUTE, BEGIN_MS + 2 * MINUTE).explain(mode="formatted")
    (filters,) = re.findall(r"PushedFilters: (.*)", capsys.readouterr().out)
    for part in ("GreaterThanOrEqual(store_ts,2023-11-14", "LessThan(store_ts,2023-11-14"):
        assert part in filters
