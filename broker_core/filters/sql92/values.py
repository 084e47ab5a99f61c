"""The values of SQL92 expressions, their conversion and their order, as Java's.

property, string literal   bytes (UTF-8), None for a missing property
integer literal            int if it fits into 32 bits, else Long
decimal literal            float
condition                  bool, None for unknown
"""

import re

Value = bool | bytes | int | float | None

_DOUBLE = re.compile(
    rb"[\x00-\x20]*+[+-]?(?:(?P<named>NaN|Infinity)|(?P<hex>0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*|\.[0-9a-fA-F]++)"
    rb"[pP][+-]?[0-9]++)[fFdD]?|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)[\x00-\x20]*+"
)
_BLANKS = bytes(range(0x21))
_INT_DIGITS, _LONG_DIGITS = 10, 19


class EvaluationError(Exception):
    """An expression has no value for a message, which is thus not delivered. The text is shown to people."""

    def __init__(self, problem: str, text: bytes = b"") -> None:
        super().__init__(problem, text)
        self.problem = problem
        self.text = text

    def __str__(self) -> str:
        return f"{self.text[:40].decode('utf-8', 'replace')!r} {self.problem}" if self.text else self.problem


class Long(int):
    """An integer of 64 bits. ``int`` stands for one of 32 bits."""


def parse_int(text: bytes) -> int:
    """Java's Integer.valueOf. EvaluationError."""
    number = _integer(text, _INT_DIGITS, "is no integer of 32 bits")
    if -0x80000000 <= number <= 0x7FFFFFFF:
        return number
    raise EvaluationError("is no integer of 32 bits; compare with a decimal, such as 1.0", text)


def parse_long(text: bytes) -> Long:
    """Java's Long.valueOf. EvaluationError."""
    number = _integer(text, _LONG_DIGITS, "is no integer of 64 bits")
    if -0x8000000000000000 <= number <= 0x7FFFFFFFFFFFFFFF:
        return Long(number)
    raise EvaluationError("is no integer of 64 bits", text)


def _integer(text: bytes, digits: int, problem: str) -> int:
    if text.isdigit() and len(text) <= digits:
        return int(text)
    unsigned = (text[1:] if text[:1] in (b"+", b"-") else text).decode("utf-8", "replace")
    significant = unsigned.lstrip("0") or "0"
    if not unsigned.isdecimal() or max(unsigned) > "\uffff" or len(significant) > digits:  # other scripts' digits, too
        raise EvaluationError(problem, text)
    return -int(significant) if text[:1] == b"-" else int(significant)


def parse_double(text: bytes) -> float:
    """Java's Double.valueOf. EvaluationError."""
    match = _DOUBLE.fullmatch(text)
    if match is None:
        raise EvaluationError("is no number", text)
    plain = text.strip(_BLANKS)
    if match["hex"] is not None:
        try:
            return float.fromhex(plain.rstrip(b"fFdD").decode())
        except OverflowError:
            return -float("inf") if plain[:1] == b"-" else float("inf")
    return float(plain if match["named"] is not None else plain.rstrip(b"fFdD"))


def parse_boolean(text: bytes) -> bool:
    """Java's Boolean.valueOf."""
    return text.lower() == b"true"


def order(left: float, right: float) -> int:
    """Java's compareTo of two numbers of one type: NaN is above everything, -0.0 below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        if left == 0 and isinstance(left, float):
            return (str(left)[0] != "-") - (str(right)[0] != "-")
        return 0
    return (left != left) - (right != right)


def compare(left: Value, right: Value) -> int | None:
    """The order of two values that are not None; None if their types cannot be compared. EvaluationError."""
    if type(left) is type(right):
        if isinstance(left, bytes):
            return 0 if left == right else 1  # only their equality is asked for
        return order(left, right)  # type: ignore[arg-type]
    if isinstance(left, bytes):
        return order(_converted(left, right), right)  # type: ignore[arg-type]
    if isinstance(left, bool):
        if isinstance(right, bytes):
            raise EvaluationError("a condition on the left cannot be compared with a text; write them the other way")
        return None
    if isinstance(right, bytes):
        return order(left, _converted(right, left))  # type: ignore[arg-type]
    if isinstance(right, bool):
        return None
    if isinstance(left, float) or isinstance(right, float):
        return order(float(left), float(right))  # type: ignore[arg-type]
    return order(left, right)  # type: ignore[arg-type]


def _converted(text: bytes, like: Value) -> bool | int | float:
    """A text as a value of the other operand's type."""
    if isinstance(like, bool):
        return parse_boolean(text)
    if isinstance(like, Long):
        return parse_long(text)
    if isinstance(like, int):
        return parse_int(text)
    return parse_double(text)
