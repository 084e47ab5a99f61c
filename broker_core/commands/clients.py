"""Clients: they connect, register with heartbeats, subscribe, lock queues and leave."""

from typing import Literal

import msgspec

from broker_core.commands.base import Command, Notice, Protocol, Reply, Shape

ConsumeType = Literal["CONSUME_PASSIVELY", "CONSUME_ACTIVELY", "CONSUME_POP"]
MessageModel = Literal["CLUSTERING", "BROADCASTING"]
CMResult = Literal["CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL"]
"""RocketMQ's CMResult: what a listener returned, in the order of its ordinals."""


class OpenConnection(Command, frozen=True):
    """A long-lived client connected. -> Done

    ``client_id`` is from a WebSocket's hello frame; a RocketMQ client has none until its first HeartBeat.
    """

    client_id: str
    protocol: Protocol
    remote: str = ""


class CloseConnection(Command, frozen=True):
    """The client disconnected: its holds are released and it leaves its groups at once. -> Done"""


class SubscriptionData(Shape, frozen=True):
    """RocketMQ's SubscriptionData: a topic and a filter. ``sub_version`` only increases within one client."""

    topic: str
    sub_string: str = "*"
    expression_type: str = "TAG"
    sub_version: int = 0


class ConsumerData(Shape, frozen=True):
    """RocketMQ's ConsumerData: membership of one consumer group."""

    group: str
    consume_type: ConsumeType = "CONSUME_PASSIVELY"
    message_model: MessageModel = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    unit_mode: bool = False
    subscriptions: list[SubscriptionData] = msgspec.field(default_factory=list)


class HeartBeat(Command, frozen=True):
    """HEART_BEAT: this connection belongs to ``client_id``, a member of these groups. -> HeartBeatDone

    A heartbeat lists all groups of the client on this broker. The client stays in a group that is no longer listed
    until UnregisterClient, expiry or the end of the connection. ``without_sub``: the subscriptions are unchanged.
    """

    client_id: str
    protocol: Protocol
    language: str = ""
    version: int = 0
    producer_groups: list[str] = msgspec.field(default_factory=list)
    consumers: list[ConsumerData] = msgspec.field(default_factory=list)
    without_sub: bool = False


class HeartBeatDone(Reply, frozen=True):
    """``sub_changed``: this heartbeat changed a group's members or subscribed topics."""

    sub_changed: bool


class UnregisterClient(Command, frozen=True):
    """UNREGISTER_CLIENT: leave one producer group, one consumer group, or both. -> Done"""

    client_id: str
    producer_group: str = ""
    consumer_group: str = ""


class ConsumerIdsChanged(Notice, frozen=True):
    """NOTIFY_CONSUMER_IDS_CHANGED: the group's members or topics changed; rebalance."""

    group: str


class GetConsumerListByGroup(Command, frozen=True):
    """GET_CONSUMER_LIST_BY_GROUP. -> ConsumerList; Failed SYSTEM_ERROR when the group has no member"""

    group: str


class ConsumerList(Reply, frozen=True):
    """Distinct client ids, sorted."""

    client_ids: list[str]


class CheckClientConfig(Command, frozen=True):
    """CHECK_CLIENT_CONFIG: check whether this broker accepts a subscription. -> Done; Failed with RocketMQ's code"""

    client_id: str
    group: str
    subscription: SubscriptionData


# --- Orderly consumption ------------------------------------------------------------------------------------


class MessageQueue(Shape, frozen=True):
    """RocketMQ's MessageQueue."""

    topic: str
    broker_name: str
    queue_id: int


class LockBatchMq(Command, frozen=True):
    """LOCK_BATCH_MQ: take or renew this client's locks of these queues. -> LockedQueues: those it holds now"""

    group: str
    client_id: str
    queues: list[MessageQueue]


class LockedQueues(Reply, frozen=True):
    queues: list[MessageQueue]


class UnlockBatchMq(Command, frozen=True):
    """UNLOCK_BATCH_MQ: release the locks that this client holds on these queues. -> Done"""

    group: str
    client_id: str
    queues: list[MessageQueue]


# --- Views of clients ---------------------------------------------------------------------------------------


class ClientView(Shape, frozen=True):
    """One client of the broker.

    ``version`` is RocketMQ's ordinal, 0 for other clients. ``last_heartbeat_ms`` is None before the first heartbeat.
    ``connected_at_ms`` and ``holds`` are None for a client of an attached broker, which does not report them.
    """

    broker: str
    client_id: str
    protocol: Protocol
    remote: str
    language: str
    version: int
    connected_at_ms: int | None
    last_heartbeat_ms: int | None
    producer_groups: list[str]
    consumer_groups: list[str]
    holds: int | None


class GetClients(Command, frozen=True):
    """Clients with connection numbers above ``after``, in the order in which they connected; only those of ``group``,
    and with this ``client_id``, if it is given. -> Clients"""

    group: str = ""
    client_id: str = ""
    after: int = 0
    limit: int = 1000


class Clients(Reply, frozen=True):
    """``total`` also counts the clients of other pages. ``next`` is the ``after`` of the next page, or None."""

    seq: int
    total: int
    clients: list[ClientView]
    next: int | None = None


class GetConsumerConnections(Command, frozen=True):
    """GET_CONSUMER_CONNECTION_LIST. -> ConsumerConnections; Failed CONSUMER_NOT_ONLINE"""

    group: str


class ConsumerConnections(Reply, frozen=True):
    group: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: str
    subscriptions: list[SubscriptionData]
    clients: list[ClientView]


class GetProducerConnections(Command, frozen=True):
    """GET_PRODUCER_CONNECTION_LIST; every producer group when ``group`` is empty. -> ProducerConnections"""

    group: str = ""


class ProducerConnections(Reply, frozen=True):
    groups: dict[str, list[ClientView]]


class ConsumeMessageDirectly(Command, frozen=True):
    """CONSUME_MESSAGE_DIRECTLY: have a member of ``group`` consume a message now. -> RelayToConsumer

    The message is looked up as by ViewMessage. Failed: CONSUMER_NOT_ONLINE if the client is not a member,
    QUERY_NOT_FOUND for an unknown message. The client's listener may take ``timeout_ms``.
    """

    group: str
    client_id: str
    message_id: str
    topic: str = ""
    timeout_ms: int = 10_000


class RelayToConsumer(Reply, frozen=True):
    """The engine's part of ConsumeMessageDirectly: ``record`` is for this client.

    The process of the engine asks the client, and answers ConsumedDirectly. ``version`` is the client's.
    """

    group: str
    client_id: str
    version: int
    message_id: str
    topic: str
    record: bytes
    timeout_ms: int


class ConsumedDirectly(Reply, frozen=True):
    """RocketMQ's ConsumeMessageDirectlyResult: what the client's listener returned, and how long it took.

    ``remark`` is the listener's error, with CR_THROW_EXCEPTION. ``order``: the client consumes in order.
    """

    result: CMResult
    remark: str
    spent_ms: int
    order: bool


ClientCommand = (
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
    | ConsumeMessageDirectly
)
ClientReply = (
    HeartBeatDone
    | ConsumerIdsChanged
    | ConsumerList
    | LockedQueues
    | Clients
    | ConsumerConnections
    | ProducerConnections
    | RelayToConsumer
    | ConsumedDirectly
)
