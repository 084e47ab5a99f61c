"""Receipts of received messages: acknowledge them, or change their leases. Each receipt has an outcome of its own.

RocketMQ's ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME. A receipt is RocketMQ's extraInfo; clients need not know that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Literal, NamedTuple, TypeVar

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.limits import MAX_LEASE_MS, MAX_RECEIPT, MAX_RECEIPTS, MAX_RECEIPTS_BODY
from api.http.names import GroupName, TopicName
from api.http.request import Answer, Params, Request, expect
from api.http.routes import Route
from api.http.schemas import Body, Model
from bridge.port import (
    NORMAL,
    POP_ORDER_REVIVE_QUEUE,
    BrokerError,
    EnginePort,
    ExtraInfo,
    NotFoundError,
    RequestError,
    ResponseCode,
    commands,
    popped_topic,
)

AT_ONCE = 32
"""Commands of one request that are under way at the same time."""
T = TypeVar("T")
R = TypeVar("R", bound=commands.Acknowledged | ExtraInfo)

Receipts = Annotated[
    list[Annotated[str, Meta(max_length=MAX_RECEIPT)]],
    Meta(min_length=1, max_length=MAX_RECEIPTS, description="Receipts of messages, as `receive` returned them."),
]


class AckReceipts(Body, frozen=True, kw_only=True, gc=False):
    """The messages with these receipts are consumed."""

    group: GroupName
    receipts: Receipts


class ChangeLease(Body, frozen=True, kw_only=True, gc=False):
    """Hide the messages for `lease_ms` from now on. With 0, the group gets them again at once."""

    group: GroupName
    receipts: Receipts
    lease_ms: Annotated[int, Meta(ge=0, le=MAX_LEASE_MS, description="The new lease, ms from now on.")]


Refusal = Literal["late", "refused", "failed"]


class AckOutcome(Model, frozen=True, kw_only=True, gc=False):
    """What became of one receipt; `detail` says why.

    `late`: the group has no message with this receipt now. It was acknowledged before; or its lease is over, so that it
    is or was delivered again; or the receipt is of another group or topic. `refused`: the broker has no such topic,
    queue or message, or this is no receipt. `failed`: the broker did not carry it out, or did not answer; repeat it.
    """

    receipt: str
    outcome: Literal["acknowledged"] | Refusal
    detail: str | UnsetType = UNSET


class LeaseOutcome(Model, frozen=True, kw_only=True, gc=False):
    """What became of one receipt, as with an ack. `new_receipt` replaces the receipt, unless the lease is 0."""

    receipt: str
    outcome: Literal["changed"] | Refusal
    new_receipt: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class AckOutcomes(Model, frozen=True, kw_only=True, gc=False):
    """One outcome for each receipt, in their order."""

    outcomes: list[AckOutcome]


class LeaseOutcomes(Model, frozen=True, kw_only=True, gc=False):
    """One outcome for each receipt, in their order."""

    outcomes: list[LeaseOutcome]


class ReceiptParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName


class Refused(NamedTuple):
    """Why a receipt was not carried out."""

    outcome: Refusal
    detail: str


LATE = "acknowledged before, or its lease is over, or the receipt is of another group or topic"
Ports = Mapping[str, EnginePort]


async def acknowledge(ports: Ports, topic: str, wanted: AckReceipts) -> list[AckOutcome]:
    """Acknowledge messages. BrokerError if all brokers are away, or have no such topic."""
    group, read = wanted.group, _read_all(wanted.receipts, ports)
    points: dict[ExtraInfo, list[ExtraInfo]] = {}
    for info in read.values():
        if isinstance(info, ExtraInfo):
            points.setdefault(info._replace(offset=0, invisible_ms=0), []).append(info)

    async def acknowledge_point(infos: list[ExtraInfo]) -> commands.Acknowledged:
        first = infos[0]
        command = commands.AckMessage(
            consumer_group=group,
            topic=popped_topic(first.kind, topic, group),
            queue_id=first.queue_id,
            start_offset=first.start_offset,
            pop_time_ms=first.pop_time_ms,
            offsets=[info.offset for info in infos],
            order=first.revive_queue == POP_ORDER_REVIVE_QUEUE,
        )
        return expect(await ports[first.broker].call(command), commands.Acknowledged)

    replies: dict[ExtraInfo, commands.Acknowledged | BrokerError] = {}
    whole = list(points.values())
    for infos, reply in zip(whole, await _call_each(whole, acknowledge_point), strict=True):
        replies |= dict.fromkeys(infos, reply)
    # One wrong offset refuses all of its check point: ask for each alone.
    alone = [[info] for infos in whole if len(infos) > 1 for info in infos if isinstance(replies[info], RequestError)]
    for infos, reply in zip(alone, await _call_each(alone, acknowledge_point), strict=True):
        replies[infos[0]] = reply

    def outcome(receipt: str) -> AckOutcome:
        info = read[receipt]
        if isinstance(info, Refused):
            return AckOutcome(receipt=receipt, outcome=info.outcome, detail=info.detail)
        reply = replies[info]
        if isinstance(reply, BrokerError):
            refused = _refused(reply)
            return AckOutcome(receipt=receipt, outcome=refused.outcome, detail=refused.detail)
        if info.offset in reply.late:
            return AckOutcome(receipt=receipt, outcome="late", detail=LATE)
        return AckOutcome(receipt=receipt, outcome="acknowledged")

    outcomes = [outcome(receipt) for receipt in wanted.receipts]
    _raise_if_none_is_possible(outcomes, replies)
    return outcomes


def lease_command(
    topic: str, group: str, info: ExtraInfo, lease_ms: int, *, unseen: bool = False
) -> commands.ChangeInvisibleTime:
    """The engine's command to hide a message for ``lease_ms``. ``unseen``: no consumer got it."""
    return commands.ChangeInvisibleTime(
        consumer_group=group,
        topic=popped_topic(info.kind, topic, group),
        queue_id=info.queue_id,
        start_offset=info.start_offset,
        pop_time_ms=info.pop_time_ms,
        offset=info.offset,
        invisible_ms=lease_ms,
        unseen=unseen,
        order=info.revive_queue == POP_ORDER_REVIVE_QUEUE,
    )


async def change_lease(ports: Ports, topic: str, wanted: ChangeLease) -> list[LeaseOutcome]:
    """Change leases. BrokerError as with ``acknowledge``."""
    group, lease_ms, read = wanted.group, wanted.lease_ms, _read_all(wanted.receipts, ports)
    infos = {receipt: info for receipt, info in read.items() if isinstance(info, ExtraInfo)}

    async def change(info: ExtraInfo) -> ExtraInfo:
        command = lease_command(topic, group, info, lease_ms)
        reply = expect(await ports[info.broker].call(command), commands.InvisibleTimeChanged)
        return info._replace(
            start_offset=info.offset,
            pop_time_ms=reply.pop_time_ms,
            invisible_ms=reply.invisible_ms,
            revive_queue=reply.revive_queue_id,
        )

    replies = dict(zip(infos, await _call_each(infos.values(), change), strict=True))

    def outcome(receipt: str) -> LeaseOutcome:
        reply = replies.get(receipt, read[receipt])
        if isinstance(reply, BrokerError):
            reply = _refused(reply)
        if isinstance(reply, Refused):
            return LeaseOutcome(receipt=receipt, outcome=reply.outcome, detail=reply.detail)
        return LeaseOutcome(receipt=receipt, outcome="changed", new_receipt=reply.encode() if lease_ms else UNSET)

    outcomes = [outcome(receipt) for receipt in wanted.receipts]
    _raise_if_none_is_possible(outcomes, {infos[receipt]: reply for receipt, reply in replies.items()})
    return outcomes


def _read_all(receipts: Iterable[str], ports: Ports) -> dict[str, ExtraInfo | Refused]:
    return {receipt: _read(receipt, ports) for receipt in receipts}


def _read(receipt: str, ports: Ports) -> ExtraInfo | Refused:
    try:
        info = ExtraInfo.decode(receipt)
    except ValueError:
        return Refused("refused", "this is not a receipt; send it exactly as it was received")
    if info.broker not in ports:
        return Refused("refused", f"the receipt is of broker {info.broker}; asked is {', '.join(ports)}")
    return info


async def _call_each(items: Iterable[T], call: Callable[[T], Awaitable[R]]) -> list[R | BrokerError]:
    """The result of each call, or its error; ``AT_ONCE`` calls at the same time."""
    places = asyncio.Semaphore(AT_ONCE)

    async def call_one(item: T) -> R | BrokerError:
        async with places:
            try:
                return await call(item)
            except BrokerError as error:
                return error

    return await asyncio.gather(*map(call_one, items))


def _refused(error: BrokerError) -> Refused:
    """The outcome for an error."""
    if isinstance(error, NotFoundError) and error.code == ResponseCode.NO_MESSAGE:
        return Refused("late", LATE)
    return Refused("refused" if isinstance(error, RequestError) else "failed", error.remark)


def _raise_if_none_is_possible(
    outcomes: Iterable[AckOutcome | LeaseOutcome], replies: Mapping[ExtraInfo, object]
) -> None:
    """Raise the broker's error if every receipt failed, or if no broker that was asked has the topic."""
    errors = [reply for reply in replies.values() if isinstance(reply, BrokerError)]
    if all(outcome.outcome == "failed" for outcome in outcomes):
        raise errors[0]
    if replies and all(
        info.kind == NORMAL and isinstance(reply, BrokerError) and reply.code == ResponseCode.TOPIC_NOT_EXIST
        for info, reply in replies.items()
    ):
        raise errors[0]


async def ack(request: Request[ReceiptParams]) -> Answer:
    """The messages are consumed, and not delivered to the group again.

    Each receipt has its own outcome, so the answer is 200 even if some are `late` or `refused`. An ack may be
    repeated: of a message that was acknowledged before it is `late`.
    """
    params = request.params
    outcomes = await acknowledge(brokers.ports_of(params.broker), params.topic, request.body)
    return Answer(body=AckOutcomes(outcomes=outcomes))


async def lease(request: Request[ReceiptParams]) -> Answer:
    """Hides received messages for longer, or for shorter, from now on. Each gets a new receipt; the old one is void.

    A lease of 0 gives the messages back: the group gets them again at once, with a higher `reconsume_times`.
    """
    params = request.params
    outcomes = await change_lease(brokers.ports_of(params.broker), params.topic, request.body)
    return Answer(body=LeaseOutcomes(outcomes=outcomes))


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/topics/{topic}/ack",
        handler=ack,
        group="Messages",
        summary="Acknowledge received messages",
        params=ReceiptParams,
        bodies=(AckReceipts,),
        body_limit=MAX_RECEIPTS_BODY,
        response=AckOutcomes,
        problems=(403, 404, 413, 504),
    ),
    Route(
        method="POST",
        path="/api/v1/topics/{topic}/lease",
        handler=lease,
        group="Messages",
        summary="Change leases",
        params=ReceiptParams,
        bodies=(ChangeLease,),
        body_limit=MAX_RECEIPTS_BODY,
        response=LeaseOutcomes,
        problems=(403, 404, 413, 504),
    ),
)
