"""What administrators' tools ask besides, as RocketMQ's mqadmin and dashboard do."""

from typing import Any

import msgspec

from broker_core.commands.base import Command, Reply, Shape
from broker_core.commands.clients import MessageModel, MessageQueue, SubscriptionData
from broker_core.commands.topics import QueueView, UpdateAndCreateTopic

# --- Topics ---------------------------------------------------------------------------------------------------------


class UpdateAndCreateTopicList(Command, frozen=True):
    """UPDATE_AND_CREATE_TOPIC_LIST: all of them or, with an error, none. -> Done"""

    topics: list[UpdateAndCreateTopic]


class GetTopicConfigs(Command, frozen=True):
    """GET_TOPIC_CONFIG, or of all topics (``topic`` empty) GET_ALL_TOPIC_CONFIG. -> TopicConfigs"""

    topic: str = ""


class TopicConfigs(Reply, frozen=True):
    """``configs`` by topic, ``data_version`` as topics.json has them."""

    data_version: dict[str, int]
    configs: dict[str, dict[str, Any]]


class GetTopicStats(Command, frozen=True):
    """GET_TOPIC_STATS_INFO. -> TopicStats; Failed TOPIC_NOT_EXIST"""

    topic: str


class TopicStats(Reply, frozen=True):
    """``put_tps``: messages stored a second, in the last minute."""

    queues: list[QueueView]
    put_tps: float


# --- Groups ---------------------------------------------------------------------------------------------------------


class UpdateSubscriptionGroupList(Command, frozen=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all of them or, with an error, none. -> Done"""

    configs: list[dict[str, Any]]


class UpdateGroupForbidden(Command, frozen=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN: may the group read the topic? None leaves it as it is. -> GroupForbidden"""

    group: str
    topic: str
    readable: bool | None = None


class GroupForbidden(Reply, frozen=True):
    group: str
    topic: str
    readable: bool


class GetConsumeStats(Command, frozen=True):
    """GET_CONSUME_STATS: how far a group is in these topics, or in all that it has offsets of. -> ConsumeStats"""

    group: str
    topics: list[str] = msgspec.field(default_factory=list)


class OffsetWrapper(Shape, frozen=True):
    """RocketMQ's OffsetWrapper. ``broker_offset`` is the queue's end, ``pull_offset`` where the next pull goes on;
    ``last_timestamp`` the store time, ms, of the last message consumed, 0 when it is not known."""

    topic: str
    queue_id: int
    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_timestamp: int


class ConsumeStats(Reply, frozen=True):
    """``consume_tps``: messages handed to the group a second, in the last minute."""

    consume_tps: float
    queues: list[OffsetWrapper]


class GetBrokerConsumeStats(Command, frozen=True):
    """GET_BROKER_CONSUME_STATS: of all groups; ``is_order``: in ordered topics alone. -> BrokerConsumeStats"""

    is_order: bool = False


class BrokerConsumeStats(Reply, frozen=True):
    """``groups``: of each group, by topic. The totals are messages behind, and messages that clients have."""

    broker_addr: str
    groups: dict[str, list[ConsumeStats]]
    total_diff: int
    total_inflight_diff: int


class QueryTopicConsumeByWho(Command, frozen=True):
    """QUERY_TOPIC_CONSUME_BY_WHO: who subscribes to a topic or has offsets in it. -> GroupNames"""

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
    """``subscription`` is None when no member is there, or none subscribes to the topic."""

    group: str
    topic: str
    subscription: SubscriptionData | None


class QueryConsumeTimeSpan(Command, frozen=True):
    """QUERY_CONSUME_TIME_SPAN. -> ConsumeTimeSpans; Failed TOPIC_NOT_EXIST"""

    topic: str
    group: str


class QueueTimeSpan(Shape, frozen=True):
    """RocketMQ's QueueTimeSpan, times in ms. Store times of the queue's first, of its last and of the last consumed
    message, -1 when there is none; ``delay_time`` is the age of the next one to consume, 0 without one."""

    queue_id: int
    min_timestamp: int
    max_timestamp: int
    consume_timestamp: int
    delay_time: int


class ConsumeTimeSpans(Reply, frozen=True):
    topic: str
    spans: list[QueueTimeSpan]


class QueryCorrectionOffset(Command, frozen=True):
    """QUERY_CORRECTION_OFFSET: by queue, the least offset of all groups but some. -> CorrectionOffsets

    Where ``compare_group`` is behind that it is 2**63 - 1, as RocketMQ says it.
    """

    topic: str
    filter_groups: list[str] = msgspec.field(default_factory=list)
    compare_group: str = ""


class CorrectionOffsets(Reply, frozen=True):
    offsets: dict[int, int]


class CloneGroupOffset(Command, frozen=True):
    """CLONE_GROUP_OFFSET: give one group the offsets of another, in one topic or in all. -> Done

    Not ``offline``: topics to which the other group does not subscribe (any more) are passed over.
    """

    src_group: str
    dest_group: str
    topic: str = ""
    offline: bool = False


class GetAllConsumerOffset(Command, frozen=True):
    """GET_ALL_CONSUMER_OFFSET. -> OffsetTable, as consumerOffset.json has it"""


class GetAllDelayOffset(Command, frozen=True):
    """GET_ALL_DELAY_OFFSET: how far each delay level is delivered. -> OffsetTable, as delayOffset.json has it"""


class OffsetTable(Reply, frozen=True):
    table: dict[str, Any]


class QueryAssignment(Command, frozen=True):
    """QUERY_ASSIGNMENT: which queues a client is to pull from, when it leaves that to the broker. -> Assignment

    Failed REQUEST_CODE_NOT_SUPPORTED when this broker does not know the queues of other brokers, or the strategy:
    then clients share the queues among themselves.
    """

    group: str
    topic: str
    client_id: str
    strategy: str = "AVG"
    message_model: MessageModel = "CLUSTERING"


class Assignment(Reply, frozen=True):
    queues: list[MessageQueue]


# --- The broker -----------------------------------------------------------------------------------------------------


class GetBrokerRuntimeInfo(Command, frozen=True):
    """GET_BROKER_RUNTIME_INFO. -> RuntimeInfo"""


class RuntimeInfo(Reply, frozen=True):
    """Texts by RocketMQ's names; what this broker has no such thing of is left out."""

    table: dict[str, str]


class GetBrokerConfig(Command, frozen=True):
    """GET_BROKER_CONFIG. -> BrokerConfig"""


class BrokerConfig(Reply, frozen=True):
    """By RocketMQ's names. ``data_version`` is another one after every change."""

    config: dict[str, Any]
    data_version: dict[str, int]


class StatsSnapshot(Shape, frozen=True):
    """RocketMQ's BrokerStatsItem: the sum of a window, how much that is a second, and each time on the average."""

    sum: int
    tps: float
    avgpt: float


class ViewBrokerStatsData(Command, frozen=True):
    """VIEW_BROKER_STATS_DATA. -> BrokerStatsData; Failed SYSTEM_ERROR when nothing was counted under that name and key

    Names and keys: TOPIC_PUT_NUMS, TOPIC_PUT_SIZE of a topic; GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS of
    ``topic@group``; BROKER_PUT_NUMS, BROKER_GET_NUMS of the cluster.
    """

    stats_name: str
    stats_key: str


class BrokerStatsData(Reply, frozen=True):
    minute: StatsSnapshot
    hour: StatsSnapshot
    day: StatsSnapshot


class QueryConsumeQueue(Command, frozen=True):
    """QUERY_CONSUME_QUEUE: ``count`` units of a queue from offset ``index`` on. -> ConsumeQueueUnits

    Failed SYSTEM_ERROR when there is no such queue or offset.
    """

    topic: str
    queue_id: int
    index: int
    count: int
    group: str = ""


class ConsumeQueueUnits(Reply, frozen=True):
    """``units``: physical offset, size and tagsCode of each message. ``subscription`` is the group's, None for none."""

    min_offset: int
    max_offset: int
    units: list[tuple[int, int, int]]
    subscription: SubscriptionData | None = None


class DeleteExpiredCommitLog(Command, frozen=True):
    """DELETE_EXPIRED_COMMITLOG: delete expired segments now, whatever deleteWhen says. -> Done, before they are gone"""


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
