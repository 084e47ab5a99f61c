import asyncio

from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from dashboard.middleware import SecurityHeadersMiddleware, content_security_policy


def policy_of(response: HttpResponse) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in response.headers["Content-Security-Policy"].split(";"))
    return {name: value for name, _, value in parts}


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("page")


async def async_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("page")


def test_the_policy_allows_only_this_host() -> None:
    response = SecurityHeadersMiddleware(page)(RequestFactory().get("/", headers={"host": "localhost:8000"}))
    assert isinstance(response, HttpResponse)
    policy = policy_of(response)
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == "'self' ws://localhost:8000 wss://localhost:8000"
    assert "unsafe" not in response.headers["Content-Security-Policy"]


def test_answers_async_requests() -> None:
    response = asyncio.run(SecurityHeadersMiddleware(async_page)(RequestFactory().get("/")))  # type: ignore[arg-type]
    assert "Content-Security-Policy" in response.headers


def test_a_views_own_policy_is_kept() -> None:
    def viewer(request: HttpRequest) -> HttpResponse:
        return HttpResponse("viewer", headers={"Content-Security-Policy": "default-src 'none'"})

    response = SecurityHeadersMiddleware(viewer)(RequestFactory().get("/"))
    assert isinstance(response, HttpResponse)
    assert response.headers["Content-Security-Policy"] == "default-src 'none'"


def test_a_foreign_host_is_not_in_the_policy() -> None:
    request = RequestFactory().get("/", headers={"host": "evil.example; script-src *"})
    assert "evil" not in content_security_policy(request)
