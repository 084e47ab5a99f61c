"""The HTML of the Topics page and of the page of one topic, without JavaScript."""

import re

import pytest
from django.test import Client

PAGES = {"/topics": ("topics",), "/topics/orders": ("topic-queues", "topic-route", "topic-groups")}


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
    assert re.findall(r'<a href="([^"]+)" aria-current="page">', text) == ["/topics"]


def test_a_topics_name_is_escaped() -> None:
    assert 'data-topic="%DLQ%a"' in get("/topics/%25DLQ%25a")
    assert "<script>" not in get("/topics/%3Cscript%3E%22x")


@pytest.mark.parametrize("path", PAGES)
def test_only_reading_is_allowed(path: str) -> None:
    assert Client(headers={"host": "localhost"}).post(path).status_code == 405
