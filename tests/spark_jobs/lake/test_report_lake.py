"""Reports say the same whether they read the log or a lake, and what a lake lacks is said."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from spark_jobs import inputs as report_inputs
from spark_jobs.catalogue import REPORTS
from spark_jobs.errors import LakeError
from spark_jobs.inputs import RunInputs, StoreInputs
from spark_jobs.lake import delta
from spark_jobs.lake.lake import Lake, find_lake
from spark_jobs.lake.report_lake import (
    LAKE_SEGMENT,
    lake_described,
    lake_for,
    lake_gaps,
    lake_notes,
    unread_files,
    with_lake,
)
from spark_jobs.lake.tables import lake_messages
from spark_jobs.lake.tasks import LOST, MESSAGE_COLUMNS, UNREAD
from spark_jobs.output.notes import damage_notes
from spark_jobs.reports import load
from spark_jobs.sources.commit_log_damage import DELETED, Gap
from spark_jobs.sources.commit_log_segments import LogPlan, plan_log
from spark_jobs.sources.commit_log_source import pruned
from spark_jobs.sources.poll_journal_files import find_files, survey
from tests.spark_jobs.driven import BEGIN_MS
from tests.spark_jobs.frames import rows
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.lakes import fill, lake_of
from tests.spark_jobs.stores import Written, make_store, publish_end, segment_path, tear

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
            fill(store, root / "lakes", broker="a")
    (store / "safe_end").write_bytes(whole)
    return store, root / "lakes"


def filled(root: Path) -> tuple[Lake, LogPlan]:
    """The lake, filled from the store, and what follows it in the log."""
    fill(root / "store", root / "lakes")
    lake = lake_of(root / "store", root / "lakes")
    return lake, plan_log(root / "store", start=lake.position or 0)


BEGIN_OF_STORE = 1_700_000_000_000


def same(one: Any, other: Any) -> None:
    """Two runs of a report have the same figures."""
    for name in ("total", "rows", "headlines", "left_out", "notes", "step_ms"):
        assert one.summary[name] == other.summary[name], name
    assert list(one.summary["tables"]) == list(other.summary["tables"])
    for table in one.summary["tables"]:
        assert sorted(one.table(table), key=repr) == sorted(other.table(table), key=repr), table


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
            spark, [StoreInputs("a", store, load(name), lake, window)], name, [from_ms] if from_ms else [], to_ms
        ).of(name)
        messages = inputs.messages.where(f"store_ts between {from_ms or 0} and {(to_ms or 1 << 60) - 1}")
        return [sorted(rows(part.drop("segment")), key=repr) for part in (messages, inputs.polls)]

    messages, polls = read(driven, None)
    assert (len(messages), len(polls)) == ((8, 9) if from_ms is None else (0, 5))
    assert read(store, find_lake(lakes, "a")) == [messages, polls]


def test_the_lake_of_rocketmqs_store_has_every_column_and_figure_of_its_log(
    spark: "SparkSession", finished_report: Callable[..., Any], golden: Path, tmp_path: Path
) -> None:
    store = golden / "clean-shutdown"
    fill(store, tmp_path, broker="a")
    lake = find_lake(tmp_path, "a")
    assert lake is not None
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
    fill(tmp_path / "store", tmp_path / "lakes", broker="a")
    publish_end(tmp_path / "store", written.end)
    segment_path(tmp_path / "store", 0).unlink()
    report = finished_report("throughput", tmp_path / "store", lakes=tmp_path / "lakes")
    assert report.summary["total"]["messages"] == 60
    source = report.summary["inputs"][0]
    assert (source["start_offset"], source["end_offset"], source["torn_bytes"]) == (0, written.end, 0)
    assert source["lake"]["messages"] == 55
    assert LAKE_SEGMENT not in [row.get("segment") for row in report.summary["rows"]]


READ: dict[str, Any] = {"torn_segments": [], "mean_size": 170.0}


def notes(lake: Lake, plan: LogPlan, window: tuple[int | None, int | None] = (None, None)) -> list[str]:
    """The notes of a report over a window about what the log lacks."""
    gaps = lake_gaps(lake, plan, window)
    return damage_notes(plan, READ, gaps) + lake_notes(lake, plan, gaps, None)


def test_notes_name_messages_that_neither_lake_nor_log_has(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    position = written.records[3][2]
    publish_end(tmp_path / "store", position)
    fill(tmp_path / "store", tmp_path / "lakes")
    publish_end(tmp_path / "store", written.end)
    second = int(segment_path(tmp_path / "store", 1).name)
    segment_path(tmp_path / "store", 0).unlink()
    lake = lake_of(tmp_path / "store", tmp_path / "lakes")
    plan = plan_log(tmp_path / "store", start=position)
    assert lake_described(lake, plan, tmp_path / "store", 3)["gap_bytes"] == second - position
    before, behind = BEGIN_OF_STORE + 40_000, min(time for at, time in times_of(written) if at >= second)
    (gap,) = lake_gaps(lake, plan)
    assert gap.to_ms is not None and behind <= gap.to_ms <= behind + 60_000, "the segment begins about then"
    assert gap == Gap(DELETED, position, second, second - position, before, gap.to_ms)
    assert [note.partition(", about")[0] for note in notes(lake, plan)] == [
        f"From offset {position} to {second:,} the commit log is missing or damaged: {second - position:,} bytes",
        f"The broker deleted {second - position:,} bytes of the log before the lake had read that far; messages are "
        "missing here. The lake has to be filled more often, or fileReservedTime to be longer.",
    ]
    warning = notes(lake, plan)[1]
    fill(tmp_path / "store", tmp_path / "lakes")
    lake = lake_of(tmp_path / "store", tmp_path / "lakes")
    assert lake.gaps == [msgspec.structs.replace(gap, to_ms=behind)]
    assert notes(lake, plan_log(tmp_path / "store", start=lake.position or 0))[1] == warning


def times_of(written: Written) -> list[tuple[int, int]]:
    """(offset, store time) of each record."""
    return [(record[2], BEGIN_OF_STORE + 20_000 * number) for number, record in enumerate(written.records)]


def test_a_note_names_files_of_the_journal_that_were_not_read(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 20)
    make_journal(tmp_path / "store", [entry(0)])
    lake, plan = filled(tmp_path)
    assert unread_files(lake, tmp_path / "store") == 0
    (file,) = find_files(tmp_path / "store")
    Path(file.path).rename(Path(file.path).with_name(f"{3:020d}.journal"))
    lake = lake._replace(gaps=[Gap(UNREAD, 0, 0, 2), Gap(LOST, 0, 0, 7)])
    assert unread_files(lake, tmp_path / "store") == 4
    assert lake_notes(lake, plan, [], 4) == [
        "The lake lacks 4 files of the poll journal, deleted or damaged before a fill; what was there is missing here."
    ]
    assert lake_notes(lake, plan, [], 1)[0].startswith("The lake lacks 1 file of the poll journal, deleted")
    assert lake_gaps(lake, plan) == lake_notes(lake, plan, [], None) == []


@pytest.mark.parametrize(
    ("window", "is_there"),
    [((None, None), True), ((50, None), True), ((71, None), False), ((None, 20), False), ((None, 21), True)],
)
def test_gaps_outside_the_window_are_left_out(
    tmp_path: Path, window: tuple[int | None, int | None], is_there: bool
) -> None:
    make_store(tmp_path / "store", 3)
    lake, plan = filled(tmp_path)
    gap, open_gap = Gap(DELETED, 0, 10, 10, 20, 70), Gap(DELETED, 20, 30, 10)
    lake = lake._replace(gaps=[gap, open_gap])
    assert lake_gaps(lake, plan, window) == [gap, open_gap][not is_there :]


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
    assert lake_described(lake, plan, store, 0)["dropped_before_ms"] == midnight
    for from_ms, notes in ((None, [note]), (midnight - 60_000, [note]), (midnight, [])):
        assert lake_notes(lake, plan, [], 0, from_ms) == notes
    assert lake_notes(lake, None, [], 0) == [], "it had no ends of pulls"


def test_a_note_names_damage_at_the_end_of_the_log(tmp_path: Path) -> None:
    written = make_store(tmp_path / "store", 60)
    torn = written.records[-1][2]
    tear(tmp_path / "store", torn, 20)
    (note,) = notes(*filled(tmp_path))
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
    start, size = written.records[10][2:]
    expected = [
        f"From offset {start:,} to {start + size:,} the commit log is missing or damaged: {size:,} bytes, about 1 "
        "message, stored between 2023-11-14 22:16:20 and 2023-11-14 22:17:00 UTC.",
        "3 records with implausible fields were left out: queue id (2), store time (1).",
    ]
    assert notes(lake, plan) == expected
    end_ms = BEGIN_OF_STORE + 19 * 20_000
    assert notes(lake, plan, (end_ms - 120_000, None)) == expected[1:], "the records' own times are not known"
    assert notes(lake, plan, (end_ms + 1, None)) == []


def test_a_lake_is_read_if_it_is_there(tmp_path: Path) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 5)
    assert lake_for("store", store, None, False) == lake_for("store", store, lakes, False) == (None, [])
    with pytest.raises(
        LakeError, match=r"There is no lake of store in .*lakes. `.venv/bin/python manage.py lake sync` fills one."
    ):
        lake_for("store", store, lakes, True)
    fill(store, lakes)
    assert (
        lake_for("store", store, lakes, False) == lake_for("store", store, lakes, True) == (lake_of(store, lakes), [])
    )


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_lake_that_is_of_another_store_or_unreadable_is_not_read(tmp_path: Path, is_readable: bool) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 20)
    fill(store, lakes)
    if is_readable:
        shutil.rmtree(store)
        make_store(store, 20, body=b"other")
    else:
        for path in (lakes / "messages" / "_delta_log").iterdir():
            path.write_text("{")
    problem = "is not the one that the lake in" if is_readable else "is not a Delta table that can be read"
    nothing, (note,) = lake_for("store", store, lakes, False)
    assert nothing is None and note.startswith("The lake was not read") and problem in note
    with pytest.raises(LakeError, match=problem):
        lake_for("store", store, lakes, True)


def test_what_a_lake_has_of_other_times_than_the_window_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 3)
    make_journal(store, *([entry(5 * file + number) for number in range(5)] for file in range(3)))
    fill(store, lakes)
    lake = lake_of(store, lakes)
    last = max(lake.polls, key=lambda file: file.min_ms)
    for window, entries in (((None, None), 15), ((last.min_ms, last.max_ms + 1), 5), ((last.max_ms + 1, None), 0)):
        inputs = StoreInputs("store", store, load("hold_time"), lake, window)
        assert inputs.journal is not None
        assert (inputs.journal.entries, inputs.journal.to_ms) == (entries, last.max_ms if entries else 0)
        for few_rows in (entries, entries - 1):
            monkeypatch.setattr(report_inputs, "FEW_ROWS", few_rows)
            assert RunInputs(cast("SparkSession", None), [inputs], "hold_time").are_few == (few_rows == entries)


@pytest.mark.parametrize(("closed", "lost"), [(True, 0), (False, 2)])
def test_the_journal_of_lake_and_store_is_counted_once(tmp_path: Path, closed: bool, lost: int) -> None:
    store, lakes = tmp_path / "store", tmp_path / "lakes"
    make_store(store, 3)
    files = ([entry(5 * file + number) for number in range(5)] for file in range(3))
    make_journal(store, *files, closed=closed, lost=lost)
    whole = survey(store)
    assert (whole.entries, whole.lost, whole.cut_off_files) == (15, 3 * lost, 0 if closed else 2)
    fill(store, lakes)
    lake = lake_of(store, lakes)
    for files_left in (1, 0):
        tail = survey(store, lake.journal)
        assert (tail.entries, tail.files, unread_files(lake, store)) == (0, files_left, 0)
        assert with_lake(tail, lake)._replace(files=3) == whole
        for file in find_files(store):
            Path(file.path).unlink()
