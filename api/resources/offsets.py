"""Consumed offsets of a group: read, commit, and reset with a preview."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.limits import MAX_REQUEST_BODY
from api.http.names import GroupName, OptionalTopicName, TopicName
from api.http.problems import Problem
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.http.schemas import (
    AfterQueue,
    Body,
    CommittedOffset,
    Milliseconds,
    Model,
    OffsetToCommit,
    QueueId,
    QueueOffset,
    QueuesLimit,
    copied,
)
from bridge.port import commands


class OffsetsToCommit(Body, frozen=True, kw_only=True, gc=False):
    """The next offsets that the group will consume. All are committed or, with an error, none."""

    offsets: Annotated[list[OffsetToCommit], Meta(min_length=1, max_length=10_000)]


class CommittedOffsets(Model, frozen=True, kw_only=True, gc=False):
    group: str
    offsets: list[CommittedOffset]


class GroupOffsets(Model, frozen=True, kw_only=True, gc=False):
    """Consumed offsets in the order of topic and queue, with their lag in messages and in time (null: unknown).

    `next` is the `after` of the next page, if any.
    """

    broker: str
    group: str
    offsets: list[commands.GroupQueueOffset]
    next: str | UnsetType = UNSET


class ResetOffsets(Body, frozen=True, kw_only=True, gc=False):
    """Either `to`: `min`, `max` or a store time in ms; or `offset`, an exact one. Without `queue_id` for all queues.

    With `dry_run` nothing is changed.
    """

    topic: TopicName
    to: Milliseconds | Annotated[str, Meta(pattern=r"^(min|max|[0-9]{1,18})$(?!\n)")] | UnsetType = UNSET
    offset: QueueOffset | UnsetType = UNSET
    queue_id: QueueId | UnsetType = UNSET
    dry_run: bool = False


class OffsetsReset(Model, frozen=True, kw_only=True, gc=False):
    broker: str
    group: str
    dry_run: bool
    changes: list[commands.OffsetChange]


class GroupParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName


class GroupOffsetsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName
    topic: OptionalTopicName = ""
    after: AfterQueue = ""
    limit: QueuesLimit = 1000


def commit_command(group: str, offsets: list[OffsetToCommit], client_id: str) -> commands.UpdateConsumerOffset:
    return commands.UpdateConsumerOffset(
        group=group,
        client_id=client_id,
        offsets=[
            commands.QueueOffset(topic=entry.topic, queue_id=entry.queue_id, offset=entry.offset) for entry in offsets
        ],
    )


async def get_offsets(request: Request[GroupOffsetsParams]) -> Answer:
    """The next offset that the group will consume in each queue, and how far it is from the queue's end, in pages."""
    params = request.params
    broker = await brokers.single_broker(params.broker, params.topic)
    command = commands.QueryConsumerOffset(
        group=params.group, topic=params.topic, after=params.after, limit=params.limit
    )
    reply = await ask(broker.port, command, commands.ConsumerOffsets)
    following = UNSET if reply.next is None else reply.next
    return Answer(body=copied(GroupOffsets, reply, broker=broker.name, next=following))


async def put_offsets(request: Request[GroupParams]) -> Answer:
    """Commits all of them or, with an error, none. Offsets may go backwards."""
    group, offsets = request.params.group, request.body.offsets
    host, client_port = request.client
    broker = await brokers.single_broker(request.params.broker, offsets[0].topic if offsets else "")
    await ask(broker.port, commit_command(group, offsets, f"{host}:{client_port}"), commands.Done)
    return Answer(body=CommittedOffsets(group=group, offsets=[copied(CommittedOffset, entry) for entry in offsets]))


async def reset_offsets(request: Request[GroupParams]) -> Answer:
    """Moves the group in one topic; with `dry_run` it returns the changes and makes none."""
    body: ResetOffsets = request.body
    if (body.to is UNSET) == (body.offset is UNSET):
        raise Problem(400, "send either `to` (min, max or a time in ms) or `offset`", pointer="/to")
    broker = await brokers.single_broker(request.params.broker, body.topic)
    reply = await ask(
        broker.port,
        commands.ResetConsumerOffset(
            group=request.params.group,
            topic=body.topic,
            to="" if body.to is UNSET else str(body.to),
            offset=None if body.offset is UNSET else body.offset,
            queue_id=-1 if body.queue_id is UNSET else body.queue_id,
            dry_run=body.dry_run,
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
