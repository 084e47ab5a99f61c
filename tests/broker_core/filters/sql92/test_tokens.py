"""Splitting an expression, which ends where the parser stops to look."""

import pytest

from broker_core.filters.sql92.tokens import SyntaxProblem, Tokens


def kinds(expression: str) -> list[str]:
    tokens, found = Tokens(expression), [""]
    while found[-1] != "end":
        found.append(tokens.take().kind)
    return found[1:-1]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a<>1", ["identifier", "<>", "integer"]),
        ("not Between CONTAINS nothing", ["NOT", "BETWEEN", "CONTAINS", "identifier"]),
        ("1 1L .5 5. 1e2 1.5E-3 07", ["integer"] * 2 + ["decimal"] * 4 + ["integer"] * 2),
        ("'it''s' ''", ["string", "string"]),
        ("a-b", ["identifier", "-", "identifier"]),
        ("a /* ' */ -- \n b", ["identifier", "identifier"]),
        ("\t\f\r\n", []),
    ],
)
def test_tokens(expression: str, expected: list[str]) -> None:
    assert kinds(expression) == expected


def test_a_string_has_its_quotes_halved() -> None:
    assert Tokens("'it''s'").take().text == "it's"


@pytest.mark.parametrize("expression", ["a = 'x", "a = '"])
def test_a_text_without_its_closing_quote_is_named(expression: str) -> None:
    with pytest.raises(SyntaxProblem, match="the text that begins at character 5 has no closing quote"):
        kinds(expression)


def test_what_is_not_looked_at_may_be_anything() -> None:
    tokens = Tokens('a "')
    assert tokens.take().kind == "identifier"
    with pytest.raises(SyntaxProblem, match="character 3"):
        tokens.peek()
