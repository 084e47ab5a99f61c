"""Who answers what: the API in plain ASGI, pages through Django, WebSockets through Channels.

One middleware stands before all of them (``api.security``): who may call, and from which page.
"""

import os
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

django_application = get_asgi_application()  # first: it loads the apps that the imports below need

if find_spec("api.routing") and find_spec("api.security"):
    from api.security import SecurityMiddleware

    from api import routing

    class HttpRouter:
        """The API's paths to the API, all others to Django: a Django view costs ten times a plain ASGI answer."""

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            is_api = scope["path"].startswith(tuple(routing.API_PREFIXES))
            await (routing.http_application if is_api else django_application)(scope, receive, send)

    application: Any = SecurityMiddleware(ProtocolTypeRouter({
        "http": HttpRouter(),
        "websocket": URLRouter(routing.websocket_urlpatterns),
    }))
else:
    application = django_application
