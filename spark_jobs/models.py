"""Report runs, and the due times of schedules that have had their run."""

from typing import ClassVar

from django.db import models
from django_celery_beat.models import PeriodicTask


class Status(models.TextChoices):
    """The state of a run."""

    QUEUED = "queued", "queued"
    WAITING = "waiting", "waiting for Spark"
    RUNNING = "running", "running"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


NOT_BEGUN = (Status.QUEUED, Status.WAITING)
ACTIVE = (*NOT_BEGUN, Status.RUNNING)


class ReportRun(models.Model):
    """One run of a report. At most one run of each report is active."""

    report = models.CharField(max_length=64)
    parameters = models.JSONField(default=dict)
    requested_by = models.CharField(max_length=16, default="person", help_text="person or schedule")
    status = models.CharField(max_length=16, choices=Status.choices, default=Status.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=1, help_text="which try this is, from 1 on")
    percent = models.PositiveSmallIntegerField(default=0, help_text="never goes back within an attempt")
    doing = models.TextField(blank=True, help_text="what it is doing now, or what it waits for, in words")
    error = models.TextField(blank=True, help_text="why it failed, a sentence")
    cancel_requested = models.BooleanField(default=False)
    folder = models.CharField(max_length=400, blank=True, help_text="of its files, below GLASSMQ_REPORTS_DIR")
    messages = models.BigIntegerField(null=True, blank=True, help_text="read, once it is done")
    result = models.JSONField(default=dict, blank=True, help_text="words, headlines, notes of its summary, if done")
    created = models.DateTimeField(auto_now_add=True)
    started = models.DateTimeField(null=True, blank=True)
    finished = models.DateTimeField(null=True, blank=True)
    heartbeat = models.DateTimeField(null=True, blank=True, help_text="last sign of life of its worker")

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [models.Index(fields=["report", "-id"], name="report_runs_by_report")]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["report"], condition=models.Q(status__in=ACTIVE), name="one_active_run_per_report"
            )
        ]

    def __str__(self) -> str:
        return f"{self.report} {self.pk}: {self.status}"


class Claim(models.Model):
    """The due times of a schedule until ``until`` have had their run. Several schedulers may send each of them."""

    schedule = models.OneToOneField(PeriodicTask, models.CASCADE, primary_key=True)
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.schedule}: {self.until}"
