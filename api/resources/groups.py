"""Consumer groups: their members, queues, lag, and held pulls."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, structs

from api.http import brokers
from api.http.names import GroupName, OptionalGroupName
from api.http.request import Answer, Params, Request
from api.http.routes import Route
from api.http.schemas import MOST_ENTRIES, Limit, Model, Unavailable, copied
from api.resources.clients import Client, render
from bridge.port import BrokerError, ConflictError, NotFoundError, UnavailableError, allocate_averagely, commands

MAX_LOOKED_FOR = 100


class Groups(Model, frozen=True, kw_only=True, gc=False):
    """Groups of each broker, by name. `next` is the `after` of the next page, if any.

    `state` is about progress alone. `problems` are the ids of the group's verdicts with the severity error or warning,
    the worst first, and `severity` is that of the first one, null without problems. What a broker causes for all its
    groups is not among them. With more than 500 queues or members, neither is what is wrong with single queues, members
    and filters. With several brokers, neither are missing topics, filters that no message passes, and what depends on
    the allocation of queues.
    """

    seq: int
    groups: list[commands.ConsumerGroupView]
    next: str | UnsetType = UNSET
    unavailable: Unavailable | UnsetType = UNSET


class GroupQueue(Model, frozen=True, kw_only=True, gc=False):
    """One queue from a group's point of view. What is unknown, or does not exist, is null.

    `assigned_to`: the member to which RocketMQ's default allocation gives the queue. `polled_by`: the client that
    pulled from it last; `polled_ms_ago`: how long ago. `offset`: the committed offset. `pull_offset`: where the next
    pull will start. `lag_ms`: the age of the next message. `locked_by`: the client that has the queue's orderly lock.

    `state` is `held` (a pull is in the pullRequestTable), `polling` (the last pull is recent), `busy` (the client
    has messages of it, and received or committed some in the last 30 s, so it need not ask), `not_polling` (a member
    has the queue, but nobody pulls from it), `unassigned` (no member has it) or `not_known` (RocketMQ
    does not report the pulls of an attached broker). `why` explains the state in a sentence.
    """

    broker: str
    topic: str
    queue_id: int
    assigned_to: str | None
    polled_by: str | None
    polled_ms_ago: int | None
    state: Literal["held", "polling", "busy", "not_polling", "unassigned", "not_known"]
    why: str
    offset: int | None
    pull_offset: int | None
    min_offset: int
    max_offset: int
    lag: int | None
    lag_ms: int | None
    locked_by: str | None


class QueueName(Model, frozen=True, kw_only=True, gc=False):
    broker: str
    topic: str
    queue_id: int


class Assignment(Model, frozen=True, kw_only=True, gc=False):
    """The queues that the default allocation gives to one member."""

    client_id: str
    queues: list[QueueName]


class GroupDetail(Model, frozen=True, kw_only=True, gc=False):
    """One group: its members, their subscriptions and queues, its lag, and its held pulls.

    `consume_type`, `message_model`, `consume_from_where` are RocketMQ's, and empty without members. `queues` has the
    first 2000 of `queues_total` for each broker. `lag` and `offsets` are of those; `lag` is null if none of them has a
    known lag. `missing_topics` are subscribed topics that no broker of the request has.
    """

    broker: str
    group: str
    seq: int
    topics: list[str]
    lag: int | None
    consume_type: str
    message_model: str
    consume_from_where: str
    members: list[Client]
    subscriptions: list[commands.SubscriptionData]
    assignment: list[Assignment]
    queues: list[GroupQueue]
    queues_total: int
    offsets: list[commands.GroupQueueOffset]
    holds: list[commands.HoldView]
    missing_topics: list[str]
    retries: list[commands.GroupRetries]
    unavailable: Unavailable | UnsetType = UNSET


class GroupsParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[OptionalGroupName, Meta(description="Only groups with names above this one.")] = ""
    limit: Limit = MOST_ENTRIES


class GroupParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: GroupName


async def get_groups(request: Request[GroupsParams]) -> Answer:
    """Groups by name, each with its lag, its state and its problems, in pages."""
    params = request.params
    alone = len(brokers.ports_of("")) == 1  # members also have queues at the brokers that are not asked
    command = commands.GetConsumerGroups(after=params.after, limit=params.limit, alone=alone)
    replies = await brokers.ask_all(params.broker, command, commands.ConsumerGroups)
    pages = ((reply.groups, reply.next is not None) for reply in replies.by_broker.values())
    groups, end = brokers.first_page(pages, lambda group: group.group)
    return Answer(
        body=Groups(seq=replies.seq, groups=groups, next=UNSET if end is None else end, unavailable=replies.missing)
    )


async def get_group(request: Request[GroupParams]) -> Answer:
    """One group at all brokers, or at the one that `broker` names."""
    params = request.params
    replies = await brokers.ask_all(
        params.broker, commands.GetConsumerGroup(group=params.group), commands.ConsumerGroupDetail
    )
    holds = await brokers.ask_all(params.broker, commands.GetHolds(group=params.group), commands.Holds)
    views = replies.by_broker
    one = next((view for view in views.values() if view.members), next(iter(views.values())))
    members = _members(views.values())
    queues = _queues(views, sorted(members))
    subscriptions = {entry.topic: entry for view in views.values() for entry in view.subscriptions}
    return Answer(
        body=copied(
            GroupDetail,
            one,
            broker=", ".join(views),
            seq=replies.seq,
            topics=sorted({*subscriptions, *(queue.topic for queue in queues)}),
            lag=_known_lag(queues),
            members=[render(member) for member in members.values()],
            subscriptions=list(subscriptions.values()),
            assignment=_assignment(members, queues),
            queues=queues,
            queues_total=sum(view.queues_total for view in views.values()),
            offsets=[_offset(queue, queue.offset) for queue in queues if queue.offset is not None],
            holds=[hold for table in holds.by_broker.values() for hold in table.holds],
            missing_topics=await topics_missing(
                params.broker, replies.unavailable, [view.missing_topics for view in views.values()]
            ),
            retries=[view.retries for view in views.values()],
            unavailable=replies.missing,
        )
    )


async def topics_missing(broker: str, unavailable: list[str], missing_at: Iterable[Iterable[str]]) -> list[str]:
    """Of the topics missing at any broker, those that no broker of the request has. With several brokers, only the
    first 100 are looked for.

    Empty while a broker is unreachable, because it may have them.
    """
    missing = sorted({topic for topics in missing_at for topic in topics})
    if len(brokers.ports_of(broker)) == 1:
        return missing
    if unavailable:
        return []
    missing = missing[:MAX_LOOKED_FOR]
    nowhere = await asyncio.gather(*map(_is_nowhere, missing))
    return [topic for topic, is_nowhere in zip(missing, nowhere, strict=True) if is_nowhere]


async def _is_nowhere(topic: str) -> bool:
    """Whether no broker has the topic: each answered, and none has it."""
    try:
        await brokers.ask_all("", commands.GetTopic(topic=topic), commands.Topics)
    except NotFoundError:
        return True
    except BrokerError:
        return False  # a broker did not answer
    return False


async def delete_group(request: Request[GroupParams]) -> Answer:
    """Refused while the group has members at any broker, or a broker that may have some does not answer."""
    params = request.params
    known = await brokers.ask_all(
        params.broker, commands.GetConsumerGroup(group=params.group), commands.ConsumerGroupDetail
    )
    members = {member.client_id for view in known.by_broker.values() for member in view.members}
    if members:
        raise ConflictError(
            f"group {params.group} has {len(members)} {'member' if len(members) == 1 else 'members'} "
            "online; it can be deleted when they have left",
            pointer="/group",
        )
    if known.unavailable:
        raise UnavailableError(
            f"no answer from {', '.join(known.unavailable)} about members of group {params.group}; "
            "nothing was deleted; try again later, or name a broker with ?broker="
        )
    done = await brokers.ask_all(
        params.broker,
        commands.DeleteSubscriptionGroup(group=params.group, clean_offset=True, members_ok=False, missing_ok=False),
        commands.Done,
    )
    if done.unavailable:
        raise UnavailableError(
            f"the group is deleted at {', '.join(done.by_broker)}, but not at {', '.join(done.unavailable)}; try again"
        )
    return Answer()


def _members(views: Iterable[commands.ConsumerGroupDetail]) -> dict[str, commands.ClientView]:
    """Members by client id; a client of several brokers is one member."""
    members: dict[str, commands.ClientView] = {}
    for view in views:
        for member in view.members:
            known = members.get(member.client_id)
            members[member.client_id] = (
                member if known is None else structs.replace(known, holds=_sum_of_known(known.holds, member.holds))
            )
    return members


def _sum_of_known(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _queues(views: Mapping[str, commands.ConsumerGroupDetail], client_ids: list[str]) -> list[GroupQueue]:
    """The queues of all brokers. Members share all of them, so with several brokers the allocation is computed here."""
    queues = sorted(
        (copied(GroupQueue, queue, broker=broker) for broker, view in views.items() for queue in view.queues),
        key=lambda queue: (queue.topic, queue.broker, queue.queue_id),
    )
    if len(views) == 1:
        return queues
    owners = shared_owners(
        ((queue.topic, queue.broker, queue.queue_id) for queue in queues if queue.assigned_to is not None), client_ids
    )
    return [
        structs.replace(queue, assigned_to=owners.get((queue.topic, queue.broker, queue.queue_id))) for queue in queues
    ]


Place = tuple[str, str, int]
"""(topic, broker, queue id)."""


def shared_owners(places: Iterable[Place], client_ids: list[str]) -> dict[Place, str]:
    """Which member has each queue by the default allocation over the queues of all brokers."""
    by_topic: dict[str, list[Place]] = {}
    for place in sorted(places):
        by_topic.setdefault(place[0], []).append(place)
    return {
        place: client_id
        for own in by_topic.values()
        for client_id in client_ids
        for place in allocate_averagely(own, client_ids, client_id)
    }


def _assignment(client_ids: Iterable[str], queues: list[GroupQueue]) -> list[Assignment]:
    return [
        Assignment(
            client_id=client_id,
            queues=[
                QueueName(broker=queue.broker, topic=queue.topic, queue_id=queue.queue_id)
                for queue in queues
                if queue.assigned_to == client_id
            ],
        )
        for client_id in client_ids
    ]


def _known_lag(queues: Iterable[GroupQueue]) -> int | None:
    lags = [queue.lag for queue in queues if queue.lag is not None]
    return sum(lags) if lags else None


def _offset(queue: GroupQueue, offset: int) -> commands.GroupQueueOffset:
    return commands.GroupQueueOffset(
        topic=queue.topic,
        queue_id=queue.queue_id,
        offset=offset,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
        lag=queue.lag or 0,
        lag_ms=queue.lag_ms,
    )


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/groups",
        handler=get_groups,
        group="Groups",
        summary="All groups",
        params=GroupsParams,
        response=Groups,
        problems=(504,),
    ),
    Route(
        method="GET",
        path="/api/v1/groups/{group}",
        handler=get_group,
        group="Groups",
        summary="One group: members, queues, lag, held pulls",
        params=GroupParams,
        response=GroupDetail,
        problems=(404, 504),
    ),
    Route(
        method="DELETE",
        path="/api/v1/groups/{group}",
        handler=delete_group,
        group="Groups",
        summary="Delete a group without members: its configuration and its offsets",
        params=GroupParams,
        status=204,
        problems=(403, 404, 409, 504),
    ),
)
