"""The Content-Security-Policy of every page; the other security headers are Django's own, by the settings.

The policy allows only this host: no inline script, no inline style, no other origin. A view that needs more, such as
a vendored viewer, sets its own ``Content-Security-Policy``, which the middleware keeps.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponseBase

_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src {connect}; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_PERMISSIONS = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


def content_security_policy(request: HttpRequest) -> str:
    """The policy for one request.

    The WebSocket address is explicit, because ``'self'`` does not cover ``ws:`` in every browser.
    """
    try:
        host = request.get_host()
    except DisallowedHost:
        return _POLICY.format(connect="'self'")
    return _POLICY.format(connect=f"'self' ws://{host} wss://{host}")


class SecurityHeadersMiddleware:
    """Sets headers that the view did not set. Sync and async, so that ASGI requests need no extra thread."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._call_async(request)
        response = self.get_response(request)
        assert isinstance(response, HttpResponseBase)
        return self._with_headers(request, response)

    async def _call_async(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        assert not isinstance(response, HttpResponseBase)
        return self._with_headers(request, await response)

    @staticmethod
    def _with_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if "Content-Security-Policy" not in response.headers:
            response.headers["Content-Security-Policy"] = content_security_policy(request)
        response.headers.setdefault("Permissions-Policy", _PERMISSIONS)
        return response
