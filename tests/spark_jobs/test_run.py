"""A whole run: from a store to the folder of its files."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import csv, parquet

from broker_core.formats.poll_journal import FOLDER, file_name
from spark_jobs import run as report_run
from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import NotAStoreError
from spark_jobs.job import BrokerStore, Job
from spark_jobs.run import run_report
from tests.broker_core.formats.test_poll_journal import with_schema
from tests.fakes import golden_store
from tests.spark_jobs.driven import BEGIN_MS
from tests.spark_jobs.sources.test_commit_log_source import COUNTS
from tests.spark_jobs.stores import SEGMENT, make_store, publish_end, segment_path, tear

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000


def now() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run(spark: "SparkSession", store: Path, folder: Path, report: str = "throughput", **more: Any) -> dict[str, Any]:
    return run_report(
        Job(report, (BrokerStore("a", store),), folder, **more), spark, now, lambda percent, doing, until=0: None
    )


def test_the_golden_store_twice_with_one_result(spark: "SparkSession", golden: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    store, before = golden / "clean-shutdown", golden_store.fingerprint(golden)
    first = run_report(
        Job("throughput", (BrokerStore("a", store),), tmp_path / "1"),
        spark,
        now,
        lambda percent, doing, until=0: steps.append((percent, until)),
    )
    second = run(spark, store, tmp_path / "2")
    assert first == second
    assert [percent for percent, _ in steps] == sorted(percent for percent, _ in steps)
    assert (5, 80) in steps  # the scan, which goes on as its tasks end
    assert {row["topic"]: row["messages"] for row in first["rows"]} == COUNTS
    assert first["inputs"][0]["torn_bytes"] == 0
    assert json.loads((tmp_path / "1" / "summary.json").read_text()) == first
    for name, table in first["tables"].items():
        stored = parquet.read_table(tmp_path / "1" / table["parquet"])
        assert stored.num_rows == table["rows"] == csv.read_csv(tmp_path / "2" / table["csv"]).num_rows
        assert stored.equals(parquet.read_table(tmp_path / "2" / f"{name}.parquet"))
    assert golden_store.fingerprint(golden) == before


@pytest.mark.parametrize("name", ["hold_time", *(info.name for info in REPORTS.values() if not info.needs_journal)])
def test_every_report_runs_on_a_real_brokers_store(
    finished_report: Callable[..., Any], golden: Path, name: str
) -> None:
    report = finished_report(name, golden / "clean-shutdown")
    summary = report.summary
    assert (report.folder / "report.html").stat().st_size > 10_000
    assert summary["report"] == name
    assert [figure["name"] for figure in summary["headlines"]]
    assert all(figure["value"] == summary["total"][figure["name"]] for figure in summary["headlines"])
    if REPORTS[name].needs_journal:
        assert summary["rows"] == []
        assert summary["notes"][0].startswith("This store has no poll journal, so there is nothing to report:")
        assert {figure["value"] for figure in summary["headlines"]} == {None}
    else:
        assert summary["rows"]
        assert summary["inputs"][0]["messages"] == 3319


@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing", "torn"])
def test_a_damaged_log_is_read_behind_the_damage_and_the_report_says_what_is_missing(
    spark: "SparkSession", tmp_path: Path, damage: str
) -> None:
    written = make_store(tmp_path / "store", 100)
    *_, offset, size = written.records[60]
    path = segment_path(tmp_path / "store", offset // SEGMENT)
    start, end = offset, offset + size
    if damage == "missing":
        path.unlink()
        start = offset // SEGMENT * SEGMENT
        end = start + SEGMENT
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[: offset % SEGMENT])
        end = offset // SEGMENT * SEGMENT + SEGMENT
    elif damage == "torn":
        tear(tmp_path / "store", offset, size)
    else:
        data = bytearray(path.read_bytes())
        data[offset % SEGMENT + 5] ^= 1  # of the magic code
        path.write_bytes(data)
    summary = run(spark, tmp_path / "store", tmp_path / "out")
    kept = [index for index, record in enumerate(written.records) if not start <= record[2] < end]
    assert summary["total"]["messages"] == len(kept)
    if damage in ("flipped", "torn"):
        assert summary["inputs"][0]["torn_bytes"] == size, "without fillers"
    before, behind = (
        f"{datetime.fromtimestamp(1_700_000_000 + 20 * index, UTC):%Y-%m-%d %H:%M:%S}"
        for index in (
            max(index for index in kept if written.records[index][2] < start),
            min(index for index in kept if written.records[index][2] >= end),
        )
    )
    (note,) = summary["notes"]
    assert note.startswith(
        f"{end - start:,} bytes of the commit log, from offset {start:,} to {end:,}, are missing or damaged: about "
    )
    assert note.endswith(f", stored between {before} and {behind} UTC.")
    about = int(note.split("about ")[1].split(" ")[0])
    assert abs(about - (100 - len(kept))) <= 1


def test_a_store_that_is_being_written_is_read_up_to_its_safe_end(spark: "SparkSession", tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 100)
    for count in (60, 100):
        *_, offset, size = written.records[count - 1]
        publish_end(tmp_path / "store", offset + size)
        if count < 100:  # the next one is only half there
            half = written.records[count][2] + 30
            tear(tmp_path / "store", half, 40)
        else:
            make_store(tmp_path / "whole", 100)
            shutil.copytree(tmp_path / "whole" / "commitlog", tmp_path / "store" / "commitlog", dirs_exist_ok=True)
        summary = run(spark, tmp_path / "store", tmp_path / f"{count}")
        assert (summary["total"]["messages"], summary["inputs"][0]["torn_bytes"]) == (count, 0)


def test_a_store_of_ten_thousand_queues(spark: "SparkSession", tmp_path: Path) -> None:
    topics = tuple(f"topic-{number}" for number in range(3_334))
    make_store(tmp_path / "store", 10_002, topics=topics, segment=1 << 20)
    summary = run(spark, tmp_path / "store", tmp_path / "out")
    assert (summary["total"]["messages"], summary["tables"]["by_queue"]["rows"]) == (10_002, 10_002)
    assert (tmp_path / "out" / "report.html").stat().st_size < 2_000_000


def test_a_window_narrows_the_tables_and_not_what_was_read(spark: "SparkSession", tmp_path: Path) -> None:
    make_store(tmp_path / "store", 30)
    start = 1_700_000_000_000 - 1_700_000_000_000 % MINUTE
    summary = run(spark, tmp_path / "store", tmp_path / "out", from_ms=start + 120_000, to_ms=start + 300_000)
    assert summary["inputs"][0]["messages"] == 30
    assert 0 < summary["total"]["messages"] < 30
    assert summary["parameters"] == {
        "from_ms": start + 120_000,
        "to_ms": start + 300_000,
        "topic": None,
        "consumer_group": None,
        "compare": False,
        "source": "auto",
    }


def test_the_period_before_is_reported_beside_the_period(finished_report: Callable[..., Any], driven: Path) -> None:
    report = finished_report(
        "empty_polls", driven, from_ms=BEGIN_MS + MINUTE, to_ms=BEGIN_MS + 2 * MINUTE, compare=True
    )
    previous = report.summary["previous"]
    assert (previous["from_ms"], previous["to_ms"]) == (BEGIN_MS, BEGIN_MS + MINUTE)
    assert (report.summary["total"]["answers"], previous["total"]["answers"]) == (3, 2)
    assert (report.summary["rows"][0]["messages"], previous["rows"][0]["messages"]) == (6, 2)
    assert [{"broker": "a"} | row for row in report.table("previous")] == previous["rows"]
    answers = report.summary["headlines"][0]
    assert (answers["value"], answers["before"]) == (3, 2)


def test_a_report_of_one_group_has_only_its_rows(finished_report: Callable[..., Any], driven: Path) -> None:
    report = finished_report("empty_polls", driven, consumer_group="fast")
    assert report.summary["total"]["answers"] == 2
    assert {row["group"] for row in report.table("by_group")} == {"fast"}
    nobody = finished_report("empty_polls", driven, consumer_group="nobody").summary
    assert nobody["notes"] == ["The poll journal has no entry of what was asked for: group nobody."]


def test_many_facts_of_few_rows_give_the_same_figures(
    spark: "SparkSession",
    finished_report: Callable[..., Any],
    driven: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(report_run, "FEW_ROWS", 1)
    summary, expected = (
        run(spark, driven, tmp_path / "out", "empty_polls"),
        finished_report("empty_polls", driven).summary,
    )
    assert (summary["total"], summary["rows"]) == (expected["total"], expected["rows"])


def test_facts_that_are_collected_lose_their_plan(spark: "SparkSession") -> None:
    doubled = spark.range(10).selectExpr("id * 2 AS doubled")
    with report_run.read_facts({"rows": doubled}, lambda *_: None) as facts:
        assert facts["rows"].orderBy("doubled").collect() == doubled.collect()
        plan = facts["rows"]._jdf.queryExecution().logical().toString()
    assert "Range" not in plan


def test_a_journal_that_lost_entries_and_lost_its_end(spark: "SparkSession", driven: Path, tmp_path: Path) -> None:
    store = shutil.copytree(driven, tmp_path / "store")
    (file,) = (store / FOLDER).iterdir()
    file.write_bytes(file.read_bytes()[:-30])
    journal = run(spark, store, tmp_path / "out", "hold_time")["inputs"][0]["journal"]
    assert journal["entries"] < 9
    assert journal["torn_bytes"] > 0


def test_a_journal_of_an_older_schema(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / FOLDER).mkdir()
    (tmp_path / "store" / FOLDER / file_name(0)).write_bytes(with_schema(0, 44))
    summary = run(spark, tmp_path / "store", tmp_path / "out", "hold_time")
    assert summary["inputs"][0]["journal"]["entries"] == 2
    assert summary["inputs"][0]["journal"]["unreadable_files"] == 0
    assert summary["rows"] == []  # what kind of an entry each is, that schema did not say


@pytest.mark.parametrize("report", ["throughput", "consumer_lag"])
def test_an_empty_store_makes_an_empty_report(spark: "SparkSession", tmp_path: Path, report: str) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    summary = run(spark, tmp_path / "store", tmp_path / "out", report)
    assert summary["rows"] == []
    assert summary["notes"][-1] == "The commit log of this store is empty."
    assert (tmp_path / "out" / "report.html").exists()


def test_records_with_implausible_fields_are_left_out_and_counted(spark: "SparkSession", tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 100, body=b"\xff\x00\xfe")
    for index, place, bit in ((10, 13, 0x40), (40, 12, 0x40), (60, 56, 0x40), (80, 42, 0x80)):
        offset = written.records[index][2]
        path = segment_path(tmp_path / "store", offset // SEGMENT)
        data = bytearray(path.read_bytes())
        data[offset % SEGMENT + place] ^= bit
        path.write_bytes(data)
    summary = run(spark, tmp_path / "store", tmp_path / "out", "skew")
    assert summary["notes"][0] == (
        "4 records with implausible fields were left out: born time (1), queue id (2), store time (1)."
    )
    assert summary["inputs"][0]["messages"] == 96
    assert all(table["rows"] < 200 for table in summary["tables"].values())


def test_a_failed_run_without_a_store_leaves_no_folder(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        run(spark, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
