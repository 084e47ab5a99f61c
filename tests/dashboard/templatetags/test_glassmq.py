from django.template import Context, Template
from django.test import RequestFactory

from dashboard.navigation import NAVIGATION

HEADER = Template("{% load glassmq %}{% navigation %}")


def test_the_header_marks_the_page_that_is_open() -> None:
    text = HEADER.render(Context({"request": RequestFactory().get("/reports/")}))
    assert text.count("aria-current") == 1
    assert all(f'href="{item.path}"' in text for item in NAVIGATION)


def test_the_header_of_an_error_page_needs_no_request() -> None:
    assert "aria-current" not in HEADER.render(Context())
