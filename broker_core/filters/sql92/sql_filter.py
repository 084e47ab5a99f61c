"""A subscription of type SQL92, read once and then evaluated for each message."""

from functools import lru_cache
from typing import ClassVar

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError
from broker_core.filters.sql92.expressions import Evaluate, decoded_property_of, property_of
from broker_core.filters.sql92.selector_parser import parse
from broker_core.filters.sql92.tokens import SyntaxProblem
from broker_core.filters.sql92.values import EvaluationError
from broker_core.filters.tags import MAX_EXPRESSION_LENGTH

SQL92 = "SQL92"
MAX_SEARCHES = 12
"""An expression with more parts gets the properties decoded, which takes as long as about so many searches."""


class SqlFilter:
    """RocketMQ's ConsumerFilterData and its compiled expression. ``expression`` is as the client wrote it."""

    __slots__ = ("_decodes", "_evaluate", "expression", "work")
    reads_properties: ClassVar[bool] = True

    def __init__(self, expression: str) -> None:
        """Raises SyntaxProblem."""
        self.expression = expression
        condition = parse(expression, property_of)
        self._decodes = condition.size > MAX_SEARCHES
        if self._decodes:
            condition = parse(expression, decoded_property_of)
        self._evaluate: Evaluate = condition.evaluate
        self.work = condition.size

    def matches_tags_code(self, tags_code: int) -> bool:
        return True

    def matches_record(self, properties: bytes) -> bool:
        try:
            return self._evaluate(_decoded(properties) if self._decodes else b"\x02" + properties) is True
        except EvaluationError:
            return False

    def evaluate(self, properties: bytes) -> bool | None:
        """The expression's value for a message; None means unknown. Raises EvaluationError."""
        result: bool | None = self._evaluate(_decoded(properties) if self._decodes else b"\x02" + properties)
        return result


def _decoded(properties: bytes) -> dict[bytes, bytes]:
    entries = (entry.partition(b"\x01") for entry in properties.split(b"\x02"))
    return {name: value for name, _, value in entries if name and value}


def parse_sql(expression: str) -> SqlFilter:
    """The filter of an expression. Equal expressions share one filter.

    Raises RequestError (SUBSCRIPTION_PARSE_FAILED).
    """
    found = _read(expression) if len(expression) <= MAX_EXPRESSION_LENGTH else _too_long(expression)
    if isinstance(found, str):
        raise RequestError(found, code=ResponseCode.SUBSCRIPTION_PARSE_FAILED, pointer="/filter")
    return found


@lru_cache(maxsize=1024)
def _read(expression: str) -> SqlFilter | str:
    """The filter, or why there is none: a client that repeats a wrong expression is refused without reading it."""
    try:
        return SqlFilter(expression)
    except (SyntaxProblem, UnicodeEncodeError) as problem:
        return f"{expression[:100]!r} is no SQL92 filter: {problem}"


def _too_long(expression: str) -> str:
    return f"the filter is {len(expression)} characters long; the limit is {MAX_EXPRESSION_LENGTH}"
