"""The live page. Django renders the frame; the data comes over ``/ws/v1/events``."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.views.decorators.http import require_safe


@require_safe
def live(request: HttpRequest) -> HttpResponse:
    """Held pulls, queues, wake-ups, the path of a pull, and a consumer to try them with."""
    return render(request, "dashboard/live.html")


@require_safe
def hold(request: HttpRequest, hold_id: int) -> HttpResponse:
    """One held pull and its time line. The API, not this view, checks that it is known."""
    return render(request, "dashboard/hold.html", {"hold_id": hold_id})


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """Browsers request /favicon.ico whatever the page links to."""
    return redirect(static("img/favicon.svg"), permanent=False)
