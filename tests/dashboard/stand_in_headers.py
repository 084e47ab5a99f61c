"""The security headers of a running broker, for the stand-in, which has none of the API's middleware."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from bridge.security_headers import security_headers


def middleware(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    def with_headers(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        for name, value in security_headers(request.get_host()).items():
            response.headers.setdefault(name.decode(), value.decode())
        return response

    return with_headers
