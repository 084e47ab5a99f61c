"""Schedules as people see and change them."""

import json
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, IntervalSchedule, PeriodicTask, PeriodicTasks

from config.celery import app
from spark_jobs.hosting import lake_state, runs, schedules
from spark_jobs.hosting.schedules import (
    RUN_SCHEDULED_TASK,
    BadCronError,
    NoScheduleError,
    Parameters,
    ScheduleExistsError,
    add,
    arguments_for,
    change,
    claim,
    parameters_at,
    remove,
    schedules_of,
)
from spark_jobs.models import Claim

pytestmark = pytest.mark.django_db

DAILY = "30 2 * * *"


def test_default_schedules_can_be_changed_and_removed() -> None:
    [daily] = schedules_of("throughput")
    assert (daily.cron, daily.when, daily.enabled, daily.last_run) == (DAILY, "At 02:30 AM UTC", True, None)
    assert daily.parameters == Parameters(last_hours=24)
    changed = change("throughput", daily.id, cron="15 * * * *")
    assert (changed.id, changed.when) == (daily.id, "At 15 minutes past the hour UTC")
    assert schedules_of("throughput") == [changed]
    remove("throughput", daily.id)
    assert schedules_of("throughput") == []


def test_the_migration_to_a_day_leaves_changed_schedules_alone() -> None:
    migration = import_module("spark_jobs.migrations.0002_throughput_of_a_day")
    [daily] = schedules_of("throughput")
    migration.unlimit(apps, None)
    assert schedules_of("throughput")[0].parameters == schedules.EVERYTHING
    migration.limit(apps, None)
    assert schedules_of("throughput") == [daily]
    renamed = {"name": "Report throughput, 30 2 * * *", "kwargs": "{}"}  # as changes did when the migration was new
    PeriodicTask.objects.filter(pk=daily.id).update(**renamed)
    migration.limit(apps, None)
    assert schedules_of("throughput")[0].parameters == schedules.EVERYTHING


def test_a_schedule_is_added_for_beat_to_find() -> None:
    before = PeriodicTasks.last_change()
    made = add("hold_time", " */5  8-17 * * mon-fri")
    assert made.cron == "*/5 8-17 * * mon-fri"
    task = PeriodicTask.objects.get(pk=made.id)
    assert (task.task, task.args, task.enabled) == (RUN_SCHEDULED_TASK, arguments_for("hold_time"), True)
    assert task.crontab.schedule.is_due(timezone.now()) is not None
    assert before is None or PeriodicTasks.last_change() > before
    assert not add("hold_time", DAILY, enabled=False).enabled
    assert [schedule.cron for schedule in schedules_of("hold_time")] == ["*/5 8-17 * * mon-fri", DAILY]
    assert len(schedules_of("throughput")) == 1


def test_a_schedule_that_is_switched_on_skips_the_time_it_was_off() -> None:
    made = add("hold_time", DAILY, enabled=False)
    PeriodicTask.objects.filter(pk=made.id).update(last_run_at=timezone.now() - timedelta(days=3))
    assert change("hold_time", made.id, enabled=True) == made._replace(enabled=True)


def test_switching_on_what_is_on_forgets_nothing() -> None:
    made = add("hold_time", DAILY)
    PeriodicTask.objects.filter(pk=made.id).update(last_run_at=timezone.now())
    assert change("hold_time", made.id, enabled=True).last_run is not None


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * *",
        "61 * * * *",
        "* 24 * * *",
        "0 0 31 2 *",
        "a b c d e",
        "*/0 * * * *",
        "$(x) * * * *",
        "1," * 80 + "1 * * * *",
    ],
)
def test_bad_cron_expressions_are_refused(cron: str) -> None:
    kept = CrontabSchedule.objects.count()
    with pytest.raises(BadCronError, match=r"(is no cron expression|is no time at which).*[^.]\.$"):
        add("throughput", cron)
    with pytest.raises(BadCronError):
        change("throughput", schedules_of("throughput")[0].id, cron=cron)
    assert schedules_of("throughput")[0].cron == DAILY
    assert CrontabSchedule.objects.count() == kept


def test_repeated_and_too_many_schedules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScheduleExistsError, match="already"):
        add("throughput", DAILY, parameters=Parameters(last_hours=24))
    other = add("throughput", "0 3 * * *", parameters=Parameters(last_hours=24))
    with pytest.raises(ScheduleExistsError, match="already"):
        change("throughput", other.id, cron=DAILY)
    monkeypatch.setattr(schedules, "MOST", 2)
    with pytest.raises(ScheduleExistsError, match="the largest allowed number"):
        add("throughput", "0 4 * * *")


def test_only_a_reports_own_schedules_are_found() -> None:
    [daily] = schedules_of("throughput")
    for act in (
        lambda: change("hold_time", daily.id, enabled=False),
        lambda: remove("hold_time", daily.id),
        lambda: remove("throughput", 99_999),
    ):
        with pytest.raises(NoScheduleError, match="has no schedule"):
            act()


def test_schedules_made_in_the_admin_are_shown_and_can_be_changed() -> None:
    hours = IntervalSchedule.objects.create(every=6, period=IntervalSchedule.HOURS)
    berlin = CrontabSchedule.objects.create(minute="0", hour="4", timezone="Europe/Berlin")
    for name, more in (("a", {"interval": hours}), ("b", {"crontab": berlin})):
        PeriodicTask.objects.create(name=name, task=RUN_SCHEDULED_TASK, args=arguments_for("skew"), **more)
    every, local = schedules_of("skew")
    assert (every.cron, every.when) == (None, "every 6 hours")
    assert (local.cron, local.when) == (None, "At 04:00 AM Europe/Berlin")
    assert change("skew", every.id, enabled=False).when == "every 6 hours"
    assert change("skew", every.id, cron="0 */6 * * *").cron == "0 */6 * * *"


def test_a_schedule_has_parameters() -> None:
    made = add("skew", DAILY, parameters=Parameters(24, "orders", "g", "b"))
    assert made.parameters == Parameters(24, "orders", "g", "b")
    assert schedules_of("skew") == [made]
    task = PeriodicTask.objects.get(pk=made.id)
    assert json.loads(task.kwargs) == {"last_hours": 24, "topic": "orders", "consumer_group": "g", "broker": "b"}
    changed = change("skew", made.id, parameters=Parameters(topic="orders"))
    assert (changed.parameters, changed.cron) == (Parameters(None, "orders"), DAILY)
    assert change("skew", made.id, enabled=False).parameters == Parameters(None, "orders")


def test_schedules_of_the_same_time_differ_in_their_parameters() -> None:
    about = Parameters(topic="orders")
    first, second = add("skew", DAILY), add("skew", DAILY, parameters=about)
    with pytest.raises(ScheduleExistsError, match="already"):
        add("skew", DAILY, parameters=about)
    with pytest.raises(ScheduleExistsError, match="already"):
        change("skew", first.id, parameters=about)
    assert change("skew", second.id, cron=DAILY, parameters=about) == second


@pytest.mark.parametrize(
    ("kwargs", "about"),
    [
        ("", Parameters()),
        ("[]", Parameters()),
        ("{", Parameters()),
        ('{"older": 1, "topic": "t"}', Parameters(topic="t")),
    ],
)
def test_keyword_arguments_made_in_the_admin_may_be_anything(kwargs: str, about: Parameters) -> None:
    assert Parameters.decode(kwargs) == about


NOON = datetime(2026, 2, 1, 12, 0, 59, tzinfo=UTC)
DAY_MS = 86_400_000


def test_a_run_is_about_the_last_hours_before_it() -> None:
    noon = int(NOON.timestamp()) // 60 * 60_000
    about = Parameters(36, "orders", "g", "b")
    for report in ("throughput", "daily_summary"):
        assert parameters_at(report, NOON, about) == {
            "from_ms": noon - 36 * 3_600_000,
            "to_ms": noon,
            "topic": "orders",
            "consumer_group": "g",
            "broker": "b",
        }


def test_without_last_hours_a_run_is_about_everything_or_the_day_before() -> None:
    assert parameters_at("throughput", NOON) == {"topic": None, "consumer_group": None, "broker": None}
    midnight = int(datetime(2026, 2, 1, tzinfo=UTC).timestamp() * 1000)
    found = parameters_at("daily_summary", NOON, Parameters(topic="orders"))
    assert (found["from_ms"], found["to_ms"], found["compare"]) == (midnight - DAY_MS, midnight, True)
    assert found["topic"] == "orders"


def test_tasks_of_schedules_exist() -> None:
    app.loader.import_default_modules()
    assert {RUN_SCHEDULED_TASK, runs.RUN_TASK, lake_state.SYNC_TASK} <= set(app.tasks)


def claimed_before(**ago: float) -> PeriodicTask:
    """A schedule of each hour, 30 minutes from now, whose due times so long ago had their runs."""
    half_past = CrontabSchedule.objects.create(minute=(timezone.now().minute + 30) % 60, timezone="UTC")
    task = PeriodicTask.objects.create(name="each hour", task=RUN_SCHEDULED_TASK, crontab=half_past)
    Claim.objects.create(schedule=task, until=timezone.now() - timedelta(**ago))
    return task


def test_a_due_time_is_claimed_once() -> None:
    claimed_before(minutes=50)
    assert [claim("each hour") for _ in range(3)] == [True, False, False]


def test_due_times_that_were_missed_have_one_run() -> None:
    claimed_before(days=3)
    assert [claim("each hour") for _ in range(3)] == [True, False, False]


def test_a_time_that_is_not_due_is_not_claimed() -> None:
    claimed_before(minutes=10)
    assert not claim("each hour")


def test_the_first_time_is_claimed_once_and_each_schedule_for_itself() -> None:
    names = [add("hold_time", cron).name for cron in (DAILY, "30 3 * * *")]
    assert [claim(name) for name in names * 2] == [True, True, False, False]


def test_intervals_count_from_the_last_claim() -> None:
    hourly = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    PeriodicTask.objects.filter(pk=claimed_before(minutes=59, seconds=59).pk).update(crontab=None, interval=hourly)
    assert [claim("each hour") for _ in range(2)] == [True, False]


def test_an_interval_is_not_missed_because_a_worker_was_busy_at_the_one_before() -> None:
    hourly = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    PeriodicTask.objects.filter(pk=claimed_before(minutes=50).pk).update(crontab=None, interval=hourly)
    assert [claim("each hour") for _ in range(2)] == [True, False]


@pytest.mark.parametrize("is_over", [False, True])
def test_an_entry_that_runs_once_has_its_run_also_if_the_scheduler_has_switched_it_off(is_over: bool) -> None:
    now = ClockedSchedule.objects.create(clocked_time=timezone.now() - timedelta(seconds=3))
    PeriodicTask.objects.create(name="once", task=RUN_SCHEDULED_TASK, clocked=now, one_off=True, enabled=not is_over)
    assert [claim("once") for _ in range(2)] == [True, False]
    Claim.objects.update(until=timezone.now() - timedelta(days=1))
    assert [claim("once") for _ in range(2)] == [True, False], "somebody has it run again at a later time"


def test_of_two_workers_that_find_a_due_time_one_claims_it(monkeypatch: pytest.MonkeyPatch) -> None:
    task = claimed_before(minutes=50)
    found = Claim.objects.get(schedule=task)
    assert claim("each hour")
    monkeypatch.setattr(Claim.objects, "get_or_create", lambda **_: (found, False))
    assert not claim("each hour")


def test_a_schedule_that_is_switched_off_or_removed_claims_nothing() -> None:
    made = add("hold_time", DAILY, enabled=False)
    assert not claim(made.name)
    assert not claim("removed")
