"""A whole run: from a store to the folder of its files."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import csv, parquet

from spark_jobs.errors import NotAStoreError
from spark_jobs.report_run import Job, run_report
from tests.spark_jobs.stores import make_store, publish_end, tear
from tests.spark_jobs.test_commit_log_source import COUNTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def now() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run(spark: "SparkSession", store: Path, folder: Path, **more: Any) -> dict[str, Any]:
    return run_report(Job("throughput", store, folder, **more), spark, now, lambda percent, doing: None)


def test_the_golden_store_twice_with_one_result(spark: "SparkSession", golden: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    store = golden / "clean-shutdown"
    job = Job("throughput", store, tmp_path / "1")
    first = run_report(job, spark, now, lambda percent, doing: steps.append(percent))
    second = run(spark, store, tmp_path / "2")
    assert first == second
    assert steps == sorted(steps)
    assert {row["topic"]: row["messages"] for row in first["rows"]} == COUNTS
    assert first["input"]["torn_bytes"] == 0
    assert json.loads((tmp_path / "1" / "summary.json").read_text()) == first
    for name, table in first["tables"].items():
        stored = parquet.read_table(tmp_path / "1" / table["parquet"])
        assert stored.num_rows == table["rows"] == csv.read_csv(tmp_path / "2" / table["csv"]).num_rows
        assert stored.equals(parquet.read_table(tmp_path / "2" / f"{name}.parquet"))


def test_torn_bytes_are_counted_and_fillers_are_not(spark: "SparkSession", tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 100)
    publish_end(tmp_path / "store", written.end)
    torn = written.records[40]
    tear(tmp_path / "store", torn[2], 40)
    summary = run(spark, tmp_path / "store", tmp_path / "out")
    assert summary["total"]["messages"] == 99
    assert summary["input"]["torn_bytes"] == torn[3]
    assert summary["input"]["ended_by"] == "safe end"
    assert summary["input"]["end_offset"] == written.end


def test_a_window_narrows_the_tables_and_not_what_was_read(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 30)
    start = 1_700_000_000_000
    summary = run(spark, tmp_path / "store", tmp_path / "out", from_ms=start + 120_000, to_ms=start + 300_000)
    assert summary["input"]["messages"] == 30
    assert 0 < summary["total"]["messages"] < 30
    assert summary["parameters"] == {"from_ms": start + 120_000, "to_ms": start + 300_000}


def test_an_empty_store_makes_an_empty_report(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    summary = run(spark, tmp_path / "store", tmp_path / "out")
    assert summary["rows"] == []
    assert summary["total"]["messages"] == 0
    assert (tmp_path / "out" / "report.html").exists()


def test_what_is_no_store_leaves_no_folder(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        run(spark, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
