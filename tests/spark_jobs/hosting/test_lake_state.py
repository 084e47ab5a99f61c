"""The lake as the page shows it, and its schedule."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_results.models import TaskResult
from kombu.exceptions import OperationalError

from broker_core.formats import lake_position
from spark_jobs.hosting import lake_state
from spark_jobs.hosting.lake_state import LakeState, NotUnderWayError, begin_sync, cancel_sync, change_schedule
from spark_jobs.hosting.runs import NoWorkerError, RunActiveError
from spark_jobs.hosting.timetable import BadCronError
from spark_jobs.lake import tasks as lake_tasks
from spark_jobs.lake.folders import brokers, lake_name, notes_path
from spark_jobs.lake.notes import Dropped, Rows
from spark_jobs.lake.sync import Wanted, sync
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
    sync(
        Wanted(str(root / "store"), root / "lakes"),
        lambda works: [lake_tasks.carry_out(work) for work in works],
        lambda: NOW,
        lambda percent, doing: None,
    )


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
    assert Path(found.folder) == tmp_path / "lakes"
    assert (found.position, found.behind_bytes, found.synced_ms) == (position, store.end - position, NOW)
    assert (found.messages.rows, found.polls.rows, found.gap_bytes) == (30, 20, 0)
    assert found.messages.size > 0 < found.polls.files
    assert (found.ended_by, found.segments_unread) == ("safe end", 0)


def test_what_is_dropped_and_what_is_still_there(store: Written, tmp_path: Path) -> None:
    fill(tmp_path)
    assert (state().dropped, state().retired_bytes) == (Dropped(), 0)
    size = state().messages.size
    later = NOW + 9 * 86_400_000
    sync(
        Wanted(str(tmp_path / "store"), tmp_path / "lakes", keep_days=2),
        lambda works: [],
        lambda: later,
        lambda percent, doing: None,
    )
    found = state()
    assert found.dropped == Dropped(later // 86_400_000 * 86_400_000 - 2 * 86_400_000, 40, 0)
    assert (found.messages, found.position) == (Rows(0, 0, 0), store.end)
    assert found.retired_bytes == size


def test_the_lake_in_the_folder_of_this_broker_is_the_one(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    assert (state().folder, state().messages.rows) == (str(tmp_path / "lakes"), 40)
    position = tmp_path / "store" / lake_position.FILE_NAME
    position.write_bytes(lake_position.encode(lake_position.LakePosition(7, 5, "/tmp/trial/store-1.json")))
    assert (state().folder, state().messages.rows) == (str(tmp_path / "lakes"), 40)
    position.unlink()
    assert state().messages.rows == 40
    (broker,) = brokers(tmp_path / "lakes", tmp_path / "store")
    notes_path(tmp_path / "lakes", broker).unlink()
    assert state().folder == ""


def test_other_stores_of_the_same_path_are_counted(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    fill(tmp_path)
    assert state().other_lakes == 0
    (broker,) = brokers(tmp_path / "lakes", tmp_path / "store")
    notes = notes_path(tmp_path / "lakes", broker).read_bytes()
    notes_path(tmp_path / "lakes", f"{broker}-2").write_bytes(notes)
    assert state().other_lakes == 1


def test_a_lake_that_cannot_be_read_is_a_sentence(settings: Any, store: Written, tmp_path: Path) -> None:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lakes"
    old = tmp_path / "lakes" / lake_name(tmp_path / "store")
    old.mkdir(parents=True)
    (old / "manifest.json").touch()
    assert "is a lake of an older format" in state().problem
    (old / "manifest.json").unlink()
    fill(tmp_path)
    (broker,) = brokers(tmp_path / "lakes", tmp_path / "store")
    notes_path(tmp_path / "lakes", broker).write_text("{")
    assert f"{broker}.json is damaged" in state().problem


@pytest.mark.parametrize(
    ("status", "result", "said"),
    [
        ("SUCCESS", "{}", ""),
        ("FAILURE", json.dumps({"exc_type": "LakeError", "exc_message": ["The disk is full."]}), "The disk is full."),
        ("FAILURE", "nonsense", "It failed; the report worker's log says why."),
        ("FAILURE", None, "It failed; the report worker's log says why."),
    ],
)
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
    ((name, kwargs, task_id),) = told
    assert (name, kwargs) == (lake_state.SYNC_TASK, {"with_bodies": True})
    assert (state().under_way, state().last_try) == (True, None)
    with pytest.raises(RunActiveError, match="being filled already"):
        begin_sync()
    assert lake_state.go_on("another", with_bodies=False)
    assert len(told) == 1, "one waits"
    assert lake_state.take_up(task_id)
    with pytest.raises(RunActiveError):
        begin_sync()
    assert lake_state.go_on(task_id, with_bodies=False)
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


def status_of(task_id: str) -> str:
    return str(TaskResult.objects.get(task_id=task_id).status)


@pytest.mark.usefixtures("store")
def test_how_far_a_fill_is(told: list[Any]) -> None:
    assert (state().status, state().percent, state().doing) == ("", 0, "")
    begin_sync()
    task_id = told[0][2]
    assert (state().status, state().percent, state().doing) == ("queued", 0, "")
    assert lake_state.take_up(task_id)
    assert (state().status, state().percent, state().doing) == ("running", 0, "")
    lake_state.tell(task_id, 40, "writing")
    assert (state().status, state().percent, state().doing, state().last_try) == ("running", 40, "writing", None)
    for nonsense in ("nonsense", "[]", '{"percent": "x", "doing": 1}'):
        TaskResult.objects.update(result=nonsense)
        assert (state().percent, state().doing) == (0, "")
    lake_state.tell(task_id, 40, "writing")
    lake_state.go_on(task_id, with_bodies=False)
    assert (state().status, state().percent) == ("running", 40), "what runs tells, not what waits"
    TaskResult.objects.update(status="SUCCESS", date_done=timezone.now())
    assert (state().status, state().percent, state().doing, state().under_way) == ("done", 0, "", False)
    TaskResult.objects.update(status="FAILURE")
    assert state().status == "failed"


@pytest.mark.usefixtures("store")
def test_a_round_of_the_schedule_is_known_once_it_begins() -> None:
    assert lake_state.take_up("scheduled")
    assert (state().under_way, state().status) == (True, "running")
    assert lake_state.take_up("scheduled"), "its worker was killed, another one has it"
    assert TaskResult.objects.count() == 1


@pytest.mark.usefixtures("store")
def test_a_fill_that_runs_is_cancelled(told: list[Any]) -> None:
    lake_state.take_up("a")
    lake_state.tell("a", 40, "writing")
    assert not lake_state.is_to_stop("a")
    cancel_sync()
    assert lake_state.is_to_stop("a")
    found = state()
    assert (found.under_way, found.status, found.cancel_requested, found.percent) == (True, "running", True, 40)
    with pytest.raises(RunActiveError):
        begin_sync()
    asked = TaskResult.objects.get().date_done
    cancel_sync()
    assert TaskResult.objects.get().date_done == asked, "who asks again does not begin the wait anew"
    lake_state.tell("a", 60, "writing")
    assert state().percent == 40
    assert not lake_state.take_up("a"), "its worker was killed, and nobody wants it any more"
    lake_state.end_cancelled("a")
    found = state()
    assert (found.under_way, found.status, found.cancel_requested) == (False, "cancelled", False)
    assert found.last_failure == "" and found.last_try is not None
    with pytest.raises(NotUnderWayError, match=r"is not filling the lake.*Ctrl-C"):
        cancel_sync()
    begin_sync()
    assert len(told) == 1


@pytest.mark.usefixtures("store")
def test_a_fill_that_waits_is_cancelled(told: list[Any]) -> None:
    with pytest.raises(NotUnderWayError):
        cancel_sync()
    begin_sync()
    cancel_sync()
    assert (state().under_way, state().status) == (False, "cancelled")
    assert not lake_state.take_up(told[0][2])
    assert state().status == "cancelled"


@pytest.mark.usefixtures("store")
def test_no_round_follows_one_that_is_cancelled(told: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    lake_state.take_up("first")
    assert lake_state.go_on("first", with_bodies=False)
    cancel_sync()
    assert (status_of("first"), status_of(told[0][2])) == (lake_state.STOPPING, lake_state.CANCELLED)
    assert not lake_state.go_on("first", with_bodies=False)
    assert len(told) == 1
    lake_state.take_up("second")
    send = lake_state._send

    def send_and_cancel(with_bodies: bool) -> str:
        TaskResult.objects.filter(task_id="second").update(status=lake_state.STOPPING)  # a cancel before it was there
        return send(with_bodies)

    monkeypatch.setattr(lake_state, "_send", send_and_cancel)
    assert not lake_state.go_on("second", with_bodies=False)
    assert (len(told), status_of(told[1][2])) == (2, lake_state.CANCELLED)


@pytest.mark.usefixtures("store")
def test_a_worker_that_is_gone_does_not_stop_for_ever(told: list[Any]) -> None:
    lake_state.take_up("a")
    cancel_sync()
    TaskResult.objects.update(date_done=timezone.now() - lake_state.STOPS_WITHIN)
    assert (state().under_way, state().status, state().cancel_requested) == (False, "cancelled", False)
    with pytest.raises(NotUnderWayError):
        cancel_sync()
    begin_sync()
    assert state().status == "queued"


@pytest.mark.usefixtures("store")
def test_a_round_that_stops_late_takes_no_other_fill_with_it(told: list[Any]) -> None:
    lake_state.take_up("late")
    cancel_sync()
    TaskResult.objects.update(date_done=timezone.now() - lake_state.STOPS_WITHIN)
    begin_sync()
    assert not lake_state.go_on("late", with_bodies=False)
    assert status_of(told[0][2]) == lake_state.WAITING


@pytest.mark.usefixtures("store")
def test_all_rounds_are_cancelled_at_once(told: list[Any]) -> None:
    begin_sync()
    lake_state.take_up("a")
    with CaptureQueriesContext(connection) as asked:
        cancel_sync()
    assert sum(query["sql"].startswith("UPDATE") for query in asked) == 1, "none can be taken up between two"
    assert (status_of("a"), status_of(told[0][2])) == (lake_state.STOPPING, lake_state.CANCELLED)


@pytest.mark.usefixtures("store")
def test_a_worker_that_says_nothing_any_more_is_gone(told: list[Any]) -> None:
    lake_state.take_up("a")
    TaskResult.objects.update(date_done=timezone.now() - lake_state.SILENT_FOR)
    assert not state().under_way
    begin_sync()
    assert len(told) == 1
