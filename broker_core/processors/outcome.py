"""The one place where an exception becomes a reply. Refusals are counted and reported as events.

Refused pulls are also kept until one succeeds.
"""

import logging
from typing import Literal

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Failed, PopMessage, PullMessage
from broker_core.errors import (
    BrokerError,
    ConflictError,
    NotFoundError,
    RequestError,
    StoreReadOnlyError,
    TooLargeError,
    UnavailableError,
)
from broker_core.events import PullRefused, RequestRefused
from broker_core.processors.context import Context, Request

REMARK_LENGTH = 500
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


def refused(context: Context, request: Request, error: Exception, now: Now) -> None:
    """A processor raised this error. Only refusals to protect the broker, and refused pulls, are reported."""
    if isinstance(error, UnavailableError):
        context.counters.requests_refused += 1
        context.events.emit(
            RequestRefused,
            now,
            type(request.command).__name__,
            error.code.name,
            error.remark,
            getattr(request.command, "client_id", ""),
        )
    if isinstance(request.command, PullMessage | PopMessage):
        command = request.command
        client_id = command.client_id or context.client_id_of(request.connection)
        pull_refused(context, command.topic, command.queue_id, command.consumer_group, client_id, error, now)


def refuse(context: Context, request: Request, error: Exception, now: Now) -> None:
    """Report that a processor raised this error, and answer the request."""
    refused(context, request, error, now)
    context.reply(request.connection, request.request_id, failed(error))


def pull_refused(
    context: Context, topic: str, queue_id: int, group: str, client_id: str, error: Exception, now: Now
) -> None:
    """A pull or pop was refused, before it was held or when it was read again."""
    context.counters.pulls_refused += 1
    code, remark = ResponseCode.SYSTEM_ERROR, "the broker failed on this request; see its log"
    if isinstance(error, BrokerError):
        code, remark = error.code, error.remark[:REMARK_LENGTH]
    context.events.emit(PullRefused, now, topic, queue_id, group, client_id, int(code), remark)
    if group:
        context.refused_pulls.note(group, client_id, topic, queue_id, int(code), remark, now.wall_ms, now.mono_ns)
