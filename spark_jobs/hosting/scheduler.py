"""Celery's beat for schedules in the database. Any number of beats may run; each due time is sent once.

django-celery-beat keeps the last run of an entry in memory and saves it every few minutes. So two beats would send
everything twice, and a beat that was killed would send its last entries again. Here the time in the database decides:
the beat that replaces the old time by the new one sends the entry.
"""

import logging
from typing import Any

from celery.beat import ScheduleEntry
from django.db import DatabaseError
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler

logger = logging.getLogger(__name__)


class Scheduler(DatabaseScheduler):  # type: ignore[misc, unused-ignore]  # celery has no types
    """Sends the entries that are due and were not sent by another beat."""

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send an entry that is due according to this process's memory. Called after ``reserve``."""
        try:
            if is_ours(entry):
                super().apply_entry(entry, producer=producer)
                return
        except DatabaseError:
            logger.exception("The database does not say whether %s is due, so it is not sent.", entry.name)
        self._dirty.discard(entry.name)  # saving it would overwrite the time at which another beat sent it


def is_ours(entry: ScheduleEntry) -> bool:
    """Whether the entry is due according to the database, and this process has claimed it."""
    row = PeriodicTask.objects.filter(pk=entry.model.pk, enabled=True)
    last = row.values_list("last_run_at", flat=True).first()
    if last is not None and not entry.schedule.is_due(last.astimezone(entry.app.timezone))[0]:
        return False
    unchanged = row.filter(last_run_at=last) if last is not None else row.filter(last_run_at__isnull=True)
    return bool(unchanged.update(last_run_at=timezone.now()) == 1)
