"""Filling the lake by schedule: what Spark's process is asked for, and what is said of its answers."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from spark_jobs.errors import LakeCancelledError, LakeError
from spark_jobs.hosting import lake_state, lake_worker, report_worker, setup
from spark_jobs.hosting.lake_state import SCHEDULE_NAME, SYNC_TASK
from spark_jobs.hosting.lake_worker import Watch, fill_lake
from spark_jobs.tasks import lake_sync

pytestmark = pytest.mark.django_db
TASK = "a"


class FakeSpark:
    """Spark's process, which gives one answer."""

    def __init__(self, answer: dict[str, Any] | OSError) -> None:
        self.answer = answer
        self.orders: list[dict[str, Any]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def run(self, order: dict[str, Any], log: Path, watcher: Watch) -> dict[str, Any]:
        self.orders.append(order)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("what was said")
        watcher.progress(5, "reading")
        assert watcher.is_wanted()
        self.meanwhile()
        watcher.is_wanted()
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> Callable[[Any], FakeSpark]:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lake"
    settings.GLASSMQ_STORE_DIR = tmp_path / "store"
    settings.GLASSMQ_LAKE_KEEP_DAYS = 31
    monkeypatch.setattr(setup, "is_ready", lambda: True)

    def answer(with_what: Any) -> FakeSpark:
        spark = FakeSpark(with_what)
        monkeypatch.setattr(report_worker, "spark", lambda: spark)
        return spark

    return answer


def test_the_lake_of_this_brokers_store_is_filled(answering: Callable[[Any], FakeSpark], tmp_path: Path) -> None:
    spark = answering({"done": {"messages": 5, "is_all": True}, "memory": 1})
    assert lake_sync.apply(kwargs={"with_bodies": True}).get() == {"messages": 5, "is_all": True}
    (order,) = spark.orders
    assert order["job"] == "lake"
    assert order["arguments"] == {
        "store": str(tmp_path / "store"),
        "lakes": str(tmp_path / "lake"),
        "with_bodies": True,
        "keep_days": 31,
    }
    assert not (tmp_path / "lake" / "sync.log").exists()


def test_the_next_round_is_a_task_of_its_own(
    answering: Callable[[Any], FakeSpark], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, bool]] = []

    def go_on(task_id: str, *, with_bodies: bool) -> bool:
        told.append((task_id, with_bodies))
        return len(told) == 1

    monkeypatch.setattr(lake_state, "go_on", go_on)
    answering({"done": {"is_all": False}})
    assert fill_lake("a", True) == {"is_all": False}
    answering({"done": {"is_all": True}})
    fill_lake("b", False)
    assert told == [("a", True)]
    answering({"done": {"is_all": False}})
    with pytest.raises(LakeCancelledError):
        fill_lake("c", False)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"failed": "There is no space left on the disk.", "passing": False}, "There is no space left on the disk."),
        ({"gone": -9}, "ended in the middle of it"),
        (OSError("no Java"), "cannot be started: no Java"),
    ],
)
def test_a_failure_is_a_sentence_and_its_log_stays(
    answering: Callable[[Any], FakeSpark], tmp_path: Path, answer: Any, said: str
) -> None:
    answering(answer)
    with pytest.raises(LakeError, match=said) as raised:
        fill_lake(TASK, False)
    assert not isinstance(raised.value, LakeCancelledError)
    assert (tmp_path / "lake" / "sync.log").read_text() == "what was said"


def test_without_spark_it_waits_for_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "is_ready", lambda: False)
    with pytest.raises(LakeError, match="not set up yet"):
        fill_lake(TASK, False)


def test_it_may_not_take_for_ever(answering: Callable[[Any], FakeSpark], monkeypatch: pytest.MonkeyPatch) -> None:
    spark, now = answering({"cancelled": True}), timezone.now()
    spark.meanwhile = lambda: monkeypatch.setattr(
        lake_worker.timezone, "now", lambda: now + lake_worker.TIME_LIMIT + timedelta(seconds=1)
    )
    with pytest.raises(LakeError, match="took longer than 1:00:00 and was stopped; the next one goes on") as raised:
        fill_lake(TASK, False)
    assert not isinstance(raised.value, LakeCancelledError)


def test_it_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Any, ...]] = []
    monkeypatch.setattr(lake_state, "tell", lambda *said: told.append(said))
    watch, now = Watch(TASK), timezone.now()
    assert watch.is_wanted()
    watch.progress(40, "writing")
    monkeypatch.setattr(lake_worker.timezone, "now", lambda: now + timedelta(seconds=1))
    assert watch.is_wanted() and watch.is_wanted()
    assert told == [(TASK, 40, "writing")]


def test_a_database_that_is_away_for_a_moment_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(task_id: str) -> bool:
        raise OperationalError("locked")

    monkeypatch.setattr(lake_state, "is_to_stop", away)
    assert Watch(TASK).is_wanted()
    assert "could not be watched for a moment" in caplog.text


@pytest.mark.parametrize("answer", [{"cancelled": True}, {"gone": -9}, {"failed": "Job cancelled.", "passing": True}])
def test_a_round_that_is_cancelled_has_not_failed(
    answering: Callable[[Any], FakeSpark], tmp_path: Path, answer: dict[str, Any]
) -> None:
    spark = answering(answer)
    spark.meanwhile = lake_state.cancel_sync
    done = lake_sync.apply(task_id=TASK)
    assert done.state == "IGNORED"
    state = lake_state.lake_state()
    assert (state.status, state.under_way, state.last_failure) == ("cancelled", False, "")
    assert not (tmp_path / "lake" / "sync.log").exists()


def test_a_cancel_that_comes_too_late_changes_nothing(answering: Callable[[Any], FakeSpark]) -> None:
    spark = answering({"done": {"is_all": True}})
    spark.meanwhile = lake_state.cancel_sync
    assert fill_lake(TASK, False) == {"is_all": True}


def test_a_round_that_was_cancelled_before_it_began_does_not_begin(
    answering: Callable[[Any], FakeSpark], monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = answering({"done": {"is_all": True}})
    told: list[str] = []
    monkeypatch.setattr(
        lake_state, "sender", lambda: SimpleNamespace(send_task=lambda name, **more: told.append(more["task_id"]))
    )
    lake_state.begin_sync()
    lake_state.cancel_sync()
    assert lake_sync.apply(task_id=told[0]).state == "IGNORED"
    assert (spark.orders, lake_state.lake_state().status) == ([], "cancelled")


def test_there_is_a_schedule_that_is_switched_off() -> None:
    task = PeriodicTask.objects.get(name=SCHEDULE_NAME)
    assert (task.task, task.enabled, task.crontab.minute) == (SYNC_TASK, False, "15")
    assert lake_sync.name == SYNC_TASK
