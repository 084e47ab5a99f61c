import re
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.test import Client, RequestFactory

from dashboard import views


def test_the_live_page_has_the_documented_hooks() -> None:
    text = views.live(RequestFactory().get("/")).content.decode()
    for hook in ('data-panel="holds"', 'data-panel="queues"', 'data-panel="wakeups"', 'data-live="disconnected"'):
        assert hook in text


def test_the_live_page_has_no_inline_script_or_style() -> None:
    text = views.live(RequestFactory().get("/")).content.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", text) == []


@pytest.mark.parametrize("path", ["/", "/groups", "/topics", "/messages", "/connections", "/reports"])
def test_every_page_has_the_banner_of_an_outage(path: str) -> None:
    text = Client(headers={"host": "localhost"}).get(path).content.decode()
    assert 'data-part="outage"' in text
    assert "js/outage.js" in text


def test_pages_say_that_the_brokers_are_attached(settings: Any) -> None:
    text = views.live(RequestFactory().get("/")).content.decode()
    assert "data-attached" not in text and "attached_bar.js" not in text
    settings.GLASSMQ_ATTACH = "10.0.0.1:9876"
    text = views.live(RequestFactory().get("/")).content.decode()
    assert '<html lang="en" data-theme="auto" data-attached>' in text and "attached_bar.js" in text
    assert "Copies of the brokers of 10.0.0.1:9876." in text and "The copy cannot grow." in text


def test_only_reading_is_allowed() -> None:
    assert views.live(RequestFactory().post("/")).status_code == 405


def test_the_default_favicon_address_redirects() -> None:
    response = views.favicon(RequestFactory().get("/favicon.ico"))
    assert response.status_code == 302
    assert response.headers["Location"].endswith("favicon.svg")


def test_an_unknown_address_has_a_404_page() -> None:
    response = Client(headers={"host": "localhost"}).get("/there/is/nothing")
    assert response.status_code == 404
    assert "Page not found" in response.content.decode()


@pytest.mark.parametrize("host", ["localhost:8000", "foo.localhost:8000", "127.0.0.1", "[::1]:8000"])
def test_pages_accept_the_hosts_that_the_security_middleware_accepts(
    host: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ALLOWED_HOSTS = [name for name in settings.ALLOWED_HOSTS if name != "testserver"]
    assert Client(headers={"host": host}).get("/groups").status_code == 200
    assert caplog.messages == []


@pytest.mark.parametrize("template", ["403.html", "404.html", "500.html", "login.html"])
def test_pages_render_without_a_request(template: str) -> None:
    text = render_to_string(template)
    assert 'class="brand"' in text
    assert "aria-current" not in text


def test_the_login_page_shows_the_error_as_text() -> None:
    text = render_to_string("login.html", {"error": "<b>no</b>", "next": "/reports"})
    assert "&lt;b&gt;no&lt;/b&gt;" in text
    assert 'name="token"' in text
    assert 'value="/reports"' in text


def test_the_page_of_a_hold() -> None:
    page = Client(headers={"host": "localhost"}).get("/holds/7")
    assert b'data-hold="7"' in page.content
    assert page.content.count(b'data-panel="') == 2
    assert Client(headers={"host": "localhost"}).get("/holds/x").status_code == 404
