"""What may be asked of the engine, and what it answers: one closed set of each.

Every command is named after RocketMQ's request code for it. All shells (the channel layer, RocketMQ's protocol, and
whatever else carries requests) build these and nothing else, so a behaviour is decided once. They are msgspec structs,
so one call encodes a whole batch (``bridge/wire.py``).

A command is answered exactly once, by its own reply type or by ``Failed``. A pull that asks for it
(``report_hold``) is told of its hold first, by ``Held``. Besides, a connection may be told things under ``NOTICE_ID``.
"""

from broker_core.commands.admin import (
    Assignment,
    BrokerConfig,
    BrokerConsumeStats,
    BrokerStatsData,
    CloneGroupOffset,
    ConsumeQueueUnits,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    DeleteExpiredCommitLog,
    FoundSubscription,
    GetAllConsumerOffset,
    GetAllDelayOffset,
    GetBrokerConfig,
    GetBrokerConsumeStats,
    GetBrokerRuntimeInfo,
    GetConsumeStats,
    GetTopicConfigs,
    GetTopicStats,
    GroupForbidden,
    GroupNames,
    OffsetTable,
    OffsetWrapper,
    QueryAssignment,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    QuerySubscriptionByConsumer,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
    QueueTimeSpan,
    RuntimeInfo,
    StatsSnapshot,
    TopicConfigs,
    TopicNames,
    TopicStats,
    UpdateAndCreateTopicList,
    UpdateGroupForbidden,
    UpdateSubscriptionGroupList,
    ViewBrokerStatsData,
)
from broker_core.commands.base import (
    NOTICE_ID,
    Command,
    DeadCause,
    Done,
    Failed,
    Notice,
    Protocol,
    ReleaseCause,
    Reply,
    Shape,
    WakeCause,
)
from broker_core.commands.clients import (
    CheckClientConfig,
    Clients,
    ClientView,
    CloseConnection,
    ConsumerConnections,
    ConsumerData,
    ConsumerIdsChanged,
    ConsumerList,
    ConsumeType,
    GetClients,
    GetConsumerConnections,
    GetConsumerListByGroup,
    GetProducerConnections,
    HeartBeat,
    HeartBeatDone,
    LockBatchMq,
    LockedQueues,
    MessageModel,
    MessageQueue,
    OpenConnection,
    ProducerConnections,
    SubscriptionData,
    UnlockBatchMq,
    UnregisterClient,
)
from broker_core.commands.groups import (
    ConsumerGroupDetail,
    ConsumerGroups,
    ConsumerGroupView,
    DeleteSubscriptionGroup,
    GetConsumerGroup,
    GetConsumerGroups,
    GetSubscriptionGroups,
    GroupQueueView,
    GroupRetries,
    SubscriptionGroups,
    UpdateSubscriptionGroup,
)
from broker_core.commands.messages import (
    CancelPull,
    ConsumerSendMsgBack,
    GetMessageTimeline,
    Held,
    HoldOutcome,
    OutgoingMessage,
    Pulled,
    PullMessage,
    QueryMessage,
    Records,
    SendMessage,
    Sent,
    SentMessage,
    Timeline,
    ViewMessage,
)
from broker_core.commands.observe import (
    BrokerView,
    Events,
    GetBroker,
    GetEvents,
    GetHold,
    GetHolds,
    GetSnapshot,
    Histogram,
    Holds,
    HoldView,
    Snapshot,
    StorePositions,
    UpdateBrokerConfig,
    WakeUp,
)
from broker_core.commands.offsets import (
    ConsumerOffsets,
    FoundOffset,
    GetEarliestMsgStoreTime,
    GetMaxOffset,
    GetMinOffset,
    GroupQueueOffset,
    OffsetChange,
    OffsetsReset,
    QueryConsumerOffset,
    QueryOffset,
    QueueOffset,
    ResetConsumerOffset,
    SearchOffset,
    StoreTime,
    UpdateConsumerOffset,
)
from broker_core.commands.topics import (
    DeleteTopic,
    GetQueues,
    GetTopic,
    GetTopics,
    Queues,
    QueueView,
    Topics,
    TopicView,
    UpdateAndCreateTopic,
)

__all__ = [
    "NOTICE_ID",
    "AnyCommand",
    "AnyReply",
    "Assignment",
    "BrokerConfig",
    "BrokerConsumeStats",
    "BrokerStatsData",
    "BrokerView",
    "CancelPull",
    "CheckClientConfig",
    "ClientView",
    "Clients",
    "CloneGroupOffset",
    "CloseConnection",
    "Command",
    "ConsumeQueueUnits",
    "ConsumeStats",
    "ConsumeTimeSpans",
    "ConsumeType",
    "ConsumerConnections",
    "ConsumerData",
    "ConsumerGroupDetail",
    "ConsumerGroupView",
    "ConsumerGroups",
    "ConsumerIdsChanged",
    "ConsumerList",
    "ConsumerOffsets",
    "ConsumerSendMsgBack",
    "CorrectionOffsets",
    "DeadCause",
    "DeleteExpiredCommitLog",
    "DeleteSubscriptionGroup",
    "DeleteTopic",
    "Done",
    "Events",
    "Failed",
    "FoundOffset",
    "FoundSubscription",
    "GetAllConsumerOffset",
    "GetAllDelayOffset",
    "GetBroker",
    "GetBrokerConfig",
    "GetBrokerConsumeStats",
    "GetBrokerRuntimeInfo",
    "GetClients",
    "GetConsumeStats",
    "GetConsumerConnections",
    "GetConsumerGroup",
    "GetConsumerGroups",
    "GetConsumerListByGroup",
    "GetEarliestMsgStoreTime",
    "GetEvents",
    "GetHold",
    "GetHolds",
    "GetMaxOffset",
    "GetMessageTimeline",
    "GetMinOffset",
    "GetProducerConnections",
    "GetQueues",
    "GetSnapshot",
    "GetSubscriptionGroups",
    "GetTopic",
    "GetTopicConfigs",
    "GetTopicStats",
    "GetTopics",
    "GroupForbidden",
    "GroupNames",
    "GroupQueueOffset",
    "GroupQueueView",
    "GroupRetries",
    "HeartBeat",
    "HeartBeatDone",
    "Held",
    "Histogram",
    "HoldOutcome",
    "HoldView",
    "Holds",
    "LockBatchMq",
    "LockedQueues",
    "MessageModel",
    "MessageQueue",
    "Notice",
    "OffsetChange",
    "OffsetTable",
    "OffsetWrapper",
    "OffsetsReset",
    "OpenConnection",
    "OutgoingMessage",
    "ProducerConnections",
    "Protocol",
    "PullMessage",
    "Pulled",
    "QueryAssignment",
    "QueryConsumeQueue",
    "QueryConsumeTimeSpan",
    "QueryConsumerOffset",
    "QueryCorrectionOffset",
    "QueryMessage",
    "QueryOffset",
    "QuerySubscriptionByConsumer",
    "QueryTopicConsumeByWho",
    "QueryTopicsByConsumer",
    "QueueOffset",
    "QueueTimeSpan",
    "QueueView",
    "Queues",
    "Records",
    "ReleaseCause",
    "Reply",
    "ResetConsumerOffset",
    "RuntimeInfo",
    "SearchOffset",
    "SendMessage",
    "Sent",
    "SentMessage",
    "Shape",
    "Snapshot",
    "StatsSnapshot",
    "StorePositions",
    "StoreTime",
    "SubscriptionData",
    "SubscriptionGroups",
    "Timeline",
    "TopicConfigs",
    "TopicNames",
    "TopicStats",
    "TopicView",
    "Topics",
    "UnlockBatchMq",
    "UnregisterClient",
    "UpdateAndCreateTopic",
    "UpdateAndCreateTopicList",
    "UpdateBrokerConfig",
    "UpdateConsumerOffset",
    "UpdateGroupForbidden",
    "UpdateSubscriptionGroup",
    "UpdateSubscriptionGroupList",
    "ViewBrokerStatsData",
    "ViewMessage",
    "WakeCause",
    "WakeUp",
]

AnyCommand = (
    OpenConnection
    | CloseConnection
    | HeartBeat
    | UnregisterClient
    | GetConsumerListByGroup
    | CheckClientConfig
    | LockBatchMq
    | UnlockBatchMq
    | GetClients
    | GetConsumerConnections
    | GetProducerConnections
    | GetConsumerGroups
    | GetConsumerGroup
    | UpdateSubscriptionGroup
    | GetSubscriptionGroups
    | DeleteSubscriptionGroup
    | SendMessage
    | ConsumerSendMsgBack
    | PullMessage
    | CancelPull
    | ViewMessage
    | QueryMessage
    | GetMessageTimeline
    | GetHolds
    | GetHold
    | GetBroker
    | UpdateBrokerConfig
    | GetSnapshot
    | GetEvents
    | QueryConsumerOffset
    | UpdateConsumerOffset
    | ResetConsumerOffset
    | SearchOffset
    | QueryOffset
    | GetMaxOffset
    | GetMinOffset
    | GetEarliestMsgStoreTime
    | GetTopics
    | GetTopic
    | UpdateAndCreateTopic
    | DeleteTopic
    | GetQueues
    | UpdateAndCreateTopicList
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
AnyReply = (
    Done
    | Failed
    | HeartBeatDone
    | ConsumerIdsChanged
    | ConsumerList
    | LockedQueues
    | Clients
    | ConsumerConnections
    | ProducerConnections
    | ConsumerGroups
    | ConsumerGroupDetail
    | SubscriptionGroups
    | Sent
    | Held
    | Pulled
    | Records
    | Timeline
    | Holds
    | BrokerView
    | Snapshot
    | Events
    | ConsumerOffsets
    | OffsetsReset
    | FoundOffset
    | StoreTime
    | Topics
    | Queues
    | TopicConfigs
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
