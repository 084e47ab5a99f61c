"""Errors as answers."""

import pytest

from broker_core import errors
from broker_core.codes import ResponseCode
from broker_core.processors.outcome import failed


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.RequestError("no", pointer="/x"), "request"),
        (errors.NotFoundError("no"), "not_found"),
        (errors.ConflictError("no"), "conflict"),
        (errors.TooLargeError("no", pointer="/x"), "too_large"),
        (errors.UnavailableError("no", retry_after_ms=7), "unavailable"),
        (errors.StoreError("no"), "store"),
        (errors.StoreReadOnlyError("no"), "request"),
    ],
)
def test_kinds(error: errors.BrokerError, kind: str) -> None:
    reply = failed(error)
    assert (reply.kind, reply.remark, reply.code, reply.pointer) == (kind, "no", int(error.code), error.pointer)
    assert reply.retry_after_ms == (7 if kind == "unavailable" else 0)


def test_an_unexpected_error_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    reply = failed(KeyError("secret"))
    assert (reply.code, reply.kind) == (ResponseCode.SYSTEM_ERROR, "store") and "secret" not in reply.remark
    assert "secret" in caplog.text
