"""Events about messages: stored, dispatched, delivered, and what else becomes of them."""

from typing import Literal

from broker_core.commands import DeadCause
from broker_core.events.base import Event


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


class MessagesAcknowledged(Event, frozen=True):
    """Popped messages were acknowledged: at most 32 ``offsets``, in no order. ``topic`` may be a retry topic.

    ``late``: nothing changed, because the pop that the request names does not hide these messages, or no longer.
    """

    group: str
    topic: str
    queue_id: int
    offsets: list[int]
    late: bool


class InvisibleTimeChanged(Event, frozen=True):
    """A popped message is hidden for ``invisible_ms`` from now on. With 0, it is visible again at once."""

    group: str
    topic: str
    queue_id: int
    offset: int
    invisible_ms: int


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


RETRY_EVENTS: tuple[type[Event], ...] = (MessageSentBack, MessageDeadLettered)
"""Events about messages that a group could not consume. There may be very many of them."""
