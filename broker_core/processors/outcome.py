"""The one place where an exception becomes a reply."""

import logging
from typing import Literal

from broker_core.codes import ResponseCode
from broker_core.commands import Failed
from broker_core.errors import (
    BrokerError,
    ConflictError,
    NotFoundError,
    RequestError,
    StoreReadOnlyError,
    TooLargeError,
    UnavailableError,
)

log = logging.getLogger(__name__)
Kind = Literal["request", "not_found", "conflict", "too_large", "unavailable", "store"]


def failed(error: Exception) -> Failed:
    """The reply for ``error``. An error that is not a BrokerError is a defect, and is logged."""
    if not isinstance(error, BrokerError):
        log.error("a request failed in an unexpected way", exc_info=error)
        return Failed(
            code=ResponseCode.SYSTEM_ERROR,
            kind="store",
            remark=f"the broker failed on this request ({type(error).__name__}); see its log",
        )
    kind: Kind = "store"
    if isinstance(error, NotFoundError):
        kind = "not_found"
    elif isinstance(error, ConflictError):
        kind = "conflict"
    elif isinstance(error, TooLargeError):
        kind = "too_large"
    elif isinstance(error, RequestError | StoreReadOnlyError):
        kind = "request"
    elif isinstance(error, UnavailableError):
        kind = "unavailable"
    return Failed(
        code=int(error.code),
        remark=error.remark,
        kind=kind,
        pointer=error.pointer,
        retry_after_ms=getattr(error, "retry_after_ms", 0),
    )
