"""The Alerts page. Django renders the frame; alerts, rules, channels and silences come from ``/api/v1/alerts``."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    """What fires, the rules, where messages go, and what fired."""
    return render(request, "dashboard/alerts.html")
