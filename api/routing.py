"""What the web server mounts: all routes, the HTTP application with its path prefixes, and the WebSockets."""

from itertools import chain
from typing import Any

from django.urls import re_path

from api.consumer.socket import consumer_application
from api.http import openapi
from api.http.application import HttpApplication
from api.http.asgi import CLOSE_NOT_FOUND, Receive, Scope, Send
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.resources import (
    attached,
    broker,
    clients,
    dead_letters,
    direct_consumption,
    events,
    groups,
    health,
    history,
    holds,
    lake,
    messages,
    metrics,
    offsets,
    pulls,
    receipts,
    receives,
    report_schedules,
    reports,
    running_info,
    topics,
    verdicts,
    what_if,
)
from api.resources.alerts import channels as alert_channels
from api.resources.alerts import history as alert_history
from api.resources.alerts import rules as alert_rules
from api.resources.alerts import silences as alert_silences
from api.websockets import asyncapi
from api.websockets import socket as websocket
from api.websockets.events import events_application

API_PREFIXES = ("/api/", "/livez", "/readyz", "/metrics")
"""A path that begins with one of these is answered by ``http_application``."""


async def get_openapi(request: Request[Params]) -> Answer:
    """The OpenAPI document of all routes."""
    return Answer(content=openapi.document(ROUTES), headers={"cache-control": "no-cache"})


async def get_asyncapi(request: Request[Params]) -> Answer:
    """The AsyncAPI document of the two WebSockets: their frames, close codes and limits."""
    return Answer(content=asyncapi.document(), headers={"cache-control": "no-cache"})


_DOCUMENTS = (
    Route(
        method="GET",
        path="/api/v1/openapi.json",
        handler=get_openapi,
        group="Service",
        summary="The OpenAPI document",
        response=dict[str, Any],
        needs_broker=False,
    ),
    Route(
        method="GET",
        path="/api/v1/asyncapi.json",
        handler=get_asyncapi,
        group="Service",
        summary="The AsyncAPI document",
        response=dict[str, Any],
        needs_broker=False,
    ),
    Route(
        method="GET",
        path="/api/docs",
        handler=openapi.docs_page,
        group="Service",
        summary="The API reference, to read and try",
        response_type="text/html",
        needs_broker=False,
    ),
)
_RESOURCES = (
    messages,
    direct_consumption,
    pulls,
    receives,
    receipts,
    topics,
    what_if,
    verdicts,
    groups,
    offsets,
    dead_letters,
    clients,
    holds,
    events,
    history,
    broker,
    attached,
    running_info,
    reports,
    report_schedules,
    lake,
    alert_history,
    alert_rules,
    alert_channels,
    alert_silences,
    health,
    metrics,
)
ROUTES: tuple[Route, ...] = (*chain.from_iterable(resource.ROUTES for resource in _RESOURCES), *_DOCUMENTS)
"""Every route of the API. Requests are routed by it, the OpenAPI document is made from it, and a test checks each."""

http_application = HttpApplication(ROUTES)


async def unknown_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a WebSocket with an unknown path, in the handshake."""
    await receive()
    reason = "no WebSocket has this path; the paths are /ws/v1/consumer and /ws/v1/events"
    await send({"type": "websocket.close", "code": CLOSE_NOT_FOUND, "reason": reason})


websocket_urlpatterns = [
    re_path(r"^ws/v1/consumer$", consumer_application),  # type: ignore[arg-type]  # an ASGI application, for URLRouter
    re_path(r"^ws/v1/events$", events_application),  # type: ignore[arg-type]
    re_path(r"", unknown_websocket),  # type: ignore[arg-type]
]


async def close_websockets(reason: str = "the server is restarting") -> None:
    """Send `bye` on every WebSocket and close it with 1012, before the server stops. Takes about a second at most."""
    await websocket.close_all(reason)
