"""The links of the navigation. A new page adds a line here."""

from typing import NamedTuple


class NavigationItem(NamedTuple):
    """``path`` as the browser sees it; pages below it belong to the same item."""

    label: str
    path: str


NAVIGATION = [
    NavigationItem("Live", "/"),
    NavigationItem("Groups", "/groups"),
    NavigationItem("Topics", "/topics"),
    NavigationItem("Messages", "/messages"),
    NavigationItem("Connections", "/connections"),
    NavigationItem("Reports", "/reports"),
    NavigationItem("API", "/api/docs"),
]


def is_current(item: NavigationItem, path: str) -> bool:
    """Whether a request for ``path`` is on this item's page."""
    if item.path == "/":
        return path == "/"
    return path == item.path or path.startswith(item.path + "/")
