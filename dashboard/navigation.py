"""The links of the navigation. A new page adds a line here."""

from typing import NamedTuple


class NavigationItem(NamedTuple):
    """``path`` as the browser sees it; pages below it belong to the same item.

    ``guide`` is the chapter of the guide that explains it, and the place there.
    """

    label: str
    path: str
    guide: str = "dashboard"


NAVIGATION = [
    NavigationItem("Live", "/", "dashboard#the-live-page"),
    NavigationItem("Groups", "/groups", "dashboard#groups"),
    NavigationItem("Topics", "/topics", "dashboard#topics"),
    NavigationItem("Messages", "/messages", "dashboard#messages"),
    NavigationItem("Connections", "/connections", "dashboard#connections"),
    NavigationItem("Alerts", "/alerts", "alerts"),
    NavigationItem("Reports", "/reports", "reports"),
    NavigationItem("API", "/api/docs", "api"),
]


def is_current(item: NavigationItem, path: str) -> bool:
    """Whether a request for ``path`` is on this item's page."""
    if item.path == "/":
        return path == "/"
    return path == item.path or path.startswith(item.path + "/")


def guide_path(path: str) -> str:
    """The address of the guide's part about the page at ``path``."""
    return "/guide/" + next((item.guide for item in NAVIGATION if is_current(item, path)), "dashboard")
