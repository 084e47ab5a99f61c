"""Receive: RocketMQ's POP_MESSAGE over HTTP. Each message goes to one consumer of the group, with a receipt.

A received message is hidden from the others for a lease. ``receipts.py`` acknowledges it, or changes its lease. What
the answer cannot carry is given back at once, and that delivery is not counted as one of the message's attempts.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from api.http import brokers
from api.http.limits import (
    DEFAULT_LEASE_MS,
    DEFAULT_WAIT_MS,
    MAX_LEASE_MS,
    MAX_PULLED_BODIES,
    MAX_RECEIVED,
    MIN_LEASE_MS,
)
from api.http.names import ClientId, Expression, GroupName, TopicName
from api.http.problems import Problem
from api.http.request import Answer, Params, Reading, Request, expect
from api.http.routes import Route
from api.http.schemas import Body, HoldResult, MessageView, Model
from api.http.threads import in_thread
from api.resources.messages import render_messages
from api.resources.pulls import FilterType, WaitMs, answer_or_gone, clamp_wait, hold_result
from api.resources.receipts import lease_command
from bridge.port import (
    INFLATED_BYTES_MAX,
    BrokerError,
    EnginePort,
    ExtraInfo,
    Message,
    ResponseCode,
    commands,
    kind_of,
    start_task,
    stored_messages,
    takes_long,
)

LeaseMs = Annotated[
    int,
    Meta(
        ge=MIN_LEASE_MS,
        le=MAX_LEASE_MS,
        description="How long the messages are hidden from other consumers, ms. Without an ack in this time they are "
        "delivered again.",
    ),
]
InOrder = Annotated[
    bool,
    Meta(
        description="Hand out a queue to one consumer at a time. Its next messages come when all that were received "
        "from it are acknowledged. If their leases end first, they come again, from the first one without an "
        "acknowledgement on."
    ),
]
ReceiveNumber = Annotated[int, Meta(ge=1, le=MAX_RECEIVED, description="Maximum number of messages.")]


class Receive(Body, frozen=True, kw_only=True, gc=False):
    """What to receive. The group need not exist: a new one begins at the first message of each queue."""

    group: GroupName
    n: ReceiveNumber = 1
    wait_ms: WaitMs = DEFAULT_WAIT_MS
    lease_ms: LeaseMs = DEFAULT_LEASE_MS
    filter: Expression = "*"
    filter_type: FilterType = "tag"
    client_id: ClientId = ""
    in_order: InOrder = False


class ReceivedMessage(MessageView, frozen=True, kw_only=True, gc=False):
    """A message, with the `receipt` by which it is acknowledged. `reconsume_times` is 0 at its first delivery.

    For a message that was received in order, it is how often it was received before without an acknowledgement.
    """

    receipt: str


class ReceiveResult(Model, frozen=True, kw_only=True, gc=False):
    """Received messages, hidden from other consumers until `lease_ends_ms` (null without messages).

    `rest` more messages waited for the group when the answer was made. An answer has at most 16 MiB of message bodies,
    or one message.
    """

    broker: str
    status: Literal["found", "no_new"]
    messages: list[ReceivedMessage]
    rest: int
    lease_ends_ms: int | None
    effective_wait_ms: int
    hold: HoldResult | None


class ReceiveParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName


def pop_command(topic: str, wanted: Receive, client_id: str, protocol: commands.Protocol) -> commands.PopMessage:
    """The engine's command; a WebSocket is told when it is held."""
    return commands.PopMessage(
        topic=topic,
        consumer_group=wanted.group,
        max_msg_nums=wanted.n,
        invisible_ms=wanted.lease_ms,
        poll_ms=clamp_wait(wanted.wait_ms),
        expression=wanted.filter or "*",
        expression_type=wanted.filter_type.upper(),
        order=wanted.in_order,
        client_id=client_id,
        protocol=protocol,
        report_hold=protocol == "websocket",
    )


def require_room(popped: commands.Popped) -> commands.Popped:
    """``popped``; Problem 429 if too many receives wait already."""
    if popped.code == ResponseCode.POLLING_FULL:
        raise Problem(
            429,
            "too many receives of this group, or of this broker, wait already; try again when one was answered",
            code=ResponseCode.POLLING_FULL,
            retry_after_s=1,
        )
    return popped


def extra_infos(popped: commands.Popped, topic: str, broker: str) -> list[ExtraInfo]:
    """What identifies each message, in their order."""
    return [
        ExtraInfo(
            start_offset=queue.start_offset,
            pop_time_ms=popped.pop_time_ms,
            invisible_ms=popped.invisible_ms,
            revive_queue=popped.revive_queue_id,
            kind=kind_of(queue.topic, topic, popped.consumer_group),
            broker=broker,
            queue_id=queue.queue_id,
            offset=offset,
        )
        for queue in popped.queues
        for offset in queue.offsets
    ]


def popped_messages(popped: commands.Popped, topic: str, broker: str) -> list[tuple[Message, ExtraInfo]]:
    """The messages as they are stored, each with its extraInfo. A record that cannot be read is left out."""
    pairs = zip(stored_messages(popped.records, broker), extra_infos(popped, topic, broker), strict=False)
    return [(message, info) for message, info in pairs if message.queue_offset == info.offset]


def receive_result(
    popped: commands.Popped,
    found: Sequence[tuple[Message, ExtraInfo]],
    broker: str,
    wait_ms: int,
    max_bytes: int,
) -> tuple[ReceiveResult, Sequence[tuple[Message, ExtraInfo]]]:
    """The answer, whose bodies take ``max_bytes`` or which has one message, and the messages that it leaves out."""
    views, _ = render_messages([message for message, _ in found], max_bytes)
    counts = {(queue.queue_id, offset): count for queue in popped.queues for offset, count in queue.counts.items()}
    messages = [
        ReceivedMessage(
            receipt=info.encode(),
            **msgspec.structs.asdict(view)
            | {"reconsume_times": counts.get((info.queue_id, info.offset), view.reconsume_times)},
        )
        for view, (_, info) in zip(views, found, strict=False)
    ]
    result = ReceiveResult(
        broker=broker,
        status="found" if messages else "no_new",
        messages=messages,
        rest=popped.rest + len(found) - len(messages),
        lease_ends_ms=popped.pop_time_ms + popped.invisible_ms if messages else None,
        effective_wait_ms=wait_ms,
        hold=hold_result(popped.hold),
    )
    return result, found[len(messages) :]


async def read_received(popped: commands.Popped, topic: str, broker: str, wait_ms: int) -> ReceiveResult:
    """The answer of a WebSocket frame, with the first messages; made in a thread if that takes long."""

    def read() -> ReceiveResult:
        found = popped_messages(popped, topic, broker)
        return receive_result(popped, found, broker, wait_ms, MAX_PULLED_BODIES)[0]

    return await in_thread(read) if takes_long(popped.records) else read()


async def give_back(port: EnginePort, topic: str, group: str, infos: Sequence[ExtraInfo]) -> None:
    """Make messages visible that no consumer got. Those for which this fails are visible when their lease is over."""
    await asyncio.gather(
        *(port.call(lease_command(topic, group, info, 0, unseen=True)) for info in infos),
        return_exceptions=True,
    )


def _give_back_later(port: EnginePort, topic: str, group: str) -> Callable[[Sequence[ExtraInfo]], None]:
    """A function that gives messages back without waiting. Any thread may call it."""
    loop = asyncio.get_running_loop()

    def start(infos: Sequence[ExtraInfo]) -> None:
        start_task(give_back(port, topic, group, infos), f"give back messages of {topic}", expected=(BrokerError,))

    def start_soon(infos: Sequence[ExtraInfo]) -> None:
        loop.call_soon_threadsafe(start, infos)

    return start_soon


async def receive(request: Request[ReceiveParams]) -> Answer | None:
    """Messages for one consumer of a group, without queues and offsets. Waits for one if there is none yet.

    The messages are hidden from the group's other consumers for `lease_ms`. Acknowledge them with `…/ack`, or they
    are delivered again, to any consumer, with a higher `reconsume_times`; after `retryMaxTimes` further deliveries
    a message moves to the group's dead letter queue. A client that disconnects while it waits gets no message.
    If its answer is lost on the way, the messages are delivered again when their lease is over.
    """
    topic, wanted = request.params.topic, request.body
    host, client_port = request.client
    broker = await brokers.single_broker(request.params.broker, topic)
    command = pop_command(topic, wanted, wanted.client_id or f"{host}:{client_port}", "http")
    connection = broker.port.connection()
    try:
        reply = await answer_or_gone(connection, command, request, waits=command.poll_ms > 0)
    finally:
        connection.close()
    if reply is None:
        return None
    popped = require_room(expect(reply, commands.Popped))
    give_back_later = _give_back_later(broker.port, topic, wanted.group)

    def read() -> ReceiveResult:
        found = popped_messages(popped, topic, broker.name)
        result, left_out = receive_result(popped, found, broker.name, command.poll_ms, INFLATED_BYTES_MAX)
        if left_out:
            give_back_later([info for _, info in left_out])
        return result

    async def give_all_back() -> None:
        await give_back(broker.port, topic, wanted.group, extra_infos(popped, topic, broker.name))

    return Answer(body=Reading([popped.records], read), give_back=give_all_back)


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/topics/{topic}/receive",
        handler=receive,
        group="Messages",
        summary="Receive with a lease",
        params=ReceiveParams,
        bodies=(Receive,),
        response=ReceiveResult,
        problems=(403, 404, 429, 504),
    ),
)
