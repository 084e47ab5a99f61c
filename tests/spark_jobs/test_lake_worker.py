"""Filling the lake by schedule: what Spark's process is asked for, and what is said of its answers."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from spark_jobs import lake_state, lake_worker, report_worker, setup
from spark_jobs.errors import LakeError
from spark_jobs.lake_state import SCHEDULE_NAME, SYNC_TASK
from spark_jobs.tasks import lake_sync


class FakeSpark:
    """Spark's process, which gives one answer."""

    def __init__(self, answer: dict[str, Any] | OSError) -> None:
        self.answer = answer
        self.orders: list[dict[str, Any]] = []

    def run(self, order: dict[str, Any], log: Path, watcher: lake_worker.Limit) -> dict[str, Any]:
        self.orders.append(order)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("what was said")
        watcher.progress(5, "reading")
        assert watcher.is_wanted()
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> Callable[[Any], FakeSpark]:
    settings.GLASSMQ_LAKE_DIR = tmp_path / "lake"
    settings.GLASSMQ_STORE_DIR = tmp_path / "store"
    monkeypatch.setattr(setup, "is_ready", lambda: True)

    def answer(with_what: Any) -> FakeSpark:
        spark = FakeSpark(with_what)
        monkeypatch.setattr(report_worker, "spark", lambda: spark)
        return spark

    return answer


def test_the_lake_of_this_brokers_store_is_filled(answering: Callable[[Any], FakeSpark], tmp_path: Path) -> None:
    spark = answering({"done": {"messages": 5, "is_all": True}, "memory": 1})
    assert lake_sync(with_bodies=True) == {"messages": 5, "is_all": True}
    order, = spark.orders
    assert order["job"] == "lake"
    assert order["arguments"] == {"store": str(tmp_path / "store"), "lakes": str(tmp_path / "lake"),
        "with_bodies": True}
    assert not (tmp_path / "lake" / "sync.log").exists()


def test_the_next_round_is_a_task_of_its_own(answering: Callable[[Any], FakeSpark],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr(lake_state, "go_on", lambda *, with_bodies: told.append(with_bodies))
    answering({"done": {"is_all": False}})
    lake_sync(with_bodies=True)
    answering({"done": {"is_all": True}})
    lake_sync()
    assert told == [True]


@pytest.mark.parametrize(("answer", "said"), [
    ({"failed": "There is no space left on the disk.", "passing": False}, "There is no space left on the disk."),
    ({"gone": -9}, "ended in the middle of it"),
    ({"cancelled": True}, "the next one goes on from there"),
    (OSError("no Java"), "cannot be started: no Java"),
])
def test_a_failure_is_a_sentence_and_its_log_stays(answering: Callable[[Any], FakeSpark], tmp_path: Path, answer: Any,
                                                   said: str) -> None:
    answering(answer)
    with pytest.raises(LakeError, match=said):
        lake_sync()
    assert (tmp_path / "lake" / "sync.log").read_text() == "what was said"


def test_without_spark_it_waits_for_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "is_ready", lambda: False)
    with pytest.raises(LakeError, match="not set up yet"):
        lake_sync()


def test_it_may_not_take_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, now = lake_worker.Limit(), timezone.now()
    monkeypatch.setattr(lake_worker.timezone, "now", lambda: now + lake_worker.TIME_LIMIT + timedelta(seconds=1))
    assert not limit.is_wanted()


@pytest.mark.django_db
def test_there_is_a_schedule_that_is_switched_off() -> None:
    task = PeriodicTask.objects.get(name=SCHEDULE_NAME)
    assert (task.task, task.enabled, task.crontab.minute) == (SYNC_TASK, False, "15")
    assert lake_sync.name == SYNC_TASK
