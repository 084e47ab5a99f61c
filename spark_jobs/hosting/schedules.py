"""The schedules of reports: entries of django-celery-beat, as users see and change them.

An entry has a cron expression of five fields, in UTC: minute, hour, day of the month, month, day of the week.
"""

import json
import re
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
from celery.schedules import crontab
from django.db import transaction
from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, PeriodicTask

from spark_jobs.catalogue import REPORTS
from spark_jobs.hosting.runs import UnknownReportError
from spark_jobs.models import Claim

RUN_SCHEDULED_TASK = "spark_jobs.run_scheduled"
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
MOST_HOURS = 24 * 366
"""The longest period of a schedule."""
MOST = 20
"""Entries that a report may have."""
CLOCKS_DIFFER = timedelta(seconds=5)
"""How far the clock of a worker may be behind that of a scheduler."""
LONGEST_CRON = 120
FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_FIELD = re.compile(r"[0-9a-z*,/-]+", re.IGNORECASE)


class Parameters(msgspec.Struct, frozen=True, omit_defaults=True):
    """Restricts the runs of an entry to the ``last_hours`` before them, a topic, a group, a broker; None is all."""

    last_hours: int | None = None
    topic: str | None = None
    consumer_group: str | None = None
    broker: str | None = None

    def encode(self) -> str:
        """The keyword arguments of the task, as django-celery-beat keeps them."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> "Parameters":
        """The parameters of an entry. Other keyword arguments, which the admin allows, are ignored."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return cls()


EVERYTHING = Parameters()


class BadCronError(ValueError):
    """The text is no cron expression, or one that never matches. The message is a sentence."""


class ScheduleExistsError(RuntimeError):
    """The report has that entry already, or too many entries. The message is a sentence."""


def arguments_for(report: str) -> str:
    """The arguments of a report's entries, as django-celery-beat keeps them."""
    return json.dumps([report])


def parameters_at(report: str, now: datetime, about: Parameters = EVERYTHING) -> dict[str, Any]:
    """The parameters of a run that an entry starts now.

    With ``last_hours`` the period ends with the last whole minute. Without it a daily report covers the last whole day
    (UTC) and compares it with the day before, and any other report covers all stored data.
    """
    now_ms = int(now.timestamp() * 1000)
    parameters = msgspec.structs.asdict(about)
    last_hours = parameters.pop("last_hours")
    if last_hours is not None:
        to_ms = now_ms // MINUTE_MS * MINUTE_MS
        return parameters | {"from_ms": to_ms - last_hours * HOUR_MS, "to_ms": to_ms}
    if report in REPORTS and REPORTS[report].is_daily:
        today = now_ms // DAY_MS * DAY_MS
        return parameters | {"from_ms": today - DAY_MS, "to_ms": today, "compare": True}
    return parameters


def claim(name: str | None) -> bool:
    """Claim the due time of the entry with this name. Returns whether it had no run yet; True without a name.

    Every scheduler sends each due time, and one that was killed may send it again. The first task claims it.
    """
    if name is None:  # not sent by a scheduler
        return True
    entry = PeriodicTask.objects.filter(name=name).first()
    # A scheduler switches an entry that runs once off when it has sent it.
    if entry is None or not (entry.enabled or entry.one_off):
        return False
    until = timezone.now() + CLOCKS_DIFFER
    last, is_first = Claim.objects.get_or_create(schedule=entry, defaults={"until": until})
    if is_first or had_its_run(entry, last.until):
        return is_first
    return Claim.objects.filter(schedule=entry, until=last.until).update(until=until) == 1


def had_its_run(entry: PeriodicTask, until: datetime) -> bool:
    """Whether no time of the entry is due now that is later than ``until``."""
    if entry.clocked:
        return bool(entry.clocked.clocked_time <= until)
    early = CLOCKS_DIFFER
    if entry.interval:  # it counts from when it was sent, and the worker may have been busy then
        early = max(early, entry.interval.schedule.run_every / 2)
    return bool(entry.schedule.remaining_estimate(until) > early)


def schedules_of(report: str) -> list[PeriodicTask]:
    """The entries that run this report, oldest first."""
    entries = PeriodicTask.objects.filter(task=RUN_SCHEDULED_TASK, args=arguments_for(report))
    return list(entries.select_related("crontab").order_by("id"))


def cron_of(task: PeriodicTask) -> str | None:
    """The cron expression of an entry; None for an entry of another kind, or with another time zone, from the admin."""
    is_plain = task.crontab and str(task.crontab.timezone) == "UTC"
    return " ".join(getattr(task.crontab, field) for field in FIELDS) if is_plain else None


def add(report: str, cron: str, *, enabled: bool = True, parameters: Parameters = EVERYTHING) -> PeriodicTask:
    """Add an entry. BadCronError, ScheduleExistsError."""
    with transaction.atomic():
        there = schedules_of(report)
        if len(there) >= MOST:
            raise ScheduleExistsError(f"{report} has {MOST} schedules, the largest allowed number.")
        task = PeriodicTask(
            name=f"Report {report}, {uuid4()}",  # unique; claims go by it, so it never changes
            task=RUN_SCHEDULED_TASK,
            args=arguments_for(report),
            kwargs=parameters.encode(),
            enabled=enabled,
            crontab=crontab_of(cron),
        )
        _refuse_twice(report, there, task)
        task.save()
    return task


def change(
    report: str,
    number: int,
    *,
    cron: str | None = None,
    enabled: bool | None = None,
    parameters: Parameters | None = None,
) -> PeriodicTask:
    """Change the time of an entry, whether it runs, or its parameters; None leaves them unchanged.

    It runs at its next time from now on. UnknownReportError, BadCronError, ScheduleExistsError.
    """
    with transaction.atomic():
        task = _find(report, number)
        change_entry(task, cron=cron, enabled=enabled, parameters=parameters)
        _refuse_twice(report, [other for other in schedules_of(report) if other.pk != number], task)
    return task


def change_entry(
    task: PeriodicTask, *, cron: str | None, enabled: bool | None, parameters: Parameters | None = None
) -> PeriodicTask:
    """``change`` of an entry of any task. BadCronError."""
    changed: dict[str, Any] = {}  # only these fields are written, because a beat may write the last run meanwhile
    if cron is not None:
        changed |= {"crontab": crontab_of(cron), "interval": None, "solar": None, "clocked": None, "last_run_at": None}
    if parameters is not None:
        changed |= {"kwargs": parameters.encode()}
    if enabled is not None and enabled != task.enabled:
        changed |= {"enabled": enabled, "last_run_at": None}  # else it would run at once for a time at which it was off
    for name, value in changed.items():
        setattr(task, name, value)
    task.save(update_fields={*changed, "date_changed"})
    return task


def remove(report: str, number: int) -> None:
    """Remove an entry. UnknownReportError."""
    _find(report, number).delete()


def crontab_of(cron: str) -> CrontabSchedule:
    """The schedule of a cron expression. BadCronError."""
    parts = cron.split() if len(cron) <= LONGEST_CRON else []
    if len(parts) != len(FIELDS) or not all(_FIELD.fullmatch(part) for part in parts):
        raise BadCronError(
            f"{cron[:LONGEST_CRON]!r} is no cron expression: it has five fields of digits, names, * , - and /, as in "
            "30 2 * * * for every day at 02:30."
        )
    fields = dict(zip(FIELDS, parts, strict=True))
    try:
        crontab(**fields).remaining_estimate(timezone.now())
    except (ValueError, KeyError, RuntimeError) as error:
        raise BadCronError(f"{cron!r} is no time at which anything could run: {str(error).rstrip('.')}.") from error
    known = CrontabSchedule.objects.filter(**fields, timezone="UTC").first()
    return known or CrontabSchedule.objects.create(**fields, timezone="UTC")


def _find(report: str, number: int) -> PeriodicTask:
    for task in schedules_of(report):
        if task.pk == number:
            return task
    raise UnknownReportError(f"{report} has no schedule {number}.")


def _refuse_twice(report: str, others: list[PeriodicTask], task: PeriodicTask) -> None:
    about = Parameters.decode(task.kwargs)
    for other in others:
        if task.crontab and other.crontab_id == task.crontab.pk and Parameters.decode(other.kwargs) == about:
            raise ScheduleExistsError(f"{report} has that schedule already.")
