"""Consumer groups: who consumes what, how far behind, and what they wait for."""

from api.names import GroupName
from api.problems import Problem
from api.request import Answer, Params, Request, ask
from api.schemas import GroupDetail, Groups, copied
from bridge.port import NotFoundError, ResponseCode, commands, get_port


class GroupParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName


async def get_groups(request: Request[Params]) -> Answer:
    reply = await ask(get_port(), commands.GetConsumerGroups(), commands.ConsumerGroups)
    return Answer(body=copied(Groups, reply))


async def get_group(request: Request[GroupParams]) -> Answer:
    port, name = get_port(), request.params.group
    groups = await ask(port, commands.GetConsumerGroups(), commands.ConsumerGroups)
    found = next((group for group in groups.groups if group.group == name), None)
    if found is None:
        raise Problem(404, f"the group {name} has neither offsets nor held pulls",
            code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, pointer="/group")
    try:
        offsets = (await ask(port, commands.QueryConsumerOffset(group=name), commands.ConsumerOffsets)).offsets
    except NotFoundError:
        offsets = []  # it has held pulls, and has not committed anything yet
    holds = await ask(port, commands.GetHolds(group=name), commands.Holds)
    return Answer(body=GroupDetail(broker=found.broker, group=name, topics=found.topics, lag=found.lag,
        offsets=offsets, holds=holds.holds))
