from django.template import Context, Template
from django.test import RequestFactory, override_settings

from dashboard.navigation import NAVIGATION

HEADER = Template("{% load glassmq %}{% navigation %}")


def test_the_header_marks_the_page_that_is_open() -> None:
    text = HEADER.render(Context({"request": RequestFactory().get("/reports/")}))
    assert text.count("aria-current") == 1
    assert all(f'href="{item.path}"' in text for item in NAVIGATION)


def test_the_header_of_an_error_page_needs_no_request() -> None:
    assert "aria-current" not in HEADER.render(Context())


def test_the_header_has_a_sign_out_button_only_with_a_token() -> None:
    request = RequestFactory().get("/")
    assert "Sign out" not in HEADER.render(Context({"request": request}))
    with override_settings(GLASSMQ_API_TOKEN="a-token-of-sixteen"):
        assert 'action="/logout"' in HEADER.render(Context({"request": request}))
        assert "Sign out" not in HEADER.render(Context())
