"""Commands of administrators' tools, such as RocketMQ's mqadmin and dashboard."""

from typing import Any, Literal

import msgspec

from broker_core.commands.base import Command, Reply, Shape
from broker_core.commands.clients import MessageModel, MessageQueue, SubscriptionData
from broker_core.commands.topics import QueueView, UpdateAndCreateTopic

# --- Topics ---------------------------------------------------------------------------------------------------------


class UpdateAndCreateTopicList(Command, frozen=True):
    """UPDATE_AND_CREATE_TOPIC_LIST: create or change topics. After an error, none is changed. -> Done"""

    topics: list[UpdateAndCreateTopic]


class GetTopicConfigs(Command, frozen=True):
    """GET_TOPIC_CONFIG, or GET_ALL_TOPIC_CONFIG if ``topic`` is empty. -> TopicConfigs"""

    topic: str = ""


class TopicConfigs(Reply, frozen=True):
    """``configs`` by topic. They and ``data_version`` have the form that they have in topics.json."""

    data_version: dict[str, int]
    configs: dict[str, dict[str, Any]]


class GetTopicStats(Command, frozen=True):
    """GET_TOPIC_STATS_INFO. -> TopicStats; Failed TOPIC_NOT_EXIST"""

    topic: str


class TopicStats(Reply, frozen=True):
    """``put_tps``: messages stored per second, over the last minute."""

    queues: list[QueueView]
    put_tps: float


# --- Groups ---------------------------------------------------------------------------------------------------------


class UpdateSubscriptionGroupList(Command, frozen=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: after an error, no group is changed. -> Done"""

    configs: list[dict[str, Any]]


class UpdateGroupForbidden(Command, frozen=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN: set whether a group may read a topic. None: no change. -> GroupForbidden"""

    group: str
    topic: str
    readable: bool | None = None


class GroupForbidden(Reply, frozen=True):
    group: str
    topic: str
    readable: bool


class GetConsumeStats(Command, frozen=True):
    """GET_CONSUME_STATS: a group's progress in these topics, or in all where it has offsets. -> ConsumeStats"""

    group: str
    topics: list[str] = msgspec.field(default_factory=list)


class OffsetWrapper(Shape, frozen=True):
    """RocketMQ's OffsetWrapper.

    ``broker_offset`` is the queue's end; the next pull will start at ``pull_offset``. ``last_timestamp`` is the store
    time, in ms, of the last consumed message, 0 if it is unknown.
    """

    topic: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_timestamp: int


class ConsumeStats(Reply, frozen=True):
    """``consume_tps``: messages sent to the group per second, over the last minute."""

    consume_tps: float
    queues: list[OffsetWrapper]


class GetBrokerConsumeStats(Command, frozen=True):
    """GET_BROKER_CONSUME_STATS: of all groups; ``is_order``: only in ordered topics. -> BrokerConsumeStats"""

    is_order: bool = False


class BrokerConsumeStats(Reply, frozen=True):
    """``groups``: the statistics of each group, by topic.

    ``total_diff`` is all groups' lag in messages; ``total_inflight_diff`` counts messages pulled but not committed yet.
    """

    broker_addr: str
    groups: dict[str, list[ConsumeStats]]
    total_diff: int
    total_inflight_diff: int


class QueryTopicConsumeByWho(Command, frozen=True):
    """QUERY_TOPIC_CONSUME_BY_WHO: the groups that subscribe to a topic or have offsets in it. -> GroupNames"""

    topic: str


class GroupNames(Reply, frozen=True):
    groups: list[str]


class QueryTopicsByConsumer(Command, frozen=True):
    """QUERY_TOPICS_BY_CONSUMER: the topics in which a group has offsets. -> TopicNames"""

    group: str


class TopicNames(Reply, frozen=True):
    broker_addr: str
    topics: list[str]


class QuerySubscriptionByConsumer(Command, frozen=True):
    """QUERY_SUBSCRIPTION_BY_CONSUMER. -> FoundSubscription"""

    group: str
    topic: str


class FoundSubscription(Reply, frozen=True):
    """``subscription`` is None if the group has no member that subscribes to the topic."""

    group: str
    topic: str
    subscription: SubscriptionData | None


class QueryConsumeTimeSpan(Command, frozen=True):
    """QUERY_CONSUME_TIME_SPAN. -> ConsumeTimeSpans; Failed TOPIC_NOT_EXIST"""

    topic: str
    group: str


class QueueTimeSpan(Shape, frozen=True):
    """RocketMQ's QueueTimeSpan; times are in ms.

    The timestamps are the store times of the queue's first message, its last message and the last consumed one, or -1
    without such a message. ``delay_time`` is the age of the next message to consume, 0 without one.
    """

    queue_id: int
    min_timestamp: int
    max_timestamp: int
    consume_timestamp: int
    delay_time: int


class ConsumeTimeSpans(Reply, frozen=True):
    topic: str
    spans: list[QueueTimeSpan]


class QueryCorrectionOffset(Command, frozen=True):
    """QUERY_CORRECTION_OFFSET: each queue's lowest offset of all groups but ``filter_groups``. -> CorrectionOffsets

    The offset is 2**63 - 1, as in RocketMQ, for a queue where ``compare_group`` is behind all these groups.
    """

    topic: str
    filter_groups: list[str] = msgspec.field(default_factory=list)
    compare_group: str = ""


class CorrectionOffsets(Reply, frozen=True):
    offsets: dict[int, int]


class CloneGroupOffset(Command, frozen=True):
    """CLONE_GROUP_OFFSET: give one group the offsets of another, in one topic or in all. -> Done

    Unless ``offline``, topics are skipped to which the members of ``src_group`` do not subscribe.
    """

    src_group: str
    dest_group: str
    topic: str = ""
    offline: bool = False


class GetAllConsumerOffset(Command, frozen=True):
    """GET_ALL_CONSUMER_OFFSET. -> OffsetTable in the form of consumerOffset.json"""


class GetAllDelayOffset(Command, frozen=True):
    """GET_ALL_DELAY_OFFSET: each delay level's delivered offset. -> OffsetTable in the form of delayOffset.json"""


class OffsetTable(Reply, frozen=True):
    table: dict[str, Any]


class QueryAssignment(Command, frozen=True):
    """QUERY_ASSIGNMENT: the queues that the broker assigns to a client. -> Assignment

    Failed REQUEST_CODE_NOT_SUPPORTED if this broker does not know the queues of other brokers, or has no such strategy.
    Clients then share the queues among themselves.
    """

    group: str
    topic: str
    client_id: str
    strategy: str = "AVG"
    message_model: MessageModel = "CLUSTERING"


class Assignment(Reply, frozen=True):
    """In ``POP`` mode a queue id of -1 means all queues of the broker."""

    queues: list[MessageQueue]
    mode: Literal["PULL", "POP"] = "PULL"


# --- The broker -----------------------------------------------------------------------------------------------------


class GetBrokerRuntimeInfo(Command, frozen=True):
    """GET_BROKER_RUNTIME_INFO. -> RuntimeInfo"""


class RuntimeInfo(Reply, frozen=True):
    """Values as text, by RocketMQ's names. Entries that do not apply to this broker are left out."""

    table: dict[str, str]


class GetBrokerConfig(Command, frozen=True):
    """GET_BROKER_CONFIG. -> BrokerConfig"""


class BrokerConfig(Reply, frozen=True):
    """``config`` by RocketMQ's names. ``data_version`` differs after every change."""

    config: dict[str, Any]
    data_version: dict[str, int]


class StatsSnapshot(Shape, frozen=True):
    """RocketMQ's BrokerStatsItem: the sum in a window, the rate per second, and the average per call."""

    sum: int
    tps: float
    avgpt: float


class ViewBrokerStatsData(Command, frozen=True):
    """VIEW_BROKER_STATS_DATA. -> BrokerStatsData

    Failed SYSTEM_ERROR if nothing was counted for the name and key.
    The key of TOPIC_PUT_NUMS and TOPIC_PUT_SIZE is a topic; that of GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS,
    GROUP_ACK_NUMS and GROUP_CK_NUMS is ``topic@group``; that of BROKER_PUT_NUMS and BROKER_GET_NUMS is the cluster's
    name.
    """

    stats_name: str
    stats_key: str


class BrokerStatsData(Reply, frozen=True):
    minute: StatsSnapshot
    hour: StatsSnapshot
    day: StatsSnapshot


class QueryConsumeQueue(Command, frozen=True):
    """QUERY_CONSUME_QUEUE: ``count`` units of a queue from offset ``index`` on. -> ConsumeQueueUnits

    Failed SYSTEM_ERROR if the queue or the offset does not exist.
    """

    topic: str
    queue_id: int
    index: int
    count: int
    group: str = ""


class ConsumeQueueUnits(Reply, frozen=True):
    """``units``: each message's physical offset, size in bytes and tagsCode. ``subscription``: the group's, if any."""

    min_offset: int
    max_offset: int
    units: list[tuple[int, int, int]]
    subscription: SubscriptionData | None = None


class DeleteExpiredCommitLog(Command, frozen=True):
    """DELETE_EXPIRED_COMMITLOG: delete expired segments regardless of deleteWhen. -> Done, before deletion"""


AdminCommand = (
    UpdateAndCreateTopicList
    | GetTopicConfigs
    | GetTopicStats
    | UpdateSubscriptionGroupList
    | UpdateGroupForbidden
    | GetConsumeStats
    | GetBrokerConsumeStats
    | QueryTopicConsumeByWho
    | QueryTopicsByConsumer
    | QuerySubscriptionByConsumer
    | QueryConsumeTimeSpan
    | QueryCorrectionOffset
    | CloneGroupOffset
    | GetAllConsumerOffset
    | GetAllDelayOffset
    | QueryAssignment
    | GetBrokerRuntimeInfo
    | GetBrokerConfig
    | ViewBrokerStatsData
    | QueryConsumeQueue
    | DeleteExpiredCommitLog
)
AdminReply = (
    TopicConfigs
    | TopicStats
    | GroupForbidden
    | ConsumeStats
    | BrokerConsumeStats
    | GroupNames
    | TopicNames
    | FoundSubscription
    | ConsumeTimeSpans
    | CorrectionOffsets
    | OffsetTable
    | Assignment
    | RuntimeInfo
    | BrokerConfig
    | BrokerStatsData
    | ConsumeQueueUnits
)
