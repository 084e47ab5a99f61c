"""Beats beside each other: what is due is sent once."""

from datetime import timedelta
from typing import Any

import pytest
from celery.beat import Scheduler as CelerysScheduler
from django.db import OperationalError
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from config.celery import app
from spark_jobs.hosting import scheduler
from spark_jobs.hosting.scheduler import Scheduler
from spark_jobs.hosting.schedules import RUN_SCHEDULED_TASK

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of entries that were sent."""
    names: list[str] = []
    monkeypatch.setattr(
        CelerysScheduler, "apply_async", lambda self, entry, producer=None, advance=True, **_: names.append(entry.name)
    )
    PeriodicTask.objects.all().delete()
    monkeypatch.setattr(Scheduler, "install_default_entries", lambda self, data: None)
    return names


def due(**more: Any) -> PeriodicTask:
    """A schedule of every minute that ran last three minutes ago."""
    every_minute = CrontabSchedule.objects.create(minute="*", timezone="UTC")
    return PeriodicTask.objects.create(
        **{
            "name": "each minute",
            "task": RUN_SCHEDULED_TASK,
            "crontab": every_minute,
            "last_run_at": timezone.now() - timedelta(minutes=3),
        }
        | more
    )


def beat() -> Scheduler:
    one = Scheduler(app=app)
    one._finalize.cancel()  # it would write to the database when Python ends
    return one


def test_one_of_two_schedulers_sends_a_due_run(sent: list[str]) -> None:
    task = due()
    first, second = beat(), beat()
    first.tick()
    second.tick()
    assert sent == ["each minute"]
    task.refresh_from_db()
    claimed = task.last_run_at
    assert timezone.now() - claimed < timedelta(minutes=1)
    second.sync()
    task.refresh_from_db()
    assert (task.last_run_at, task.total_run_count) == (claimed, 0)
    first.sync()
    task.refresh_from_db()
    assert task.total_run_count == 1


def test_the_second_scheduler_continues_when_the_first_is_gone(sent: list[str]) -> None:
    task = due()
    first, second = beat(), beat()
    first.tick()
    second.tick()
    PeriodicTask.objects.filter(pk=task.pk).update(last_run_at=timezone.now() - timedelta(minutes=2))
    entry = second.schedule["each minute"]
    second.apply_entry(entry)
    assert sent == ["each minute"] * 2


def test_a_beat_that_was_killed_does_not_send_again_what_it_sent(sent: list[str]) -> None:
    due()
    beat().tick()
    beat().tick()
    assert sent == ["each minute"]


def test_intervals_are_kept_by_all_beats_together(sent: list[str]) -> None:
    hourly = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    task = due(crontab=None, interval=hourly, last_run_at=timezone.now() - timedelta(minutes=61))
    first, second = beat(), beat()
    first.tick()
    PeriodicTask.objects.filter(pk=task.pk).update(last_run_at=timezone.now() - timedelta(minutes=30))
    second.tick()
    assert sent == ["each minute"]


def test_the_first_time_is_sent_once_too(sent: list[str]) -> None:
    task = due(last_run_at=None)
    PeriodicTask.objects.filter(pk=task.pk).update(date_changed=timezone.now() - timedelta(minutes=3))
    first, second = beat(), beat()
    first.tick()
    second.tick()
    assert sent == ["each minute"]


def test_a_schedule_switched_off_a_moment_ago_sends_nothing(sent: list[str]) -> None:
    task = due()
    late = beat()
    PeriodicTask.objects.filter(pk=task.pk).update(enabled=False)
    late.tick()
    assert sent == []


def test_a_database_that_does_not_answer_sends_nothing(
    sent: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(entry: Any) -> bool:
        raise OperationalError("database is locked")

    due()
    one = beat()
    monkeypatch.setattr(scheduler, "is_ours", busy)
    one.tick()
    assert sent == []
    assert "it is not sent" in caplog.text
