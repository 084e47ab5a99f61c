"""Topics and their queues."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from api.http import brokers
from api.http.names import OptionalGroupName, OptionalTopicName, TopicName
from api.http.problems import Problem, escaped
from api.http.request import Answer, Params, Request, ask
from api.http.routes import Route
from api.http.schemas import (
    MOST_ENTRIES,
    AfterQueue,
    Body,
    Limit,
    Milliseconds,
    Model,
    QueueId,
    QueuesLimit,
    Unavailable,
)
from bridge.port import BrokerError, ResponseCode, commands

ShortText = Annotated[str, Meta(max_length=255)]


class TopicConfig(Body, frozen=True, kw_only=True, gc=False):
    """The configuration of a topic. A field that is left out stays unchanged (a new topic: 4 queues, perm 6).

    `queues` sets both `read_queues` and `write_queues`. `perm` is the sum of 4 (read), 2 (write) and 1 (inherit).
    `attributes` are changes, as `mqadmin updateTopic -a` has them: `{"+message.type": "FIFO"}` sets an attribute,
    `{"-message.type": ""}` removes it. `{"+queue.type": "BatchCQ"}` gives a new topic batch consume queues.
    """

    queues: Annotated[int, Meta(ge=1, le=1024)] | None = None
    read_queues: Annotated[int, Meta(ge=1, le=1024)] | None = None
    write_queues: Annotated[int, Meta(ge=1, le=1024)] | None = None
    perm: Annotated[int, Meta(ge=0, le=7)] | None = None
    attributes: (
        Annotated[
            dict[ShortText, ShortText],
            Meta(max_length=16, description="Changes by `+name` (with the value) or `-name` (with an empty text)."),
        ]
        | None
    ) = None


class Topics(Model, frozen=True, kw_only=True, gc=False):
    """Topics of each broker, by name. `next` is the `after` of the next page, if any."""

    seq: int
    topics: list[commands.TopicView]
    next: str | UnsetType = UNSET
    unavailable: Unavailable | UnsetType = UNSET


class Queues(Model, frozen=True, kw_only=True, gc=False):
    """Queues in the order of topic and id. `next` is the `after` of the next page, if any."""

    seq: int
    queues: list[commands.QueueView]
    next: str | UnsetType = UNSET
    unavailable: Unavailable | UnsetType = UNSET


class TopicGroups(Model, frozen=True, kw_only=True, gc=False):
    """The groups that subscribe to a topic or have offsets in it, by name.

    `total` counts all; `next` is the `after` of the next page.
    """

    topic: str
    groups: list[str]
    total: int
    next: str | UnsetType = UNSET
    unavailable: Unavailable | UnsetType = UNSET


class TopicGroupsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName
    after: Annotated[OptionalGroupName, Meta(description="Only groups with names above this one.")] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_ENTRIES, description="Maximum number of groups.")] = 1000


class FoundOffset(Model, frozen=True, kw_only=True, gc=False):
    broker: str
    topic: str
    queue_id: int
    offset: int


class TopicsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    system: Annotated[bool, Meta(description="Also the broker's own topics.")] = True
    after: Annotated[OptionalTopicName, Meta(description="Only topics with names above this one.")] = ""
    limit: Limit = MOST_ENTRIES


class TopicParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName


class QueuesParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: OptionalTopicName = ""
    after: AfterQueue = ""
    limit: QueuesLimit = 1000


class SearchParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: TopicName
    queue_id: QueueId
    timestamp_ms: Milliseconds
    boundary: Annotated[
        Literal["lower", "upper"], Meta(description="Of several messages of this time the first, or the last.")
    ] = "lower"


async def get_topics(request: Request[TopicsParams]) -> Answer:
    """Topics by name, of all brokers or of the one that `broker` names, in pages."""
    params = request.params
    command = commands.GetTopics(system=params.system, after=params.after, limit=params.limit)
    replies = await brokers.ask_all(params.broker, command, commands.Topics)
    pages = ((reply.topics, reply.next is not None) for reply in replies.by_broker.values())
    topics, end = brokers.first_page(pages, lambda topic: topic.topic)
    return Answer(
        body=Topics(seq=replies.seq, topics=topics, next=UNSET if end is None else end, unavailable=replies.missing)
    )


async def get_topic(request: Request[TopicParams]) -> Answer:
    """The topic's configuration at one broker, and how many messages it stores."""
    params = request.params
    broker = await brokers.single_broker(params.broker, params.topic)
    reply = await ask(broker.port, commands.GetTopic(topic=params.topic), commands.Topics)
    return Answer(body=reply.topics[0])


async def put_topic(request: Request[TopicParams]) -> Answer:
    """Creates or changes the topic at every broker that is asked. The answer is the topic at the first of them."""
    body: TopicConfig = request.body
    if body.queues is not None and body.read_queues is not None and body.write_queues is not None:
        raise Problem(
            400, "queues sets read_queues and write_queues; send either queues or the other two", pointer="/queues"
        )
    _check_signs(body.attributes or {})
    command = commands.UpdateAndCreateTopic(
        topic=request.params.topic,
        read_queues=body.queues if body.read_queues is None else body.read_queues,
        write_queues=body.queues if body.write_queues is None else body.write_queues,
        perm=body.perm,
        attributes=body.attributes,
    )
    try:
        _, reply = await brokers.ask_first(request.params.broker, command, commands.Topics)
    except BrokerError as error:
        if error.pointer.startswith("/attributes"):
            error.code = ResponseCode.INVALID_PARAMETER  # RocketMQ's SYSTEM_ERROR does not say whose fault it is
        raise
    brokers.forget_topics()
    return Answer(body=reply.topics[0])


def _check_signs(attributes: Mapping[str, str]) -> None:
    """Problem 400 for the name of an attribute without ``+`` or ``-``."""
    for name in attributes:
        if name[:1] not in ("+", "-"):
            raise Problem(
                400,
                f"{name!r} begins neither with + nor with -: write {'+' + name!r} to set the attribute, "
                f"{'-' + name!r} to remove it",
                pointer=f"/attributes/{escaped(name)}",
            )


async def delete_topic(request: Request[TopicParams]) -> Answer:
    """Deletes the topic at every broker that is asked. Its messages cannot be read any more."""
    params = request.params
    await brokers.ask_all(params.broker, commands.DeleteTopic(topic=params.topic), commands.Done)
    brokers.forget_topics()
    return Answer()


async def get_topic_queues(request: Request[TopicParams]) -> Answer:
    """The offsets and held pulls of each queue of the topic, at every broker that has it."""
    return await _queues(request.params.broker, commands.GetQueues(topic=request.params.topic))


async def get_topic_groups(request: Request[TopicGroupsParams]) -> Answer:
    """The groups that subscribe to the topic or have offsets in it, at any broker, in pages."""
    params = request.params
    await brokers.ask_first(params.broker, commands.GetTopic(topic=params.topic), commands.Topics)
    replies = await brokers.ask_all(
        params.broker, commands.QueryTopicConsumeByWho(topic=params.topic), commands.GroupNames
    )
    groups = {name for reply in replies.by_broker.values() for name in reply.groups}
    left = sorted(name for name in groups if name > params.after)
    page = left[: params.limit]
    following = page[-1] if len(page) < len(left) else UNSET
    return Answer(
        body=TopicGroups(
            topic=params.topic, groups=page, total=len(groups), next=following, unavailable=replies.missing
        )
    )


async def get_queues(request: Request[QueuesParams]) -> Answer:
    """Queues by topic and id, in pages."""
    params = request.params
    command = commands.GetQueues(topic=params.topic, after=params.after, limit=params.limit)
    return await _queues(params.broker, command)


async def _queues(broker: str, command: commands.GetQueues) -> Answer:
    """A page of the queues of all brokers. It ends where the first broker's page ends, if there is a next one."""
    replies = await brokers.ask_all(broker, command, commands.Queues)
    pages = ((table.queues, table.next is not None) for table in replies.by_broker.values())
    queues, end = brokers.first_page(pages, _place)
    following = "{}@{}".format(*end) if end is not None else UNSET
    return Answer(body=Queues(seq=replies.seq, queues=queues, next=following, unavailable=replies.missing))


def _place(queue: commands.QueueView) -> tuple[str, int]:
    return queue.topic, queue.queue_id


async def search_offset(request: Request[SearchParams]) -> Answer:
    """The offset in a queue at a store time: RocketMQ's SEARCH_OFFSET_BY_TIMESTAMP."""
    params = request.params
    broker = await brokers.single_broker(params.broker, params.topic)
    found = await ask(
        broker.port,
        commands.SearchOffset(
            topic=params.topic, queue_id=params.queue_id, timestamp_ms=params.timestamp_ms, boundary=params.boundary
        ),
        commands.FoundOffset,
    )
    return Answer(
        body=FoundOffset(broker=broker.name, topic=params.topic, queue_id=params.queue_id, offset=found.offset)
    )


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/topics",
        handler=get_topics,
        group="Topics",
        summary="All topics",
        params=TopicsParams,
        response=Topics,
        problems=(504,),
    ),
    Route(
        method="GET",
        path="/api/v1/topics/{topic}",
        handler=get_topic,
        group="Topics",
        summary="One topic",
        params=TopicParams,
        response=commands.TopicView,
        problems=(404, 504),
    ),
    Route(
        method="PUT",
        path="/api/v1/topics/{topic}",
        handler=put_topic,
        group="Topics",
        summary="Create or change a topic",
        params=TopicParams,
        bodies=(TopicConfig,),
        response=commands.TopicView,
        problems=(403, 409, 504),
    ),
    Route(
        method="DELETE",
        path="/api/v1/topics/{topic}",
        handler=delete_topic,
        group="Topics",
        summary="Delete a topic, its queues and its offsets",
        params=TopicParams,
        status=204,
        problems=(403, 404, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/topics/{topic}/queues",
        handler=get_topic_queues,
        group="Topics",
        summary="Queues of a topic",
        params=TopicParams,
        response=Queues,
        problems=(404, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/topics/{topic}/groups",
        handler=get_topic_groups,
        group="Topics",
        summary="Groups of a topic",
        params=TopicGroupsParams,
        response=TopicGroups,
        problems=(404, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/queues",
        handler=get_queues,
        group="Topics",
        summary="Queues of all topics",
        params=QueuesParams,
        response=Queues,
        problems=(404, 504),
    ),
    Route(
        method="GET",
        path="/api/v1/topics/{topic}/queues/{queue_id}/offset",
        handler=search_offset,
        group="Topics",
        summary="The offset at a time",
        params=SearchParams,
        response=FoundOffset,
        problems=(404, 504),
    ),
)
