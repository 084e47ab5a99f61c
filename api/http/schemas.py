"""The shapes that several modules of the API share, as msgspec structs. A resource module has those of its own.

Structs that the engine already has, such as ``HoldView``, are used in answers as they are. Numbers named in
``INT64_FIELDS`` may need 64 bits: with ``?int64=string`` they are text, for clients that read numbers as doubles.
"""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

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
MOST_ENTRIES = 10_000
Limit = Annotated[int, Meta(ge=1, le=MOST_ENTRIES, description="Maximum number of entries of each broker.")]
QueuesLimit = Annotated[int, Meta(ge=1, le=5000, description="Maximum number of queues of each broker.")]
AfterQueue = Annotated[
    str,
    Meta(pattern=r"^([^@]{1,255}@[0-9]{1,10})?$(?!\n)", description="Only queues that follow this one: `orders@3`."),
]
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
        "received",
        "confirmed",
        "confirmed_ms",
        "min_ms",
        "lag_bytes",
        "bytes_per_second",
        "tables_ms",
        "asked_ms",
        "pulled_ms",
        "consumed_ms",
        "members_ms",
        "since_ms",
        "unindexed",
        "store_time_ms",
        "born_time_ms",
        "last_store_time_ms",
        "suspended_at_ms",
        "lease_ends_ms",
        "deadline_ms",
        "until_ms",
        "started_at_ms",
        "uptime_ms",
        "wall_ms",
        "lag_ms",
        "oldest_ms",
        "retrying",
        "latency_ms",
        "mono_ns",
        "pull_offset",
        "polled_ms_ago",
        "moved_ms_ago",
        "handed_ms_ago",
        "taken_ms_ago",
        "lag_before",
        "lag_before_ms_ago",
        "reset_to",
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
        "slave_ack_offset",
        "begin_offset",
        "transferred",
        "reported_ms",
        "at_ms",
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
    return value if name in ("properties", "config", "tags") else with_int64_as_text(value)


class Model(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Base of all answers."""


class Body(msgspec.Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base of all request bodies. An unknown field is refused, so a typing mistake is reported."""


# --- Publishing ----------------------------------------------------------------------------------------------


class PublishMessage(Body, frozen=True, kw_only=True, gc=False):
    """One message to publish. With `body_encoding` `json` the body is any JSON value, stored as its text.

    `deliver_at_ms` is the wall time at which consumers get it, `delay_ms` how long after it was stored; at most one of
    these, and then no property DELAY.
    """

    body: msgspec.Raw
    body_encoding: BodyEncoding = "utf8"
    tag: str = ""
    keys: list[str] = []
    properties: dict[str, str] = {}
    queue_id: QueueId | None = None
    deliver_at_ms: Annotated[int, Meta(ge=1, le=(1 << 53) - 1)] | None = None
    delay_ms: Annotated[int, Meta(ge=1, le=(1 << 53) - 1)] | None = None


class PublishedMessage(Model, frozen=True, kw_only=True, gc=False):
    """Where one message was stored. `recall_handle` is only there if it waits for an exact time."""

    broker: str
    message_id: str
    offset_message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_time_ms: int
    recall_handle: str | UnsetType = UNSET


# --- Messages and pulls --------------------------------------------------------------------------------------


class MessageView(Model, frozen=True, kw_only=True, gc=False):
    """One message, body decompressed. `body_encoding` is `utf8` where the bytes are UTF-8, else `base64`.

    `body_size` is only there if the body may be cut: the bytes of the whole body.
    `problem` is only there if the record is damaged: then the body is as it is stored, or only `size` is known.
    """

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
    body_size: int | UnsetType = UNSET
    problem: str | UnsetType = UNSET


class HoldResult(Model, frozen=True, kw_only=True, gc=False):
    """How the wait of a held pull ended. `wake_us`: from the arrival to the answer, 0 without an arrival."""

    id: int
    held_ms: int
    held_us: int
    wake_us: int
    wake_cause: commands.WakeCause


# --- Offsets and groups --------------------------------------------------------------------------------------


class OffsetToCommit(Body, frozen=True, kw_only=True, gc=False):
    topic: TopicName
    queue_id: QueueId
    offset: QueueOffset


class CommittedOffset(Model, frozen=True, kw_only=True, gc=False):
    topic: str
    queue_id: int
    offset: int


Unavailable = Annotated[list[str], Meta(description="Brokers that did not answer, so that their part is missing.")]


M = TypeVar("M", bound=Model)


def copied(shape: type[M], reply: msgspec.Struct, **more: Any) -> M:
    """A reply of the engine in the API's shape, which has the same field names."""
    return shape(**{name: getattr(reply, name) for name in shape.__struct_fields__ if hasattr(reply, name)} | more)
