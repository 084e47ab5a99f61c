"""The frame of the Reports page."""

import re

from django.test import Client


def test_the_page_is_there_without_any_inline_script_or_style() -> None:
    answer = Client().get("/reports")
    text = answer.content.decode()
    assert answer.status_code == 200
    assert '<a href="/reports" aria-current="page">' in text
    assert all("src=" in tag for tag in re.findall(r"<script\b[^>]*>", text))
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)


def test_its_parts_are_those_that_the_script_fills() -> None:
    text = Client().get("/reports").content.decode()
    for hook in ('data-panel="spark"', 'data-panel="reports"', 'id="report-template"', 'data-part="run"'):
        assert text.count(hook) == 1, hook


def test_a_name_in_the_address_that_is_no_page() -> None:
    answer = Client().get("/reports/os")
    assert answer.status_code == 404
    assert "text/html" in answer["Content-Type"]


def test_it_only_shows() -> None:
    assert Client().post("/reports").status_code == 405
