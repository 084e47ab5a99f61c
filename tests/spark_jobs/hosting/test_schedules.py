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
    Parameters,
    ScheduleExistsError,
    add,
    arguments_for,
    change,
    claim,
    cron_of,
    parameters_at,
    remove,
    schedules_of,
)
from spark_jobs.models import Claim

pytestmark = pytest.mark.django_db

DAILY = "30 2 * * *"


def about(task: PeriodicTask) -> Parameters:
    return Parameters.decode(task.kwargs)


def test_default_schedules_can_be_changed_and_removed() -> None:
    [daily] = schedules_of("throughput")
    assert (cron_of(daily), daily.enabled, about(daily)) == (DAILY, True, Parameters(last_hours=24))
    changed = change("throughput", daily.pk, cron="15 * * * *")
    assert schedules_of("throughput") == [changed] == [daily]
    assert cron_of(changed) == "15 * * * *"
    remove("throughput", daily.pk)
    assert schedules_of("throughput") == []


def test_the_migration_to_a_day_leaves_changed_schedules_alone() -> None:
    migration = import_module("spark_jobs.migrations.0002_throughput_of_a_day")
    [daily] = schedules_of("throughput")
    migration.unlimit(apps, None)
    assert about(schedules_of("throughput")[0]) == schedules.EVERYTHING
    migration.limit(apps, None)
    assert about(schedules_of("throughput")[0]) == about(daily)
    renamed = {"name": "Report throughput, 30 2 * * *", "kwargs": "{}"}  # as changes did when the migration was new
    PeriodicTask.objects.filter(pk=daily.pk).update(**renamed)
    migration.limit(apps, None)
    assert about(schedules_of("throughput")[0]) == schedules.EVERYTHING


def test_a_schedule_is_added_for_beat_to_find() -> None:
    before = PeriodicTasks.last_change()
    made = add("hold_time", " */5  8-17 * * mon-fri")
    assert (made.task, made.args, made.enabled) == (RUN_SCHEDULED_TASK, arguments_for("hold_time"), True)
    assert made.crontab.schedule.is_due(timezone.now()) is not None
    assert before is None or PeriodicTasks.last_change() > before
    assert not add("hold_time", DAILY, enabled=False).enabled
    assert [cron_of(schedule) for schedule in schedules_of("hold_time")] == ["*/5 8-17 * * mon-fri", DAILY]
    assert len(schedules_of("throughput")) == 1


@pytest.mark.parametrize("was_enabled", [False, True])
def test_a_schedule_that_is_switched_on_skips_the_time_it_was_off(was_enabled: bool) -> None:
    made = add("hold_time", DAILY, enabled=was_enabled)
    PeriodicTask.objects.filter(pk=made.pk).update(last_run_at=timezone.now() - timedelta(days=3))
    changed = change("hold_time", made.pk, enabled=True)
    assert (changed.enabled, changed.last_run_at is not None) == (True, was_enabled)


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
        change("throughput", schedules_of("throughput")[0].pk, cron=cron)
    assert cron_of(schedules_of("throughput")[0]) == DAILY
    assert CrontabSchedule.objects.count() == kept


def test_repeated_and_too_many_schedules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules of the same time differ in their parameters."""
    topic = Parameters(topic="orders")
    first, second = add("skew", DAILY), add("skew", DAILY, parameters=topic)
    for again in (
        lambda: add("skew", DAILY, parameters=topic),
        lambda: change("skew", first.pk, parameters=topic),
        lambda: change("skew", add("skew", "0 3 * * *").pk, cron=DAILY),
    ):
        with pytest.raises(ScheduleExistsError, match="already"):
            again()
    assert change("skew", second.pk, cron=DAILY, parameters=topic) == second
    monkeypatch.setattr(schedules, "MOST", 2)
    with pytest.raises(ScheduleExistsError, match="the largest allowed number"):
        add("skew", "0 4 * * *")


def test_only_a_reports_own_schedules_are_found() -> None:
    [daily] = schedules_of("throughput")
    for act in (
        lambda: change("hold_time", daily.pk, enabled=False),
        lambda: remove("hold_time", daily.pk),
        lambda: remove("throughput", 99_999),
    ):
        with pytest.raises(runs.UnknownReportError, match="has no schedule"):
            act()


def test_a_schedule_made_in_the_admin_can_be_changed() -> None:
    hours = IntervalSchedule.objects.create(every=6, period=IntervalSchedule.HOURS)
    PeriodicTask.objects.create(name="a", task=RUN_SCHEDULED_TASK, args=arguments_for("skew"), interval=hours)
    [every] = schedules_of("skew")
    assert cron_of(every) is None
    assert change("skew", every.pk, enabled=False).interval == hours
    assert cron_of(change("skew", every.pk, cron="0 */6 * * *")) == "0 */6 * * *"
    assert schedules_of("skew")[0].interval is None


def test_a_schedule_has_parameters() -> None:
    made = add("skew", DAILY, parameters=Parameters(24, "orders", "g", "b"))
    assert json.loads(made.kwargs) == {"last_hours": 24, "topic": "orders", "consumer_group": "g", "broker": "b"}
    changed = change("skew", made.pk, parameters=Parameters(topic="orders"))
    assert (about(changed), cron_of(changed)) == (Parameters(None, "orders"), DAILY)
    assert about(change("skew", made.pk, enabled=False)) == about(schedules_of("skew")[0]) == Parameters(None, "orders")


@pytest.mark.parametrize(
    ("kwargs", "read"),
    [
        ("", Parameters()),
        ("[]", Parameters()),
        ("{", Parameters()),
        ('{"older": 1, "topic": "t"}', Parameters(topic="t")),
    ],
)
def test_keyword_arguments_made_in_the_admin_may_be_anything(kwargs: str, read: Parameters) -> None:
    assert Parameters.decode(kwargs) == read


def test_the_time_that_a_run_is_about() -> None:
    """The last hours before it, everything, or the day before."""
    noon = datetime(2026, 2, 1, 12, 0, 59, tzinfo=UTC)
    whole_minute, midnight = (int(datetime(2026, 2, 1, hour, tzinfo=UTC).timestamp() * 1000) for hour in (12, 0))
    everything = {"topic": None, "consumer_group": None, "broker": None}
    wanted = {"topic": "orders", "consumer_group": "g", "broker": "b"}
    hours = wanted | {"from_ms": whole_minute - 36 * 3_600_000, "to_ms": whole_minute}
    for report in ("throughput", "daily_summary"):
        assert parameters_at(report, noon, Parameters(36, "orders", "g", "b")) == hours
    assert parameters_at("throughput", noon) == everything
    day = {"from_ms": midnight - 24 * 3_600_000, "to_ms": midnight, "compare": True}
    assert parameters_at("daily_summary", noon, Parameters(None, "orders", "g", "b")) == wanted | day


def test_tasks_of_schedules_exist() -> None:
    app.loader.import_default_modules()
    assert {RUN_SCHEDULED_TASK, runs.RUN_TASK, lake_state.SYNC_TASK} <= set(app.tasks)


def claimed_before(**ago: float) -> PeriodicTask:
    """A schedule of each hour, 30 minutes from now, whose due times so long ago had their runs."""
    half_past = CrontabSchedule.objects.create(minute=(timezone.now().minute + 30) % 60, timezone="UTC")
    task = PeriodicTask.objects.create(name="each hour", task=RUN_SCHEDULED_TASK, crontab=half_past)
    Claim.objects.create(schedule=task, until=timezone.now() - timedelta(**ago))
    return task


@pytest.mark.parametrize(
    ("ago", "claims"),
    [({"minutes": 50}, [True, False, False]), ({"days": 3}, [True, False, False]), ({"minutes": 10}, [False] * 3)],
    ids=["due", "missed several times", "not due"],
)
def test_a_due_time_is_claimed_once(ago: dict[str, float], claims: list[bool]) -> None:
    claimed_before(**ago)
    assert [claim("each hour") for _ in range(3)] == claims


def test_the_first_time_is_claimed_once_and_each_schedule_for_itself() -> None:
    names = [add("hold_time", cron).name for cron in (DAILY, "30 3 * * *")]
    assert [claim(name) for name in names * 2] == [True, True, False, False]


@pytest.mark.parametrize("ago", [{"minutes": 59, "seconds": 59}, {"minutes": 50}], ids=["on time", "a worker was busy"])
def test_intervals_count_from_the_last_claim(ago: dict[str, float]) -> None:
    hourly = IntervalSchedule.objects.create(every=1, period=IntervalSchedule.HOURS)
    PeriodicTask.objects.filter(pk=claimed_before(**ago).pk).update(crontab=None, interval=hourly)
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
