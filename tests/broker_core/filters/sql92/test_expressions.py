"""RocketMQ's results, row by row."""

from typing import Any

import pytest

from broker_core.filters.sql92.sql_filter import MAX_SEARCHES, parse_sql
from broker_core.filters.sql92.values import EvaluationError
from broker_core.formats.message_properties import encode

ERROR = "error"
T, F, N = True, False, None
BIG = "3000000000"

TABLE: list[tuple[str, dict[str, str], Any]] = [
    ("a > 1", {"a": "2"}, T),
    ("a > 1", {"a": "2.5"}, ERROR),
    ("a > 1", {"a": "x"}, ERROR),
    ("a > 1", {}, N),
    ("a > 1", {"a": BIG}, ERROR),
    ("a > 1L", {"a": BIG}, ERROR),
    ("a = 2147483647", {"a": BIG}, ERROR),
    ("a > 3000000000", {"a": "5"}, F),
    ("a > 3000000000", {"a": "4000000000"}, T),
    ("a > 3000000000", {"a": "9223372036854775808"}, ERROR),
    ("a > 1.0", {"a": BIG}, T),
    ("a > 1.0", {"a": "1e3"}, T),
    ("a > 1.0", {"a": " 2 "}, T),
    ("a > 1.0", {"a": "NaN"}, T),
    ("a < 1.0", {"a": "NaN"}, F),
    ("a = 1", {"a": "+1"}, T),
    ("a = 1", {"a": " 1"}, ERROR),
    ("a = 1", {"a": "1_0"}, ERROR),
    ("a > 1.0", {"a": "2"}, T),
    ("a = 1", {"a": "1"}, T),
    ("a = 1", {"a": "01"}, T),
    ("a = 1", {"a": "1.0"}, ERROR),
    ("a = 1.0", {"a": "1"}, T),
    ("a <> 1", {"a": "x"}, ERROR),
    ("a = 'x'", {"a": "x"}, T),
    ("a = 'x'", {"a": "y"}, F),
    ("a = 'x'", {}, N),
    ("a <> 'x'", {}, N),
    ("NOT (a = 'x')", {}, N),
    ("NOT (a = 'x')", {"a": "y"}, T),
    ("a = 'it''s'", {"a": "it's"}, T),
    ("a = 'grün'", {"a": "grün"}, T),
    ("a IS NULL", {}, T),
    ("a IS NULL", {"a": "1"}, F),
    ("a IS NOT NULL", {"a": "1"}, T),
    ("a BETWEEN 1 AND 3", {"a": "1"}, T),
    ("a BETWEEN 1 AND 3", {"a": "3"}, T),
    ("a BETWEEN 1 AND 3", {"a": "4"}, F),
    ("a BETWEEN 1 AND 3", {}, N),
    ("a BETWEEN 1 AND 3.0", {"a": "2"}, T),
    ("a BETWEEN 1 AND 3.0", {"a": "x"}, ERROR),
    ("a NOT BETWEEN 3 AND 1", {"a": "2"}, T),
    ("a NOT BETWEEN 1 AND 3", {"a": "2"}, F),
    ("a IN ('x','y')", {"a": "x"}, T),
    ("a IN ('x','y')", {"a": "z"}, F),
    ("a IN ('x','y')", {}, N),
    ("a NOT IN ('x')", {"a": "y"}, T),
    ("a NOT IN ('x')", {}, N),
    ("a CONTAINS 'b'", {"a": "abc"}, T),
    ("a CONTAINS 'b'", {}, F),
    ("a NOT CONTAINS 'b'", {}, F),
    ("a NOT CONTAINS 'b'", {"a": "x"}, T),
    ("NOT (a CONTAINS 'b')", {}, T),
    ("a CONTAINS ''", {"a": "x"}, F),
    ("(a > 1) CONTAINS ''", {"a": "x"}, F),
    ("(a > 1) CONTAINS 'x'", {"a": "x"}, ERROR),
    ("a STARTSWITH 'ab'", {"a": "abc"}, T),
    ("a ENDSWITH 'bc'", {"a": "abc"}, T),
    ("a NOT STARTSWITH 'ab'", {"a": "abc"}, F),
    ("a", {"a": "true"}, F),
    ("a", {}, N),
    ("TRUE", {}, T),
    ("NULL", {}, N),
    ("a = TRUE", {"a": "true"}, T),
    ("a = TRUE", {"a": "TRUE"}, T),
    ("a = TRUE", {"a": "yes"}, F),
    ("TRUE = a", {"a": "true"}, ERROR),
    ("a = b", {"a": "1", "b": "1.0"}, F),
    ("a = b", {}, T),
    ("a = b", {"a": "1"}, F),
    ("a = b", {"b": "1"}, N),
    ("a <> b", {"a": "1"}, T),
    ("'x' = a", {}, F),
    ("'x' = a", {"a": "x"}, T),
    ("1 < a", {"a": "2"}, T),
    ("1 = a", {"a": "1"}, T),
    ("a BETWEEN b AND 3", {"a": "2", "b": "1"}, T),
    ("NOT a", {"a": "true"}, T),
    ("NOT a = 'x'", {"a": "x"}, ERROR),
    ("NOT a IS NULL", {}, T),
    ("a > b", {"a": "2", "b": "10"}, F),
    ("a > b", {"a": "x", "b": "10"}, ERROR),
    ("a > -1", {"a": "0"}, T),
    ("a = -2147483648", {"a": "-2147483648"}, T),
    ("-a = 1", {"a": "-1"}, N),
    ("a = 1 = TRUE", {"a": "1"}, T),
    ("TAGS = 'TagA'", {"TAGS": "TagA"}, T),
    ("1 = 1", {}, T),
    ("1 < 2.5", {}, T),
    ("'1' = 1", {}, T),
    ("1 = TRUE", {}, F),
    ("a AND TRUE", {"a": "true"}, F),
    ("b > 2 OR a = 1", {"a": "1", "b": "x"}, ERROR),
    ("a = 1 OR b > 2", {"a": "1", "b": "x"}, T),
    ("a > 1 AND b = 'x' OR c IS NULL", {"c": "1"}, N),
    ("a > 1 AND b = 'x' OR c IS NULL", {"a": "2", "b": "x", "c": "1"}, T),
    # What cannot be used after a complete expression is ignored.
    ("a = 1 foo bar", {"a": "1"}, T),
    ("a LIKE 'x'", {"a": "x"}, F),
    ("a + 1 = 2", {"a": "1"}, F),
    ("a-b = 1", {"a": "1"}, F),
    ("a = 007", {"a": "0"}, T),
    ("now", {"now": "1"}, F),
    # Lexis
    ("a=1 and/* or */b=2", {"a": "1", "b": "2"}, T),
    ("a = 1 -- as it was\n AND b = 2", {"a": "1", "b": "3"}, F),
    ("a > .5 AND a < 5. AND a <= 1.5E-1 OR a >= 1e0", {"a": "1"}, T),
    ("A IS NULL and $_1 is null", {"a": "1"}, T),
]
"""Expression, properties, result."""

LOGIC = [
    *[(T, T, T, T), (T, F, F, T), (T, N, N, T), (F, T, F, T), (F, F, F, F), (F, N, F, N), (N, T, N, T)],
    *[(N, F, F, N), (N, N, N, N)],
]
"""x, y, x AND y, x OR y."""


def evaluate(expression: str, properties: dict[str, str]) -> Any:
    try:
        return parse_sql(expression).evaluate(encode(properties).encode())
    except EvaluationError:
        return ERROR


@pytest.mark.parametrize(("expression", "properties", "result"), TABLE)
def test_expressions(expression: str, properties: dict[str, str], result: Any) -> None:
    assert evaluate(expression, properties) is result or (result == ERROR == evaluate(expression, properties))
    assert parse_sql(expression).matches_record(encode(properties).encode()) is (result is True)


@pytest.mark.parametrize(("expression", "properties", "result"), TABLE)
def test_expressions_of_many_parts_have_the_same_results(
    expression: str, properties: dict[str, str], result: Any
) -> None:
    """They read decoded properties."""
    longer = f"z IN ('z'){' AND TRUE' * MAX_SEARCHES} OR {expression}"
    assert parse_sql(longer)._decodes
    value = evaluate(longer, properties)
    assert value is (N if result is F else result) or (result == ERROR == value)


@pytest.mark.parametrize(("x", "y", "both", "either"), LOGIC)
def test_three_valued_logic(x: Any, y: Any, both: Any, either: Any) -> None:
    words = {T: "TRUE", F: "FALSE", N: "NULL"}
    assert evaluate(f"{words[x]} AND {words[y]}", {}) is both
    assert evaluate(f"{words[x]} AND {words[y]} AND TRUE", {}) is both
    assert evaluate(f"{words[x]} OR {words[y]}", {}) is either
    assert evaluate(f"NOT {words[x]}", {}) is (None if x is None else not x)
