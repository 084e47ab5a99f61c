"""The Connections, Groups and group pages. Django renders the frame; the data comes from ``/api/v1`` and
``/ws/v1/events``.
"""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def connections(request: HttpRequest) -> HttpResponse:
    """Open connections, their types and groups."""
    return render(request, "dashboard/connections.html")


@require_safe
def groups(request: HttpRequest) -> HttpResponse:
    """All consumer groups and their events."""
    return render(request, "dashboard/groups.html")


@require_safe
def group(request: HttpRequest, name: str) -> HttpResponse:
    """One group: diagnosis, queues and members. The API, not this view, checks that the group exists."""
    return render(request, "dashboard/group.html", {"group": name})


@require_safe
def dead_letters(request: HttpRequest, name: str) -> HttpResponse:
    """The dead letters of one group."""
    return render(request, "dashboard/dead_letters.html", {"group": name})
