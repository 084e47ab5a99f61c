"""The Topics page and the page of one topic. Django renders the frame; the data comes from ``/api/v1``."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def topics(request: HttpRequest) -> HttpResponse:
    """All topics with their rates."""
    return render(request, "dashboard/topics.html")


@require_safe
def topic(request: HttpRequest, name: str) -> HttpResponse:
    """One topic: queues, groups, configuration. The API, not this view, checks that the topic exists."""
    return render(request, "dashboard/topic.html", {"topic": name})
