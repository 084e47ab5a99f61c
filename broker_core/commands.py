"""What may be asked of the engine, and what it answers: one closed set of each.

Every command is named after RocketMQ's request code for it. All shells (the channel layer, and whatever else
carries requests) build these and nothing else, so a behaviour is decided once. They are msgspec structs, so
one call encodes a whole batch (``encode_batch`` in ``bridge/wire.py``).

A command is answered exactly once, by its own reply type or by ``Failed``. A pull that asks for it
(``report_hold``) is told of its hold first, by ``Held``.
"""

from typing import Any, Literal

import msgspec

WakeCause = Literal["arrival", "filter_advanced", "missed_arrival", "timeout", "short_poll", "shutdown"]
ReleaseCause = Literal["channel_gone", "cancelled"]
Protocol = Literal["http", "websocket", "remoting"]


class Shape(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plain value inside a command or a reply."""


class Command(Shape, frozen=True, tag_field="t", tag=True):
    """Base of everything that may be asked."""


class Reply(Shape, frozen=True, tag_field="t", tag=True):
    """Base of everything that may be answered."""


# --- Replies to anything ---------------------------------------------------------------------------------


class Done(Reply, frozen=True):
    """It was done; there is nothing more to say."""


class Failed(Reply, frozen=True):
    """It was not done. ``code`` is a ResponseCode; ``kind`` says whose fault it is.

    ``request`` the client's, ``not_found`` and ``conflict`` too; ``unavailable`` nobody's (try again after
    ``retry_after_ms``); ``store`` the broker's.
    """

    code: int
    remark: str
    kind: Literal["request", "not_found", "conflict", "unavailable", "store"]
    pointer: str = ""
    retry_after_ms: int = 0


# --- Connections -----------------------------------------------------------------------------------------


class OpenConnection(Command, frozen=True):
    """A long-lived client says who it is (a WebSocket's hello). -> Done"""

    client_id: str
    protocol: Protocol
    remote: str = ""


class CloseConnection(Command, frozen=True):
    """The client went away: its holds are released at once. -> Done"""


# --- Sending: SEND_MESSAGE, SEND_MESSAGE_V2, SEND_BATCH_MESSAGE --------------------------------------------


class OutgoingMessage(Shape, frozen=True):
    """One message to store.

    ``properties`` is RocketMQ's property string (``name 0x01 value 0x02`` repeated). ``queue_id`` below 0
    lets the broker choose, round robin.
    """

    body: bytes
    properties: str = ""
    queue_id: int = -1
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    reconsume_times: int = 0


class SendMessage(Command, frozen=True):
    """Store messages in one topic, in this order, in one block. -> Sent

    An unknown topic is created from ``default_topic`` where that topic may be inherited from.
    ``idempotency_key``, when not empty, makes a repeat within the window answer what the first was answered.
    """

    topic: str
    messages: list[OutgoingMessage]
    producer_group: str = ""
    default_topic: str = "TBW102"
    default_topic_queue_nums: int = 4
    born_host: str = "127.0.0.1"
    born_port: int = 0
    idempotency_key: str = ""


class SentMessage(Shape, frozen=True):
    """Where one message was stored. ``message_id`` is its UNIQ_KEY."""

    message_id: str
    offset_message_id: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_time_ms: int


class Sent(Reply, frozen=True):
    """Stored, as durably as flushDiskType promises; in the order of the request.

    ``code`` is SUCCESS, or FLUSH_DISK_TIMEOUT when SYNC_FLUSH took longer than syncFlushTimeout.
    """

    code: int
    topic: str
    messages: list[SentMessage]


# --- Pulling: PULL_MESSAGE ---------------------------------------------------------------------------------


class PullMessage(Command, frozen=True):
    """Read from ``queue_offset``; find nothing, and be held for up to ``suspend_timeout_ms``. -> [Held,] Pulled

    ``suspend_timeout_ms`` 0 asks not to be held. ``commit_offset`` 0 or more stores the group's consumed
    offset first. ``subscription`` is a tag expression (``*``, ``TagA || TagB``).
    """

    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int = 32
    max_msg_bytes: int = 262_144
    suspend_timeout_ms: int = 0
    consumer_group: str = ""
    client_id: str = ""
    protocol: Protocol = "http"
    subscription: str = "*"
    expression_type: str = "TAG"
    commit_offset: int = -1
    report_hold: bool = False


class Held(Reply, frozen=True):
    """Not an answer yet: the pull is in the pullRequestTable."""

    hold_id: int
    deadline_ms: int


class HoldOutcome(Shape, frozen=True):
    """How a held pull's wait ended. ``wake_us`` is from the arrival to the answer, 0 without an arrival."""

    hold_id: int
    held_us: int
    wake_us: int
    wake_cause: WakeCause


class Pulled(Reply, frozen=True):
    """The answer of a pull. ``code``: 0 found, 19 nothing new, 20 nothing that matches, 21 offset moved.

    ``status`` is RocketMQ's GetMessageStatus name. ``records`` are whole commit log records, back to back.
    ``suspend_timeout_ms`` is the wait that was granted.
    """

    code: int
    status: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    suspend_timeout_ms: int
    read_us: int
    records: bytes = b""
    hold: HoldOutcome | None = None


class CancelPull(Command, frozen=True):
    """Release the hold of the pull that this connection sent as ``request_id``. -> Done, also if it is gone

    The pull itself is then answered by Failed with ILLEGAL_OPERATION ("cancelled").
    """

    request_id: int


# --- Offsets -------------------------------------------------------------------------------------------------


class QueueOffset(Shape, frozen=True):
    topic: str
    queue_id: int
    offset: int


class QueryConsumerOffset(Command, frozen=True):
    """Consumed offsets of a group, of one topic or of all. -> ConsumerOffsets; Failed when the group is unknown"""

    group: str
    topic: str = ""


class GroupQueueOffset(Shape, frozen=True):
    """``offset`` is the next offset the group will consume; ``lag_ms`` is the age of that message, None
    when it is not known; ``lag`` is in messages."""

    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int
    lag_ms: int | None


class ConsumerOffsets(Reply, frozen=True):
    group: str
    offsets: list[GroupQueueOffset]


class UpdateConsumerOffset(Command, frozen=True):
    """Commit offsets; they may go backwards. All of them or, with an error, none. -> Done"""

    group: str
    offsets: list[QueueOffset]
    client_id: str = ""


class ResetConsumerOffset(Command, frozen=True):
    """Move a group in a topic: to ``min``, ``max`` or a store time in ms (decimal text). -> OffsetsReset

    ``dry_run`` only says what would change.
    """

    group: str
    topic: str
    to: str
    dry_run: bool = False


class OffsetChange(Shape, frozen=True):
    """``before`` is None where the group had no offset yet."""

    topic: str
    queue_id: int
    before: int | None
    after: int


class OffsetsReset(Reply, frozen=True):
    group: str
    dry_run: bool
    changes: list[OffsetChange]


class GetConsumerGroups(Command, frozen=True):
    """Every group that has offsets or holds. -> ConsumerGroups"""


class ConsumerGroupView(Shape, frozen=True):
    """``lag`` in messages over all its queues; ``holds`` are its held pulls."""

    broker: str
    group: str
    topics: list[str]
    lag: int
    holds: int


class ConsumerGroups(Reply, frozen=True):
    seq: int
    groups: list[ConsumerGroupView]


# --- Topics and queues ---------------------------------------------------------------------------------------


class TopicView(Shape, frozen=True):
    """``perm``: 4 read, 2 write, 1 inherit, added up."""

    broker: str
    topic: str
    read_queues: int
    write_queues: int
    perm: int
    system: bool
    messages: int


class GetTopics(Command, frozen=True):
    """-> Topics"""

    system: bool = True


class Topics(Reply, frozen=True):
    seq: int
    topics: list[TopicView]


class GetTopic(Command, frozen=True):
    """-> Topics with one; Failed TOPIC_NOT_EXIST"""

    topic: str


class UpdateAndCreateTopic(Command, frozen=True):
    """Create a topic or change it; None leaves as it is (or the default of 4 queues, perm 6). -> Topics with one"""

    topic: str
    read_queues: int | None = None
    write_queues: int | None = None
    perm: int | None = None


class DeleteTopic(Command, frozen=True):
    """Forget a topic, its queues and every group's offsets in it. -> Done; Failed TOPIC_NOT_EXIST"""

    topic: str


class QueueView(Shape, frozen=True):
    """``last_store_time_ms`` is None for a queue that never had a message, or whose last one is gone."""

    broker: str
    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    last_store_time_ms: int | None
    holds: int


class GetQueues(Command, frozen=True):
    """Queues of a topic, or of all (``topic`` empty). -> Queues"""

    topic: str = ""


class Queues(Reply, frozen=True):
    seq: int
    queues: list[QueueView]


class SearchOffset(Command, frozen=True):
    """RocketMQ's SEARCH_OFFSET_BY_TIMESTAMP. -> FoundOffset"""

    topic: str
    queue_id: int
    timestamp_ms: int
    boundary: Literal["lower", "upper"] = "lower"


class FoundOffset(Reply, frozen=True):
    offset: int


# --- Messages ------------------------------------------------------------------------------------------------


class ViewMessage(Command, frozen=True):
    """One message by offset message id or UNIQ_KEY (looked up in that order). -> Records; Failed QUERY_NOT_FOUND

    UNIQ_KEYs are found through the index, which needs the ``topic``; without one every topic is tried.
    """

    message_id: str
    topic: str = ""


class QueryMessage(Command, frozen=True):
    """Messages of a topic by key, newest 64 at most, ascending. -> Records"""

    topic: str
    key: str
    max_num: int = 32
    begin_ms: int = 0
    end_ms: int = 1 << 62


class Records(Reply, frozen=True):
    """Whole commit log records, back to back."""

    records: bytes


class GetMessageTimeline(Command, frozen=True):
    """What the recent events say about one message. -> Timeline"""

    message_id: str
    topic: str = ""


class Timeline(Reply, frozen=True):
    """``events`` as in ``events.py``; ``complete`` is False when the ring no longer reaches back to the store."""

    topic: str
    queue_id: int
    queue_offset: int
    store_time_ms: int
    complete: bool
    events: list[dict[str, Any]]


# --- Observing -------------------------------------------------------------------------------------------------


class HoldView(Shape, frozen=True):
    """One row of the pullRequestTable."""

    broker: str
    id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    protocol: Protocol
    pull_from_offset: int
    queue_max_offset: int
    suspended_at_ms: int
    deadline_ms: int
    filter: str


class GetHolds(Command, frozen=True):
    """Held pulls by id, those above ``after``. -> Holds"""

    topic: str = ""
    group: str = ""
    after: int = 0
    limit: int = 1000


class Holds(Reply, frozen=True):
    """``next`` is the ``after`` of the next page, None on the last one. ``total`` counts the whole table."""

    seq: int
    total: int
    holds: list[HoldView]
    next: int | None = None


class GetHold(Command, frozen=True):
    """-> Holds with one; Failed QUERY_NOT_FOUND"""

    hold_id: int


class StorePositions(Shape, frozen=True):
    """Physical offsets, bytes: where the log begins, how far it is written, flushed, dispatched."""

    min: int
    appended: int
    flushed: int
    dispatched: int


class GetBroker(Command, frozen=True):
    """-> BrokerView"""


class BrokerView(Reply, frozen=True):
    """``config`` by RocketMQ's names. ``problem`` is a sentence when the broker does not accept messages."""

    broker: str
    epoch: int
    seq: int
    role: str
    version: str
    started_at_ms: int
    uptime_ms: int
    read_only: bool
    problem: str
    positions: StorePositions
    config: dict[str, Any]
    changeable: list[str]
    recovery: list[str]
    store_path: str


class UpdateBrokerConfig(Command, frozen=True):
    """Change options by RocketMQ's names. -> BrokerView"""

    changes: dict[str, Any]


class WakeUp(Shape, frozen=True):
    """One held pull's end, as the wake-up stream shows it. ``cause`` is a WakeCause or a ReleaseCause.

    ``messages`` is how many it brought; ``wake_us`` from arrival to answer, 0 without an arrival.
    """

    seq: int
    wall_ms: int
    hold_id: int
    topic: str
    queue_id: int
    group: str
    client_id: str
    cause: str
    held_us: int
    wake_us: int
    messages: int


class Histogram(Shape, frozen=True):
    """``counts[i]`` values were below ``bounds[i]`` (and not below the bound before); the last count has no bound."""

    bounds: list[int]
    counts: list[int]


class GetSnapshot(Command, frozen=True):
    """-> Snapshot"""

    max_holds: int = 1000
    max_queues: int = 2000


class Snapshot(Reply, frozen=True):
    """Everything a page needs before it applies events above ``seq``. ``*_total`` count what a limit left out."""

    broker: str
    epoch: int
    seq: int
    wall_ms: int
    long_polling_enable: bool
    short_polling_time_mills: int
    problem: str
    holds_total: int
    holds: list[HoldView]
    queues_total: int
    queues: list[QueueView]
    wakeups: list[WakeUp]
    counters: dict[str, int]
    wakeup_us: Histogram
    held_ms: Histogram
    positions: StorePositions


class GetEvents(Command, frozen=True):
    """Events of the ring above ``after``, oldest first. -> Events"""

    after: int = 0
    limit: int = 1000


class Events(Reply, frozen=True):
    """``events`` as in ``events.py``. ``first_seq`` is the oldest the ring still has."""

    epoch: int
    seq: int
    first_seq: int
    events: list[dict[str, Any]]


AnyCommand = (
    OpenConnection | CloseConnection | SendMessage | PullMessage | CancelPull | QueryConsumerOffset
    | UpdateConsumerOffset | ResetConsumerOffset | GetConsumerGroups | GetTopics | GetTopic | UpdateAndCreateTopic
    | DeleteTopic | GetQueues | SearchOffset | ViewMessage | QueryMessage | GetMessageTimeline | GetHolds | GetHold
    | GetBroker | UpdateBrokerConfig | GetSnapshot | GetEvents
)
AnyReply = (
    Done | Failed | Sent | Held | Pulled | ConsumerOffsets | OffsetsReset | ConsumerGroups | Topics | Queues
    | FoundOffset | Records | Timeline | Holds | BrokerView | Snapshot | Events
)
