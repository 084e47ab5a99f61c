"""config/urls.py: every page of Django has one address."""

from django.urls import resolve, reverse


def test_the_live_page_is_the_root() -> None:
    assert reverse("dashboard:live") == "/"


def test_the_admin_is_not_hidden_by_the_dashboard() -> None:
    assert resolve("/admin/").app_name == "admin"
