"""The ASGI application: the API in plain ASGI, pages through Django, WebSockets through Channels.

All requests first pass one middleware (``api.http.security``), which checks the caller and the origin.
"""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

django_application = get_asgi_application()  # first: it loads the apps that the imports below need

from alerts.service import start_alerts, stop_alerts  # noqa: E402
from api.http.security import SecurityMiddleware  # noqa: E402
from api.routing import API_PREFIXES, close_websockets, http_application, websocket_urlpatterns  # noqa: E402
from config.celery import app as celery_app  # noqa: E402

# The server of the application also closes its WebSockets, and starts and stops the alerts. Importing celery_app makes
# reports go to our Celery.
__all__ = ["application", "celery_app", "close_websockets", "start_alerts", "stop_alerts"]


async def api_or_pages(scope: Any, receive: Any, send: Any) -> None:
    """Route the API's paths to the API, all others to Django. A Django view takes ten times as long as plain ASGI."""
    answering = http_application if scope["path"].startswith(API_PREFIXES) else django_application
    await answering(scope, receive, send)


application = SecurityMiddleware(
    ProtocolTypeRouter(
        {
            "http": api_or_pages,
            "websocket": URLRouter(websocket_urlpatterns),
        }
    )
)
