"""The search for messages, and the page of one message. Django renders the frame; the data comes from ``/api/v1``."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def messages(request: HttpRequest) -> HttpResponse:
    """A search by topic and time range, by key, or by id."""
    return render(request, "dashboard/messages.html")


@require_safe
def message(request: HttpRequest, message_id: str) -> HttpResponse:
    """One message: its time line, body and properties. The API, not this view, checks that the message exists."""
    return render(request, "dashboard/message.html", {"message_id": message_id})
