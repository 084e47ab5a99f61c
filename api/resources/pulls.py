"""The long-polling pull: RocketMQ's PULL_MESSAGE over HTTP. It reads, or waits, and changes nothing.

The engine holds the pull. The wait ends with the engine's answer, or when the client disconnects. In both cases the
pull's connection to the engine is closed, which releases its hold at once.
"""

import asyncio
import re
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import Meta

from api.http import brokers
from api.http.limits import DEFAULT_PULL_MESSAGES, DEFAULT_WAIT_MS, MAX_PULL_MESSAGES, MAX_WAIT_MS
from api.http.names import ClientId, Expression, OptionalGroupName, TopicName
from api.http.request import Answer, Params, Reading, Request, expect
from api.http.routes import Header, Route
from api.http.schemas import AnyOffset, HoldResult, MessageView, Model, QueueId
from api.http.sending import client_gone
from api.http.threads import in_thread
from api.resources.messages import render_messages
from bridge.port import (
    INFLATED_BYTES_MAX,
    BrokerError,
    PortConnection,
    ResponseCode,
    commands,
    iter_messages,
    start_task,
    takes_long,
)

FilterType = Annotated[
    Literal["tag", "sql92"],
    Meta(
        description="What `filter` is: tags, or an SQL92 expression over properties. A broker whose "
        "`enablePropertyFilter` is off refuses `sql92` with `SUBSCRIPTION_PARSE_FAILED`."
    ),
]
Limit = Annotated[
    int,
    Meta(ge=1, le=MAX_PULL_MESSAGES, description="Maximum number of messages; the broker's own limits may be lower."),
]
WaitMs = Annotated[
    int, Meta(description=f"Wait for a message, ms, limited to 0 to {MAX_WAIT_MS}. 0: the pull is not held.")
]

_STATUS: dict[int, Literal["found", "no_new", "no_match", "offset_moved"]] = {
    ResponseCode.SUCCESS: "found",
    ResponseCode.PULL_NOT_FOUND: "no_new",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "no_match",
    ResponseCode.PULL_OFFSET_MOVED: "offset_moved",
}
_PREFER_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,6})\"?\s*(?:$|[,;])", re.IGNORECASE)


class PullResult(Model, frozen=True, kw_only=True, gc=False):
    """A pull's answer. `next_offset` is the offset of the next pull, whatever the status.

    An answer has at most 16 MiB of message bodies, or one message. `next_offset` is then that of the first message
    that was left out.
    """

    broker: str
    status: Literal["found", "no_new", "no_match", "offset_moved"]
    messages: list[MessageView]
    next_offset: int
    min_offset: int
    max_offset: int
    effective_wait_ms: int
    hold: HoldResult | None


class PullParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName
    queue_id: QueueId
    offset: AnyOffset
    limit: Limit = DEFAULT_PULL_MESSAGES
    wait_ms: WaitMs | None = None
    filter: Expression = "*"
    filter_type: FilterType = "tag"
    group: OptionalGroupName = ""
    client_id: ClientId = ""


def clamp_wait(wait_ms: int) -> int:
    return min(max(wait_ms, 0), MAX_WAIT_MS)


def preferred_wait_s(prefer: str) -> int | None:
    """N of RFC 7240's ``Prefer: wait=N``; None if the header has none."""
    match = _PREFER_WAIT.search(prefer)
    return int(match[1]) if match else None


async def read_pull(
    pulled: commands.Pulled,
    broker: str,
    max_bytes: int = INFLATED_BYTES_MAX,
    *,
    offset: int = 0,
    limit: int = MAX_PULL_MESSAGES,
) -> PullResult:
    """``pull_result``, computed in a thread if that takes long."""
    make = partial(pull_result, pulled, broker, max_bytes, offset=offset, limit=limit)
    return await in_thread(make) if takes_long(pulled.records) else make()


def pull_result(
    pulled: commands.Pulled,
    broker: str,
    max_bytes: int = INFLATED_BYTES_MAX,
    *,
    offset: int = 0,
    limit: int = MAX_PULL_MESSAGES,
) -> PullResult:
    """The engine's answer to a pull at ``offset`` in the API's shape, with ``limit`` messages at most.

    The bodies together have ``max_bytes`` at most, unless there is only one message. The record of a batch may begin
    before ``offset`` and have more messages than ``limit``; these other messages are not in the result.
    """
    stored = list(islice(iter_messages(pulled.records, broker, begin=offset), limit + 1))
    messages, left_out = render_messages(stored[:limit], max_bytes)
    left_out = left_out or stored[limit:]
    return PullResult(
        broker=broker,
        status=_STATUS[pulled.code],
        messages=messages,
        next_offset=left_out[0].queue_offset if left_out else pulled.next_begin_offset,
        min_offset=pulled.min_offset,
        max_offset=pulled.max_offset,
        effective_wait_ms=pulled.suspend_timeout_ms,
        hold=hold_result(pulled.hold),
    )


def hold_result(outcome: commands.HoldOutcome | None) -> HoldResult | None:
    """How the hold ended, in the API's shape; None without a hold."""
    if outcome is None:
        return None
    return HoldResult(
        id=outcome.hold_id,
        held_ms=outcome.held_us // 1000,
        held_us=outcome.held_us,
        wake_us=outcome.wake_us,
        wake_cause=outcome.wake_cause,
    )


def _command(request: Request[PullParams], wait_ms: int) -> commands.PullMessage:
    params = request.params
    host, client_port = request.client
    return commands.PullMessage(
        topic=params.topic,
        queue_id=params.queue_id,
        queue_offset=params.offset,
        max_msg_nums=params.limit,
        suspend_timeout_ms=wait_ms,
        consumer_group=params.group,
        client_id=params.client_id or f"{host}:{client_port}",
        protocol="http",
        subscription=params.filter or "*",
        expression_type=params.filter_type.upper(),
    )


async def pull(request: Request[PullParams]) -> Answer | None:
    """Messages from an offset on. Waits for one if there is none yet."""
    preferred = preferred_wait_s(request.header(b"prefer")) if request.params.wait_ms is None else None
    asked = request.params.wait_ms
    if asked is None:
        asked = DEFAULT_WAIT_MS if preferred is None else preferred * 1000
    wait_ms = clamp_wait(asked)
    broker = await brokers.single_broker(request.params.broker, request.params.topic)
    connection = broker.port.connection()
    try:
        reply = await answer_or_gone(connection, _command(request, wait_ms), request, waits=wait_ms > 0)
    finally:
        connection.close()
    if reply is None:
        return None
    pulled = expect(reply, commands.Pulled)
    held_us = pulled.hold.held_us if pulled.hold else 0
    headers = {"server-timing": f"hold;dur={held_us / 1000:.3f}, read;dur={pulled.read_us / 1000:.3f}"}
    if preferred is not None:
        headers["preference-applied"] = f"wait={wait_ms // 1000}"
    result = partial(pull_result, pulled, broker.name, offset=request.params.offset, limit=request.params.limit)
    return Answer(body=Reading([pulled.records], result), headers=headers)


async def answer_or_gone(
    connection: PortConnection,
    command: commands.PullMessage | commands.PopMessage,
    request: Request[Any],
    *,
    waits: bool,
) -> commands.Reply | None:
    """The engine's answer to a command that it may hold, or None if the client disconnected first."""
    if not waits:
        return await connection.call(command)
    answer = start_task(connection.call(command), f"wait for messages of {command.topic}", expected=(BrokerError,))
    gone = start_task(client_gone(request.receive), "wait for the client to disconnect")
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        return await answer if answer.done() else None
    finally:
        for task in (answer, gone):
            task.cancel()


PREFER = Header("Prefer", "`wait=N` (RFC 7240): wait N seconds if `wait_ms` is not given.")

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/topics/{topic}/queues/{queue_id}/messages",
        handler=pull,
        group="Messages",
        summary="Pull, by long polling",
        params=PullParams,
        response=PullResult,
        headers=(PREFER,),
        problems=(403, 404, 429, 504),
    ),
)
