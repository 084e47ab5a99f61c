"""The lake as the page shows it, and its schedule."""

import shutil
import sys
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
    begin_sync,
    behind_bytes,
    cancel_sync,
    change_schedule,
    find_active,
    find_ended,
    read_schedule,
    read_stored,
    synced_ms,
)
from spark_jobs.hosting.schedules import BadCronError, cron_of
from spark_jobs.models import ReportRun, Status
from tests.spark_jobs import lakes
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import Written, make_store, publish_end

pytestmark = pytest.mark.django_db
NOW = lakes.NOW


@pytest.fixture
def store(settings: Any, tmp_path: Path) -> Written:
    settings.GLASSMQ_STORE_DIR, settings.GLASSMQ_LAKE_DIR = tmp_path / "store", tmp_path / "lakes"
    written = make_store(tmp_path / "store", 40)
    (tmp_path / "store" / "glassmq").write_text("1")
    return written


def fill(root: Path, **more: Any) -> None:
    lakes.fill(root / "store", root / "lakes", broker="broker-a", **more)


def fills() -> tuple[str, ReportRun | None, ReportRun | None]:
    """The status of the fill that is shown, the one under way, and the last one that has ended."""
    active, ended = find_active(), find_ended()
    shown = active or ended
    return shown.status if shown else "", active, ended


def test_a_store_without_a_lake(store: Written, tmp_path: Path) -> None:
    publish_end(tmp_path / "store", store.end)
    found = read_stored()
    assert (found.broker, found.lake, found.problem) == ("broker-a", None, "")
    assert (synced_ms(found), behind_bytes(found), fills()) == (None, store.end, ("", None, None))


def test_each_broker_has_a_state_of_its_own(store: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "broker-a"
    known = {first: tmp_path / "store", "broker-z": tmp_path / "z"}
    monkeypatch.setattr(runs, "stores", lambda broker="": [each for each in known.items() if broker in ("", each[0])])
    publish_end(tmp_path / "store", store.end)
    fill(tmp_path)
    make_store(tmp_path / "z", 3)
    mine, other = read_stored(), read_stored("broker-z")
    assert mine.lake is not None and (mine.broker, mine.lake.position) == (first, store.end)
    assert (other.broker, other.lake) == ("broker-z", None)
    with pytest.raises(runs.UnknownBrokerError, match="no store of a broker 'nobody'"):
        read_stored("nobody")
    with pytest.raises(runs.UnknownBrokerError):
        begin_sync(broker="nobody")


def test_a_lake_in_s3_is_read_again_after_some_seconds(
    settings: Any, store: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.GLASSMQ_LAKE_DIR = "s3://bucket/lakes"
    reads, now = list[str](), [1000.0]

    def fail(lakes: str, broker: str) -> None:
        reads.append(lakes)
        now[0] += 60  # such an answer takes long, and other pages wait for it
        raise OSError(f"no answer {len(reads)}")

    monkeypatch.setattr("spark_jobs.lake.lake.find_lake", fail)
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
    lake = read_stored().lake
    assert lake is not None and Path(lake.folder) == tmp_path / "lakes"
    assert (lake.position, synced_ms(read_stored())) == (position, NOW)
    assert behind_bytes(read_stored()) == store.end - position
    assert [sum(file.rows for file in files) for files in (lake.messages, lake.polls)] == [30, 20]
    fill(tmp_path, now_ms=NOW + 5)
    fill(tmp_path, now_ms=NOW + 9)
    assert synced_ms(read_stored()) == NOW + 9, "although nothing was new"
    told = lake_position.LakePosition(7, NOW + 99, "/tmp/trial")
    (tmp_path / "store" / lake_position.FILE_NAME).write_bytes(lake_position.encode(told))
    assert synced_ms(read_stored()) == NOW + 5, "when another lake was filled is not known"


def test_a_lake_that_cannot_be_read_has_a_problem(
    store: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "spark_jobs.lake.lake", None)
        assert read_stored().problem.startswith(f"The lake in {tmp_path / 'lakes'} cannot be read: "), "no packages yet"
    shutil.rmtree(tmp_path / "store")
    make_store(tmp_path / "store", 40, topics=("other",))
    assert "is not the one that the lake in" in read_stored().problem
    for path in (tmp_path / "lakes" / "messages" / "_delta_log").iterdir():
        path.write_text("{")
    assert "messages is not a Delta table that can be read" in read_stored().problem


def test_the_schedule_exists_and_can_be_changed(store: Written) -> None:
    first = read_schedule()
    assert first is not None and (cron_of(first), first.enabled) == ("15 * * * *", False)
    changed = change_schedule("30 2 * * *", True)
    assert (changed.id, cron_of(changed), changed.enabled) == (first.id, "30 2 * * *", True)
    assert cron_of(change_schedule(None, False)) == "30 2 * * *"
    with pytest.raises(BadCronError):
        change_schedule("now", None)
    PeriodicTask.objects.all().delete()
    assert read_schedule() is None
    assert cron_of(change_schedule(None, True)) == lake_state.FIRST_CRON
    assert PeriodicTask.objects.get().task == lake_state.SYNC_TASK


@pytest.mark.usefixtures("store")
def test_the_state_has_the_fill_under_way_and_the_last_one_that_has_ended(sent: list[tuple[int, float]]) -> None:
    assert fills() == ("", None, None)
    first = begin_sync(with_bodies=True)
    assert (first.report, first.parameters) == (runs.LAKE, {"with_bodies": True, "broker": None})
    assert fills() == ("queued", first, None)
    with pytest.raises(runs.RunActiveError, match=f"Run {first.pk} of lake is under way"):
        begin_sync()
    ReportRun.objects.update(status=Status.RUNNING, heartbeat=timezone.now())
    assert fills() == ("running", first, None)
    ReportRun.objects.update(status=Status.FAILED)
    assert fills() == ("failed", None, first)
    second = begin_sync()
    ReportRun.objects.filter(pk=second.pk).update(status=Status.WAITING)
    assert fills() == (Status.WAITING, second, first)
    assert sent == [(first.pk, 0), (second.pk, 0)]


@pytest.mark.usefixtures("store", "sent")
def test_a_fill_is_cancelled_whether_it_runs_or_waits() -> None:
    with pytest.raises(runs.UnknownReportError, match=r"is not filling the lake.*Ctrl-C"):
        cancel_sync()
    begin_sync()
    cancel_sync()
    assert find_active() is None and fills()[0] == "cancelled"
    run = begin_sync()
    ReportRun.objects.filter(pk=run.pk).update(status=Status.RUNNING, heartbeat=timezone.now())
    for _ in range(2):
        cancel_sync()
        active = find_active()
        assert active is not None and active.cancel_requested
        assert active.status == "running"
    ReportRun.objects.update(heartbeat=timezone.now() - 2 * runs.LOST_AFTER)
    assert find_active() is None and fills()[0] == "cancelled", "its worker is gone"
