"""The page of the reports. Django renders its frame; lists and progress come from ``/api/v1/reports``."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe


@require_safe
@ensure_csrf_cookie
def reports(request: HttpRequest) -> HttpResponse:
    """Every report with its runs, how far they are, and what they made."""
    return render(request, "dashboard/reports.html")
