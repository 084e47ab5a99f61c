"""Commands of pop consumption: RocketMQ's POP_MESSAGE, ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME and others.

The broker gives each message to one member of the group and hides it from the others. A message that nobody
acknowledges in time is given again.
"""

from typing import Any, Literal

from msgspec import field

from broker_core.commands.base import Command, Protocol, Reply, Shape
from broker_core.commands.messages import HoldOutcome


class PopMessage(Command, frozen=True):
    """Pop messages of a topic and of the group's retry topic; without a message, wait up to ``poll_ms``. -> Popped

    A ``queue_id`` below 0 means all queues. The messages are invisible for ``invisible_ms``. A new group begins at the
    first message, with ``from_max`` at the last one, unless the first is still in memory. Without an ``expression``,
    every message matches. With ``report_hold``, a pop that is held is answered Held first.

    With ``order``, a queue is handed out again only when the messages of its last pop are acknowledged or visible
    again, or to a pop with the same ``attempt_id``, which repeats the last one. The retry topic is not popped then.
    """

    topic: str
    consumer_group: str
    queue_id: int = -1
    max_msg_nums: int = 32
    invisible_ms: int = 60_000
    poll_ms: int = 0
    from_max: bool = False
    expression: str = ""
    expression_type: str = "TAG"
    order: bool = False
    attempt_id: str = ""
    client_id: str = ""
    protocol: Protocol = "http"
    report_hold: bool = False


class PoppedQueue(Shape, frozen=True):
    """The messages of one queue in a Popped, with their queue offsets. ``start_offset`` names their check point.

    ``counts``: how often messages were popped in order before, by offset. Messages that are not in it were not.
    """

    topic: str
    queue_id: int
    start_offset: int
    offsets: list[int]
    counts: dict[int, int] = field(default_factory=dict)


class Popped(Reply, frozen=True):
    """``code``: 0 found, 210 nothing within the time (POLLING_TIMEOUT), 209 too many wait already (POLLING_FULL).

    ``records`` are whole commit log records, back to back, in the order of ``queues``. A record from the retry topic
    has the topic that was asked for, and its check point in the property POP_CK. ``rest`` messages are left.
    """

    code: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    rest: int
    queues: list[PoppedQueue]
    consumer_group: str = ""
    records: bytes = b""
    hold: HoldOutcome | None = None


class AckMessage(Command, frozen=True):
    """Acknowledge messages of one check point, or of one pop in order (``order``). -> Acknowledged

    ``topic`` is that of the queue: the retry topic for a message from there.
    """

    consumer_group: str
    topic: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    offsets: list[int]
    order: bool = False


class Acknowledged(Reply, frozen=True):
    """The number of messages that will not be given again. ``late`` offsets are not in the check point: their messages
    were acknowledged before, or their invisible time is over."""

    messages: int
    late: list[int] = field(default_factory=list)


class ChangeInvisibleTime(Command, frozen=True):
    """Make a popped message invisible for ``invisible_ms`` from now on. -> InvisibleTimeChanged; Failed NO_MESSAGE if
    it is not invisible any more.

    ``unseen``: no consumer got the message, so this delivery is not counted as one of its attempts. ``order``: it was
    popped in order.
    """

    consumer_group: str
    topic: str
    queue_id: int
    start_offset: int
    pop_time_ms: int
    offset: int
    invisible_ms: int
    unseen: bool = False
    order: bool = False


class InvisibleTimeChanged(Reply, frozen=True):
    """The message has a check point of its own now, whose ``start_offset`` is the message's offset.

    A message that was popped in order keeps its ``pop_time_ms``, and ``invisible_ms`` counts from there.
    """

    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int


class Notification(Command, frozen=True):
    """NOTIFICATION: wait up to ``poll_ms`` until the group could pop a message. -> Notified

    A ``queue_id`` below 0 means all queues. ``order`` and ``attempt_id`` as in PopMessage.
    """

    topic: str
    consumer_group: str
    queue_id: int = -1
    poll_ms: int = 0
    order: bool = False
    attempt_id: str = ""
    client_id: str = ""
    protocol: Protocol = "remoting"


class Notified(Reply, frozen=True):
    """``polling_full``: too many wait already."""

    has_message: bool
    polling_full: bool = False


class PeekMessage(Command, frozen=True):
    """PEEK_MESSAGE: what the group would pop, without popping it. -> Popped

    Its code is 0, or 19 without messages; it has no queues. ``rest`` also counts the messages that it shows. A
    ``queue_id`` below 0 means all queues.
    """

    topic: str
    consumer_group: str
    queue_id: int = -1
    max_msg_nums: int = 32


class PollingInfo(Command, frozen=True):
    """POLLING_INFO: how many pops of a group are held for a queue, or for all (below 0). -> PollingNumber"""

    topic: str
    consumer_group: str
    queue_id: int = -1


class PollingNumber(Reply, frozen=True):
    number: int


class SetMessageRequestMode(Command, frozen=True):
    """SET_MESSAGE_REQUEST_MODE: how a group consumes a topic, if its members leave that to the broker. -> Done

    With ``share_queues`` above 0, a popping member shares the queues of so many others; otherwise all share all.
    """

    topic: str
    consumer_group: str
    mode: Literal["PULL", "POP"]
    share_queues: int = 0


class GetMessageRequestModes(Command, frozen=True):
    """GET_ALL_MESSAGE_REQUEST_MODE. -> MessageRequestModes"""


class MessageRequestModes(Reply, frozen=True):
    """RocketMQ's table: ``messageRequestModeMap``, topic -> group -> mode."""

    table: dict[str, Any]


PopCommand = (
    PopMessage
    | AckMessage
    | ChangeInvisibleTime
    | Notification
    | PeekMessage
    | PollingInfo
    | SetMessageRequestMode
    | GetMessageRequestModes
)
PopReply = Popped | Acknowledged | InvisibleTimeChanged | Notified | PollingNumber | MessageRequestModes
