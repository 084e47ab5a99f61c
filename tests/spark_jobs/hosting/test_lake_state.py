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
from spark_jobs.lake.notes import Dropped, Notes, Rows
from spark_jobs.models import NOT_BEGUN, ReportRun, Status
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


def filled_notes() -> Path:
    """The notes of the only fill."""
    (path,) = read_stored().known
    return Path(path)


def state() -> LakeState:
    return lake_state.lake_state(read_stored())


def test_a_store_without_a_lake(store: Written, tmp_path: Path) -> None:
    publish_end(tmp_path / "store", store.end)
    found = read_stored()
    assert (found.folder, found.problem, found.notes) == ("", "", Notes(str(tmp_path / "store")))
    assert (state().behind_bytes, state().active, state().ended) == (store.end, None, None)


def test_each_broker_has_a_state_of_its_own(store: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "broker-y"
    known = {first: tmp_path / "store", "broker-z": tmp_path / "z"}
    monkeypatch.setattr(runs, "stores", lambda broker="": [each for each in known.items() if broker in ("", each[0])])
    publish_end(tmp_path / "store", store.end)
    fill(tmp_path)
    make_store(tmp_path / "z", 3)
    mine, other = read_stored(), read_stored("broker-z")
    assert (mine.broker, mine.notes.messages.rows) == (first, 40)
    assert (other.broker, other.notes.messages.rows, other.folder) == ("broker-z", 0, "")
    assert state().brokers == lake_state.lake_state(other).brokers == [first, "broker-z"]
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
        now[0] += 60  # such an answer takes long, and other pages wait for it
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
    now[0] -= 3600
    assert "no answer 3" in read_stored().problem, "the clock was set back"


def test_the_state_shows_the_lakes_position_and_counts(store: Written, tmp_path: Path) -> None:
    position = store.records[30][2]
    publish_end(tmp_path / "store", position)
    make_journal(tmp_path / "store", [entry(number) for number in range(20)])
    fill(tmp_path)
    publish_end(tmp_path / "store", store.end)
    found = read_stored()
    assert Path(found.folder) == tmp_path / "lakes"
    assert (found.notes.position, found.notes.synced_ms) == (position, NOW)
    assert state().behind_bytes == store.end - position
    assert (found.notes.messages.rows, found.notes.polls.rows, found.notes.missing) == (30, 20, [])
    assert found.notes.messages.size > 0 < found.notes.polls.files
    assert (found.notes.ended_by, found.notes.segments_unread) == ("safe end", [])


def test_the_state_counts_dropped_rows_and_files_not_removed_yet(store: Written, tmp_path: Path) -> None:
    fill(tmp_path)
    filled = read_stored().notes
    assert (filled.dropped, filled.retired_bytes) == (Dropped(), 0)
    later = NOW + 9 * 86_400_000
    lakes.fill(tmp_path / "store", tmp_path / "lakes", now_ms=later, keep_days=2)
    found = read_stored().notes
    assert found.dropped == Dropped(later // 86_400_000 * 86_400_000 - 2 * 86_400_000, 40, 0)
    assert (found.messages, found.position) == (Rows(0, 0, 0), store.end)
    assert found.retired_bytes == filled.messages.size


def test_the_lake_in_the_folder_of_this_broker_is_the_one(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    filled = read_stored()
    assert (filled.folder, filled.notes.messages.rows) == (str(tmp_path / "lakes"), 40)
    position = tmp_path / "store" / lake_position.FILE_NAME
    position.write_bytes(lake_position.encode(lake_position.LakePosition(7, 5, "/tmp/trial/store-1.json")))
    assert read_stored() == filled
    position.unlink()
    assert read_stored() == filled
    filled_notes().unlink()
    assert read_stored().folder == ""


def test_other_stores_of_the_same_path_are_counted(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    notes = filled_notes()
    assert read_stored().known == [str(notes)]
    other = notes.with_stem(f"{notes.stem}-2")
    other.write_bytes(notes.read_bytes())
    assert read_stored().known == [str(notes), str(other)]


def test_a_lake_that_cannot_be_read_is_a_sentence(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    notes = filled_notes()
    notes.write_text("{")
    assert f"{notes} is damaged" in read_stored().problem


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


@pytest.mark.usefixtures("store")
def test_a_second_fill_is_refused_while_one_is_under_way(sent: list[tuple[int, float]]) -> None:
    assert state().status == ""
    begin_sync(with_bodies=True, requested_by="schedule")
    run = ReportRun.objects.get()
    assert (run.report, run.requested_by) == (runs.LAKE, "schedule")
    assert run.parameters == {"with_bodies": True, "broker": None}
    assert (state().status, state().active, state().ended) == ("queued", run, None)
    with pytest.raises(RunActiveError, match="being filled already"):
        begin_sync()
    assert sent == [(run.pk, 0)]
    runs.start_run("throughput", {})


@pytest.mark.usefixtures("store", "sent")
def test_the_state_has_the_fill_under_way_and_the_last_one_that_has_ended() -> None:
    begin_sync()
    first = ReportRun.objects.get()
    ReportRun.objects.update(status=Status.RUNNING, heartbeat=timezone.now())
    assert (state().status, state().active, state().ended) == ("running", first, None)
    ReportRun.objects.update(status=Status.FAILED)
    assert (state().status, state().active, state().ended) == ("failed", None, first)
    begin_sync()
    ReportRun.objects.exclude(pk=first.pk).update(status=Status.WAITING)
    assert (state().status, state().ended) == ("queued", first)


@pytest.mark.usefixtures("store", "sent")
def test_a_fill_is_cancelled_whether_it_runs_or_waits() -> None:
    with pytest.raises(NotUnderWayError, match=r"is not filling the lake.*Ctrl-C"):
        cancel_sync()
    begin_sync()
    cancel_sync()
    assert (state().active, state().status) == (None, "cancelled")
    begin_sync()
    ReportRun.objects.filter(status__in=NOT_BEGUN).update(status=Status.RUNNING, heartbeat=timezone.now())
    cancel_sync()
    cancel_sync()
    active = state().active
    assert active is not None and active.cancel_requested
    assert state().status == "running"


@pytest.mark.usefixtures("store")
def test_a_fill_whose_worker_is_gone_makes_room_for_the_next(sent: list[tuple[int, float]]) -> None:
    begin_sync()
    ReportRun.objects.update(
        status=Status.RUNNING, cancel_requested=True, heartbeat=timezone.now() - 2 * runs.LOST_AFTER
    )
    assert (state().active, state().status) == (None, "cancelled")
    begin_sync()
    assert len(sent) == 2
