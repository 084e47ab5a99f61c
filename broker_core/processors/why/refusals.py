"""Refused requests are counted, and reported as events; refused pulls are kept until one succeeds."""

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import PullMessage
from broker_core.errors import BrokerError, UnavailableError
from broker_core.events import PullRefused, RequestRefused
from broker_core.processors.context import Context, Request

REMARK_LENGTH = 500


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
    if type(request.command) is PullMessage:
        _pull_refused(context, request, error, now)


def _pull_refused(context: Context, request: Request, error: Exception, now: Now) -> None:
    command: PullMessage = request.command
    context.counters.pulls_refused += 1
    code, remark = ResponseCode.SYSTEM_ERROR, "the broker failed on this request; see its log"
    if isinstance(error, BrokerError):
        code, remark = error.code, error.remark[:REMARK_LENGTH]
    client_id = command.client_id or context.client_id_of(request.connection)
    context.events.emit(
        PullRefused, now, command.topic, command.queue_id, command.consumer_group, client_id, int(code), remark
    )
    if command.consumer_group:
        context.refused_pulls.note(
            command.consumer_group,
            client_id,
            command.topic,
            command.queue_id,
            int(code),
            remark,
            now.wall_ms,
            now.mono_ns,
        )
