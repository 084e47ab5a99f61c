"""Reads SQL92 expressions. RocketMQ's SelectorParser, by recursive descent.

    selector   := and ( OR and )*
    and        := equality ( AND equality )*
    equality   := comparison ( ( = | <> ) comparison | IS [NOT] NULL )*
    comparison := unary ( ( > | >= | < | <= ) unary | [NOT] BETWEEN unary AND unary
                  | [NOT] IN ( string , ... ) | [NOT] ( CONTAINS | STARTSWITH | ENDSWITH ) string )*
    unary      := + unary | - unary | NOT unary | primary
    primary    := TRUE | FALSE | NULL | integer | decimal | string | identifier | ( selector )

As in RocketMQ, what follows a complete expression is ignored: ``a = 1 foo`` is ``a = 1``, and ``a LIKE 'x'`` is ``a``.
"""

from collections.abc import Callable

from broker_core.filters.sql92.expressions import (
    MAX_DEPTH,
    Expression,
    as_condition,
    constant,
    create_and,
    create_between,
    create_comparison,
    create_equal,
    create_in,
    create_is_null,
    create_negative,
    create_not,
    create_not_between,
    create_or,
    create_text_test,
    decimal,
    integer,
)
from broker_core.filters.sql92.tokens import END, SyntaxProblem, Tokens

_TEXT_TESTS = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_LITERALS = {"TRUE": True, "FALSE": False, "NULL": None}


PropertyOf = Callable[[str], Expression]
"""Makes the part of an expression that stands for the property of this name."""


def parse(expression: str, property_of: PropertyOf) -> Expression:
    """The condition that an expression is. Raises SyntaxProblem."""
    return as_condition(SelectorParser(expression, property_of).selector())


class SelectorParser:
    """One expression being read. Each method reads the rule of its name."""

    def __init__(self, expression: str, property_of: PropertyOf) -> None:
        self._tokens = Tokens(expression)
        self._property_of = property_of
        self._depth = 0

    def selector(self) -> Expression:
        parts = [self._and()]
        while self._accept("OR"):
            parts.append(self._and())
        return create_or(parts) if len(parts) > 1 else parts[0]

    def _and(self) -> Expression:
        parts = [self._equality()]
        while self._accept("AND"):
            parts.append(self._equality())
        return create_and(parts) if len(parts) > 1 else parts[0]

    def _equality(self) -> Expression:
        left = self._comparison()
        while True:
            if self._accept("="):
                left = create_equal(left, self._comparison())
            elif self._accept("<>"):
                left = create_not(create_equal(left, self._comparison()))
            elif self._accept("IS"):
                negated = self._accept("NOT")
                self._expect("NULL")
                left = create_not(create_is_null(left)) if negated else create_is_null(left)
            else:
                return left

    def _comparison(self) -> Expression:
        left = self._unary()
        while True:
            kind = self._tokens.peek().kind
            if kind in (">", ">=", "<", "<="):
                self._tokens.take()
                left = create_comparison(kind, left, self._unary())
            elif kind in ("NOT", "BETWEEN", "IN", *_TEXT_TESTS):
                left = self._test(left)
            else:
                return left

    def _test(self, left: Expression) -> Expression:
        """A test that is a word, perhaps with NOT before it."""
        negated = self._accept("NOT")
        token = self._tokens.take()
        if token.kind in _TEXT_TESTS:
            return create_text_test(token.kind, left, self._expect("string"), negated=negated)
        if token.kind == "BETWEEN":
            low = self._unary()
            self._expect("AND")
            return (create_not_between if negated else create_between)(left, low, self._unary())
        if token.kind == "IN":
            return create_in(left, self._texts(), negated=negated)
        raise SyntaxProblem(f"after NOT, {token.text or 'the end'!r} at character {token.start + 1} is no test")

    def _texts(self) -> list[str]:
        """The list of IN."""
        self._expect("(")
        texts = [self._expect("string")]
        while self._accept(","):
            texts.append(self._expect("string"))
        self._expect(")")
        return texts

    def _unary(self) -> Expression:
        kind = self._tokens.peek().kind
        if kind not in ("+", "-", "NOT"):
            return self._primary()
        self._tokens.take()
        self._go_down()
        part = self._unary()
        self._depth -= 1
        if kind == "+":
            return part
        return create_negative(part) if kind == "-" else create_not(part)

    def _primary(self) -> Expression:
        token = self._tokens.take()
        if token.kind in _LITERALS:
            return constant(_LITERALS[token.kind], is_boolean=True)
        if token.kind == "identifier":
            return self._property_of(token.text)
        if token.kind == "integer":
            return integer(token.text)
        if token.kind == "decimal":
            return decimal(token.text)
        if token.kind == "string":
            return constant(token.text.encode())
        if token.kind != "(":
            what = "the expression ends" if token.kind == END else f"{token.text!r} is not expected"
            raise SyntaxProblem(f"{what} at character {token.start + 1}, where a property or a value must be")
        self._go_down()
        part = self.selector()
        self._depth -= 1
        self._expect(")")
        return part

    def _go_down(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SyntaxProblem(f"more than {MAX_DEPTH} parts are nested in each other")

    def _accept(self, kind: str) -> bool:
        """Go on if this is the current token. Returns whether it was."""
        if self._tokens.peek().kind != kind:
            return False
        self._tokens.take()
        return True

    def _expect(self, kind: str) -> str:
        token = self._tokens.peek()
        if not self._accept(kind):
            found = repr(token.text) if token.kind != END else "the end"
            raise SyntaxProblem(f"{kind} is expected at character {token.start + 1}, where {found} is")
        return token.text
