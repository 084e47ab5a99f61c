"""Commands that send, pull and look up messages: RocketMQ's SEND_MESSAGE, PULL_MESSAGE, QUERY_MESSAGE and others."""

from typing import Any, Literal

import msgspec

from broker_core.commands.base import Command, Notice, Protocol, Reply, Shape, WakeCause


class OutgoingMessage(Shape, frozen=True):
    """One message to store.

    ``properties`` is RocketMQ's property string (``name 0x01 value 0x02`` repeated). If ``queue_id`` is below 0, the
    broker chooses a queue, round robin.
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

    An unknown topic is created from ``default_topic`` if that topic's perm allows inheritance.
    A repeat with the same ``idempotency_key`` within the window gets the first answer again. Other messages with this
    key get Failed (conflict).
    ``max_reconsume_times`` applies to ``%RETRY%`` topics only: a message that was consumed more often is stored in the
    group's dead letter queue. A property DELAY of 1 or more, or one of TIMER_DELIVER_MS, TIMER_DELAY_MS and
    TIMER_DELAY_SEC, delays the delivery.
    ``batch_properties`` is the property string of a RocketMQ client's batch. If it has a UNIQ_KEY, and the topic has
    batch consume queues, the messages are stored as one record.
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
    batch_properties: str = ""


class SentMessage(Shape, frozen=True):
    """Where one message was stored. ``message_id`` is its UNIQ_KEY.

    With ``recall_handle``, not empty if the message waits for an exact time, RecallMessage takes it back.
    """

    message_id: str
    offset_message_id: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_time_ms: int
    recall_handle: str = ""


class Sent(Reply, frozen=True):
    """The messages were stored as durably as flushDiskType and brokerRole require, in the order of the request.

    ``code`` is SUCCESS; FLUSH_DISK_TIMEOUT if SYNC_FLUSH took longer than syncFlushTimeout; or FLUSH_SLAVE_TIMEOUT if
    too few slaves had the messages within slaveTimeout. If they were stored as
    one record, ``batch_uniq_id`` is its UNIQ_KEY, and ``messages`` has only the place of the first message. Otherwise
    ``batch_uniq_id`` is empty.
    """

    code: int
    topic: str
    messages: list[SentMessage]
    batch_uniq_id: str = ""


class RecallMessage(Command, frozen=True):
    """RECALL_MESSAGE: do not deliver the message of a recall handle. -> Recalled

    The handle is that of the send. As in RocketMQ, it is not checked whether the message exists.
    """

    topic: str
    recall_handle: str
    producer_group: str = ""
    born_host: str = "127.0.0.1"
    born_port: int = 0


class Recalled(Reply, frozen=True):
    """The recall is stored. ``message_id`` is the UNIQ_KEY of the message."""

    message_id: str


class GetTimerMetrics(Command, frozen=True):
    """GET_TIMER_METRICS: which messages wait for an exact time. -> TimerMetrics"""


class TimerMetrics(Reply, frozen=True):
    """The messages that wait, at ``time_ms``: all, and those of the topics with most of them.

    Of the timer queue, the messages before ``queue_offset`` are in the timer wheel. Of the wheel, the slots before
    ``read_time_ms`` are delivered. ``version`` is the counter of the check point's DataVersion.
    """

    time_ms: int
    messages: int
    by_topic: dict[str, int]
    read_time_ms: int = 0
    queue_offset: int = 0
    version: int = 0


class SendReplyMessage(Command, frozen=True):
    """SEND_REPLY_MESSAGE: pass the one message of ``send`` on to the client that its property REPLY_TO_CLIENT names.

    -> ReplyMessage; Failed SYSTEM_ERROR if that client has no producer on this broker. In either case the message is
    also stored in its topic, unless storeReplyMessageEnable is off.
    """

    send: SendMessage


class ReplyMessage(Reply, frozen=True):
    """The message to push to ``client_id``: a connected producer that waits for it.

    ``offset_message_id``, ``queue_id`` and ``queue_offset`` say where it is stored; ``0`` and 0 if it is not.
    ``store_host`` is the broker's address, the time is in ms.
    """

    client_id: str
    properties: str
    body: bytes
    born_host: str
    store_host: str
    store_time_ms: int
    offset_message_id: str
    queue_id: int
    queue_offset: int


class EndTransaction(Command, frozen=True):
    """END_TRANSACTION: commit or roll back the half message at ``commit_log_offset``, a physical offset. -> Done

    Its offset in the half queue must be ``tran_state_table_offset``, its producer group ``producer_group``. With
    ``unknown`` nothing happens. ``from_transaction_check``: the producer answers CheckTransactionState.
    """

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    decision: Literal["commit", "rollback", "unknown"]
    from_transaction_check: bool = False


class CheckTransactionState(Notice, frozen=True):
    """CHECK_TRANSACTION_STATE: a producer is asked how a transaction ends, and answers with EndTransaction.

    ``record`` is the half message as a commit log record, with its real topic and queue.
    """

    topic: str
    tran_state_table_offset: int
    commit_log_offset: int
    message_id: str
    offset_message_id: str
    broker_name: str
    record: bytes = b""


class ConsumerSendMsgBack(Command, frozen=True):
    """CONSUMER_SEND_MSG_BACK: retry the record at ``physical_offset``, which the group could not consume. -> Done

    A copy is stored in the group's retry topic after the delay of ``delay_level`` (0: the delay depends on how often
    the message was consumed). If ``delay_level`` is below 0, or the message has reached the limit, the copy is stored
    in the dead letter queue. ``max_reconsume_times`` None means the group's own limit.
    """

    group: str
    physical_offset: int
    delay_level: int = 0
    origin_message_id: str = ""
    origin_topic: str = ""
    max_reconsume_times: int | None = None


class PullMessage(Command, frozen=True):
    """Read from ``queue_offset``; without a message, wait up to ``suspend_timeout_ms``. -> [Held,] Pulled

    With ``suspend_timeout_ms`` 0 the pull is not held. A ``commit_offset`` of 0 or more is committed first.
    ``subscription`` is a tag expression (``*``, ``TagA || TagB``); None takes the one from the group's heartbeats,
    which must not be older than ``sub_version``. ``check_group`` applies RocketMQ's checks: the group exists or may be
    created, and it may consume. ``lite``: the request is LITE_PULL_MESSAGE.
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
    """The pull is in the pullRequestTable; its answer follows later."""

    hold_id: int
    deadline_ms: int


class HoldOutcome(Shape, frozen=True):
    """How the wait of a held pull ended. ``wake_us`` is from the arrival to the answer, 0 without an arrival."""

    hold_id: int
    held_us: int
    wake_us: int
    wake_cause: WakeCause


class Pulled(Reply, frozen=True):
    """The answer to a pull. ``code``: 0 found, 19 nothing new, 20 no message matches the filter, 21 offset moved.

    ``status`` is RocketMQ's GetMessageStatus name. ``records`` are whole commit log records, back to back.
    ``suspend_timeout_ms`` is how long the pull was allowed to wait.
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
    """Release the hold of the pull that this connection sent as ``request_id``. -> Done, also without such a hold

    The pull itself is then answered by Failed with ILLEGAL_OPERATION ("cancelled").
    """

    request_id: int


class ViewMessage(Command, frozen=True):
    """One message by offset message id or UNIQ_KEY (looked up in that order). -> Records; Failed QUERY_NOT_FOUND

    UNIQ_KEYs are looked up in the index, by ``topic``; without a topic, every topic is tried. A ``physical_offset``, as
    in VIEW_MESSAGE_BY_ID, takes precedence over both; Failed SYSTEM_ERROR if no record begins there.
    """

    message_id: str = ""
    topic: str = ""
    physical_offset: int | None = None


class QueryMessage(Command, frozen=True):
    """Messages of a topic by key: at most the newest 64, oldest first. -> Records

    A key is one of KEYS, a UNIQ_KEY, ``IDEMPOTENCY_KEY:<value>``, or ``T#`` and a tag.
    """

    topic: str
    key: str
    max_num: int = 32
    begin_ms: int = 0
    end_ms: int = 1 << 62


class QueryMessageByTime(Command, frozen=True):
    """The newest messages of a topic that were stored from ``begin_ms`` to ``end_ms``, at most 64. -> Records

    With ``before``, only messages whose physical offset is lower: the ``next`` of the page before.
    """

    topic: str
    begin_ms: int = 0
    end_ms: int = 1 << 62
    before: int | None = None
    max_num: int = 32


class Records(Reply, frozen=True):
    """Whole commit log records, back to back, in log order.

    QueryMessage sets the next two fields: the store time and physical offset of the last indexed message.
    QueryMessageByTime sets ``next``, the ``before`` of the page with older messages; None on the last one.
    """

    records: bytes
    index_last_update_timestamp: int = 0
    index_last_update_physical_offset: int = 0
    next: int | None = None


class GetPulls(Command, frozen=True):
    """How the pulls of a topic, or of one group from it, ended from ``since_ms`` on, by the poll journal. -> Pulls"""

    topic: str
    group: str = ""
    since_ms: int = 0


class Pulls(Reply, frozen=True):
    """``entries`` of the poll journal (``formats/poll_journal.py``) back to back, in order, at most 10,000.

    Their texts are numbers of ``strings``. ``complete`` is False if there are more: then the oldest or the newest are
    missing. ``journal`` is False if the broker keeps no poll journal. It is written every pollJournalFlushInterval, so
    pulls that ended after ``written_ms`` may be missing.
    """

    strings: list[str]
    entries: bytes
    complete: bool
    journal: bool
    written_ms: int


class GetMessageTimeline(Command, frozen=True):
    """The recent events about one message and its copies with the same UNIQ_KEY. -> Timeline"""

    message_id: str
    topic: str = ""


class Timeline(Reply, frozen=True):
    """``events`` as in ``broker_core.events``. ``complete`` is False if the ring lacks the MessagesStored event
    of a copy.

    Only then ``journal`` is not empty: entries of the poll journal about the message (``formats/poll_journal.py``),
    which are older than the ring, or also in it.
    """

    topic: str
    queue_id: int
    queue_offset: int
    store_time_ms: int
    complete: bool
    events: list[dict[str, Any]]
    journal: list[dict[str, Any]] = msgspec.field(default_factory=list)


MessageCommand = (
    SendMessage
    | SendReplyMessage
    | RecallMessage
    | GetTimerMetrics
    | EndTransaction
    | ConsumerSendMsgBack
    | PullMessage
    | CancelPull
    | ViewMessage
    | QueryMessage
    | QueryMessageByTime
    | GetMessageTimeline
    | GetPulls
)
MessageReply = (
    Sent | Recalled | TimerMetrics | ReplyMessage | CheckTransactionState | Held | Pulled | Records | Timeline | Pulls
)
