"""The HTML of the Alerts page, without JavaScript."""

import re

from django.test import Client


def get(path: str) -> str:
    answer = Client(headers={"host": "localhost"}).get(path)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_the_panels_are_there_and_nothing_is_inline() -> None:
    text = get("/alerts")
    for name in ("firing", "rules", "channels", "silences", "history"):
        assert text.count(f'data-panel="{name}"') == 1, name
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", text) == []
    assert re.findall(r'<a href="([^"]+)" aria-current="page">', text) == ["/alerts"]


def test_every_page_has_the_badge() -> None:
    assert get("/topics").count('class="alert-badge"') == 1


def test_only_reading_is_allowed() -> None:
    assert Client(headers={"host": "localhost"}).post("/alerts").status_code == 405
