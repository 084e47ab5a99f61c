"""Error answers in the form of RFC 9457: application/problem+json.

``code`` is RocketMQ's name for the condition, ``errors`` point at the fields. Only this module makes
problems of the port's errors, for HTTP and WebSocket.
"""

import re
from collections.abc import Callable
from http import HTTPStatus
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from api.http.names import RULES
from bridge.port import (
    BrokerError,
    ConflictError,
    NotFoundError,
    OverloadedError,
    PortTimeout,
    PortUnavailable,
    RequestError,
    ResponseCode,
    TooLargeError,
    UnavailableError,
)


class FieldError(msgspec.Struct, frozen=True):
    """One field that is wrong.

    ``pointer`` is a JSON pointer (RFC 6901) into the body, empty for the whole body; or ``/name`` of a parameter or
    header.
    """

    pointer: str
    detail: str


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """RFC 9457's problem details; ``code`` is RocketMQ's name for the condition.

    ``answered_ms`` is in answers of /readyz: when the engine answered this web process last, ms since 1970.
    """

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str = ""
    code: str
    errors: list[FieldError] = []
    answered_ms: int | UnsetType = UNSET


class Problem(Exception):
    """Ends a request with an error answer.

    ``pointer`` is that of the wrong field; None if no field is to blame. ``retry_after_s`` becomes the Retry-After
    header where it is above 0; ``headers`` are added as they are.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: ResponseCode = ResponseCode.INVALID_PARAMETER,
        pointer: str | None = None,
        retry_after_s: int = 0,
        headers: dict[str, str] | None = None,
        answered_ms: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code
        self.errors = [] if pointer is None else [FieldError(pointer, detail)]
        self.retry_after_s = retry_after_s
        self.headers = headers or {}
        self.answered_ms = UNSET if answered_ms is None else answered_ms

    def details(self, instance: str = "") -> ProblemDetails:
        return ProblemDetails(
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            instance=instance,
            code=self.code.name,
            errors=self.errors,
            answered_ms=self.answered_ms,
        )


_STATUS_OF_CODE = {
    ResponseCode.TOPIC_NOT_EXIST: 404,
    ResponseCode.QUERY_NOT_FOUND: 404,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: 404,
    ResponseCode.TOPIC_EXIST_ALREADY: 409,
    ResponseCode.NO_PERMISSION: 403,
    ResponseCode.FLOW_CONTROL: 429,
    ResponseCode.FLUSH_DISK_TIMEOUT: 504,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: 504,
}


def _status(error: BrokerError) -> int:
    if isinstance(error, PortTimeout):
        return 504
    if isinstance(error, PortUnavailable):
        return 503
    if isinstance(error, TooLargeError):
        return 413
    if isinstance(error, OverloadedError):
        return 429
    if error.code in _STATUS_OF_CODE:
        return _STATUS_OF_CODE[error.code]
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, ConflictError):
        return 409
    if isinstance(error, RequestError):
        return 400
    return 503 if isinstance(error, UnavailableError) else 500


def move_pointer(error: BrokerError, command_field: str, request_field: str) -> None:
    """Make ``error`` point at the field of the request from which the field of the command was made."""
    if error.pointer.startswith(command_field):
        error.pointer = request_field + error.pointer.removeprefix(command_field)


def problem_of(error: BrokerError) -> Problem:
    """The problem for an error of the port."""
    retry_after_s = 0
    if isinstance(error, UnavailableError):
        retry_after_s = max(1, -(-error.retry_after_ms // 1000))
    elif isinstance(error, PortTimeout):
        retry_after_s = 1
    return Problem(
        _status(error), error.remark, code=error.code, pointer=error.pointer or None, retry_after_s=retry_after_s
    )


def escaped(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>[^`]*)`)?$", re.DOTALL)
_NAMED = re.compile(r"(?:missing required field|contains unknown field) `(?P<name>[^`]*)`")
_GOT = re.compile(r", got `(\w+)`$")
_TYPES = {bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object", type(None): "null"}
"""msgspec's names of JSON's types."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_PATTERN = re.compile(r"^Expected `str` matching regex '(?P<pattern>.*)'$", re.DOTALL)


def invalid(error: msgspec.ValidationError, what: str, read: Callable[[], Any] | None = None) -> Problem:
    """The 400 for input that does not match its struct. ``what`` names the input: `body`, `parameters`.

    ``read`` returns the input without its struct. msgspec does not say which value of an object is wrong.
    """
    match = _AT.match(str(error))
    assert match is not None  # the expression matches every text
    detail, where = match["what"], match["where"] or "$"
    pointer = "".join(f"/{name or index}" for name, index in _STEP.findall(where[1:]) if "..." not in (name, index))
    if where.endswith("[...]") and where.count("[...]") == 1 and read is not None:
        pointer += _wrong_value(read, pointer, detail)
    named = _NAMED.search(detail)
    if named:
        pointer += f"/{named['name']}"
    expected = _PATTERN.match(detail)
    if expected:
        detail = _rule(expected["pattern"])
    problem = Problem(400, f"the {what} cannot be used: {detail}" + (f" (at {pointer})" if pointer else ""))
    problem.errors = [FieldError(pointer, detail)]
    return problem


def _wrong_value(read: Callable[[], Any], pointer: str, detail: str) -> str:
    """``/name`` of the first value in the object at ``pointer`` that has the type in ``detail``.

    Empty for other errors, and if the input cannot be read: msgspec reports the wrong type before it has read the rest.
    """
    got = _GOT.search(detail)
    try:
        value = read()
    except (msgspec.DecodeError, RecursionError):
        return ""
    for part in pointer.split("/")[1:]:
        value = value[int(part) if isinstance(value, list) else part]
    if got is None or not isinstance(value, dict):
        return ""
    names = (name for name, one in value.items() if _TYPES.get(type(one)) == got[1])
    return "".join(f"/{escaped(name)}" for name in islice(names, 1))


def _rule(quoted: str) -> str:
    """The rule in words for a pattern that msgspec's message quotes."""
    for pattern, rule in RULES.items():
        if quoted in (pattern, repr(pattern)[1:-1]):
            return rule
    return f"must match {quoted}"
