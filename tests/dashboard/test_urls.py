from django.urls import reverse


def test_the_live_page_is_the_root() -> None:
    assert reverse("dashboard:live") == "/"


def test_browsers_find_the_favicon_where_they_look() -> None:
    assert reverse("dashboard:favicon") == "/favicon.ico"
