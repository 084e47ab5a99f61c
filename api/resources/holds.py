"""The pullRequestTable: every held pull."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.names import OptionalGroupName, OptionalTopicName
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.http.schemas import Model, Unavailable, copied
from bridge.port import commands


class Holds(Model, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The pullRequestTable. `total` counts all held pulls; `next` is the `after` of the next page, if any."""

    seq: int
    total: int
    holds: list[commands.HoldView]
    next: int | UnsetType = UNSET
    unavailable: Unavailable | UnsetType = UNSET


class HoldsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: OptionalTopicName = ""
    group: OptionalGroupName = ""
    after: Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="Only holds with an id above this.")] = 0
    limit: Annotated[int, Meta(ge=1, le=5000, description="Maximum number of holds.")] = 1000


class HoldParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="Id of the hold.")]


class HoldTimelineView(Model, frozen=True, kw_only=True, gc=False):
    """The recent events of one held pull, and its row: null if it is not held any more.

    Not `complete` if the event of its beginning is no longer kept, since a busy broker keeps its events for some
    seconds, or if there are more than 500: then those after the first one are left out.
    """

    broker: str
    hold: commands.HoldView | None
    complete: bool
    events: list[dict[str, Any]]


async def get_holds(request: Request[HoldsParams]) -> Answer:
    """The pulls that wait in the broker for a message, by id, in pages."""
    params = request.params
    if params.after:
        await brokers.single_broker(params.broker)  # each broker numbers its own holds, so a page is of one broker
    replies = await brokers.ask_all(
        params.broker,
        commands.GetHolds(topic=params.topic, group=params.group, after=params.after, limit=params.limit),
        commands.Holds,
    )
    tables = list(replies.by_broker.values())
    more = tables[0].next if len(tables) == 1 else None
    return Answer(
        body=Holds(
            seq=replies.seq,
            total=sum(table.total for table in tables),
            holds=[hold for table in tables for hold in table.holds],
            next=UNSET if more is None else more,
            unavailable=replies.missing,
        )
    )


async def get_hold(request: Request[HoldParams]) -> Answer:
    """A pull that waits in the broker; 404 as soon as it is answered."""
    broker = await brokers.single_broker(request.params.broker)
    reply = await ask(broker.port, commands.GetHold(hold_id=request.params.id), commands.Holds)
    return Answer(body=reply.holds[0])


async def get_timeline(request: Request[HoldParams]) -> Answer:
    """What happened to the pull, from the broker's recent events: held, passed over, woken or released, answered."""
    broker = await brokers.single_broker(request.params.broker)
    command = commands.GetHoldTimeline(hold_id=request.params.id)
    timeline = await ask(broker.port, command, commands.HoldTimeline)
    return Answer(body=copied(HoldTimelineView, timeline, broker=broker.name))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/holds",
        handler=get_holds,
        group="Observing",
        summary="The pullRequestTable",
        params=HoldsParams,
        response=Holds,
        problems=(504,),
    ),
    Route(
        method="GET",
        path="/api/v1/holds/{id}",
        handler=get_hold,
        group="Observing",
        summary="One held pull",
        params=HoldParams,
        response=commands.HoldView,
        problems=(404, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/holds/{id}/timeline",
        handler=get_timeline,
        group="Observing",
        summary="What happened to a held pull",
        params=HoldParams,
        response=HoldTimelineView,
        problems=(404, 504),
    ),
)
