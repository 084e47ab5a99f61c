"""A whole run: from a store to the folder of its files."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import csv, parquet

from spark_jobs import run as report_run
from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import NotAStoreError, WindowError
from spark_jobs.job import BrokerStore, Job
from spark_jobs.output import result as report_result
from spark_jobs.reports import load
from spark_jobs.run import run_report
from spark_jobs.spark.at_once import AT_ONCE, run_at_once
from tests.fakes import golden_store
from tests.spark_jobs.driven import BEGIN_MS
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.sources.test_commit_log_source import COUNTS
from tests.spark_jobs.stores import SEGMENT, make_store, publish_end, segment_path, tear, write_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE = 60_000


def now() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run(spark: "SparkSession", store: Path, folder: Path, report: str = "throughput", **more: Any) -> dict[str, Any]:
    return run_report(
        Job(report, (BrokerStore("a", store),), folder, **more),
        lambda _: nullcontext(spark),
        now,
        lambda percent, doing, until=0: None,
    )


def test_the_golden_store_twice_with_one_result(
    spark: "SparkSession", finished_report: Callable[..., Any], golden: Path, tmp_path: Path
) -> None:
    steps: list[tuple[int, int]] = []
    store, before = golden / "clean-shutdown", golden_store.fingerprint(golden)
    first = finished_report("throughput", store)
    job = Job("throughput", (BrokerStore("a", store),), tmp_path / "out")
    summary = run_report(
        job, lambda _: nullcontext(spark), now, lambda percent, doing, until=0: steps.append((percent, until))
    )
    assert first.summary == summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [percent for percent, _ in steps] == sorted(percent for percent, _ in steps)
    assert (5, 80) in steps  # the scan, which goes on as its tasks end
    assert {row["topic"]: row["messages"] for row in summary["rows"]} == COUNTS
    assert (summary["inputs"][0]["messages"], summary["inputs"][0]["torn_bytes"]) == (3319, 0)
    assert all(figure["value"] == summary["total"][figure["name"]] for figure in summary["headlines"])
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    for name, table in summary["tables"].items():
        stored = parquet.read_table(first.folder / table["parquet"])
        assert stored.num_rows == table["rows"] == csv.read_csv(tmp_path / "out" / table["csv"]).num_rows
        assert stored.equals(parquet.read_table(tmp_path / "out" / f"{name}.parquet"))
    assert golden_store.fingerprint(golden) == before


def test_a_damaged_log_is_read_behind_the_damage_and_the_report_says_what_is_missing(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """A torn record, a flipped bit, a truncated segment and a missing one."""
    written = make_store(tmp_path / "store", 200)
    torn, flipped, cut = (written.records[index] for index in (5, 40, 80))
    *_, offset, size = torn
    tear(tmp_path / "store", offset, size)
    *_, offset, _ = flipped
    path = segment_path(tmp_path / "store", offset // SEGMENT)
    data = bytearray(path.read_bytes())
    data[offset % SEGMENT + 5] ^= 1  # of the magic code
    path.write_bytes(data)
    path = segment_path(tmp_path / "store", cut[2] // SEGMENT)
    path.write_bytes(path.read_bytes()[: cut[2] % SEGMENT])
    missing = written.records[150][2] // SEGMENT
    segment_path(tmp_path / "store", missing).unlink()
    gaps = [
        *((offset, offset + size) for *_, offset, size in (torn, flipped)),
        (cut[2], (cut[2] // SEGMENT + 1) * SEGMENT),
        (missing * SEGMENT, (missing + 1) * SEGMENT),
    ]
    summary = run(spark, tmp_path / "store", tmp_path / "out")
    kept = [
        (at, f"{datetime.fromtimestamp(1_700_000_000 + 20 * index, UTC):%Y-%m-%d %H:%M:%S}")
        for index, (*_, at, _) in enumerate(written.records)
        if not any(start <= at < end for start, end in gaps)
    ]
    assert summary["total"]["messages"] == len(kept)
    assert summary["inputs"][0]["torn_bytes"] == torn[3] + flipped[3], "without fillers"
    assert len(summary["notes"]) == len(gaps)
    for note, (start, end) in zip(summary["notes"], gaps, strict=True):
        before = [when for at, when in kept if at < start][-1]
        behind = next(when for at, when in kept if at >= end)
        assert note.startswith(
            f"From offset {start:,} to {end:,} the commit log is missing or damaged: {end - start:,} bytes, about "
        )
        assert note.endswith(f", stored between {before} and {behind} UTC.")
        about = int(note.split("about ")[1].split(" ")[0])
        assert abs(about - sum(start <= at < end for *_, at, _ in written.records)) <= 1


def test_a_store_that_is_being_written_is_read_up_to_its_safe_end(spark: "SparkSession", tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 100)
    *_, offset, size = written.records[59]
    publish_end(tmp_path / "store", offset + size)
    tear(tmp_path / "store", written.records[60][2] + 30, 40)  # the next one is only half there
    summary = run(spark, tmp_path / "store", tmp_path / "out")
    assert (summary["total"]["messages"], summary["inputs"][0]["torn_bytes"]) == (60, 0)


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


def test_a_report_of_one_group_or_topic_has_only_its_rows(finished_report: Callable[..., Any], driven: Path) -> None:
    report = finished_report("empty_polls", driven, consumer_group="fast")
    assert report.summary["total"]["answers"] == 2
    assert {row["group"] for row in report.table("by_group")} == {"fast"}
    nothing = finished_report("empty_polls", driven, consumer_group="fast", topic="nothing").summary
    assert nothing["notes"] == ["The poll journal has no entry of what was asked for: topic nothing, group fast."]


def test_many_facts_give_the_same_figures_one_table_at_a_time(
    spark: "SparkSession",
    finished_report: Callable[..., Any],
    driven: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_a_time: list[int] = []

    def counted(session: "SparkSession", queries: list[Callable[[], Any]], most: int) -> list[Any]:
        at_a_time.append(most)
        return run_at_once(session, queries, most)

    monkeypatch.setattr(report_result, "run_at_once", counted)
    for few, most in ((1, 1), (report_run.FEW_FACTS, AT_ONCE)):
        monkeypatch.setattr(report_run, "FEW_FACTS", few)
        summary = run(spark, driven, tmp_path / f"{few}", "empty_polls")
        expected = finished_report("empty_polls", driven).summary
        assert (summary["total"], summary["rows"], at_a_time.pop()) == (expected["total"], expected["rows"], most)


def test_facts_that_are_collected_lose_their_plan(spark: "SparkSession") -> None:
    doubled = spark.range(10).selectExpr("id * 2 AS doubled")
    with report_run.read_facts({"rows": doubled}, lambda *_: None) as facts:
        assert facts["rows"].orderBy("doubled").collect() == doubled.collect()
        plan = facts["rows"]._jdf.queryExecution().logical().toString()
    assert "Range" not in plan


@pytest.mark.parametrize("report", ["throughput", "consumer_lag"])
def test_an_empty_store_makes_an_empty_report(spark: "SparkSession", tmp_path: Path, report: str) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    summary = run(spark, tmp_path / "store", tmp_path / "out", report)
    assert summary["rows"] == []
    assert summary["notes"][-1] == "The commit log of this store is empty."
    assert (tmp_path / "out" / "report.html").exists()


def test_records_with_implausible_fields_are_left_out_and_counted(spark: "SparkSession", tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 100, body=b"\xff\x00\xfe")
    write_topics(tmp_path / "store", orders=3, stock=3)
    places = ((10, 13, 0x40), (40, 12, 0x40), (60, 56, 0x40), (80, 42, 0x80), (90, 15, 4), (92, 93, 1))
    for index, place, bit in places:
        offset = written.records[index][2]
        path = segment_path(tmp_path / "store", offset // SEGMENT)
        data = bytearray(path.read_bytes())
        data[offset % SEGMENT + place] ^= bit
        path.write_bytes(data)
    summary = run(spark, tmp_path / "store", tmp_path / "out")
    assert summary["notes"][0] == (
        "4 records with implausible fields were left out: born time (1), queue id (2), store time (1)."
    )
    assert summary["notes"][1] == (
        "The broker does not have the topic or queue of 2 messages: orders queue 4 (1), osders (1). A deleted topic "
        "looks like this, and so does a damaged message."
    )
    assert summary["inputs"][0]["messages"] == 96
    assert all(table["rows"] < 200 for table in summary["tables"].values())


def test_a_run_states_what_time_it_covers_and_where_its_own_time_went(spark: "SparkSession", tmp_path: Path) -> None:
    """The clock advances by a second whenever it is read."""
    make_store(tmp_path / "store", 5)
    ticks = (datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC) for second in range(60))
    job = Job("throughput", (BrokerStore("a", tmp_path / "store"),), tmp_path / "out")
    summary = run_report(job, lambda _: nullcontext(spark), lambda: next(ticks), lambda *_, **__: None)
    assert summary["durations_s"] == dict.fromkeys(("start_spark", "read", "make_tables", "write_files"), 1)
    assert summary["duration_s"] == 4
    begin = 1_700_000_000_000 - 1_700_000_000_000 % MINUTE
    assert summary["span"] == {"from_ms": begin, "to_ms": begin + 2 * MINUTE}


class SparkStartsError(Exception):
    """There is something to read."""


def report_of(report: str, out: Path, *stores: Path, **more: Any) -> dict[str, Any]:
    def start_spark(reads_little: bool) -> Any:
        raise SparkStartsError

    job = Job(report, tuple(BrokerStore(store.name, store) for store in stores), out, **more)
    return run_report(job, start_spark, now, lambda *_: None)


@pytest.mark.parametrize("report", [name for name in REPORTS if not load(name).reads])
def test_without_a_journal_the_result_is_a_note_and_unknown_figures(tmp_path: Path, report: str) -> None:
    make_store(tmp_path / "store", 3)
    summary = report_of(report, tmp_path / "out", tmp_path / "store")
    assert summary == json.loads((tmp_path / "out" / "summary.json").read_text())
    [note] = summary["notes"]
    assert note.startswith("This store has no poll journal, so there is nothing to report:")
    assert {headline["value"] for headline in summary["headlines"]} == {None}
    assert note in (tmp_path / "out" / "report.html").read_text()


def test_the_notes_on_several_stores_name_their_brokers(tmp_path: Path) -> None:
    for broker in ("a", "b"):
        make_store(tmp_path / broker, 3)
    summary = report_of("hold_time", tmp_path / "out", tmp_path / "a", tmp_path / "b")
    assert [note.partition(" store has")[0] for note in summary["notes"]] == ["a: This", "b: This"]


def test_reports_with_something_to_read_are_left_to_spark(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 3)
    with pytest.raises(SparkStartsError):
        report_of("throughput", tmp_path / "out", tmp_path / "store")
    make_journal(tmp_path / "store", [entry(1)])
    with pytest.raises(SparkStartsError):
        report_of("hold_time", tmp_path / "out", tmp_path / "store")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("report", ["hold_time", "throughput"])
def test_bad_paths_and_windows_are_refused_before_spark_starts(tmp_path: Path, report: str) -> None:
    with pytest.raises(NotAStoreError):
        report_of(report, tmp_path / "out", tmp_path)
    with pytest.raises(WindowError):
        report_of(report, tmp_path / "out", tmp_path, from_ms=1)
    assert not (tmp_path / "out").exists()
