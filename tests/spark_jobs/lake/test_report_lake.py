"""Reports say the same whether they read the log or a lake, and what a lake lacks is said."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import inputs as report_inputs
from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import LakeError
from spark_jobs.inputs import RunInputs, StoreInputs
from spark_jobs.lake import delta
from spark_jobs.lake.folders import notes_path
from spark_jobs.lake.lake import Lake
from spark_jobs.lake.notes import DELETED, Missing
from spark_jobs.lake.report_lake import (
    LAKE_SEGMENT,
    lake_described,
    lake_for,
    lake_notes,
    with_lake,
)
from spark_jobs.lake.tables import lake_messages
from spark_jobs.lake.tasks import MESSAGE_COLUMNS
from spark_jobs.reports import load
from spark_jobs.sources.commit_log_segments import LogPlan, plan_log
from spark_jobs.sources.commit_log_source import pruned
from spark_jobs.sources.poll_journal_files import find_files, survey
from tests.spark_jobs.driven import BEGIN_MS
from tests.spark_jobs.frames import rows
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.lakes import fill, lake_of
from tests.spark_jobs.stores import make_store, publish_end, segment_path, tear

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def half(driven: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(the driven store, its lakes), the lake filled while the store came to half of its log, and compacted."""
    root = tmp_path_factory.mktemp("half")
    store = shutil.copytree(driven, root / "store")
    whole = (store / "safe_end").read_bytes()
    first = plan_log(store, split_bytes=1).ranges
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delta, "MANY", 2)
        for share in (8, 4, 3, 2):
            publish_end(store, first[len(first) // share].start)
            fill(store, root / "lakes")
    assert lake_of(store, root / "lakes").notes.retired_bytes > 0
    (store / "safe_end").write_bytes(whole)
    return store, root / "lakes"


def filled(root: Path) -> tuple[Lake, LogPlan]:
    """The lake, filled from the store, and what follows it in the log."""
    fill(root / "store", root / "lakes")
    lake = lake_of(root / "store", root / "lakes")
    return lake, plan_log(root / "store", start=lake.position or 0)


def same(one: Any, other: Any) -> None:
    """Two runs of a report have the same figures."""
    for name in ("total", "rows", "headlines", "left_out", "notes", "step_ms"):
        assert one.summary[name] == other.summary[name], name
    assert list(one.summary["tables"]) == list(other.summary["tables"])
    for table in one.summary["tables"]:
        assert sorted(one.table(table), key=repr) == sorted(other.table(table), key=repr), table


def test_a_report_from_a_lake_that_is_behind_equals_the_one_from_the_log(
    finished_report: Callable[..., Any], driven: Path, half: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, lakes = half
    log = finished_report("throughput", driven)
    monkeypatch.setattr(report_inputs, "FEW_ROWS", -1)  # the way that many rows go
    lake = finished_report("throughput", store, lakes=lakes, source="lake")
    same(log, lake)
    (of_log,), (of_lake,) = log.summary["inputs"], lake.summary["inputs"]
    assert 0 < of_lake["lake"]["messages"] < of_lake["messages"] == of_log["messages"]


@pytest.mark.parametrize("window", [(None, None), (BEGIN_MS + 60_000, BEGIN_MS + 120_000)])
def test_log_and_lake_together_give_a_report_the_rows_of_the_log(
    spark: "SparkSession",
    driven: Path,
    half: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    window: tuple[int | None, int | None],
) -> None:
    """All columns that any report reads; so each report says the same."""
    monkeypatch.setattr(report_inputs, "FEW_ROWS", -1)
    (store, lakes), (from_ms, to_ms) = half, window
    name = "daily_summary"
    monkeypatch.setitem(REPORTS, name, REPORTS[name]._replace(look_back_ms=0))

    def read(store: Path, lake: Lake | None) -> list[Any]:
        inputs = RunInputs(
            spark, [StoreInputs(spark, "a", store, load(name), lake, window)], name, [from_ms] if from_ms else [], to_ms
        ).of(name)
        messages = inputs.messages.where(f"store_ts between {from_ms or 0} and {(to_ms or 1 << 60) - 1}")
        return [sorted(rows(part.drop("segment")), key=repr) for part in (messages, inputs.polls)]

    messages, polls = read(driven, None)
    assert (len(messages), len(polls)) == ((8, 9) if from_ms is None else (0, 5))
    assert read(store, lake_of(store, lakes)) == [messages, polls]


def test_the_lake_of_rocketmqs_store_has_every_column_and_figure_of_its_log(
    spark: "SparkSession", finished_report: Callable[..., Any], golden: Path, tmp_path: Path
) -> None:
    store = golden / "clean-shutdown"
    fill(store, tmp_path)
    lake = lake_of(store, tmp_path)
    of_log = spark.read.format("rocketmq_commitlog").schema(pruned(*MESSAGE_COLUMNS)).load(str(store))
    assert lake_messages(spark, lake, MESSAGE_COLUMNS).toArrow().sort_by("physical_offset") == (
        of_log.toArrow().sort_by("physical_offset")
    )
    report = finished_report("throughput", store, lakes=tmp_path)  # the lake is there, so it is read
    same(finished_report("throughput", store), report)
    assert report.summary["inputs"][0]["lake"]["messages"] == 3319


def test_messages_that_the_log_has_lost_come_from_the_lake(finished_report: Callable[..., Any], tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    publish_end(tmp_path / "store", written.records[-5][2])
    fill(tmp_path / "store", tmp_path / "lakes")
    publish_end(tmp_path / "store", written.end)
    segment_path(tmp_path / "store", 0).unlink()
    report = finished_report("throughput", tmp_path / "store", lakes=tmp_path / "lakes")
    assert report.summary["total"]["messages"] == 60
    source = report.summary["inputs"][0]
    assert (source["start_offset"], source["end_offset"], source["torn_bytes"]) == (0, written.end, 0)
    assert source["lake"]["messages"] == 55
    assert LAKE_SEGMENT not in [row.get("segment") for row in report.summary["rows"]]


def test_a_note_names_messages_that_neither_lake_nor_log_has(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    position = written.records[3][2]
    publish_end(tmp_path / "store", position)
    fill(tmp_path / "store", tmp_path / "lakes")
    publish_end(tmp_path / "store", written.end)
    second = int(segment_path(tmp_path / "store", 1).name)
    segment_path(tmp_path / "store", 0).unlink()
    lake = lake_of(tmp_path / "store", tmp_path / "lakes")
    plan = plan_log(tmp_path / "store", start=position)
    assert lake_described(lake, plan, 3)["gap_bytes"] == second - position
    (note,) = lake_notes(lake, plan, reads_polls=False)
    assert note.startswith(f"{second - position:,} bytes of the log were deleted before the lake had read them")


def test_a_note_names_the_gaps_of_the_lake(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 20)
    lake, plan = filled(tmp_path)
    lake.notes.missing = [Missing(0, 1000, DELETED, 1000), Missing(2000, 9000, DELETED, 234)]
    lake.notes.missing_journal_files = [4, 5]
    log, journal = lake_notes(lake, plan, reads_polls=True)
    assert log.startswith("1,234 bytes of the log")
    assert journal.startswith("2 files of the poll journal")
    assert lake_notes(lake, None, reads_polls=False) == []


def test_a_note_names_dropped_messages_if_the_window_begins_before_them(tmp_path: Path) -> None:
    store, lakes, now = tmp_path / "store", tmp_path / "lakes", 1_700_000_000_000 + 60 * 3_600_000
    make_store(store, 60, step_ms=3_600_000)
    fill(store, lakes)
    fill(store, lakes, now_ms=now, keep_days=1)
    midnight = now // 86_400_000 * 86_400_000 - 86_400_000
    note = (
        "The lake has dropped what it had of before 2023-11-16 (UTC), as GLASSMQ_LAKE_KEEP_DAYS "
        "says; that is missing here."
    )
    lake = lake_of(tmp_path / "store", tmp_path / "lakes")
    plan = plan_log(store, start=lake.position or 0)
    assert lake_described(lake, plan, 0)["dropped_before_ms"] == midnight
    for from_ms, notes in ((None, [note]), (midnight - 60_000, [note]), (midnight, [])):
        assert lake_notes(lake, plan, reads_polls=True, from_ms=from_ms) == notes
    assert lake_notes(lake, None, reads_polls=True) == [], "it had no ends of pulls"


def test_a_note_names_damage_at_the_end_of_the_log(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    torn = written.records[-1][2]
    tear(tmp_path / "store", torn, 20)
    (note,) = lake_notes(*filled(tmp_path), reads_polls=False)
    assert note.startswith(f"The log cannot be read behind byte {torn:,}, since the bytes there are not a valid record")


def test_notes_name_damage_and_implausible_records_that_the_lake_has_passed_over(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 20)
    tear(tmp_path / "store", written.records[10][2], 20)
    path = segment_path(tmp_path / "store", 0)
    data = bytearray(path.read_bytes())
    for index, place in ((3, 12), (5, 12), (7, 56)):  # the first bytes of two queue ids and a store time
        data[written.records[index][2] + place] ^= 0x40
    path.write_bytes(data)
    lake, plan = filled(tmp_path)
    assert sum(file.rows for file in lake.messages) == 16
    assert lake_notes(lake, plan, reads_polls=False) == [
        f"{written.records[10][3]:,} bytes of the log that the lake has read were damaged; about 1 message is missing "
        "here.",
        "When the lake was filled: 3 records with implausible fields were left out: queue id (2), store time (1).",
    ]


def test_the_lake_to_read_is_chosen_by_the_source(tmp_path: Path) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 5)
    assert lake_for(store, None, "auto") == lake_for(store, lakes, "auto") == (None, [])
    with pytest.raises(
        LakeError, match=r"There is no lake of .*store in .*lakes. `.venv/bin/python manage.py lake sync` fills one."
    ):
        lake_for(store, lakes, "lake")
    with pytest.raises(LakeError, match="There is no lake"):
        lake_for(store, None, "lake")
    with pytest.raises(LakeError, match="not 'river'"):
        lake_for(store, lakes, "river")
    fill(store, lakes)
    found, notes = lake_for(store, lakes, "auto")
    assert found is not None and (found, notes) == lake_for(store, lakes, "lake")
    assert notes == []
    assert lake_for(store, lakes, "log") == (None, [])
    Path(notes_path(lakes, found.broker)).write_text("{")
    nothing, (note,) = lake_for(store, lakes, "auto")
    assert nothing is None and note.startswith("The lake was not read") and ".json is damaged" in note
    with pytest.raises(LakeError, match="is damaged"):
        lake_for(store, lakes, "lake")


def test_a_lake_of_another_store_is_not_read(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 20)
    fill(tmp_path / "store", tmp_path / "lakes")
    shutil.rmtree(tmp_path / "store")
    make_store(tmp_path / "store", 20, body=b"other")
    nothing, (note,) = lake_for(tmp_path / "store", tmp_path / "lakes", "auto")
    assert nothing is None and "comes from another store that was there" in note
    with pytest.raises(LakeError, match="comes from another store that was there"):
        lake_for(tmp_path / "store", tmp_path / "lakes", "lake")


def test_the_journal_of_lake_and_store_is_counted_once(tmp_path: Path) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 3)
    make_journal(store, [entry(number) for number in range(20)])
    whole = survey(store)
    fill(store, lakes)
    lake = lake_of(tmp_path / "store", tmp_path / "lakes")
    tail = survey(store, lake.journal)
    assert (tail.entries, tail.files) == (0, 1)
    assert with_lake(tail, store, lake) == whole
    for file in find_files(store)[0]:
        Path(file.path).unlink()
    assert with_lake(survey(store, lake.journal), store, lake) == whole


def test_files_of_the_journal_that_were_not_closed(tmp_path: Path) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 1)
    make_journal(store, *([entry(5 * file + number) for number in range(5)] for file in range(3)), closed=False, lost=2)
    before = survey(store)
    fill(store, lakes)
    for file in find_files(store)[0]:
        Path(file.path).unlink()
    lake = lake_of(tmp_path / "store", tmp_path / "lakes")
    found = with_lake(survey(store, lake.journal), store, lake)
    assert (found.files, found.entries, found.lost, found.cut_off_files) == (3, 15, 6, 2)
    assert (found.from_ms, found.to_ms) == (before.from_ms, before.to_ms)
