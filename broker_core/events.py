"""Nothing observable happens without an event: one closed set of small frozen types.

Every event carries a sequence number (1, 2, 3 ... in one epoch), the wall time in ms and the monotonic time in
ns of its turn. Messages are reported by batch and range: offsets ``from_offset`` up to, not including,
``to_offset``. ``event_log`` numbers them, keeps them and hands them out.
"""

from typing import Any, Literal

import msgspec

from broker_core.commands import DeadCause, Protocol, ReleaseCause, WakeCause

LeaveCause = Literal["unregister", "channel_closed", "expired"]
RebalanceCause = Literal["joined", "reconnected", "left", "subscription", "retry_topic"]
UnlockCause = Literal["unlock", "unregister", "expired"]


class Event(
    msgspec.Struct,
    frozen=True,
    gc=False,
    tag_field="type",
    tag=lambda name: "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_"),
):
    """Base of all events; ``type`` in JSON is the class's name in snake_case."""

    seq: int
    wall_ms: int
    mono_ns: int


class MessagesStored(Event, frozen=True):
    """In the commit log: ``size`` bytes of records from ``physical_offset`` on."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int
    physical_offset: int
    size: int


class MessagesDispatched(Event, frozen=True):
    """In the consume queue: the queue's max offset is now ``to_offset``."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int


class PullReceived(Event, frozen=True):
    topic: str
    queue_id: int
    queue_offset: int
    group: str
    client_id: str
    protocol: Protocol


class PullHeld(Event, frozen=True):
    """A row was added to the pullRequestTable."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    deadline_ms: int
    filter: str


class PullPassedOver(Event, frozen=True):
    """Messages arrived in the queue, but the hold's filter said no to all of them."""

    hold_id: int
    topic: str
    queue_id: int
    from_offset: int
    to_offset: int


class PullWoken(Event, frozen=True):
    """A hold ended with an answer. ``wake_us`` is from the arrival's turn to the answer, 0 without an arrival."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    cause: WakeCause
    held_us: int
    wake_us: int
    messages: int


class PullReleased(Event, frozen=True):
    """A hold ended without an answer, since nobody waits for it any more. It might have lasted ``granted_ms``."""

    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    cause: ReleaseCause
    held_us: int
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    granted_ms: int


class PullAnswered(Event, frozen=True):
    """``hold_id`` is 0 when it was answered at once; after a hold this follows its PullWoken, in the same turn.

    ``granted_ms`` is how long it might have been held, ``oldest_store_ms`` the store time of the first message given,
    or -1.
    """

    topic: str
    queue_id: int
    group: str
    client_id: str
    hold_id: int
    code: int
    status: str
    messages: int
    size: int
    next_begin_offset: int
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    granted_ms: int
    oldest_store_ms: int


class MessagesDelivered(Event, frozen=True):
    """Handed to a consumer. ``latency_ms`` is the age of the oldest of them, by its store time."""

    topic: str
    queue_id: int
    group: str
    client_id: str
    from_offset: int
    to_offset: int
    messages: int
    latency_ms: int


class OffsetCommitted(Event, frozen=True):
    """``previous`` is -1 when the group had none, ``queue_max_offset`` the queue's end at this time."""

    group: str
    topic: str
    queue_id: int
    offset: int
    previous: int
    client_id: str
    queue_max_offset: int


class TopicChanged(Event, frozen=True):
    """``action`` is created, updated or deleted."""

    topic: str
    action: str
    read_queues: int
    write_queues: int
    perm: int


class ConfigChanged(Event, frozen=True):
    name: str
    value: Any
    previous: Any


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
    """A connection's first heartbeat: who is at its other end. ``version`` is RocketMQ's ordinal, 0 for others."""

    client_id: str
    protocol: Protocol
    remote: str
    language: str
    version: int


class GroupMemberJoined(Event, frozen=True):
    """``members`` counts all that the group has now."""

    group: str
    client_id: str
    protocol: Protocol
    remote: str
    members: int


class GroupMemberLeft(Event, frozen=True):
    """``expired``: no heartbeat for 120 s. ``members`` counts those that stay."""

    group: str
    client_id: str
    cause: LeaveCause
    members: int


class SubscriptionChanged(Event, frozen=True):
    """A heartbeat changed what a group takes of a topic. An empty expression is: not subscribed."""

    group: str
    topic: str
    client_id: str
    expression: str
    previous: str


class ConsumerIdsNotified(Event, frozen=True):
    """The members were told to share the queues anew; ``members`` is to how many."""

    group: str
    cause: RebalanceCause
    members: int


class ConsumerListQueried(Event, frozen=True):
    """A client shares the queues anew: it asked who its group's members are."""

    group: str
    client_id: str
    members: int


class QueueTaken(Event, frozen=True):
    """Another member of the group than before pulls from the queue; ``previous`` is empty when nobody did."""

    group: str
    topic: str
    queue_id: int
    client_id: str
    previous: str


class QueueLocked(Event, frozen=True):
    """A member may consume the queue in order, nobody else of its group may."""

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
    """The group's offset was moved; a member that consumes is told with its next pull. ``previous`` -1: it had none."""

    group: str
    topic: str
    queue_id: int
    offset: int
    previous: int


class SubscriptionGroupChanged(Event, frozen=True):
    """A group's configuration. ``action`` is created, updated or deleted."""

    group: str
    action: str


class MessagesDelayed(Event, frozen=True):
    """Put aside: offsets of the queue of a delay level. ``deliver_ms`` is when the first one is due, wall time."""

    level: int
    from_offset: int
    to_offset: int
    deliver_ms: int


class DelayElapsed(Event, frozen=True):
    """Messages of a delay level were due and are in their own topics now. ``late_ms`` is the first one's."""

    level: int
    from_offset: int
    to_offset: int
    late_ms: int


class DelayedMessagesLost(Event, frozen=True):
    """Messages of a delay level can never be delivered; ``reason`` says why."""

    level: int
    from_offset: int
    to_offset: int
    reason: str


class MessageSentBack(Event, frozen=True):
    """A group gets a message of ``topic`` again. ``reconsume_times`` and ``physical_offset`` are the copy's."""

    group: str
    topic: str
    message_id: str
    reconsume_times: int
    delay_level: int
    physical_offset: int


class MessageDeadLettered(Event, frozen=True):
    """A group is not given a message of ``topic`` again. The numbers are the copy's."""

    group: str
    topic: str
    message_id: str
    reconsume_times: int
    reason: DeadCause
    physical_offset: int


class FlushDone(Event, frozen=True):
    flushed_offset: int
    size: int
    took_us: int


class SegmentRolled(Event, frozen=True):
    physical_offset: int


class SegmentDeleted(Event, frozen=True):
    """``reason``: age or disk."""

    physical_offset: int
    reason: str


class RecoveryStep(Event, frozen=True):
    step: str
    detail: str


class RequestRefused(Event, frozen=True):
    """The broker protected itself: ``code`` names how, ``remark`` why."""

    command: str
    code: str
    remark: str
    client_id: str


AnyEvent = (
    MessagesStored
    | MessagesDispatched
    | PullReceived
    | PullHeld
    | PullPassedOver
    | PullWoken
    | PullReleased
    | PullAnswered
    | MessagesDelivered
    | OffsetCommitted
    | TopicChanged
    | ConfigChanged
    | ClientConnected
    | ClientLost
    | FlushDone
    | SegmentRolled
    | SegmentDeleted
    | RecoveryStep
    | RequestRefused
    | ClientIdentified
    | GroupMemberJoined
    | GroupMemberLeft
    | SubscriptionChanged
    | ConsumerIdsNotified
    | ConsumerListQueried
    | QueueTaken
    | QueueLocked
    | QueueUnlocked
    | OffsetReset
    | SubscriptionGroupChanged
    | MessagesDelayed
    | DelayElapsed
    | DelayedMessagesLost
    | MessageSentBack
    | MessageDeadLettered
)
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
"""What becomes of clients and groups."""
RETRY_EVENTS: tuple[type[Event], ...] = (MessageSentBack, MessageDeadLettered)
"""What becomes of messages that a group could not consume: of those there may be very many."""
