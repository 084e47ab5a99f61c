"""Events about clients, groups, their queues and offsets."""

from typing import Literal

from broker_core.commands import Protocol
from broker_core.events.base import Event

LeaveCause = Literal["unregister", "channel_closed", "expired", "unlisted"]
RebalanceCause = Literal["joined", "reconnected", "left", "subscription", "retry_topic"]
UnlockCause = Literal["unlock", "unregister", "expired"]


class OffsetCommitted(Event, frozen=True):
    """``previous`` is -1 if the group had no offset; ``queue_max_offset`` is the queue's end at this time."""

    group: str
    topic: str
    queue_id: int
    offset: int
    previous: int
    client_id: str
    queue_max_offset: int


class ClientConnected(Event, frozen=True):
    client_id: str
    protocol: Protocol
    remote: str


class ClientLost(Event, frozen=True):
    client_id: str
    protocol: Protocol
    remote: str
    holds_released: int


class ClientIdentified(Event, frozen=True):
    """A connection's first heartbeat identified its client. ``version`` is RocketMQ's ordinal, 0 for other clients."""

    client_id: str
    protocol: Protocol
    remote: str
    language: str
    version: int


class GroupMemberJoined(Event, frozen=True):
    """``members`` is how many members the group has now."""

    group: str
    client_id: str
    protocol: Protocol
    remote: str
    members: int


class GroupMemberLeft(Event, frozen=True):
    """``expired``: no heartbeat for 120 s. ``members`` is how many members remain."""

    group: str
    client_id: str
    cause: LeaveCause
    members: int


class SubscriptionChanged(Event, frozen=True):
    """A heartbeat changed a group's subscription to a topic. An empty expression means no subscription."""

    group: str
    topic: str
    client_id: str
    expression: str
    previous: str


class ConsumerIdsNotified(Event, frozen=True):
    """The group's members were notified to rebalance; ``members`` is how many were notified."""

    group: str
    cause: RebalanceCause
    members: int


class ConsumerListQueried(Event, frozen=True):
    """A client requested the list of its group's members, to rebalance."""

    group: str
    client_id: str
    members: int


class QueueTaken(Event, frozen=True):
    """Another member of the group pulls from the queue now. ``previous`` is the member before, empty if none."""

    group: str
    topic: str
    queue_id: int
    client_id: str
    previous: str


class QueueLocked(Event, frozen=True):
    """A member locked the queue for ordered consumption; no other member of its group may consume it."""

    group: str
    topic: str
    queue_id: int
    client_id: str


class QueueUnlocked(Event, frozen=True):
    group: str
    topic: str
    queue_id: int
    client_id: str
    cause: UnlockCause


class OffsetReset(Event, frozen=True):
    """The group's offset was moved; the next pull's answer contains it. ``previous`` is -1 if it had no offset."""

    group: str
    topic: str
    queue_id: int
    offset: int
    previous: int


class SubscriptionGroupChanged(Event, frozen=True):
    """A group's configuration changed. ``action`` is created, updated or deleted."""

    group: str
    action: str


CLIENT_EVENTS: tuple[type[Event], ...] = (
    ClientConnected,
    ClientIdentified,
    ClientLost,
    GroupMemberJoined,
    GroupMemberLeft,
    SubscriptionChanged,
    ConsumerIdsNotified,
    QueueTaken,
    QueueLocked,
    QueueUnlocked,
    OffsetReset,
    SubscriptionGroupChanged,
)
"""Events about clients and groups."""
