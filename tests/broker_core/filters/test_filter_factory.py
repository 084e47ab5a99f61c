"""Which filter a subscription has, and which types are refused."""

import pytest

from broker_core.errors import RequestError
from broker_core.filters.filter_factory import make_client_filter, make_filter


def test_filters_of_both_types() -> None:
    for make in (make_filter, make_client_filter):
        assert make("*", "TAG", property_filter=True) is None
        tag, sql = make("a", "TAG", property_filter=True), make("a = 'x'", "SQL92", property_filter=True)
        assert tag is not None and (tag.expression, tag.reads_properties) == ("a", False)
        assert sql is not None and (sql.expression, sql.reads_properties) == ("a = 'x'", True)
        assert sql is make("a = 'x'", "SQL92", property_filter=True)
        assert sql.matches_tags_code(7) and sql.matches_record(b"a\x01x\x02")
    assert make_client_filter("*", "", property_filter=True) is None


@pytest.mark.parametrize(
    ("expression", "kind", "property_filter", "code", "client_code"),
    [
        ("a > 1", "SQL92", False, 23, 1),
        ("a >", "SQL92", True, 23, 23),
        ("*", "SQL92", True, 23, 23),
        ("a > 1", "SQL", True, 23, 1),
        ("||", "TAG", True, 23, 23),
    ],
)
def test_what_is_refused(expression: str, kind: str, property_filter: bool, code: int, client_code: int) -> None:
    for make, expected in ((make_filter, code), (make_client_filter, client_code)):
        with pytest.raises(RequestError) as error:
            make(expression, kind, property_filter=property_filter)
        assert error.value.code == expected
