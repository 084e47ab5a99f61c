"""Expressions that cannot be read, and the limits."""

import pytest

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.filters.sql92.expressions import decoded_property_of, property_of
from broker_core.filters.sql92.selector_parser import parse
from broker_core.filters.sql92.sql_filter import parse_sql

INVALID = [
    *("a BETWEEN 3 AND 1", "a BETWEEN 'a' AND 'b'", "a BETWEEN NULL AND 1", "a BETWEEN 3 AND 1.0"),
    *("a IN (1,2)", "a IN ()", "a IN ('x'", "1 IN ('x')", "a CONTAINS b", "a CONTAINS 1", "a NOT b", "a IS b"),
    *("a = NULL", "NULL = a", "a <> NULL", "NULL <> a", "a > 'x'", "'x' < a"),
    *("a > TRUE", "a > 1 > 2", "NOT a > 1", "TRUE = 1"),
    *("a > 99999999999999999999", "a = 0.0", "a = .0e5", "a = 1e999", "a == 1", "a != 1", 'a = "x"', "a.b = 1"),
    *("a = 'x", "a >", "a AND", "(a = 1", "", " ", "()", "5", "'x'", "-a", "a = 1 OR 5", "ä = 1", "a = 1 ?", "/* a"),
]


@pytest.mark.parametrize("expression", INVALID)
def test_expressions_that_are_refused(expression: str) -> None:
    for _ in range(2):  # the second time from the cache
        with pytest.raises(RequestError, match="is no SQL92 filter: ") as caught:
            parse_sql(expression)
        assert caught.value.code is ResponseCode.SUBSCRIPTION_PARSE_FAILED and caught.value.pointer == "/filter"


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("a = '" + "x" * 1_000_000 + "'", "1000006 characters long; the limit is 4096"),
        ("(" * 10_000 + "a = 1" + ")" * 10_000, "limit is 4096"),
        ("(" * 2000 + "a = 1" + ")" * 2000, "nested"),
        ("NOT " * 1000 + "a", "nested"),
        ("a" + " IS NULL" * 500, "nested"),
        ("a = 1" + " = TRUE" * 500, "nested"),
        ("- " * 2000 + "a = 1", "nested"),
        ("a IN (" + "'x'," * 900 + ")", "string is expected"),
        ("a = '\ud800'", "surrogates"),
    ],
)
def test_expressions_that_are_too_long_or_too_deep(expression: str, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        parse_sql(expression)


def test_an_expression_counts_its_properties_and_values() -> None:
    for make in (property_of, decoded_property_of):
        assert parse("a = 1 AND (b IN ('x', 'y') OR c > d)", make).size == 5
