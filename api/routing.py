"""What the web server mounts: the HTTP application, its path prefixes, the WebSockets, and their end."""

from django.urls import re_path

from api import websocket
from api.asgi import Receive, Scope, Send
from api.consumer_socket import consumer_application
from api.events_socket import events_application
from api.http import HttpApplication
from api.routes import ROUTES

API_PREFIXES = ("/api/", "/livez", "/readyz", "/metrics")
"""A path that begins with one of these is answered by ``http_application``."""

http_application = HttpApplication(ROUTES)


async def unknown_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """A WebSocket path that nobody has: refused in the handshake."""
    await receive()
    await send({"type": "websocket.close", "code": websocket.CLOSE_FORBIDDEN})


websocket_urlpatterns = [
    re_path(r"^ws/v1/consumer$", consumer_application),  # type: ignore[arg-type]  # an ASGI application, for URLRouter
    re_path(r"^ws/v1/events$", events_application),  # type: ignore[arg-type]
    re_path(r"", unknown_websocket),  # type: ignore[arg-type]
]


async def close_websockets(reason: str = "the server is restarting") -> None:
    """Say bye on every WebSocket and close it with 1012. For the server, before it stops; bounded to about a second."""
    await websocket.close_all(reason)
