"""The state that all processors share. It decides nothing itself."""

from collections import deque
from collections.abc import Callable, Generator
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from broker_core.broker_stats import BrokerStatsManager, BrokerTotals
from broker_core.clock import Clock, Now
from broker_core.codes import ResponseCode
from broker_core.commands import HoldView, MessageQueue, QueueView, Reply, ReportFollowing, WakeCause
from broker_core.consumers.consumer_filter_manager import ConsumerFilterManager
from broker_core.consumers.consumer_manager import ConsumerManager
from broker_core.consumers.consumer_offset import ConsumerOffsetManager
from broker_core.consumers.consumer_order_info_manager import ConsumerOrderInfoManager
from broker_core.consumers.leases import Leases
from broker_core.consumers.message_request_mode_manager import MessageRequestModeManager
from broker_core.consumers.pop_check_points import PopCheckPoints
from broker_core.consumers.producer_manager import ProducerManager
from broker_core.consumers.pull_offset_table import PullOffsetTable
from broker_core.consumers.rebalance_lock_manager import RebalanceLockManager
from broker_core.consumers.refused_pulls import RefusedPulls
from broker_core.consumers.subscription_group_manager import SubscriptionGroupManager, retry_topic
from broker_core.consumers.waiting_retries import WaitingRetries
from broker_core.counters import Counters
from broker_core.errors import StoreReadOnlyError, UnavailableError
from broker_core.event_log import EventLog, Recorded
from broker_core.filters.message_filter import MessageFilter
from broker_core.formats.message_id import offset_message_id_prefix
from broker_core.longpolling.pull_request import PopRequest, PullRequest
from broker_core.longpolling.pull_request_hold import PullRequestHold
from broker_core.options import Options
from broker_core.store.ha.ha_service import HAService
from broker_core.store.message_store import Arrival, MessageStore
from broker_core.topics import TopicConfigManager

if TYPE_CHECKING:
    from broker_core.consumers.client_channel_info import ClientChannelInfo
    from broker_core.events import RebalanceCause

INDEX_MAY_WAIT_NS = 1_000_000
"""While senders wait for slaves, messages are indexed later, by so much at most, so that slaves get them first."""
RECENT_WAKEUPS = 200
RECENT_RETRIES = 100

FindQueues = Callable[[str], list[MessageQueue] | None]
"""Returns the readable queues of a topic on all brokers; None if they are not known."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """A command, with the connection it came from and its number there."""

    connection: Any
    request_id: int
    command: Any


class Waking(msgspec.Struct, frozen=True, gc=False):
    """A hold that was taken out of the table, to be run again. ``arrival_ns`` is 0 without an arrival.

    ``checked_to``: the queue's end when the periodic check took the hold. Later messages may come before it is run.
    """

    request: PullRequest
    cause: WakeCause | Literal["check"]
    arrival_ns: int = 0
    arrival: Arrival | None = None
    checked_to: int = 0


class Deletion(msgspec.Struct, gc=False):
    """A deletion of a topic. It is answered when what ``left`` names is on the disk without the topic."""

    connection: Any
    request_id: int
    deadline_ns: int
    left: set[str]


class LateSecond(msgspec.Struct, gc=False):
    """In the second from ``began_ns`` (monotonic) on, commands waited up to ``waited_ns``, and some were refused."""

    began_ns: int
    waited_ns: int = 0
    refused: int = 0


class Lateness:
    """When commands recently waited long for their turn: the engine has more work than it can do.

    ``recent`` has those of the last ten seconds in which commands waited long.
    """

    WINDOW_NS = 10 * 1_000_000_000
    LONG_NS = 1_000_000_000
    """A single wait that is as long as this is noticed by clients."""
    OFTEN = 3
    """Shorter waits say something only in so many seconds: one may come from another process on the same machine."""

    __slots__ = ("recent",)

    def __init__(self) -> None:
        self.recent: deque[LateSecond] = deque()

    def note(self, waited_ns: int, refused: int, now_ns: int) -> None:
        """Commands waited for so long, and some were refused."""
        self._forget(now_ns)
        if not self.recent or now_ns - self.recent[-1].began_ns >= 1_000_000_000:
            self.recent.append(LateSecond(now_ns))
        second = self.recent[-1]
        second.waited_ns = max(second.waited_ns, waited_ns)
        second.refused += refused

    def present(self, now_ns: int) -> LateSecond | None:
        """The longest wait and all refusals of the last ten seconds; None if clients hardly noticed them."""
        self._forget(now_ns)
        if not self.recent:
            return None
        longest_ns, refused = max(one.waited_ns for one in self.recent), sum(one.refused for one in self.recent)
        if not refused and longest_ns < self.LONG_NS and len(self.recent) < self.OFTEN:
            return None
        return LateSecond(self.recent[0].began_ns, longest_ns, refused)

    def _forget(self, now_ns: int) -> None:
        while self.recent and now_ns - self.recent[0].began_ns > self.WINDOW_NS:
            self.recent.popleft()


class Following:
    """What the follower of another broker's log reported last, and the rounds in which it replicates the tables.

    ``topics`` and ``groups`` are the names of the round under way. ``missing_topics`` and ``missing_groups`` were not
    in the round before it.
    """

    def __init__(self, wall_ms: int) -> None:
        self.report = ReportFollowing(source="", state="connecting")
        self.since_ms = wall_ms
        self.topics: set[str] = set()
        self.groups: set[str] = set()
        self.missing_topics: set[str] = set()
        self.missing_groups: set[str] = set()


class Context:
    """The engine's parts, by name."""

    __slots__ = (
        "changed_groups",
        "check_points",
        "clients",
        "clock",
        "config_version",
        "connection_numbers",
        "consumers",
        "counters",
        "deletions",
        "draining",
        "epoch",
        "events",
        "filters",
        "find_queues",
        "following",
        "ha_service",
        "holds",
        "index_due_ns",
        "lateness",
        "locks",
        "offsets",
        "options",
        "order_infos",
        "postponed",
        "prefix_of_ids",
        "producers",
        "pulls",
        "refused_pulls",
        "replies",
        "request_modes",
        "resets",
        "retried",
        "retries",
        "round_robin",
        "second_notices",
        "started",
        "stats",
        "store",
        "subscription_groups",
        "topics",
        "unique_key",
        "wakeups",
        "waking",
    )

    def __init__(
        self,
        *,
        options: Options,
        store: MessageStore,
        topics: TopicConfigManager,
        offsets: ConsumerOffsetManager,
        subscription_groups: SubscriptionGroupManager,
        request_modes: MessageRequestModeManager,
        order_infos: ConsumerOrderInfoManager,
        filters: ConsumerFilterManager,
        clock: Clock,
        unique_key: Callable[[int], str],
    ) -> None:
        self.options = options
        self.store = store
        self.topics = topics
        self.offsets = offsets
        self.subscription_groups = subscription_groups
        self.request_modes = request_modes
        self.order_infos = order_infos
        self.filters = filters
        self.clock = clock
        self.unique_key = unique_key
        self.started = clock.now()
        self.epoch = self.started.wall_ms
        self.prefix_of_ids = offset_message_id_prefix(options.broker_ip1, options.listen_port)
        self.events = EventLog()
        self.counters = Counters()
        self.stats = BrokerStatsManager(self.started)
        self.holds = PullRequestHold()
        self.waking: deque[Waking] = deque()
        self.wakeups: deque[Recorded] = deque(maxlen=RECENT_WAKEUPS)
        """The last PullWoken and PullReleased events, for pages that open later."""
        self.retried: deque[Recorded] = deque(maxlen=RECENT_RETRIES)
        """The last MessageSentBack and MessageDeadLettered events, for the same."""
        self.retries = WaitingRetries(store.delayed, retry_topic(""))
        self.postponed = WaitingRetries(store.delayed, retry_topic(""), others=True)
        """The messages that producers delayed."""
        self.round_robin: dict[str, int] = {}
        self.clients: dict[Any, ClientChannelInfo] = {}
        """Open connections, the oldest first."""
        self.connection_numbers = count(1)
        self.consumers = ConsumerManager()
        self.producers = ProducerManager()
        self.locks = RebalanceLockManager()
        self.pulls = PullOffsetTable()
        self.check_points = PopCheckPoints()
        order_infos.note_returned = self.check_points.note_returned
        self.refused_pulls = RefusedPulls()
        self.lateness = Lateness()
        self.changed_groups: dict[str, RebalanceCause] = {}
        """Groups to be notified in this turn, and the cause."""
        self.second_notices: Leases[str] = Leases()
        """Groups to be notified once more, and when."""
        self.replies: list[tuple[Any, int, Reply]] = []
        self.deletions: list[Deletion] = []
        """Deletions of topics that are not answered yet."""
        self.resets: deque[tuple[Request, Generator[int, Now, Reply]]] = deque()
        """Resets of offsets that are not answered yet. The first one is under way."""
        self.draining = False
        self.config_version = {"counter": 0, "stateVersion": 0, "timestamp": self.started.wall_ms}
        """RocketMQ's DataVersion of the options."""
        self.following = Following(self.started.wall_ms)
        """The state of the follower, in an engine that follows another broker's log."""
        self.ha_service = HAService()
        self.index_due_ns = 0
        """While senders wait for slaves, messages are indexed by this time, monotonic ns."""
        self.find_queues: FindQueues | None = None
        """Set where the routes of a name server are known."""

    def reply(self, connection: Any, request_id: int, reply: Reply) -> None:
        self.replies.append((connection, request_id, reply))

    def change_options(self, options: Options, now: Now) -> None:
        """Replace the options, also in the parts that have a reference of their own."""
        self.options = options
        self.config_version = self.config_version | {
            "counter": self.config_version["counter"] + 1,
            "timestamp": now.wall_ms,
        }
        self.topics.change_options(options)
        self.subscription_groups.change_options(options)
        self.store.change_options(options)
        self.store.transactions.check_by(now.mono_ns + options.transaction_check_interval * 1_000_000)

    def with_bitmaps(self, topic: str, group: str, wanted: MessageFilter | None) -> MessageFilter | None:
        """The filter of a pull. It tests bitmaps if it is the filter of the group's subscription."""
        if wanted is None or not wanted.reads_properties:
            return wanted
        return self.filters.with_bitmaps(topic, group, wanted)

    def require_writable(self) -> None:
        """StoreReadOnlyError if the store was not adopted, or is a copy."""
        if self.store.follows:
            raise StoreReadOnlyError("the store is a copy of another broker's log and is not changed from here")
        if self.store.read_only:
            raise StoreReadOnlyError(
                "the store belongs to another broker and is open read-only; start with "
                "GLASSMQ_STORE_ADOPT=1 to make it this broker's own"
            )

    @property
    def are_members_known(self) -> bool:
        """Whether the members of all groups are known. Those of a followed broker are asked for one after the other."""
        return not self.store.follows or self.following.report.members_ms is not None

    def client_id_of(self, connection: Any) -> str:
        """Empty until the connection has sent it."""
        client = self.clients.get(connection)
        return client.client_id if client is not None else ""

    def count(self) -> Counters:
        """The counters, with the current numbers of holds, connections, groups, members and damaged ranges."""
        counters = self.counters
        counters.damaged_ranges_now, counters.damaged_bytes_now = self.store.damaged
        counters.holds_now = len(self.holds)
        counters.connections_now = len(self.clients)
        counters.groups_now = len(self.consumers)
        transactions, timers = self.store.transactions, self.store.timers
        counters.transactions_pending_now = len(transactions.pending) if transactions.loaded else None
        counters.timer_messages_now = timers.counts.pending + timers.behind if timers.loaded else None
        counters.messages_invisible_now = self.check_points.messages if self.check_points.loaded else None
        counters.members_now = len(self.consumers.memberships)
        return counters

    def totals(self) -> BrokerTotals:
        """The totals that the broker's statistics are sampled from."""
        counters, found = self.counters, self.stats.found
        return BrokerTotals(
            stored=counters.messages_stored,
            found=found,
            missed=counters.pulls_read - found,
            transferred=counters.messages_delivered,
            enqueued=self.store.timers.counts.enqueued.total,
            dequeued=self.store.timers.counts.dequeued.total,
        )

    @property
    def has_work(self) -> bool:
        """Whether long work that was begun is to go on in the next turn."""
        holds = self.holds
        return bool(
            self.waking
            or self.resets
            or self.changed_groups
            or holds.checking
            or holds.leaving
            or self.offsets.has_work
            or self.pulls.has_work
        )

    def problem(self) -> str:
        """Why the broker accepts no messages, in a sentence; empty when it accepts them."""
        if self.draining:
            return "the broker is shutting down"
        return self.store.problem

    def require_complete_queues(self) -> None:
        """UnavailableError (SERVICE_NOT_AVAILABLE) if recovery waits for disk space to put messages into their queues.

        Until then queues end too early, or begin too late, and a client that believed them would move its offsets.
        """
        store = self.store
        if store.unfinished_recovery is not None and store.dispatched_offset < store.appended_offset:
            raise UnavailableError(
                f"the offsets of queues are not known until recovery is finished: {store.problem}",
                code=ResponseCode.SERVICE_NOT_AVAILABLE,
            )

    def queue_view(self, topic: str, queue_id: int) -> QueueView:
        """A queue as the dashboard shows it."""
        end = self.store.max_offset(topic, queue_id)
        return QueueView(
            broker=self.options.broker_name,
            topic=topic,
            queue_id=queue_id,
            min_offset=self.store.min_offset(topic, queue_id),
            max_offset=end,
            last_store_time_ms=self.store.store_time(topic, queue_id, end - 1) if end else None,
            holds=None if self.store.follows else self.holds.count_of_queue(topic, queue_id),
        )

    def hold_view(self, request: PullRequest, now_wall_ms: int, now_mono_ns: int) -> HoldView:
        """A row of the pullRequestTable. Wall times are computed from the monotonic ones."""
        since_ms = (now_mono_ns - request.suspended_ns) // 1_000_000
        suspended_at_ms = now_wall_ms - since_ms
        return HoldView(
            broker=self.options.broker_name,
            id=request.hold_id,
            topic=request.many.topic,
            queue_id=request.many.queue_id,
            group=request.group,
            client_id=request.client_id,
            protocol=request.protocol,
            pull_from_offset=request.pull_from_offset,
            queue_max_offset=request.many.max_offset,
            suspended_at_ms=suspended_at_ms,
            deadline_ms=suspended_at_ms + request.suspend_timeout_ms,
            filter=filter_text(request.message_filter),
            waits_for=request.waits_for if isinstance(request, PopRequest) else None,
        )


def filter_text(message_filter: Any) -> str:
    """The expression of a filter."""
    return "*" if message_filter is None else str(message_filter.expression)
