"""The pullRequestTable: every held pull."""

from typing import Annotated

from msgspec import UNSET, Meta

from api.names import OptionalGroupName, OptionalTopicName
from api.request import Answer, Params, Request, ask
from api.schemas import Holds
from bridge.port import commands, get_port


class HoldsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: OptionalTopicName = ""
    group: OptionalGroupName = ""
    after: Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="Only holds with an id above this.")] = 0
    limit: Annotated[int, Meta(ge=1, le=5000, description="At most so many.")] = 1000


class HoldParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="Id of the hold.")]


async def get_holds(request: Request[HoldsParams]) -> Answer:
    params = request.params
    reply = await ask(get_port(), commands.GetHolds(topic=params.topic, group=params.group, after=params.after,
        limit=params.limit), commands.Holds)
    return Answer(body=Holds(seq=reply.seq, total=reply.total, holds=reply.holds,
        next=UNSET if reply.next is None else reply.next))


async def get_hold(request: Request[HoldParams]) -> Answer:
    reply = await ask(get_port(), commands.GetHold(hold_id=request.params.id), commands.Holds)
    return Answer(body=reply.holds[0])
