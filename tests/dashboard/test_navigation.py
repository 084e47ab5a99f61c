import pytest

from dashboard.navigation import NavigationItem, is_current


@pytest.mark.parametrize(
    ("item", "path", "current"),
    [
        ("/", "/", True),
        ("/", "/reports", False),
        ("/reports", "/reports", True),
        ("/reports", "/reports/skew", True),
        ("/reports", "/reports-old", False),
    ],
)
def test_a_page_below_an_items_path_marks_the_item(item: str, path: str, current: bool) -> None:
    assert is_current(NavigationItem("Item", item), path) is current
