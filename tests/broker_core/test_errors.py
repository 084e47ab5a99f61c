"""Every error carries a RocketMQ code and a sentence."""

import pytest

from broker_core import errors
from broker_core.codes import ResponseCode


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.RequestError, ResponseCode.INVALID_PARAMETER),
        (errors.NotFoundError, ResponseCode.QUERY_NOT_FOUND),
        (errors.TooLargeError, ResponseCode.MESSAGE_ILLEGAL),
        (errors.UnavailableError, ResponseCode.SYSTEM_BUSY),
        (errors.StoreReadOnlyError, ResponseCode.NO_PERMISSION),
        (errors.StoreCorruptError, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_default_codes(kind: type[errors.BrokerError], code: ResponseCode) -> None:
    error = kind("what is wrong")
    assert error.code is code and error.remark == str(error) == "what is wrong"


def test_a_code_and_a_pointer_may_be_given() -> None:
    error = errors.RequestError("too large", code=ResponseCode.MESSAGE_ILLEGAL, pointer="/body")
    assert (error.code, error.pointer) == (ResponseCode.MESSAGE_ILLEGAL, "/body")
    assert errors.RequestError("x").code is ResponseCode.INVALID_PARAMETER


def test_unavailable_says_when_to_come_back() -> None:
    assert errors.UnavailableError("full", retry_after_ms=250).retry_after_ms == 250
