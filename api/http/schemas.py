"""The shapes of the API, as msgspec structs: what is decoded, what is encoded and what the documents describe.

A value inside an answer that the engine already has as a plain struct (``HoldView`` and its like) is that struct.
Numbers named in ``INT64_FIELDS`` may need 64 bits: ``?int64=string`` has them as text, for readers whose numbers
are doubles.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.http.limits import MAX_MESSAGES_PER_PUBLISH
from api.http.names import TopicName
from bridge.port import commands

QueueId = Annotated[int, Meta(ge=0, le=(1 << 31) - 1, description="Number of the queue in its topic.")]
QueueOffset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="Position in a queue, in messages.")]
AnyOffset = Annotated[
    int,
    Meta(
        ge=-(1 << 63),
        le=(1 << 63) - 1,
        description="Position in a queue, in messages; one that the queue does not have is answered `offset_moved`.",
    ),
]
Milliseconds = Annotated[int, Meta(ge=0, le=1 << 62, description="Milliseconds since 1970, UTC.")]
BodyEncoding = Literal["utf8", "base64", "json"]

INT64_FIELDS = frozenset(
    {
        "queue_offset",
        "physical_offset",
        "offset",
        "next_offset",
        "min_offset",
        "max_offset",
        "queue_max_offset",
        "pull_from_offset",
        "from_offset",
        "to_offset",
        "next_begin_offset",
        "flushed_offset",
        "previous",
        "before",
        "after",
        "lag",
        "size",
        "min",
        "appended",
        "flushed",
        "dispatched",
        "store_time_ms",
        "born_time_ms",
        "last_store_time_ms",
        "suspended_at_ms",
        "deadline_ms",
        "started_at_ms",
        "uptime_ms",
        "wall_ms",
        "lag_ms",
        "latency_ms",
        "mono_ns",
        "pull_offset",
        "polled_ms_ago",
        "connected_at_ms",
        "last_heartbeat_ms",
        "sub_version",
        "seq",
        "seq_from",
        "seq_to",
        "first_seq",
        "epoch",
        "messages",
        "next_due_ms",
        "dead_letters",
        "dead_letters_from",
    }
)


def with_int64_as_text(value: Any) -> Any:
    """Plain data with the 64-bit numbers as text, counters included."""
    if isinstance(value, list):
        return [with_int64_as_text(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _as_text(name, item) for name, item in value.items()}


def _as_text(name: str, value: Any) -> Any:
    if type(value) is int:
        return str(value) if name in INT64_FIELDS else value
    if name == "counters":
        return {counter: str(count) for counter, count in value.items()}
    return value if name in ("properties", "config") else with_int64_as_text(value)


class Model(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of everything that is answered."""


class Body(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base of everything that is sent to us: a field that nobody reads is a mistake worth telling."""


# --- Publishing ----------------------------------------------------------------------------------------------


class PublishMessage(Body, frozen=True, kw_only=True, gc=False):
    """One message to publish. With `body_encoding` `json` the body is any JSON value, stored as its text."""

    body: msgspec.Raw
    body_encoding: BodyEncoding = "utf8"
    tag: str = ""
    keys: list[str] = []
    properties: dict[str, str] = {}
    queue_id: QueueId | None = None


class PublishMessages(Body, frozen=True, kw_only=True, gc=False):
    """Messages to publish in one topic, stored in this order."""

    messages: Annotated[list[PublishMessage], Meta(min_length=1, max_length=MAX_MESSAGES_PER_PUBLISH)]


class PublishedMessage(Model, frozen=True, kw_only=True, gc=False):
    """Where one message was stored."""

    broker: str
    message_id: str
    offset_message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_time_ms: int


class Published(Model, frozen=True, kw_only=True, gc=False):
    messages: list[PublishedMessage]


# --- Messages and pulls --------------------------------------------------------------------------------------


class MessageView(Model, frozen=True, kw_only=True, gc=False):
    """One message, body decompressed. `body_encoding` is `utf8` where the bytes are UTF-8, else `base64`."""

    broker: str
    message_id: str
    offset_message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    tag: str
    keys: list[str]
    properties: dict[str, str]
    body: str
    body_encoding: Literal["utf8", "base64"]
    born_time_ms: int
    store_time_ms: int
    born_host: str
    store_host: str
    reconsume_times: int
    size: int


class Messages(Model, frozen=True, kw_only=True, gc=False):
    """`left_out`: ids of messages that were found, but would make the answer too large; ask for each by its id."""

    messages: list[MessageView]
    left_out: list[str] | UnsetType = UNSET


class HoldResult(Model, frozen=True, kw_only=True, gc=False):
    """How the wait of a held pull ended. `wake_us`: from the arrival to the answer, 0 without an arrival."""

    id: int
    held_ms: int
    held_us: int
    wake_us: int
    wake_cause: commands.WakeCause


class PullResult(Model, frozen=True, kw_only=True, gc=False):
    """A pull's answer. `next_offset` is the offset of the next pull, whatever the status.

    An answer has at most 16 MiB of message bodies, or one message. `next_offset` is then that of the first message
    that was left out.
    """

    broker: str
    status: Literal["found", "no_new", "no_match", "offset_moved"]
    messages: list[MessageView]
    next_offset: int
    min_offset: int
    max_offset: int
    effective_wait_ms: int
    hold: HoldResult | None


class TimelineView(Model, frozen=True, kw_only=True, gc=False):
    """What the recent events say about one message; not `complete` when they no longer reach back to its storing."""

    broker: str
    message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    store_time_ms: int
    complete: bool
    events: list[dict[str, Any]]


# --- Offsets and groups --------------------------------------------------------------------------------------


class OffsetToCommit(Body, frozen=True, kw_only=True, gc=False):
    topic: TopicName
    queue_id: QueueId
    offset: QueueOffset


class OffsetsToCommit(Body, frozen=True, kw_only=True, gc=False):
    """The next offsets that the group will consume. All are committed or, with an error, none."""

    offsets: Annotated[list[OffsetToCommit], Meta(min_length=1, max_length=10_000)]


class CommittedOffset(Model, frozen=True, kw_only=True, gc=False):
    topic: str
    queue_id: int
    offset: int


class CommittedOffsets(Model, frozen=True, kw_only=True, gc=False):
    group: str
    offsets: list[CommittedOffset]


class GroupOffsets(Model, frozen=True, kw_only=True, gc=False):
    """Consumed offsets with their lag in messages and in time (null: not known)."""

    broker: str
    group: str
    offsets: list[commands.GroupQueueOffset]


class ResetOffsets(Body, frozen=True, kw_only=True, gc=False):
    """`to`: `min`, `max` or a store time in ms. With `dry_run` nothing is changed."""

    topic: TopicName
    to: Milliseconds | Annotated[str, Meta(pattern=r"^(min|max|[0-9]{1,18})$(?!\n)")]
    dry_run: bool = False


class OffsetsReset(Model, frozen=True, kw_only=True, gc=False):
    broker: str
    group: str
    dry_run: bool
    changes: list[commands.OffsetChange]


Unavailable = Annotated[list[str], Meta(description="Brokers that did not answer, so that their part is missing.")]


class Groups(Model, frozen=True, kw_only=True, gc=False):
    seq: int
    groups: list[commands.ConsumerGroupView]
    unavailable: Unavailable | UnsetType = UNSET


class Client(Model, frozen=True, kw_only=True, gc=False):
    """One client. `version` is RocketMQ's (`5.4.0`), empty: it has none; `last_heartbeat_ms` null: it sent none."""

    broker: str
    client_id: str
    protocol: commands.Protocol
    remote: str
    language: str
    version: str
    connected_at_ms: int
    last_heartbeat_ms: int | None
    producer_groups: list[str]
    consumer_groups: list[str]
    holds: int


class Clients(Model, frozen=True, kw_only=True, gc=False):
    """Clients in the order of their coming. `total` counts what the limit left out, too."""

    seq: int
    total: int
    clients: list[Client]
    unavailable: Unavailable | UnsetType = UNSET


class GroupQueue(Model, frozen=True, kw_only=True, gc=False):
    """One queue as a group sees it.

    `assigned_to` is who should have it by RocketMQ's default allocation, null: nobody. `polled_by` asked for it last,
    `polled_ms_ago`. `offset` is the committed one, `pull_offset` where the next pull goes on. `state`: `held` a pull is
    in the pullRequestTable; `polling` one came lately; `not_polling` it is assigned and nobody asks; `unassigned` no
    member is there. `why` says more. `locked_by` holds its orderly lock. `lag_ms`: the next one's age; null: unknown.
    """

    broker: str
    topic: str
    queue_id: int
    assigned_to: str | None
    polled_by: str | None
    polled_ms_ago: int | None
    state: Literal["held", "polling", "not_polling", "unassigned"]
    why: str
    offset: int | None
    pull_offset: int | None
    min_offset: int
    max_offset: int
    lag: int | None
    lag_ms: int | None
    locked_by: str | None


class QueueName(Model, frozen=True, kw_only=True, gc=False):
    broker: str
    topic: str
    queue_id: int


class Assignment(Model, frozen=True, kw_only=True, gc=False):
    """The queues that one member should have."""

    client_id: str
    queues: list[QueueName]


class GroupDetail(Model, frozen=True, kw_only=True, gc=False):
    """One group: members, what they subscribe to, who has which queue, how far behind, and what is held now.

    `consume_type`, `message_model`, `consume_from_where`: RocketMQ's, empty without members. `queues`: the first 2000
    of each broker, of `queues_total`; `lag`, `offsets` are of those. `missing_topics`: at no broker that was asked.
    """

    broker: str
    group: str
    seq: int
    topics: list[str]
    lag: int
    consume_type: str
    message_model: str
    consume_from_where: str
    members: list[Client]
    subscriptions: list[commands.SubscriptionData]
    assignment: list[Assignment]
    queues: list[GroupQueue]
    queues_total: int
    offsets: list[commands.GroupQueueOffset]
    holds: list[commands.HoldView]
    missing_topics: list[str]
    retries: list[commands.GroupRetries]
    unavailable: Unavailable | UnsetType = UNSET


# --- Topics and queues ---------------------------------------------------------------------------------------


class TopicConfig(Body, frozen=True, kw_only=True, gc=False):
    """A topic's shape; what is left out stays as it is (a new topic: 4 queues, perm 6).

    `queues` sets both `read_queues` and `write_queues`. `perm`: 4 read, 2 write, 1 inherit, added up.
    """

    queues: Annotated[int, Meta(ge=1, le=1024)] | None = None
    read_queues: Annotated[int, Meta(ge=1, le=1024)] | None = None
    write_queues: Annotated[int, Meta(ge=1, le=1024)] | None = None
    perm: Annotated[int, Meta(ge=0, le=7)] | None = None


class Topics(Model, frozen=True, kw_only=True, gc=False):
    seq: int
    topics: list[commands.TopicView]
    unavailable: Unavailable | UnsetType = UNSET


class Queues(Model, frozen=True, kw_only=True, gc=False):
    seq: int
    queues: list[commands.QueueView]
    unavailable: Unavailable | UnsetType = UNSET


class FoundOffset(Model, frozen=True, kw_only=True, gc=False):
    broker: str
    topic: str
    queue_id: int
    offset: int


# --- The broker and what it does -----------------------------------------------------------------------------


class Holds(Model, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The pullRequestTable. `total` counts all of it; `next` is the `after` of the next page, absent on the last."""

    seq: int
    total: int
    holds: list[commands.HoldView]
    next: int | UnsetType = UNSET
    unavailable: Unavailable | UnsetType = UNSET


class BrokerLine(Model, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A broker among several. Of one that is not `available` only its name and the `problem` are known."""

    broker: str
    available: bool
    problem: str = ""
    epoch: int | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    role: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    uptime_ms: int | UnsetType = UNSET
    read_only: bool | UnsetType = UNSET
    positions: commands.StorePositions | UnsetType = UNSET


class Brokers(Model, frozen=True, kw_only=True, gc=False):
    brokers: list[BrokerLine]


class BrokerDetail(Model, frozen=True, kw_only=True, gc=False):
    """`positions` are physical offsets, in bytes. `problem` is empty while messages are accepted."""

    broker: str
    epoch: int
    seq: int
    role: str
    version: str
    started_at_ms: int
    uptime_ms: int
    read_only: bool
    problem: str
    positions: commands.StorePositions
    config: dict[str, Any]
    changeable: list[str]
    recovery: list[str]
    store_path: str


class BrokerOption(Model, frozen=True, kw_only=True, gc=False):
    """One option under RocketMQ's name. `schema` is what it takes, as JSON Schema."""

    name: str
    type: str
    default: Any
    value: Any
    changeable: bool
    description: str
    schema: dict[str, Any]


class BrokerOptions(Model, frozen=True, kw_only=True, gc=False):
    """`config` has the values alone, by name."""

    broker: str
    seq: int
    config: dict[str, Any]
    options: list[BrokerOption]


class SnapshotView(Model, frozen=True, kw_only=True, gc=False):
    """Everything a page needs before it applies events above `seq`; `*_total` count what a limit left out."""

    broker: str
    epoch: int
    seq: int
    wall_ms: int
    long_polling_enable: bool
    short_polling_time_mills: int
    problem: str
    holds_total: int
    holds: list[commands.HoldView]
    queues_total: int
    queues: list[commands.QueueView]
    wakeups: list[commands.WakeUp]
    counters: dict[str, int]
    wakeup_us: commands.Histogram
    held_ms: commands.Histogram
    positions: commands.StorePositions
    client_events: list[dict[str, Any]]


class Health(Model, frozen=True, kw_only=True, gc=False):
    """`status` is `ok`."""

    status: Literal["ok"] = "ok"


M = TypeVar("M", bound=Model)


def copied(shape: type[M], reply: msgspec.Struct, **more: Any) -> M:
    """A reply of the engine in the API's shape, which has the same field names."""
    return shape(**{name: getattr(reply, name) for name in shape.__struct_fields__ if hasattr(reply, name)} | more)
