"""The pages of the guide."""

import pytest
from django.test import Client


def test_a_page_shows_its_chapter() -> None:
    page = Client().get("/guide/verdicts").content.decode()
    assert '<a href="/guide/verdicts" aria-current="page">' in page and "filter_rejects_all" in page


def test_the_list_of_chapters_comes_before_the_text_and_has_the_sections_of_the_chapter() -> None:
    page = Client().get("/guide/alerts").content.decode()
    menu, _, text = page.partition('<details class="guide-menu">')[2].partition("</details>")
    assert '<article class="guide-text">' in text
    assert '<a href="#messages">Messages</a>' in menu and 'href="/guide/decisions/' in menu


@pytest.mark.parametrize("name", ["nothing", "../README", "..%2FREADME", "decisions/../dashboard"])
def test_what_is_no_chapter_is_not_found(name: str) -> None:
    assert Client().get(f"/guide/{name}").status_code == 404
