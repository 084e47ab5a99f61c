"""Celery's beat for schedules in the database, of which any number may run: each due time is sent once.

django-celery-beat keeps in memory when an entry ran last and writes it down every few minutes, so two beats send
everything twice, and one that is killed sends again what it sent just before. Here the time in the database decides:
whoever moves it from the value that makes the entry due has the right to send.
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
    """Sends what is due and not sent by another."""

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send an entry that its own memory says is due. Called after ``reserve``."""
        try:
            if is_ours(entry):
                super().apply_entry(entry, producer=producer)
                return
        except DatabaseError:
            logger.exception("Whether %s is due cannot be said now; it is not sent.", entry.name)
        self._dirty.discard(entry.name)  # the time at which somebody else sent it is not to be overwritten


def is_ours(entry: ScheduleEntry) -> bool:
    """Whether the entry is due by what the database says, and this process is the one to send it."""
    row = PeriodicTask.objects.filter(pk=entry.model.pk, enabled=True)
    last = row.values_list("last_run_at", flat=True).first()
    if last is not None and not entry.schedule.is_due(last.astimezone(entry.app.timezone))[0]:
        return False
    unchanged = row.filter(last_run_at=last) if last is not None else row.filter(last_run_at__isnull=True)
    return bool(unchanged.update(last_run_at=timezone.now()) == 1)
