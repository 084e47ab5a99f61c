"""The frames of the two WebSockets, as structs: ``type`` in JSON is the class's name in lower case.

A client's frame with an unknown field is refused. ``id`` is the client's name for a request; its answers carry it.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.http.limits import (
    DEFAULT_LEASE_MS,
    DEFAULT_PULL_MESSAGES,
    DEFAULT_WAIT_MS,
    IDLE_SECONDS,
    MAX_FRAME,
    MAX_IDEMPOTENCY_KEY,
    MAX_LEASE_MS,
    MAX_MESSAGE_BODY,
    MAX_MESSAGES_PER_PUBLISH,
    MAX_PUBLISHES_PER_SOCKET,
    MAX_PULLS_PER_SOCKET,
    MAX_RECEIVES_PER_SOCKET,
    MAX_SENT_FRAME,
    MAX_SUBSCRIPTIONS_PER_SOCKET,
    MAX_UNSENT,
    MAX_WAIT_MS,
    MAX_WINDOW,
)
from api.http.names import ClientId, Expression, GroupName, OptionalGroupName, OptionalTopicName, TopicName
from api.http.problems import FieldError
from api.http.schemas import (
    AnyOffset,
    Body,
    CommittedOffset,
    MessageView,
    Milliseconds,
    OffsetToCommit,
    PublishedMessage,
    PublishMessage,
    QueueId,
    QueueOffset,
)
from api.resources.broker import SnapshotView
from api.resources.pulls import PullResult
from api.resources.receipts import AckOutcome, LeaseOutcome, Receipts
from api.resources.receives import InOrder, LeaseMs, ReceiveNumber, ReceiveResult
from bridge.port import commands

SUBPROTOCOL = "rmq.v1.json"
FrameId = Annotated[int, Meta(ge=-(1 << 53), le=1 << 53)] | Annotated[str, Meta(min_length=1, max_length=128)]


def _tag(name: str) -> str:
    return name.removesuffix("Frame").lower()


class ClientFrame(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag=_tag):
    """Base of what a client sends."""


class ServerFrame(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type", tag=_tag):
    """Base of what the server sends."""


# --- /ws/v1/consumer, from the client -------------------------------------------------------------------------


class Hello(ClientFrame, frozen=True, kw_only=True):
    """The client's id, as its first frame. Without it the server chooses one."""

    client_id: ClientId = ""


class Pull(ClientFrame, frozen=True, kw_only=True):
    """The WebSocket-backed long poll. Many may be held at once; they are answered as they are woken."""

    id: FrameId
    topic: TopicName
    queue_id: QueueId
    offset: AnyOffset
    limit: Annotated[int, Meta(ge=1, le=1024)] = DEFAULT_PULL_MESSAGES
    wait_ms: int = DEFAULT_WAIT_MS
    filter: Expression = "*"
    filter_type: Literal["tag", "sql92"] = "tag"
    group: OptionalGroupName = ""


class ReceiveFrame(ClientFrame, frozen=True, kw_only=True):
    """Receive with a lease, as over HTTP: without queues and offsets. Answered by received."""

    id: FrameId
    topic: TopicName
    group: GroupName
    n: ReceiveNumber = 1
    wait_ms: int = DEFAULT_WAIT_MS
    lease_ms: LeaseMs = DEFAULT_LEASE_MS
    filter: Expression = "*"
    filter_type: Literal["tag", "sql92"] = "tag"
    in_order: InOrder = False


class Acknowledge(ClientFrame, frozen=True, kw_only=True):
    """The received messages with these receipts are consumed. (`ack` is for messages of a subscription.)"""

    id: FrameId
    topic: TopicName
    group: GroupName
    receipts: Receipts


class Lease(ClientFrame, frozen=True, kw_only=True):
    """Hide received messages for `lease_ms` from now on. With 0, the group gets them again at once."""

    id: FrameId
    topic: TopicName
    group: GroupName
    receipts: Receipts
    lease_ms: Annotated[int, Meta(ge=0, le=MAX_LEASE_MS)]


class Cancel(ClientFrame, frozen=True, kw_only=True):
    """Release the hold of the pull or receive with this id."""

    id: FrameId


class Commit(ClientFrame, frozen=True, kw_only=True):
    """Commit consumed offsets: either `offsets`, or `topic`, `queue_id` and `offset` of one queue."""

    id: FrameId | UnsetType = UNSET
    group: GroupName
    offsets: Annotated[list[OffsetToCommit], Meta(max_length=10_000)] = []
    topic: TopicName | UnsetType = UNSET
    queue_id: QueueId | UnsetType = UNSET
    offset: QueueOffset | UnsetType = UNSET


class Publish(PublishMessage, ClientFrame, frozen=True, kw_only=True):
    """One message (`body` and its fields), or several (`messages`), to one topic.

    `deliver_at_ms` is the wall time at which consumers get it, `delay_ms` how long after it was stored; at most one of
    these, and then no property DELAY.
    """

    id: FrameId
    topic: TopicName
    messages: Annotated[list[PublishMessage], Meta(max_length=MAX_MESSAGES_PER_PUBLISH)] = []
    body: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    idempotency_key: (
        Annotated[str, Meta(min_length=1, max_length=MAX_IDEMPOTENCY_KEY, pattern=r"^[ -~]*$(?!\n)")] | UnsetType
    ) = UNSET


class Ping(ClientFrame, frozen=True, kw_only=True):
    """Answered by pong; also keeps an idle socket open."""

    id: FrameId | UnsetType = UNSET


class Subscribe(ClientFrame, frozen=True, kw_only=True):
    """Join the group: this client gets its share of the topic's queues, `assigned`, and their messages.

    `from` is where queues without a committed offset begin: `first`, `last`, or a store time in ms.
    """

    id: FrameId
    topic: TopicName
    group: GroupName
    filter: Expression = "*"
    filter_type: Literal["tag", "sql92"] = "tag"
    start: Literal["first", "last"] | Milliseconds = msgspec.field(name="from", default="last")


class Permit(ClientFrame, frozen=True, kw_only=True):
    """Send `n` more messages of this subscription as they arrive. Without permits nothing is sent."""

    id: FrameId
    n: Annotated[int, Meta(ge=1, le=MAX_WINDOW)]


class OpenMessage(Body, frozen=True, kw_only=True):
    """A message of the subscription: its `queue_offset`, and the other fields if several open messages have it."""

    offset: QueueOffset
    queue_id: QueueId | UnsetType = UNSET
    topic: TopicName | UnsetType = UNSET
    broker: str | UnsetType = UNSET


class Ack(ClientFrame, frozen=True, kw_only=True):
    """These messages are consumed. A number is an `offset` alone. Messages that are not open are ignored."""

    id: FrameId
    offsets: Annotated[list[QueueOffset | OpenMessage], Meta(min_length=1, max_length=MAX_WINDOW)]


class Nack(ClientFrame, frozen=True, kw_only=True):
    """This message could not be consumed: the group gets it again later, from its retry topic.

    With `delay_level` 0 the delay grows with each attempt; below 0 the message goes to the dead letter queue.
    """

    id: FrameId
    offset: QueueOffset
    queue_id: QueueId | UnsetType = UNSET
    topic: TopicName | UnsetType = UNSET
    broker: str | UnsetType = UNSET
    delay_level: Annotated[int, Meta(ge=-1, le=18)] = 0


class Unsubscribe(ClientFrame, frozen=True, kw_only=True):
    """End this subscription: acknowledged messages are committed, open ones are delivered to other members."""

    id: FrameId


ConsumerRequest = (
    Hello
    | Pull
    | Cancel
    | Commit
    | Publish
    | Ping
    | Subscribe
    | Permit
    | Ack
    | Nack
    | Unsubscribe
    | ReceiveFrame
    | Acknowledge
    | Lease
)
SUPPORTED = [
    "hello",
    "pull",
    "cancel",
    "commit",
    "publish",
    "ping",
    "subscribe",
    "permit",
    "ack",
    "nack",
    "unsubscribe",
    "receive",
    "acknowledge",
    "lease",
]


# --- /ws/v1/consumer, from the server -------------------------------------------------------------------------


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one socket may ask for; sizes in bytes. The server sends frames of at most `max_sent_frame_bytes`."""

    max_frame_bytes: int = MAX_FRAME
    max_sent_frame_bytes: int = MAX_SENT_FRAME
    max_message_bytes: int = MAX_MESSAGE_BODY
    max_messages_per_publish: int = MAX_MESSAGES_PER_PUBLISH
    max_pulls: int = MAX_PULLS_PER_SOCKET
    max_receives: int = MAX_RECEIVES_PER_SOCKET
    max_publishes: int = MAX_PUBLISHES_PER_SOCKET
    max_subscriptions: int = MAX_SUBSCRIPTIONS_PER_SOCKET
    max_permits: int = MAX_WINDOW
    max_wait_ms: int = MAX_WAIT_MS
    max_unsent_bytes: int = MAX_UNSENT
    idle_ms: int = int(IDLE_SECONDS * 1000)


class Welcome(ServerFrame, frozen=True, kw_only=True, omit_defaults=False):
    """The answer to hello. `supported` are the frames that this server accepts."""

    broker: str
    client_id: str
    supported: list[str]
    limits: Limits


class HeldFrame(ServerFrame, frozen=True, kw_only=True):
    """The pull or receive found nothing and waits in the pullRequestTable, until `deadline_ms` at the latest."""

    id: FrameId
    hold_id: int
    deadline_ms: int


class Woken(ServerFrame, frozen=True, kw_only=True):
    """The hold ended; its `pulled` or `received` follows."""

    id: FrameId
    hold_id: int
    cause: commands.WakeCause
    held_ms: int


class PulledFrame(PullResult, frozen=True, kw_only=True, gc=False, tag_field="type", tag=_tag):
    """The answer of a pull, as that of the HTTP pull.

    Its bodies take 4 MiB together at most, or it has one message: go on at `next_offset`.
    """

    id: FrameId


class ReceivedFrame(ReceiveResult, frozen=True, kw_only=True, gc=False, tag_field="type", tag=_tag):
    """The answer of a receive, as that of the HTTP call. Its bodies take 4 MiB together at most, or it has one message.
    What did not fit is given back at once."""

    id: FrameId


class Acknowledged(ServerFrame, frozen=True, kw_only=True, omit_defaults=False):
    """The outcome of each receipt of an acknowledge, in their order."""

    id: FrameId
    outcomes: list[AckOutcome]


class Leased(ServerFrame, frozen=True, kw_only=True, omit_defaults=False):
    """The outcome of each receipt of a lease, in their order."""

    id: FrameId
    outcomes: list[LeaseOutcome]


class Cancelled(ServerFrame, frozen=True, kw_only=True):
    """The pull or receive was cancelled; nothing else follows for it."""

    id: FrameId


class Committed(ServerFrame, frozen=True, kw_only=True):
    id: FrameId | UnsetType = UNSET
    group: str
    offsets: list[CommittedOffset]


class AssignedQueue(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    broker: str
    queue_id: int


class Assigned(ServerFrame, frozen=True, kw_only=True, omit_defaults=False):
    """The queues of this client, sent after joining and whenever they change; `members` are in the group.

    Unacknowledged messages of other queues are delivered to the members that have those queues now.
    """

    id: FrameId
    queues: list[AssignedQueue]
    members: int


class MessageFrame(MessageView, frozen=True, kw_only=True, gc=False, tag_field="type", tag=_tag):
    """One message of a subscription. `seq` counts its messages from 1."""

    id: FrameId
    seq: int


class Unsubscribed(ServerFrame, frozen=True, kw_only=True):
    """The subscription is over; nothing else follows for it."""

    id: FrameId


class PublishedFrame(ServerFrame, frozen=True, kw_only=True):
    """The messages are stored."""

    id: FrameId
    messages: list[PublishedMessage]


class ProblemFrame(ServerFrame, frozen=True, kw_only=True):
    """An error, as HTTP would answer it; `id` is that of the refused frame, if it could be read."""

    id: FrameId | UnsetType = UNSET
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldError] = []
    retry_after_ms: int = 0


class Pong(ServerFrame, frozen=True, kw_only=True):
    id: FrameId | UnsetType = UNSET


class Bye(ServerFrame, frozen=True, kw_only=True):
    """The server closes the socket; connect again."""

    reason: str


ConsumerAnswer = (
    Welcome
    | HeldFrame
    | Woken
    | PulledFrame
    | ReceivedFrame
    | Acknowledged
    | Leased
    | Cancelled
    | Committed
    | Assigned
    | MessageFrame
    | Unsubscribed
    | PublishedFrame
    | ProblemFrame
    | Pong
    | Bye
)


# --- /ws/v1/events --------------------------------------------------------------------------------------------

PANELS = ("holds", "queues", "wakeups", "counters", "clients")
PanelName = Annotated[str, Meta(extra_json_schema={"enum": list(PANELS)})]
"""One of ``PANELS``. ``/ws/v1/events`` checks it, so that the error of an unknown panel can name them."""


class SnapshotRequest(ClientFrame, frozen=True, kw_only=True, tag="snapshot"):
    """Send a snapshot; a page asks for one after a gap."""


class SubscribePanels(ClientFrame, frozen=True, kw_only=True, tag="subscribe"):
    """From now on send only these panels, and of them only this topic and group. A snapshot follows.

    `clients` are events of clients and groups: members that join and leave, queues that change hands.
    """

    panels: list[PanelName] = msgspec.field(default_factory=lambda: list(PANELS))
    topic: OptionalTopicName = ""
    group: OptionalGroupName = ""


EventsRequest = SnapshotRequest | SubscribePanels | Ping


class SnapshotFrame(SnapshotView, frozen=True, kw_only=True, gc=False, tag_field="type", tag=_tag):
    """The state at `seq`; deltas above it follow. `*_total` also count entries that a limit left out."""


class HoldChanges(msgspec.Struct, frozen=True, kw_only=True):
    added: list[commands.HoldView]
    removed: list[int]
    total: int


class QueueChanges(msgspec.Struct, frozen=True, kw_only=True):
    changed: list[commands.QueueView]
    removed: list[tuple[str, int]]


class DeltaFrame(ServerFrame, frozen=True, kw_only=True, omit_defaults=False):
    """The changes after `seq_from - 1`. With `seq_from` = `seq_to` + 1 there are none; the engine is alive."""

    broker: str
    epoch: int
    seq_from: int
    seq_to: int
    wall_ms: int
    holds: HoldChanges
    queues: QueueChanges
    wakeups: list[commands.WakeUp]
    client_events: list[dict[str, Any]]
    counters: dict[str, int]
    wakeup_us: commands.Histogram
    held_ms: commands.Histogram
    long_polling_enable: bool
    problem: str
    dropped: int


class Lost(ServerFrame, frozen=True, kw_only=True):
    """The engine is away or was restarted; a snapshot follows as soon as the engine answers."""

    reason: str


EventsAnswer = SnapshotFrame | DeltaFrame | Lost | ProblemFrame | Pong | Bye

SentFrame = ConsumerAnswer | EventsAnswer
