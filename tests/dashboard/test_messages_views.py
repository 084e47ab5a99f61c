"""The HTML of the search for messages and of the page of one message, without JavaScript."""

import re

import pytest
from django.test import Client

PAGES = {
    "/messages": ("search", "messages"),
    "/messages/7F0000011170273B018769DF202C0001?topic=orders": ("time-line", "body", "groups", "facts", "properties"),
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
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []
    assert re.findall(r'<a href="([^"]+)" aria-current="page">', text) == ["/messages"]


def test_an_id_is_escaped_and_may_contain_a_slash() -> None:
    text = get("/messages/%3Cscript%3E%22%2Fx")
    assert 'data-message="&lt;script&gt;&quot;/x"' in text
    assert "<script>" not in text


@pytest.mark.parametrize("path", PAGES)
def test_only_reading_is_allowed(path: str) -> None:
    assert Client(headers={"host": "localhost"}).post(path).status_code == 405
