"""Why a group's consumers wait."""

from typing import Annotated

from msgspec import Meta, structs

from api.http import brokers
from api.http.names import GroupName
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.resources.groups import shared_owners, topics_missing
from bridge.port import PATIENCE_MS, Verdicts, commands, judge

MAX_PATIENCE_MS = 86_400_000


class VerdictParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName
    patience_ms: Annotated[
        int, Meta(ge=100, le=MAX_PATIENCE_MS, description="How long messages may wait without progress, ms.")
    ] = PATIENCE_MS


async def get_verdicts(request: Request[VerdictParams]) -> Answer:
    """Verdicts on the group at all brokers, or at the one that `broker` names, the worst first."""
    params = request.params
    replies = await brokers.ask_all(params.broker, commands.GetGroupFacts(group=params.group), commands.GroupFacts)
    facts = list(replies.by_broker.values())
    missing = await topics_missing(params.broker, replies.unavailable, [one.detail.missing_topics for one in facts])
    facts = [structs.replace(one, detail=structs.replace(one.detail, missing_topics=missing)) for one in facts]
    return Answer(body=judge(_with_owners(facts), unavailable=replies.unavailable, patience_ms=params.patience_ms))


def _with_owners(facts: list[commands.GroupFacts]) -> list[commands.GroupFacts]:
    """The facts with the members' shares of all queues: each broker knows only its own queues."""
    if len(facts) == 1:
        return facts
    owners = shared_owners(
        (
            (queue.topic, one.detail.broker, queue.queue_id)
            for one in facts
            for queue in one.detail.queues
            if queue.assigned_to is not None
        ),
        sorted({member.client_id for one in facts for member in one.detail.members}),
    )
    return [
        structs.replace(
            one,
            detail=structs.replace(
                one.detail,
                queues=[
                    structs.replace(queue, assigned_to=owners.get((queue.topic, one.detail.broker, queue.queue_id)))
                    for queue in one.detail.queues
                ],
            ),
        )
        for one in facts
    ]


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/groups/{group}/verdicts",
        handler=get_verdicts,
        group="Groups",
        summary="Why the group's consumers wait",
        params=VerdictParams,
        response=Verdicts,
        problems=(404, 504),
    ),
)
