"""Consumer groups: their members, the assignment of queues, lag and configuration."""

from typing import Any, Literal

from msgspec import field

from broker_core.commands.base import Command, Reply, Shape
from broker_core.commands.clients import ClientView, SubscriptionData


class GetConsumerGroups(Command, frozen=True):
    """The groups that have members or offsets, or that pulled, with names above ``after``, by name; all of them with
    ``limit`` 0. -> ConsumerGroups

    ``alone``: the members have their queues at this broker only. Otherwise nothing is concluded from their shares of
    the queues, from topics that this broker does not have, nor from filters that no message passed here.
    """

    after: str = ""
    limit: int = 0
    alone: bool = False


class ConsumerGroupView(Shape, frozen=True):
    """``lag`` is in messages over all queues with a committed offset; None if there are none.

    The lag of ``unknown_queues`` more queues is not known. ``oldest_ms`` is the age of the oldest message in the lag,
    None if there is none or it was deleted. ``holds`` and ``members`` count the held pulls and the clients. ``state``
    is the group's state as in its verdicts. ``consume_tps``: messages delivered per second in the last minute. At an
    attached broker ``holds`` is None and ``consume_tps`` counts committed messages.
    ``retrying`` messages that the group sent back wait for their next delivery; None while they are not all counted.

    ``problems`` are the ids of the group's verdicts with the severity error or warning, the worst first; ``severity``
    is that of the first one, None without problems. What a broker causes for all its groups is not among them. With
    more than 500 queues or members, neither is what is wrong with single queues, members and filters.
    """

    broker: str
    group: str
    topics: list[str]
    lag: int | None
    holds: int | None
    members: int = 0
    message_model: str = ""
    state: Literal["ok", "catching up", "falling behind", "stalled", "stopped", "unknown"] = "unknown"
    unknown_queues: int = 0
    oldest_ms: int | None = None
    consume_tps: float = 0.0
    retrying: int | None = None
    dead_letters: int = 0
    severity: Literal["error", "warning"] | None = None
    problems: list[str] = field(default_factory=list)


class ConsumerGroups(Reply, frozen=True):
    """``next`` is the ``after`` of the next page, None on the last one."""

    seq: int
    groups: list[ConsumerGroupView]
    next: str | None = None


class GetConsumerGroup(Command, frozen=True):
    """One group in full. -> ConsumerGroupDetail; Failed SUBSCRIPTION_GROUP_NOT_EXIST if it is unknown"""

    group: str


class GroupQueueView(Shape, frozen=True):
    """One queue from a group's side.

    ``assigned_to`` is the member that should have the queue by AllocateMessageQueueAveragely over this broker's queues,
    None without a member or in a group that does not share queues. ``polled_by`` is the client that pulled last,
    ``polled_ms_ago`` when. ``offset`` is the committed offset, None without one. ``pull_offset`` is where the next pull
    will start, so the client has the messages between the two.

    ``state``: ``held``: a pull is in the pullRequestTable. ``polling``: the last pull is recent. ``busy``: the member
    that pulled last has messages, and received or committed some in the last 30 s. ``not_polling``: a member
    subscribes to the topic, but none of this is true. ``unassigned``: no member subscribes to the topic.
    ``not_known``: the broker is attached, and RocketMQ does not report pulls. ``why`` is the reason as a sentence.
    ``locked_by`` is the client that holds the queue's lock for ordered consumption.

    Progress since the broker started; None is unknown. ``moved_ms_ago``: when the committed offset changed last.
    ``handed`` messages were sent to the client and are not committed; the first one that was sent to any client and is
    not committed was sent ``handed_ms_ago``. This client took the queue over ``taken_ms_ago``. The lag ``is_growing``
    if it rose by more than noise and has not fallen as much since. Where its present trend began,
    ``lag_before_ms_ago``, it was ``lag_before``. The next pull's answer moves the group to ``reset_to``.
    """

    topic: str
    queue_id: int
    assigned_to: str | None
    polled_by: str | None
    polled_ms_ago: int | None
    state: Literal["held", "polling", "busy", "not_polling", "unassigned", "not_known"]
    offset: int | None
    pull_offset: int | None
    min_offset: int
    max_offset: int
    lag: int | None
    lag_ms: int | None
    locked_by: str | None = None
    why: str = ""
    moved_ms_ago: int | None = None
    handed: int = 0
    handed_ms_ago: int | None = None
    taken_ms_ago: int | None = None
    lag_before: int | None = None
    lag_before_ms_ago: int | None = None
    is_growing: bool = False
    reset_to: int | None = None


class GroupRetries(Shape, frozen=True):
    """Messages that a group could not consume.

    ``waiting`` messages will be delivered again, the first one at ``next_due_ms`` (wall time, None without one). If
    ``counted`` is False, there may be more messages, and one of them may be due earlier: ask again. ``dead_letters``
    are not delivered again: they are in queue 0 of ``dead_letter_topic``, from offset ``dead_letters_from`` on.
    """

    broker: str
    waiting: int
    next_due_ms: int | None
    counted: bool
    dead_letter_topic: str
    dead_letters: int
    dead_letters_from: int


class GetWaitingRetries(Command, frozen=True):
    """The messages that wait for a group's next try, in the order in which they are due. -> RetriesWaiting

    At most ``max_num``, and at most 64, that follow the place ``after``, one of the texts of a RetriesWaiting. Failed
    SUBSCRIPTION_GROUP_NOT_EXIST if the group is unknown.
    """

    group: str
    max_num: int = 32
    after: str = ""


class RetriesWaiting(Reply, frozen=True):
    """Whole commit log records, back to back; when each is due, and its place in the list as a text.

    ``retries`` counts all. ``next`` is the ``after`` of the next page, None on the last one.
    """

    retries: GroupRetries
    records: bytes
    due_ms: list[int]
    places: list[str]
    next: str | None = None


class ConsumerGroupDetail(Reply, frozen=True):
    """``consume_type``, ``message_model`` and ``consume_from_where`` are empty for a group without members.

    ``queues`` are the first 2000, in the order of their topics; ``queues_total`` counts all. ``missing_topics`` are
    topics that the group subscribes to, but this broker does not have.
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
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP; only ``groupName`` has no default. -> SubscriptionGroups"""

    config: dict[str, Any]


class GetSubscriptionGroups(Command, frozen=True):
    """One group's configuration, or that of all groups. -> SubscriptionGroups; Failed SUBSCRIPTION_GROUP_NOT_EXIST

    ``or_default``: for an unknown group, return the configuration with which a client's heartbeat would create it.
    """

    group: str = ""
    or_default: bool = False


class SubscriptionGroups(Reply, frozen=True):
    """``configs`` by group, ``forbidden`` as group -> topic -> bits.

    These and ``data_version`` have the form that they have in subscriptionGroup.json.
    """

    data_version: dict[str, int]
    configs: dict[str, dict[str, Any]]
    forbidden: dict[str, dict[str, int]]


class DeleteSubscriptionGroup(Command, frozen=True):
    """DELETE_SUBSCRIPTIONGROUP. -> Done

    Without ``members_ok``, a group with members gets Failed (conflict). Without ``missing_ok``, an unknown group gets
    Failed SUBSCRIPTION_GROUP_NOT_EXIST.
    """

    group: str
    clean_offset: bool = False
    members_ok: bool = True
    missing_ok: bool = True


GroupCommand = (
    GetConsumerGroups
    | GetConsumerGroup
    | GetWaitingRetries
    | UpdateSubscriptionGroup
    | GetSubscriptionGroups
    | DeleteSubscriptionGroup
)
GroupReply = ConsumerGroups | ConsumerGroupDetail | RetriesWaiting | SubscriptionGroups
