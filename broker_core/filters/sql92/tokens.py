"""The words of an SQL92 expression. RocketMQ's SelectorParserTokenManager.

Tokens are read only when the parser looks at them: what follows a complete expression may be anything.
"""

import re
from typing import NamedTuple

END = "end"
KEYWORDS = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"]
)

_SKIPPED = re.compile(r"(?:[ \t\n\r\f]|--[^\n\r]*+[\n\r]|/\*.*?\*/)*+", re.DOTALL)
_TOKEN = re.compile(
    r"(?P<decimal>(?:[0-9]++\.[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++)"
    r"|(?P<integer>(?:0|[1-9][0-9]*+)[lL]?)"
    r"|(?P<string>'(?:[^']|'')*')"
    r"|(?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)"
    r"|(?P<symbol><>|<=|>=|[=<>(),+-])"
)


class SyntaxProblem(Exception):
    """Why an expression cannot be read, in a sentence."""


class Token(NamedTuple):
    """``kind`` is a keyword, a symbol, ``identifier``, ``integer``, ``decimal``, ``string`` or ``end``.

    ``text`` is as written; of a string it is the content.
    """

    kind: str
    text: str
    start: int


class Tokens:
    """The tokens of an expression from the current one on."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._position = 0
        self._read: list[Token] = []

    def peek(self, ahead: int = 0) -> Token:
        """The current token, or one of those after it. SyntaxProblem for text that is no token."""
        while len(self._read) <= ahead:
            self._read.append(self._next())
        return self._read[ahead]

    def take(self) -> Token:
        """Go on to the next token. Returns the current one."""
        token = self.peek()
        del self._read[0]
        return token

    def _next(self) -> Token:
        skipped = _SKIPPED.match(self._expression, self._position)
        assert skipped is not None
        start = skipped.end()
        if start == len(self._expression):
            return Token(END, "", start)
        match = _TOKEN.match(self._expression, start)
        if match is None and self._expression[start] == "'":
            raise SyntaxProblem(f"the text that begins at character {start + 1} has no closing quote")
        if match is None:
            raise SyntaxProblem(
                f"{self._expression[start : start + 20]!r} at character {start + 1} is no part of SQL92"
            )
        self._position = match.end()
        kind, text = str(match.lastgroup), match[0]
        if kind == "string":
            return Token(kind, text[1:-1].replace("''", "'"), start)
        if kind == "word":
            return Token(text.upper() if text.upper() in KEYWORDS else "identifier", text, start)
        return Token(text if kind == "symbol" else kind, text, start)
