"""The HTML of the Groups, group and Connections pages, without JavaScript."""

import re

import pytest
from django.test import Client

PAGES = {
    "/connections": ("clients", "client-events"),
    "/groups": ("groups", "client-events"),
    "/groups/billing": ("verdict", "group-queues", "members", "subscriptions", "client-events"),
    "/groups/billing/dead-letters": ("dead-letters",),
}


def get(path: str) -> str:
    answer = Client(headers={"host": "localhost"}).get(path)
    assert answer.status_code == 200
    return str(answer.content.decode())


@pytest.mark.parametrize("path", PAGES)
def test_the_panels_are_there_and_nothing_is_inline(path: str) -> None:
    text = get(path)
    for name in PAGES[path]:
        assert text.count(f'data-panel="{name}"') == 1, name
    assert 'data-live="disconnected"' in text or path.endswith("/dead-letters")
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []
    assert re.findall(r"(?:src|href)=\"(?:https?:)?//", text) == []


@pytest.mark.parametrize(
    ("path", "current"), [("/connections", "/connections"), ("/groups", "/groups"), ("/groups/billing", "/groups")]
)
def test_the_navigation_marks_the_current_page(path: str, current: str) -> None:
    assert re.findall(r'<a href="([^"]+)" aria-current="page">', get(path)) == [current]


def test_a_groups_page_contains_its_escaped_name() -> None:
    assert 'data-group="%RETRY%a"' in get("/groups/%25RETRY%25a")
    text = get("/groups/%3Cscript%3E%22x")
    assert "<script>" not in text
    assert 'data-group="&lt;script&gt;&quot;x"' in text


@pytest.mark.parametrize("path", PAGES)
def test_only_reading_is_allowed(path: str) -> None:
    assert Client(headers={"host": "localhost"}).post(path).status_code == 405


@pytest.mark.parametrize(
    "path", ["/groups/a%E2%80%AEb", "/groups/a%E2%80%AEb/dead-letters", "/topics/a%E2%80%AEb", "/messages/a%E2%80%AEb"]
)
def test_a_name_cannot_turn_the_text_of_its_page(path: str) -> None:
    text = get(path)
    assert "a⟨U+202E⟩b" in text
    assert "\u202e" not in re.sub(r"<body[^>]*>", "", text), "only the name that scripts read is as it was sent"


def test_a_page_sets_no_cookie() -> None:
    """The Origin header and SameSite protect the API, not a token of the page."""
    answer = Client(headers={"host": "localhost"}).get("/groups")
    assert not answer.cookies and b"csrf" not in answer.content
