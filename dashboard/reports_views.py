"""The Reports page. Django renders the frame; reports, runs and progress come from ``/api/v1/reports``."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def reports(request: HttpRequest) -> HttpResponse:
    """All reports with their runs, progress and files."""
    return render(request, "dashboard/reports.html")
