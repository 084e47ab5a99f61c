"""The lake as the page shows it, and its schedule."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_results.models import TaskResult
from kombu.exceptions import OperationalError

from broker_core.formats import lake_position
from spark_jobs import lake_state, lake_tasks
from spark_jobs.lake_state import LakeState, Rows, begin_sync, change_schedule
from spark_jobs.lake_sync import Wanted, sync
from spark_jobs.runs import NoWorkerError, RunActiveError
from spark_jobs.timetable import BadCronError
from tests.spark_jobs.journals import entry, make_journal
from tests.spark_jobs.stores import Written, make_store, publish_end

pytestmark = pytest.mark.django_db
NOW = 1_700_000_000_000


@pytest.fixture
def store(settings: Any, tmp_path: Path) -> Written:
    settings.GLASSMQ_STORE_DIR = tmp_path / "store"
    written = make_store(tmp_path / "store", 40)
    (tmp_path / "store" / "glassmq").write_text("1")
    return written


def fill(root: Path) -> None:
    sync(Wanted(str(root / "store"), root / "lakes"), lambda works: [lake_tasks.carry_out(work) for work in works],
        lambda: NOW, lambda percent, doing: None)


def state() -> LakeState:
    return lake_state.lake_state()


def test_before_there_is_a_lake(store: Written, tmp_path: Path) -> None:
    publish_end(tmp_path / "store", store.end)
    found = state()
    assert (found.folder, found.position, found.behind_bytes, found.synced_ms) == ("", 0, store.end, None)
    assert found.messages == found.polls == Rows(0, 0, 0)
    assert (found.problem, found.last_try, found.last_failure) == ("", None, "")


def test_how_far_it_is(store: Written, tmp_path: Path) -> None:
    position = store.records[30][2]
    publish_end(tmp_path / "store", position)
    make_journal(tmp_path / "store", [entry(number) for number in range(20)])
    fill(tmp_path)
    publish_end(tmp_path / "store", store.end)
    found = state()
    assert Path(found.folder).parent == tmp_path / "lakes"
    assert (found.position, found.behind_bytes, found.synced_ms) == (position, store.end - position, NOW)
    assert (found.messages.rows, found.polls.rows, found.gap_bytes) == (30, 20, 0)
    assert found.messages.size > 0 < found.polls.files
    assert (found.ended_by, found.segments_unread) == ("safe end", 0)


def test_the_lake_in_the_folder_of_this_broker_is_the_one(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    real = state().folder
    assert Path(real).parent == tmp_path / "lakes"
    position = tmp_path / "store" / lake_position.FILE_NAME
    position.write_bytes(lake_position.encode(lake_position.LakePosition(7, 5, "/tmp/trial/store-1")))
    assert state().folder == real
    position.unlink()
    assert state().folder == real
    (Path(real) / "manifest.json").unlink()
    assert state().folder == ""


def test_lakes_of_other_stores_are_counted(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    assert state().other_lakes == 0
    folder = Path(state().folder)
    another = folder.with_name(f"{folder.name}-2")
    another.mkdir()
    assert state().other_lakes == 0  # it is being filled for the first time
    (another / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    assert state().other_lakes == 1


def test_a_lake_that_cannot_be_read_is_a_sentence(store: Written, tmp_path: Path) -> None:
    fill(tmp_path)
    folder = Path(state().folder)
    (folder / "manifest.json").write_text("{")
    assert "manifest.json is damaged" in state().problem
    (tmp_path / "store" / lake_position.FILE_NAME).write_text("nonsense")
    assert (state().folder, state().problem) == ("", "")


@pytest.mark.parametrize(("status", "result", "said"), [
    ("SUCCESS", "{}", ""),
    ("FAILURE", json.dumps({"exc_type": "LakeError", "exc_message": ["The disk is full."]}), "The disk is full."),
    ("FAILURE", "nonsense", "It failed; the report worker's log says why."),
    ("FAILURE", None, "It failed; the report worker's log says why."),
])
@pytest.mark.usefixtures("store")
def test_how_the_last_try_ended(status: str, result: str | None, said: str) -> None:
    TaskResult.objects.create(task_id="a", task_name=lake_state.SYNC_TASK, status=status, result=result)
    TaskResult.objects.create(task_id="b", task_name="another", status="FAILURE", result=None)
    found = state()
    assert found.last_failure == said
    assert found.last_try is not None and found.last_try <= timezone.now()


def test_its_schedule_is_there_and_can_be_changed(store: Written) -> None:
    first = state().schedule
    assert first is not None and (first.cron, first.enabled) == ("15 * * * *", False)
    changed = change_schedule("30 2 * * *", True)
    assert (changed.id, changed.cron, changed.enabled) == (first.id, "30 2 * * *", True)
    assert change_schedule(None, False).cron == "30 2 * * *"
    with pytest.raises(BadCronError):
        change_schedule("now", None)
    PeriodicTask.objects.all().delete()
    assert state().schedule is None
    assert change_schedule(None, True).cron == lake_state.FROM_THE_BEGINNING
    assert PeriodicTask.objects.get().task == lake_state.SYNC_TASK


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the worker is told; it cannot be when there is a failure at the end."""
    said: list[Any] = []

    class Sender:
        def send_task(self, name: str, kwargs: dict[str, Any], **more: Any) -> None:
            if said and isinstance(said[-1], Exception):
                raise said[-1]
            said.append((name, kwargs, more["task_id"]))

    monkeypatch.setattr(lake_state, "sender", Sender)
    return said


@pytest.mark.usefixtures("store")
def test_the_worker_is_told_once(told: list[Any]) -> None:
    assert not state().under_way
    begin_sync(with_bodies=True)
    (name, kwargs, task_id), = told
    assert (name, kwargs) == (lake_state.SYNC_TASK, {"with_bodies": True})
    assert (state().under_way, state().last_try) == (True, None)
    with pytest.raises(RunActiveError, match="being filled already"):
        begin_sync()
    lake_state.go_on(with_bodies=False)
    assert len(told) == 1, "one waits"
    TaskResult.objects.filter(task_id=task_id).update(status="STARTED")
    with pytest.raises(RunActiveError):
        begin_sync()
    lake_state.go_on(with_bodies=False)
    assert len(told) == 2, "one runs, and asks for the next one"


@pytest.mark.usefixtures("store")
def test_what_is_done_or_lost_is_not_under_way(told: list[Any]) -> None:
    begin_sync()
    TaskResult.objects.update(date_done=timezone.now() - lake_state.LOST_AFTER)
    assert not state().under_way
    begin_sync()
    TaskResult.objects.update(status="SUCCESS", date_done=timezone.now())
    begin_sync()
    assert len(told) == 3


@pytest.mark.usefixtures("store")
def test_a_worker_that_cannot_be_told(told: list[Any]) -> None:
    told.append(OperationalError("nobody there"))
    with pytest.raises(NoWorkerError, match="nobody there"):
        begin_sync()
    assert not state().under_way
