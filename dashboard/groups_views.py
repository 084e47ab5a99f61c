"""The pages of connections and groups. Django renders their frames; what they show comes from ``/api/v1`` and
``/ws/v1/events``.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe


@require_safe
@ensure_csrf_cookie
def connections(request: HttpRequest) -> HttpResponse:
    """Who is connected, with what, in which groups."""
    return render(request, "dashboard/connections.html")


@require_safe
@ensure_csrf_cookie
def groups(request: HttpRequest) -> HttpResponse:
    """All groups, and what becomes of them."""
    return render(request, "dashboard/groups.html")


@require_safe
@ensure_csrf_cookie
def group(request: HttpRequest, name: str) -> HttpResponse:
    """One group: who has which queue, and why its consumers wait. Whether there is such a group says the API."""
    return render(request, "dashboard/group.html", {"group": name})
