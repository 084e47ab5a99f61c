"""Runs in the admin: to be seen, not to be made up."""

from django.contrib import admin
from django.test import RequestFactory

from spark_jobs.models import ReportRun


def test_runs_are_shown_and_cannot_be_edited() -> None:
    request = RequestFactory().get("/admin/")
    registered = admin.site._registry[ReportRun]
    assert not registered.has_add_permission(request)
    assert not registered.has_change_permission(request)
