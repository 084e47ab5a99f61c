"""Consumed offsets of a group: read, commit, and reset with a preview."""

from api.http import brokers
from api.http.limits import MAX_REQUEST_BODY
from api.http.names import GroupName, OptionalTopicName
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.http.schemas import (
    CommittedOffset,
    CommittedOffsets,
    GroupOffsets,
    OffsetsReset,
    OffsetsToCommit,
    OffsetToCommit,
    ResetOffsets,
    copied,
)
from bridge.port import commands


class GroupParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName


class GroupOffsetsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName
    topic: OptionalTopicName = ""


def commit_command(group: str, offsets: list[OffsetToCommit], client_id: str) -> commands.UpdateConsumerOffset:
    return commands.UpdateConsumerOffset(
        group=group,
        client_id=client_id,
        offsets=[
            commands.QueueOffset(topic=entry.topic, queue_id=entry.queue_id, offset=entry.offset) for entry in offsets
        ],
    )


async def get_offsets(request: Request[GroupOffsetsParams]) -> Answer:
    params = request.params
    broker = await brokers.one(params.broker, params.topic)
    reply = await ask(
        broker.port, commands.QueryConsumerOffset(group=params.group, topic=params.topic), commands.ConsumerOffsets
    )
    return Answer(body=copied(GroupOffsets, reply, broker=broker.name))


async def put_offsets(request: Request[GroupParams]) -> Answer:
    """All of them are committed or, with an error, none; they may go backwards."""
    group, offsets = request.params.group, request.body.offsets
    host, client_port = request.client
    broker = await brokers.one(request.params.broker, offsets[0].topic if offsets else "")
    await ask(broker.port, commit_command(group, offsets, f"{host}:{client_port}"), commands.Done)
    return Answer(body=CommittedOffsets(group=group, offsets=[copied(CommittedOffset, entry) for entry in offsets]))


async def reset_offsets(request: Request[GroupParams]) -> Answer:
    """Moves the group in one topic; with ``dry_run`` only says what would change."""
    body = request.body
    broker = await brokers.one(request.params.broker, body.topic)
    reply = await ask(
        broker.port,
        commands.ResetConsumerOffset(
            group=request.params.group, topic=body.topic, to=str(body.to), dry_run=body.dry_run
        ),
        commands.OffsetsReset,
    )
    return Answer(body=copied(OffsetsReset, reply, broker=broker.name))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/groups/{group}/offsets",
        handler=get_offsets,
        group="Groups",
        summary="Consumed offsets",
        params=GroupOffsetsParams,
        response=GroupOffsets,
        problems=(404, 504),
    ),
    Route(
        method="PUT",
        path="/api/v1/groups/{group}/offsets",
        handler=put_offsets,
        group="Groups",
        summary="Commit offsets",
        params=GroupParams,
        bodies=(OffsetsToCommit,),
        body_limit=MAX_REQUEST_BODY,
        response=CommittedOffsets,
        problems=(403, 404, 413, 504),
    ),
    Route(
        method="POST",
        path="/api/v1/groups/{group}/offsets/reset",
        handler=reset_offsets,
        group="Groups",
        summary="Reset offsets, or preview it",
        params=GroupParams,
        bodies=(ResetOffsets,),
        response=OffsetsReset,
        problems=(403, 404, 504),
    ),
)
