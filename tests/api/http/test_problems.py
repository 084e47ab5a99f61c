"""Errors become problems: the status, RocketMQ's name, the field."""

from typing import Annotated

import msgspec
import pytest

from api.http.names import TopicName
from api.http.problems import FieldError, Problem, invalid, problem_of
from bridge.port import (
    BrokerError,
    ConflictError,
    NotFoundError,
    PortTimeout,
    PortUnavailable,
    RequestError,
    ResponseCode,
    TooLargeError,
    UnavailableError,
)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestError("x"), 400, "INVALID_PARAMETER"),
        (RequestError("x", code=ResponseCode.SUBSCRIPTION_PARSE_FAILED), 400, "SUBSCRIPTION_PARSE_FAILED"),
        (RequestError("x", code=ResponseCode.MESSAGE_ILLEGAL), 400, "MESSAGE_ILLEGAL"),
        (TooLargeError("x"), 413, "MESSAGE_ILLEGAL"),
        (RequestError("x", code=ResponseCode.NO_PERMISSION), 403, "NO_PERMISSION"),
        (NotFoundError("x"), 404, "QUERY_NOT_FOUND"),
        (RequestError("x", code=ResponseCode.TOPIC_NOT_EXIST), 404, "TOPIC_NOT_EXIST"),
        (ConflictError("x"), 409, "ILLEGAL_OPERATION"),
        (UnavailableError("x"), 503, "SYSTEM_BUSY"),
        (UnavailableError("x", code=ResponseCode.FLOW_CONTROL), 429, "FLOW_CONTROL"),
        (UnavailableError("x", code=ResponseCode.SERVICE_NOT_AVAILABLE), 503, "SERVICE_NOT_AVAILABLE"),
        (PortUnavailable("x"), 503, "SYSTEM_BUSY"),
        (PortTimeout("x"), 504, "SYSTEM_ERROR"),
        (BrokerError("x"), 500, "SYSTEM_ERROR"),
        (BrokerError("x", code=ResponseCode.NO_PERMISSION), 403, "NO_PERMISSION"),
    ],
)
def test_status_and_code(error: BrokerError, status: int, code: str) -> None:
    details = problem_of(error).details("/there")
    assert (details.status, details.code, details.detail, details.instance) == (status, code, "x", "/there")


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (UnavailableError("x", retry_after_ms=1), 1),
        (UnavailableError("x", retry_after_ms=1001), 2),
        (PortUnavailable("x", retry_after_ms=0), 1),
        (PortTimeout("x"), 1),
        (RequestError("x"), 0),
    ],
)
def test_retry_after_is_in_whole_seconds_and_never_none_at_all(error: BrokerError, seconds: int) -> None:
    assert problem_of(error).retry_after_s == seconds


def test_a_pointer_becomes_an_error_of_that_field() -> None:
    assert problem_of(RequestError("too long", pointer="/topic")).errors == [FieldError("/topic", "too long")]
    assert Problem(400, "x").errors == []


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    offset: Annotated[int, msgspec.Meta(ge=0)]


class Outer(msgspec.Struct):
    topic: TopicName
    items: list[Inner] = []


@pytest.mark.parametrize(
    ("text", "pointer", "word"),
    [
        ('{"topic":"../x"}', "/topic", "1 to 127"),
        ('{"topic":1}', "/topic", "str"),
        ("{}", "/topic", "missing"),
        ('{"topic":"T","items":[{"offset":1},{"offset":"x"}]}', "/items/1/offset", "int"),
        ('{"topic":"T","items":[{"offset":-1}]}', "/items/0/offset", ">= 0"),
        ('{"topic":"T","items":[{}]}', "/items/0/offset", "missing"),
        ('{"topic":"T","items":[{"offset":1,"off":2}]}', "/items/0/off", "unknown"),
        ("[]", "", "object"),
    ],
)
def test_a_value_of_the_wrong_type_gets_a_pointer(text: str, pointer: str, word: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(text, type=Outer)
    problem = invalid(caught.value, "body")
    assert problem.status == 400
    assert problem.errors[0].pointer == pointer
    assert word in problem.errors[0].detail
