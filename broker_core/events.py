"""The engine's events: a closed set of small frozen types. The engine reports everything observable as an event.

Every event has a sequence number (1, 2, 3 ... in one epoch), the wall time in ms and the monotonic time in ns of its
turn. Messages are reported by batch and range: offsets ``from_offset`` up to, not including, ``to_offset``.
``event_log`` numbers the events, keeps them and passes them to listeners.
"""

from typing import Any, Literal

import msgspec

from broker_core.commands import DeadCause, OrderWait, Protocol, ReleaseCause, WakeCause

LeaveCause = Literal["unregister", "channel_closed", "expired", "unlisted"]
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


def event_types() -> frozenset[str]:
    """The values of ``type`` of all events."""
    return frozenset(str(kind.__struct_config__.tag) for kind in Event.__subclasses__())


class MessagesStored(Event, frozen=True):
    """Messages are in the commit log: ``size`` bytes of records from ``physical_offset`` on."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int
    physical_offset: int
    size: int


class MessagesDispatched(Event, frozen=True):
    """Messages are in the consume queue; its max offset is now ``to_offset``."""

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
    waits_for: OrderWait | None = None


RejectedBy = Literal["tags", "properties", "bitmap"]


class PullPassedOver(Event, frozen=True):
    """Messages arrived in the queue, but the hold's filter rejected all of them: by their tags, by their properties, or
    by the bitmaps that say which SQL92 filters match a message."""

    hold_id: int
    topic: str
    queue_id: int
    from_offset: int
    to_offset: int
    by: RejectedBy


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
    """A hold ended without an answer, because nobody waits for one. The hold was allowed to last ``granted_ms``."""

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
    """``hold_id`` is 0 for a pull answered at once. After a hold, this event follows its PullWoken in the same turn.

    ``granted_ms`` is how long the pull was allowed to wait. ``oldest_store_ms`` is the store time of the first message
    in the answer, -1 without one. The filter rejected ``passed_over`` messages; for ``passed_over_by_bitmap`` of them,
    their bitmaps sufficed.
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
    passed_over: int
    passed_over_by_bitmap: int


class MessagesDelivered(Event, frozen=True):
    """Messages were sent to a consumer. ``latency_ms`` is the age of the oldest one, by its store time."""

    topic: str
    queue_id: int
    group: str
    client_id: str
    from_offset: int
    to_offset: int
    messages: int
    latency_ms: int


class OffsetCommitted(Event, frozen=True):
    """``previous`` is -1 if the group had no offset; ``queue_max_offset`` is the queue's end at this time."""

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


class MessagesDelayed(Event, frozen=True):
    """Messages wait in a delay level's queue, at these offsets. ``deliver_ms`` is when the first is due, wall time.

    Level 0, here and below, is the timer queue: its messages are due at times of their own.
    """

    level: int
    from_offset: int
    to_offset: int
    deliver_ms: int


class DelayElapsed(Event, frozen=True):
    """Messages of a delay level were due and are now in their own topics. ``late_ms`` is how late the first one is."""

    level: int
    from_offset: int
    to_offset: int
    late_ms: int


class DelayedMessagesLost(Event, frozen=True):
    """Delayed messages can never be delivered, for this ``reason``. ``level`` is 0 for messages for an exact time.

    If their offsets are unknown, ``from_offset`` is minus the number of messages, and ``to_offset`` is 0.
    """

    level: int
    from_offset: int
    to_offset: int
    reason: str


class MessageRecalled(Event, frozen=True):
    """The message at this offset of the timer queue was due, and was not delivered because it was recalled."""

    topic: str
    message_id: str
    queue_offset: int


class MessageSentBack(Event, frozen=True):
    """A group will receive a message of ``topic`` again. ``reconsume_times`` and ``physical_offset`` are the copy's."""

    group: str
    topic: str
    message_id: str
    reconsume_times: int
    delay_level: int
    physical_offset: int


class MessageDeadLettered(Event, frozen=True):
    """A group will not receive a message of ``topic`` again. The numbers are those of the dead-letter copy."""

    group: str
    topic: str
    message_id: str
    reconsume_times: int
    reason: DeadCause
    physical_offset: int


class HalfMessageStored(Event, frozen=True):
    """A producer began a transaction: the message waits at ``half_offset`` of the half topic's queue.

    ``topic`` is where consumers will see it, ``message_id`` its UNIQ_KEY.
    """

    topic: str
    message_id: str
    producer_group: str
    half_offset: int
    physical_offset: int


class TransactionChecked(Event, frozen=True):
    """A producer was asked how a transaction ends, for the ``checks``-th time. Without one, ``client_id`` is empty."""

    topic: str
    message_id: str
    producer_group: str
    client_id: str
    half_offset: int
    checks: int


class TransactionEnded(Event, frozen=True):
    """``given_up``: the message is in TRANS_CHECK_MAX_TIME_TOPIC for this ``reason``, or lost; then it has no names."""

    topic: str
    message_id: str
    producer_group: str
    half_offset: int
    outcome: Literal["committed", "rolled_back", "given_up"]
    reason: str = ""


class MessageReplied(Event, frozen=True):
    """A consumer replied to a request. ``pushed``: the requester is connected, so the reply was passed on to it.

    ``topic`` is the reply's, ``message_id`` its UNIQ_KEY, ``client_id`` the requester.
    """

    topic: str
    message_id: str
    client_id: str
    correlation_id: str
    pushed: bool


class SlaveConnected(Event, frozen=True):
    """A slave follows the commit log, from ``begin_offset`` on."""

    address: str
    begin_offset: int


class SlaveLost(Event, frozen=True):
    """A slave's connection ended. ``refused``: this broker ended it, for the ``reason``; ``slave_ack_offset`` is -1 if
    the slave had reported nothing."""

    address: str
    slave_ack_offset: int
    reason: str
    refused: bool


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


class PullRefused(Event, frozen=True):
    """The broker refused a pull. ``code`` is a ResponseCode, ``remark`` the reason."""

    topic: str
    queue_id: int
    group: str
    client_id: str
    code: int
    remark: str


class RequestRefused(Event, frozen=True):
    """The broker refused a request to protect itself. ``code`` is the kind of refusal, ``remark`` the reason."""

    command: str
    code: str
    remark: str
    client_id: str


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
RETRY_EVENTS: tuple[type[Event], ...] = (MessageSentBack, MessageDeadLettered)
"""Events about messages that a group could not consume. There may be very many of them."""
