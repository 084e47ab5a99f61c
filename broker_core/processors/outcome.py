"""Errors as replies: the one place where an exception becomes an answer."""

from typing import Literal

from broker_core.commands import Failed
from broker_core.errors import (
    BrokerError,
    ConflictError,
    NotFoundError,
    RequestError,
    StoreReadOnlyError,
    UnavailableError,
)

Kind = Literal["request", "not_found", "conflict", "unavailable", "store"]


def failed(error: BrokerError) -> Failed:
    """The answer that ``error`` stands for."""
    kind: Kind = "store"
    if isinstance(error, NotFoundError):
        kind = "not_found"
    elif isinstance(error, ConflictError):
        kind = "conflict"
    elif isinstance(error, RequestError | StoreReadOnlyError):
        kind = "request"
    elif isinstance(error, UnavailableError):
        kind = "unavailable"
    return Failed(code=int(error.code), remark=error.remark, kind=kind, pointer=error.pointer,
                  retry_after_ms=getattr(error, "retry_after_ms", 0))
