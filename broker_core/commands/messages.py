"""Messages: send, pull, look up. RocketMQ's SEND_MESSAGE, PULL_MESSAGE, QUERY_MESSAGE and their kin."""

from typing import Any

from broker_core.commands.base import Command, Protocol, Reply, Shape, WakeCause


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
    A repeat with the same ``idempotency_key`` within the window gets the answer of the first; other messages with the
    key get Failed (conflict).
    ``max_reconsume_times`` counts for ``%RETRY%`` topics only: a message that was consumed more often goes to the
    dead letter queue of the group. A property DELAY of 1 or more makes a message appear later.
    """

    topic: str
    messages: list[OutgoingMessage]
    producer_group: str = ""
    default_topic: str = "TBW102"
    default_topic_queue_nums: int = 4
    born_host: str = "127.0.0.1"
    born_port: int = 0
    idempotency_key: str = ""
    max_reconsume_times: int | None = None


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


class ConsumerSendMsgBack(Command, frozen=True):
    """CONSUMER_SEND_MSG_BACK: the group could not consume the record at ``physical_offset``; bring it again. -> Done

    It goes to the group's retry topic after the delay of ``delay_level`` (0: by how often it was consumed already),
    or to its dead letter queue (below 0, or consumed more often than allowed). ``max_reconsume_times`` None: the
    group's own limit.
    """

    group: str
    physical_offset: int
    delay_level: int = 0
    origin_message_id: str = ""
    origin_topic: str = ""
    max_reconsume_times: int | None = None


class PullMessage(Command, frozen=True):
    """Read from ``queue_offset``; find nothing, and be held for up to ``suspend_timeout_ms``. -> [Held,] Pulled

    ``suspend_timeout_ms`` 0 asks not to be held. ``commit_offset`` 0 or more stores the group's consumed
    offset first. ``subscription`` is a tag expression (``*``, ``TagA || TagB``); None takes the one that the group's
    heartbeats brought, which must not be older than ``sub_version``. ``check_group`` asks for RocketMQ's checks of the
    group (it exists or may be created, may consume); ``lite`` is LITE_PULL_MESSAGE.
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
    subscription: str | None = "*"
    expression_type: str = "TAG"
    commit_offset: int = -1
    report_hold: bool = False
    sub_version: int = 0
    check_group: bool = False
    lite: bool = False


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


class ViewMessage(Command, frozen=True):
    """One message by offset message id or UNIQ_KEY (looked up in that order). -> Records; Failed QUERY_NOT_FOUND

    UNIQ_KEYs are found through the index, which needs the ``topic``; without one every topic is tried. A
    ``physical_offset``, as VIEW_MESSAGE_BY_ID has it, overrules both; Failed SYSTEM_ERROR when no record begins there.
    """

    message_id: str = ""
    topic: str = ""
    physical_offset: int | None = None


class QueryMessage(Command, frozen=True):
    """Messages of a topic by key, newest 64 at most, ascending. -> Records"""

    topic: str
    key: str
    max_num: int = 32
    begin_ms: int = 0
    end_ms: int = 1 << 62


class Records(Reply, frozen=True):
    """Whole commit log records, back to back.

    The other two, which QueryMessage brings: store time and physical offset of the last message that the index knows.
    """

    records: bytes
    index_last_update_timestamp: int = 0
    index_last_update_physical_offset: int = 0


class GetMessageTimeline(Command, frozen=True):
    """What the recent events say about one message, and about its copies with the same UNIQ_KEY. -> Timeline"""

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


MessageCommand = (
    SendMessage | ConsumerSendMsgBack | PullMessage | CancelPull | ViewMessage | QueryMessage | GetMessageTimeline
)
MessageReply = Sent | Held | Pulled | Records | Timeline
