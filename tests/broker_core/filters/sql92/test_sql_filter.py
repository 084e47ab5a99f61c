"""Filters: which messages they select, whatever the expression and the property string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.errors import RequestError
from broker_core.filters.sql92.sql_filter import SqlFilter, parse_sql
from broker_core.filters.sql92.tokens import SyntaxProblem


def test_the_largest_expressions_are_evaluated() -> None:
    wide = parse_sql(" OR ".join(["a=1"] * 580))
    assert wide.evaluate(b"a\x012\x02") is False and wide.evaluate(b"a\x011\x02") is True
    for deep in ("(" * 60 + "a = 1" + ")" * 60, "NOT " * 58 + "(a = 1)"):
        assert parse_sql(deep).evaluate(b"a\x011\x02") is True


def test_equal_expressions_share_a_filter() -> None:
    assert parse_sql("a = 1 OR b = 2") is parse_sql("a = 1 OR b = 2")
    with pytest.raises(RequestError, match="4097 characters long"):
        parse_sql("a" * 4097)


def test_a_property_is_found_in_any_place_of_the_property_string() -> None:
    found = parse_sql("a = 'x'")
    twice = b"a\x01y\x02a\x01x\x02c\x01\x02"
    for text in (b"a\x01x", b"a\x01x\x02", b"b\x011\x02a\x01x\x02", twice, b"a\x01x\x02a\x01\x02"):
        assert found.matches_record(text), text
    for text in (b"", b"aa\x01x\x02", b"b\x01a\x01x\x02", b"a\x01x\x02a\x01y\x02", b"a\x01\x02", b"a"):
        assert not found.matches_record(text), text
    assert not found.matches_record(b"a\x01\x02" * 8000)


@given(st.text(st.sampled_from("ab=<>'() 10.,-ANDORTIS\n"), max_size=40), st.binary(max_size=30))
def test_any_text_is_either_refused_or_evaluated(expression: str, properties: bytes) -> None:
    try:
        found = SqlFilter(expression)
    except SyntaxProblem:
        return
    assert found.matches_record(properties) in (True, False)
