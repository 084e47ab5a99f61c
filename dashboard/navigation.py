"""The links of the navigation. A new page adds a line here."""

from typing import NamedTuple

from django.utils.translation import gettext_noop


class NavigationItem(NamedTuple):
    """``label`` is English, the key of its translation. ``path`` is what the browser sees; pages below it belong to it.

    ``guide`` is the chapter of the guide that explains it, and the place there.
    """

    label: str
    path: str
    guide: str = "dashboard"


NAVIGATION = [
    NavigationItem(gettext_noop("Live"), "/", "dashboard#the-live-page"),
    NavigationItem(gettext_noop("Groups"), "/groups", "dashboard#groups"),
    NavigationItem(gettext_noop("Topics"), "/topics", "dashboard#topics"),
    NavigationItem(gettext_noop("Messages"), "/messages", "dashboard#messages"),
    NavigationItem(gettext_noop("Connections"), "/connections", "dashboard#connections"),
    NavigationItem(gettext_noop("Alerts"), "/alerts", "alerts"),
    NavigationItem(gettext_noop("Reports"), "/reports", "reports"),
    NavigationItem(gettext_noop("API"), "/api/docs", "api"),
]


def is_current(item: NavigationItem, path: str) -> bool:
    """Whether a request for ``path`` is on this item's page."""
    if item.path == "/":
        return path == "/"
    return path == item.path or path.startswith(item.path + "/")


def guide_path(path: str) -> str:
    """The address of the guide's part about the page at ``path``."""
    return "/guide/" + next((item.guide for item in NAVIGATION if is_current(item, path)), "dashboard")
