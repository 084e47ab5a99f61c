"""Who answers what: the API in plain ASGI, pages through Django, WebSockets through Channels.

One middleware stands before all of them (``api.http.security``): who may call, and from which page.
"""

import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

django_application = get_asgi_application()  # first: it loads the apps that the imports below need

from api.http.security import SecurityMiddleware  # noqa: E402
from api.routing import API_PREFIXES, close_websockets, http_application, websocket_urlpatterns  # noqa: E402
from config.celery import app as celery_app  # noqa: E402

# Whoever serves the application also ends its WebSockets; and a report asked for here goes to our Celery.
__all__ = ["application", "celery_app", "close_websockets"]


async def api_or_pages(scope: Any, receive: Any, send: Any) -> None:
    """The API's paths to the API, all others to Django: a Django view costs ten times a plain ASGI answer."""
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
