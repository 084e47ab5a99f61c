"""Report runs in Django's admin, read-only. Schedules are in django-celery-beat's own pages."""

from django.contrib import admin
from django.http import HttpRequest

from spark_jobs.models import ReportRun


@admin.register(ReportRun)
class ReportRunAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # a generic class for mypy alone
    """The worker writes the runs, so people cannot edit them."""

    list_display = ("id", "report", "status", "percent", "requested_by", "created", "finished", "messages")
    list_filter = ("report", "status")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: ReportRun | None = None) -> bool:
        return False
