"""The parts of SQL92 expressions, each with a function that evaluates it. RocketMQ's package filter.expression.

A condition is True, False or None (unknown). The functions get a property string that begins with 0x02, so that every
name in it follows an ENTRY_END. They search it for the few properties that they need. An expression of many parts gets
its properties decoded instead.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from broker_core.filters.sql92.tokens import SyntaxProblem
from broker_core.filters.sql92.values import (
    Long,
    Value,
    compare,
    order,
    parse_double,
    parse_int,
    parse_long,
)

MAX_DEPTH = 64
"""Parts within parts. Evaluation goes down into them, and must not exceed Python's limit of nested calls."""

FEW_DIGITS = 10
"""Fewer digits than this are a number of 32 bits."""

Evaluate = Callable[[Any], Any]
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


class Expression(msgspec.Struct, frozen=True):
    """A part of an expression.

    ``name`` is a property's. A literal is ``is_constant``; ``is_known`` is also true for a literal with a sign. Both
    have a ``value``. ``size`` counts properties and literals, ``depth`` the parts within each other.
    """

    evaluate: Evaluate
    name: bytes = b""
    value: Value = None
    is_constant: bool = False
    is_known: bool = False
    is_boolean: bool = False
    depth: int = 1
    size: int = 1


def constant(value: Value, *, is_boolean: bool = False) -> Expression:
    """A literal."""
    return Expression(lambda properties: value, value=value, is_constant=True, is_known=True, is_boolean=is_boolean)


def integer(text: str) -> Expression:
    """An integer literal; SyntaxProblem if it has more than 64 bits."""
    number = int(text.rstrip("lL"))
    if number > 0x7FFFFFFFFFFFFFFF:
        raise SyntaxProblem(f"{text[:40]} does not fit into 64 bits")
    return constant(number if number <= 0x7FFFFFFF else Long(number))


def decimal(text: str) -> Expression:
    """A decimal literal; SyntaxProblem if it is 0 or infinite."""
    number = float(text)
    if number == float("inf"):
        raise SyntaxProblem(f"{text[:40]} is greater than 1.7976931348623157E308")
    if number == 0:
        raise SyntaxProblem(f"{text[:40]} is less than 4.9E-324; write the integer 0")
    return constant(number)


def property_of(name: str) -> Expression:
    """A property of the message, searched for in its property string."""
    return Expression(_finder(name.encode()), name=name.encode())


def decoded_property_of(name: str) -> Expression:
    """A property of the message, whose properties are decoded: by name, without those that have no value."""
    key = name.encode()
    return Expression(lambda properties: properties.get(key), name=key)


def _finder(name: bytes) -> Evaluate:
    needle = b"\x02" + name + b"\x01"

    def find(properties: bytes) -> bytes | None:
        _, found, rest = properties.rpartition(needle)  # the last of several counts
        if not found:
            return None
        return rest.partition(b"\x02")[0] or find_earlier(properties)

    def find_earlier(properties: bytes) -> bytes | None:
        """The last that has a value; one without a value does not count."""
        start = properties.rfind(needle)
        while start >= 0:
            value_at = start + len(needle)
            if properties[value_at : value_at + 1] not in (b"", b"\x02"):
                return properties[value_at:].partition(b"\x02")[0]
            start = properties.rfind(needle, 0, start)
        return None

    return find


def _condition(evaluate: Evaluate, *parts: Expression) -> Expression:
    """A condition that consists of parts. SyntaxProblem if they are nested too deeply."""
    return _part(evaluate, parts, is_boolean=True)


def _part(evaluate: Evaluate, parts: Sequence[Expression], **fields: Any) -> Expression:
    depth = 1 + max(part.depth for part in parts)
    if depth > MAX_DEPTH:
        raise SyntaxProblem(f"more than {MAX_DEPTH} parts are nested in each other")
    return Expression(evaluate, depth=depth, size=sum(part.size for part in parts), **fields)


# --- Logic ---------------------------------------------------------------------------------------------------------


def as_condition(part: Expression) -> Expression:
    """A part where a condition must be: a property alone is never True."""
    if part.is_boolean:
        return part
    if not part.name:
        raise SyntaxProblem("there is a value where a condition must be")
    read = part.evaluate
    return _condition(lambda properties: None if read(properties) is None else False, part)


def create_not(part: Expression) -> Expression:
    evaluate = as_condition(part).evaluate

    def negated(properties: Any) -> bool | None:
        value = evaluate(properties)
        return None if value is None else not value

    return _condition(negated, part)


def create_and(parts: Sequence[Expression]) -> Expression:
    """All of the conditions, from the left; the first that is False ends it."""
    first, *others = conditions = [part.evaluate for part in map(as_condition, parts)]
    second = others[0]

    def both(properties: Any) -> bool | None:
        left = first(properties)
        if left is False:
            return False
        right = second(properties)
        return right if left else (False if right is False else None)

    def every(properties: Any) -> bool | None:
        result: bool | None = True
        for evaluate in conditions:
            value = evaluate(properties)
            if value is False:
                return False
            if value is None:
                result = None
        return result

    return _condition(both if len(conditions) == 2 else every, *parts)


def create_or(parts: Sequence[Expression]) -> Expression:
    """Any of the conditions, from the left; the first that is True ends it."""
    conditions = [part.evaluate for part in map(as_condition, parts)]

    def any_of(properties: Any) -> bool | None:
        result: bool | None = False
        for evaluate in conditions:
            value = evaluate(properties)
            if value is True:
                return True
            if value is None:
                result = None
        return result

    return _condition(any_of, *parts)


# --- Comparison ----------------------------------------------------------------------------------------------------


def create_is_null(part: Expression) -> Expression:
    evaluate = part.evaluate
    return _condition(lambda properties: evaluate(properties) is None, part)


def create_equal(left: Expression, right: Expression) -> Expression:
    """``=``. SyntaxProblem for a comparison with the literal NULL, or of TRUE with a literal of another type."""
    for part in (left, right):
        if part.is_constant and part.value is None:
            raise SyntaxProblem("nothing is equal to NULL; write IS NULL")
    if left.is_constant and right.is_constant and left.is_boolean and not right.is_boolean:
        raise SyntaxProblem("TRUE or FALSE is compared with a literal of another type")
    evaluate = _equal_to(left, right.value) if left.name and right.is_known else None
    return _condition(evaluate or _equal(left.evaluate, right.evaluate), left, right)


def _equal(left: Evaluate, right: Evaluate) -> Evaluate:
    def equal(properties: Any) -> bool | None:
        one, other = left(properties), right(properties)
        if one is None:
            return True if other is None else None
        return False if other is None else compare(one, other) == 0

    return equal


def _equal_to(part: Expression, value: Value) -> Evaluate | None:
    """``_equal`` of a property and a literal, for the usual types."""
    read = part.evaluate

    def equal_text(properties: Any) -> bool | None:
        text = read(properties)
        return None if text is None else text == value

    def equal_int(properties: Any) -> bool | None:
        text = read(properties)
        if text is None:
            return None
        return (int(text) if text.isdigit() and len(text) < FEW_DIGITS else parse_int(text)) == value

    return equal_text if type(value) is bytes else equal_int if type(value) is int else None


def create_comparison(symbol: str, left: Expression, right: Expression) -> Expression:
    """``>``, ``>=``, ``<`` or ``<=``. SyntaxProblem for an operand that is no property or number."""
    for part in (left, right):
        if part.is_boolean or (part.is_constant and not isinstance(part.value, int | float)):
            raise SyntaxProblem(f"only properties and numbers can be compared by {symbol}")
    evaluate = _ordered_by(symbol, left, right.value) if left.name and right.is_known else None
    return _condition(evaluate or _ordered(symbol, left.evaluate, right.evaluate), left, right)


def _ordered(symbol: str, left: Evaluate, right: Evaluate) -> Evaluate:
    is_so = _ORDERS[symbol]

    def ordered(properties: Any) -> bool | None:
        one = left(properties)
        other = None if one is None else right(properties)
        if other is None:
            return None
        if isinstance(one, bytes) and isinstance(other, bytes):
            return is_so(order(parse_double(one), parse_double(other)), 0)
        sign = compare(one, other)
        return False if sign is None else is_so(sign, 0)

    return ordered


def _ordered_by(symbol: str, part: Expression, value: Value) -> Evaluate | None:
    """``_ordered`` of a property and an integer literal."""
    read, is_so = part.evaluate, _ORDERS[symbol]
    if type(value) is not int and type(value) is not Long:
        return None
    parse = parse_int if type(value) is int else parse_long

    def ordered(properties: Any) -> bool | None:
        text = read(properties)
        if text is None:
            return None
        return is_so(int(text) if text.isdigit() and len(text) < FEW_DIGITS else parse(text), value)

    return ordered


def create_between(part: Expression, low: Expression, high: Expression) -> Expression:
    bounds = [bound.value for bound in (low, high) if bound.is_constant and isinstance(bound.value, int | float)]
    if bounds != sorted(bounds):
        raise SyntaxProblem("the first bound of BETWEEN is greater than the second")
    return create_and([create_comparison(">=", part, low), create_comparison("<=", part, high)])


def create_not_between(part: Expression, low: Expression, high: Expression) -> Expression:
    return create_or([create_comparison("<", part, low), create_comparison(">", part, high)])


# --- Texts ---------------------------------------------------------------------------------------------------------


def create_in(part: Expression, texts: Sequence[str], *, negated: bool = False) -> Expression:
    """``IN``. SyntaxProblem if the left side is no property."""
    if not part.name:
        raise SyntaxProblem("IN needs a property on its left")
    read, wanted = part.evaluate, frozenset(text.encode() for text in texts)

    def is_in(properties: Any) -> bool | None:
        text = read(properties)
        return None if text is None else (text in wanted) is not negated

    return _condition(is_in, part)


_TEXT_TESTS: dict[str, Callable[[bytes, bytes], bool]] = {
    "CONTAINS": bytes.__contains__,
    "STARTSWITH": bytes.startswith,
    "ENDSWITH": bytes.endswith,
}


def create_text_test(keyword: str, part: Expression, search: str, *, negated: bool = False) -> Expression:
    """``CONTAINS``, ``STARTSWITH``, ``ENDSWITH``: False, never None, for what is no text, with NOT too."""
    evaluate, test, wanted = part.evaluate, _TEXT_TESTS[keyword], search.encode()

    def matches(properties: Any) -> bool:
        text = evaluate(properties)
        return isinstance(text, bytes) and bool(text) and test(text, wanted) is not negated

    def never(properties: Any) -> bool:
        return False

    return _condition(matches if wanted else never, part)


def create_negative(part: Expression) -> Expression:
    """``-``: of a number its negative, of everything else NULL."""
    value, evaluate = part.value, part.evaluate
    if part.is_known and isinstance(value, int | float) and not isinstance(value, bool):
        negative = type(value)(-value)
        return _part(lambda properties: negative, [part], value=negative, is_known=True)

    def nothing(properties: Any) -> None:
        evaluate(properties)  # for its error

    return _part(nothing, [part])
