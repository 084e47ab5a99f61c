from django.urls import reverse


def test_the_live_page_is_the_root() -> None:
    assert reverse("dashboard:live") == "/"


def test_the_default_favicon_address() -> None:
    assert reverse("dashboard:favicon") == "/favicon.ico"
