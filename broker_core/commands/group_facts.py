"""What the engine knows about one consumer group: the input of ``broker_core.verdicts``."""

from msgspec import field

from broker_core.commands.base import Command, Reply, Shape
from broker_core.commands.groups import ConsumerGroupDetail


class GetGroupFacts(Command, frozen=True):
    """Everything that explains why a group waits. -> GroupFacts; Failed SUBSCRIPTION_GROUP_NOT_EXIST"""

    group: str


class RefusedPulls(Shape, frozen=True):
    """Pulls of one client from one topic that were refused for one reason, and no pull succeeded since.

    ``count`` pulls in the time from ``since_ms`` to ``last_ms``, wall time; there were more unless they are all
    ``counted``. ``code`` is a ResponseCode.
    """

    client_id: str
    topic: str
    queue_id: int
    code: int
    reason: str
    count: int
    since_ms: int
    last_ms: int
    counted: bool = True


class MemberSubscription(Shape, frozen=True):
    """What one member subscribes to; an empty ``expression`` means that it does not subscribe to the topic."""

    client_id: str
    topic: str
    expression: str


class ConsumerWindow(Shape, frozen=True):
    """How much a WebSocket consumer still accepts in one subscription, as its web process reported it last.

    ``permits`` are not used yet; ``unacknowledged`` messages were sent to it. A consumer that ``is_full`` has a queue
    with so many unacknowledged offsets that it is not pulled.
    """

    topic: str
    permits: int
    unacknowledged: int
    is_full: bool = False


class ClientWindow(Shape, frozen=True):
    """A window of one member; it was reported at ``reported_ms``, wall time."""

    client_id: str
    reported_ms: int
    window: ConsumerWindow


class ReportWindows(Command, frozen=True):
    """The windows of this connection's client in one group; they replace those reported before. -> Done"""

    group: str
    windows: list[ConsumerWindow]


class TagCount(Shape, frozen=True):
    """An empty ``tag`` counts the messages without one."""

    tag: str
    messages: int


class RecentMessages(Shape, frozen=True):
    """The newest messages of a topic that the group has been offered, at most 100, and what its filter does to them.

    The oldest was stored at ``since_ms``. ``passed`` messages match the subscription, ``tags`` counts all of them, the
    most frequent first. ``unreached`` messages match the subscription of a member, but lie in the queue of a member
    that does not subscribe to them. ``delivered``: the group received a message of the topic since the broker started.
    Of a filter of type SQL92, ``unknown`` messages lack a property that it needs, and ``failed`` ones have a property
    that it cannot compare; ``problem`` says why not, of the first one.
    """

    topic: str
    expression: str
    messages: int
    passed: int
    unreached: int
    since_ms: int
    tags: list[TagCount]
    delivered: bool
    expression_type: str = "TAG"
    unknown: int = 0
    failed: int = 0
    problem: str = ""


class DelayedMessages(Shape, frozen=True):
    """At least ``messages`` of a subscribed topic were delayed by their producers and are not due; exactly so many if
    they are all ``counted``. Of those with delay levels the next known one is due at ``next_due_ms``, wall time; None
    without such."""

    topic: str
    messages: int
    next_due_ms: int | None
    counted: bool


class ReturnedMessages(Shape, frozen=True):
    """Of ``delivered`` messages in the last ``window_ms``, the group sent ``returned`` back.

    ``tries`` is the highest number of attempts among the messages that wait for another one; None if none was counted.
    """

    delivered: int
    returned: int
    window_ms: int
    tries: int | None = None


class UnacknowledgedPops(Shape, frozen=True):
    """``messages`` of a topic that the group popped, and that are invisible; ``client_id`` popped last. The group has
    acknowledged none of the topic's messages for ``still_ms``."""

    topic: str
    client_id: str
    messages: int
    still_ms: int


class BrokerCondition(Shape, frozen=True):
    """What a broker does that all its groups notice.

    ``up_ms`` is its age. ``problem``: why it accepts no messages, or empty. ``undispatched_bytes`` of messages are
    stored, but not visible yet, because SYNC_FLUSH waits for the disk or the consume queues are written later. Commands
    waited up to ``late_ms`` for their turn lately, None if that was too short and too rare to matter, and ``refused``
    were refused for that (SYSTEM_BUSY). The pulls of an ``attached`` broker are not known, as it is a copy of another
    one; its committed offsets are ``tables_age_ms`` old, None before they were fetched. In the last 30 s
    ``slave_timeouts`` requests were answered FLUSH_SLAVE_TIMEOUT; ``slaves_needed`` must have a message, and ``slaves``
    that acknowledge are connected.
    """

    broker: str
    up_ms: int
    draining: bool
    problem: str
    holds: int
    max_holds: int
    undispatched_bytes: int
    late_ms: int | None = None
    refused: int = 0
    attached: bool = False
    members_known: bool = True
    tables_age_ms: int | None = None
    slave_timeouts: int = 0
    slaves_needed: int = 0
    slaves: int = 0


class ExpiredMember(Shape, frozen=True):
    """A member that was removed at ``at_ms``, wall time, because it sent no heartbeat for 120 s."""

    client_id: str
    at_ms: int


class GroupFacts(Reply, frozen=True):
    """One group at one broker. What is unknown is None.

    ``consume_enable`` is the group's configuration. ``unreadable_topics`` are subscribed, but their perm has no 4.
    ``changed_ms``: when a member joined or left last, wall time. ``expired``: the member that was removed last, if the
    group has had none since.
    """

    detail: ConsumerGroupDetail
    broker: BrokerCondition
    now_ms: int
    consume_enable: bool
    unreadable_topics: list[str]
    changed_ms: int | None
    refused: list[RefusedPulls]
    disagreements: list[MemberSubscription]
    windows: list[ClientWindow]
    recent: list[RecentMessages]
    returned: ReturnedMessages
    delayed: list[DelayedMessages]
    unacknowledged: list[UnacknowledgedPops] = field(default_factory=list)
    expired: ExpiredMember | None = None


GroupFactsCommand = GetGroupFacts | ReportWindows
GroupFactsReply = GroupFacts
