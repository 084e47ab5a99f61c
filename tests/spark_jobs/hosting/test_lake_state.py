"""The lake as the page shows it, and its schedule."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from broker_core.formats import lake_position
from spark_jobs.hosting import lake_state, runs
from spark_jobs.hosting.lake_state import (
    LakeState,
    NotUnderWayError,
    begin_sync,
    cancel_sync,
    change_schedule,
    read_stored,
)
from spark_jobs.hosting.runs import RunActiveError
from spark_jobs.hosting.schedules import BadCronError
from spark_jobs.lake.folders import brokers, notes_path
from spark_jobs.lake.notes import Dropped, Rows
from spark_jobs.models import ReportRun, Status
from tests.spark_jobs import lakes
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import Written, make_store, publish_end

pytestmark = pytest.mark.django_db
NOW = lakes.NOW


@pytest.fixture
def store(settings: Any, tmp_path: Path) -> Written:
    settings.GLASSMQ_STORE_DIR = tmp_path / "store"
    written = make_store(tmp_path / "store", 40)
    (tmp_path / "store" / "glassmq").write_text("1")
    return written


def fill(root: Path) -> None:
    lakes.fill(root / "store", root / "lakes")


def state() -> LakeState:
    return lake_state.lake_state(read_stored())


def test_a_store_without_a_lake(store: Written, tmp_path: Path) -> None:
    publish_end(tmp_path / "store", store.end)
    found = state()
    assert (found.folder, found.notes.position, found.behind_bytes, found.notes.synced_ms) == ("", 0, store.end, 0)
    assert found.notes.messages == found.notes.polls == Rows(0, 0, 0)
    assert (found.problem, found.last_try, found.last_failure) == ("", None, "")


def test_each_broker_has_a_state_of_its_own(store: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "broker-y"
    known = {first: tmp_path / "store", "broker-z": tmp_path / "z"}
    monkeypatch.setattr(runs, "stores", lambda broker="": [each for each in known.items() if broker in ("", each[0])])
    publish_end(tmp_path / "store", store.end)
    fill(tmp_path)
    make_store(tmp_path / "z", 3)
    mine, other = state(), lake_state.lake_state(read_stored("broker-z"))
    assert (mine.broker, mine.notes.messages.rows) == (first, 40)
    assert (other.broker, other.notes.messages.rows, other.folder) == ("broker-z", 0, "")
    assert mine.brokers == other.brokers == [first, "broker-z"]
    with pytest.raises(runs.UnknownBrokerError, match="no store of a broker 'nobody'"):
        read_stored("nobody")
    with pytest.raises(runs.UnknownBrokerError):
        begin_sync(broker="nobody")


def test_notes_in_s3_are_read_again_after_some_seconds(
    settings: Any, store: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GLASSMQ_LAKE_DIR = "s3://bucket/lakes"
    reads, now = list[str](), [1000.0]

    def fail(lakes: str, store: Path) -> list[str]:
        reads.append(lakes)
        raise OSError(f"no answer {len(reads)}")

    monkeypatch.setattr(lake_state, "brokers", fail)
    clock = SimpleNamespace(now=lambda: datetime.fromtimestamp(now[0], UTC))
    monkeypatch.setattr(lake_state, "timezone", clock)
    monkeypatch.setattr(lake_state, "_kept", {})
    assert "no answer 1" in read_stored().problem
    now[0] += lake_state.KEPT_S - 1
    assert "no answer 1" in read_stored().problem
    now[0] += 1
    assert "no answer 2" in read_stored().problem


def test_the_state_shows_the_lakes_position_and_counts(store: Written, tmp_path: Path) -> None:
    position = store.records[30][2]
    publish_end(tmp_path / "store", position)
    make_journal(tmp_path / "store", [entry(number) for number in range(20)])
    fill(tmp_path)
    publish_end(tmp_path / "store", store.end)
    found = state()
    assert Path(found.folder) == tmp_path / "lakes"
    assert (found.notes.position, found.behind_bytes, found.notes.synced_ms) == (position, store.end - position, NOW)
    assert (found.notes.messages.rows, found.notes.polls.rows, found.notes.gap_bytes) == (30, 20, 0)
    assert found.notes.messages.size > 0 < found.notes.polls.files
    assert (found.notes.ended_by, found.notes.segments_unread) == ("safe end", [])


def test_the_state_counts_dropped_rows_and_files_not_removed_yet(store: Written, tmp_path: Path) -> None:
    fill(tmp_path)
    assert (state().notes.dropped, state().notes.retired_bytes) == (Dropped(), 0)
    size = state().notes.messages.size
    later = NOW + 9 * 86_400_000
    lakes.fill(tmp_path / "store", tmp_path / "lakes", now_ms=later, keep_days=2)
    found = state()
    assert found.notes.dropped == Dropped(later // 86_400_000 * 86_400_000 - 2 * 86_400_000, 40, 0)
    assert (found.notes.messages, found.notes.position) == (Rows(0, 0, 0), store.end)
    assert found.notes.retired_bytes == size


def test_the_lake_in_the_folder_of_this_broker_is_the_one(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    assert (state().folder, state().notes.messages.rows) == (str(tmp_path / "lakes"), 40)
    position = tmp_path / "store" / lake_position.FILE_NAME
    position.write_bytes(lake_position.encode(lake_position.LakePosition(7, 5, "/tmp/trial/store-1.json")))
    assert (state().folder, state().notes.messages.rows) == (str(tmp_path / "lakes"), 40)
    position.unlink()
    assert state().notes.messages.rows == 40
    (broker,) = brokers(tmp_path / "lakes", tmp_path / "store")
    Path(notes_path(tmp_path / "lakes", broker)).unlink()
    assert state().folder == ""


def test_other_stores_of_the_same_path_are_counted(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    assert state().other_lakes == 0
    (broker,) = brokers(tmp_path / "lakes", tmp_path / "store")
    notes = Path(notes_path(tmp_path / "lakes", broker)).read_bytes()
    Path(notes_path(tmp_path / "lakes", f"{broker}-2")).write_bytes(notes)
    assert state().other_lakes == 1


def test_a_lake_that_cannot_be_read_is_a_sentence(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    (broker,) = brokers(tmp_path / "lakes", tmp_path / "store")
    Path(notes_path(tmp_path / "lakes", broker)).write_text("{")
    assert f"{broker}.json is damaged" in state().problem


def test_the_schedule_exists_and_can_be_changed(store: Written) -> None:
    first = state().schedule
    assert first is not None and (first.cron, first.enabled) == ("15 * * * *", False)
    changed = change_schedule("30 2 * * *", True)
    assert (changed.id, changed.cron, changed.enabled) == (first.id, "30 2 * * *", True)
    assert change_schedule(None, False).cron == "30 2 * * *"
    with pytest.raises(BadCronError):
        change_schedule("now", None)
    PeriodicTask.objects.all().delete()
    assert state().schedule is None
    assert change_schedule(None, True).cron == lake_state.FIRST_CRON
    assert PeriodicTask.objects.get().task == lake_state.SYNC_TASK


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the runs that were handed to the worker."""
    numbers: list[int] = []
    monkeypatch.setattr(runs, "enqueue", lambda run_id, delay_s=0: numbers.append(run_id))
    return numbers


@pytest.mark.usefixtures("store")
def test_a_second_fill_is_refused_while_one_is_under_way(sent: list[int]) -> None:
    assert (state().status, state().under_way) == ("", False)
    begin_sync(with_bodies=True, requested_by="schedule")
    run = ReportRun.objects.get()
    assert (run.report, run.parameters, run.requested_by) == (
        runs.LAKE,
        {"with_bodies": True, "broker": None},
        "schedule",
    )
    assert (state().status, state().under_way, state().last_try) == ("queued", True, None)
    with pytest.raises(RunActiveError, match="being filled already"):
        begin_sync()
    assert sent == [run.pk]
    runs.start_run("throughput", {})


@pytest.mark.usefixtures("store")
def test_the_state_has_the_progress_of_a_fill_and_the_end_of_the_last_one(sent: list[int]) -> None:
    begin_sync()
    ReportRun.objects.update(status=Status.RUNNING, heartbeat=timezone.now(), percent=40, doing="writing")
    assert (state().status, state().percent, state().doing, state().last_try) == ("running", 40, "writing", None)
    ReportRun.objects.update(status=Status.FAILED, finished=timezone.now(), error="The disk is full.")
    assert (state().status, state().percent, state().last_failure) == ("failed", 0, "The disk is full.")
    begin_sync()
    assert (state().status, state().last_failure) == ("queued", "The disk is full.")


@pytest.mark.usefixtures("store")
def test_a_fill_is_cancelled_whether_it_runs_or_waits(sent: list[int]) -> None:
    with pytest.raises(NotUnderWayError, match=r"is not filling the lake.*Ctrl-C"):
        cancel_sync()
    begin_sync()
    cancel_sync()
    assert (state().under_way, state().status) == (False, "cancelled")
    begin_sync()
    ReportRun.objects.filter(pk=sent[1]).update(status=Status.RUNNING, heartbeat=timezone.now())
    cancel_sync()
    cancel_sync()
    assert (state().under_way, state().status, state().cancel_requested) == (True, "running", True)


@pytest.mark.usefixtures("store")
def test_a_fill_whose_worker_is_gone_makes_room_for_the_next(sent: list[int]) -> None:
    begin_sync()
    ReportRun.objects.update(
        status=Status.RUNNING, cancel_requested=True, heartbeat=timezone.now() - 2 * runs.LOST_AFTER
    )
    assert (state().under_way, state().status) == (False, "cancelled")
    begin_sync()
    assert len(sent) == 2
