"""Consumer groups: who is in them, who has which queue, how far behind they are, how they are configured."""

from typing import Any, Literal

from broker_core.commands.base import Command, Reply, Shape
from broker_core.commands.clients import ClientView, SubscriptionData


class GetConsumerGroups(Command, frozen=True):
    """Every group that has members or offsets, or that pulled. -> ConsumerGroups"""


class ConsumerGroupView(Shape, frozen=True):
    """``lag`` in messages over all its queues; ``holds`` are its held pulls; ``members`` its clients."""

    broker: str
    group: str
    topics: list[str]
    lag: int
    holds: int
    members: int = 0
    message_model: str = ""


class ConsumerGroups(Reply, frozen=True):
    seq: int
    groups: list[ConsumerGroupView]


class GetConsumerGroup(Command, frozen=True):
    """One group in full. -> ConsumerGroupDetail; Failed SUBSCRIPTION_GROUP_NOT_EXIST when nothing is known of it"""

    group: str


class GroupQueueView(Shape, frozen=True):
    """One queue as a group sees it.

    ``assigned_to`` is who should have it by AllocateMessageQueueAveragely over this broker's queues (None: nobody,
    or a group that does not share queues); ``polled_by`` who asked for it last, ``polled_ms_ago`` when. ``offset`` is
    the committed one, None when there is none; ``pull_offset`` where the next pull goes on, so what lies between is
    with the client. ``state``: ``held`` a pull is in the pullRequestTable, ``polling`` one came lately,
    ``not_polling`` it is assigned and nobody asks, ``unassigned`` no member is there to ask; ``why`` says it in a
    sentence. ``locked_by`` is the holder of its orderly lock.
    """

    topic: str
    queue_id: int
    assigned_to: str | None
    polled_by: str | None
    polled_ms_ago: int | None
    state: Literal["held", "polling", "not_polling", "unassigned"]
    offset: int | None
    pull_offset: int | None
    min_offset: int
    max_offset: int
    lag: int | None
    lag_ms: int | None
    locked_by: str | None = None
    why: str = ""


class GroupRetries(Shape, frozen=True):
    """What a group could not consume.

    ``waiting`` messages come to it again, the first at ``next_due_ms`` (wall time, None while there are none);
    ``counted`` False: there may be more, due earlier perhaps, ask again. ``dead_letters`` do not come again: they lie
    in queue 0 of ``dead_letter_topic``, from offset ``dead_letters_from`` on.
    """

    broker: str
    waiting: int
    next_due_ms: int | None
    counted: bool
    dead_letter_topic: str
    dead_letters: int
    dead_letters_from: int


class ConsumerGroupDetail(Reply, frozen=True):
    """``consume_type``, ``message_model`` and ``consume_from_where`` are empty for a group without members.

    ``queues`` are the first 2000, by topic; ``queues_total`` counts all. ``missing_topics`` are those that it
    subscribes to and that this broker does not have.
    """

    seq: int
    broker: str
    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    members: list[ClientView]
    subscriptions: list[SubscriptionData]
    queues: list[GroupQueueView]
    queues_total: int
    missing_topics: list[str]
    retries: GroupRetries


# --- Configuration: RocketMQ's SubscriptionGroupConfig, in its JSON form -------------------------------------------


class UpdateSubscriptionGroup(Command, frozen=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP; all but ``groupName`` has defaults. -> SubscriptionGroups"""

    config: dict[str, Any]


class GetSubscriptionGroups(Command, frozen=True):
    """One group's configuration, or all. -> SubscriptionGroups; Failed SUBSCRIPTION_GROUP_NOT_EXIST

    ``or_default``: of a group that is not known yet, what it would have if a client came with it now.
    """

    group: str = ""
    or_default: bool = False


class SubscriptionGroups(Reply, frozen=True):
    """``configs`` by group, ``data_version`` and ``forbidden`` (group -> topic -> bits) as subscriptionGroup.json has
    them."""

    data_version: dict[str, int]
    configs: dict[str, dict[str, Any]]
    forbidden: dict[str, dict[str, int]]


class DeleteSubscriptionGroup(Command, frozen=True):
    """DELETE_SUBSCRIPTIONGROUP. -> Done; Failed conflict for a group with members without ``members_ok``, Failed
    SUBSCRIPTION_GROUP_NOT_EXIST for one of which nothing is known without ``missing_ok``"""

    group: str
    clean_offset: bool = False
    members_ok: bool = True
    missing_ok: bool = True


GroupCommand = (
    GetConsumerGroups | GetConsumerGroup | UpdateSubscriptionGroup | GetSubscriptionGroups | DeleteSubscriptionGroup
)
GroupReply = ConsumerGroups | ConsumerGroupDetail | SubscriptionGroups
