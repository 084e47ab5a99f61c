"""The pages of the guide."""

import pytest
from django.test import Client


def test_a_page_shows_its_chapter() -> None:
    page = Client().get("/guide/verdicts").content.decode()
    assert '<a href="/guide/verdicts" aria-current="page">' in page and "filter_rejects_all" in page


@pytest.mark.parametrize("name", ["nothing", "../README", "..%2FREADME", "decisions/../dashboard"])
def test_what_is_no_chapter_is_not_found(name: str) -> None:
    assert Client().get(f"/guide/{name}").status_code == 404
