"""What a monitoring system asks for at short intervals: each group's progress by topic, and the disk."""

from typing import Literal

from broker_core.commands.base import Command, Reply, Shape

MAX_METRIC_GROUPS = 1000
MAX_METRIC_TOPICS = 2000
MAX_SENTENCE = 400
MAX_HISTORY_GROUPS = 20_000
MAX_HISTORY_TOPICS = 5000


class GetMetrics(Command, frozen=True):
    """The first groups by name, with at most ``max_topics`` pairs of group and topic. -> BrokerMetrics

    With ``after``, a page of the groups with names above it. It ends where a group's topics would be cut, unless they
    are too many for any page.

    With ``estimate``, only messages that the group's filter may match count, where estimateAccumulation is on.
    ``alone``: no other broker has the groups, so what their members do can be judged by what they do here.
    ``sentences``: the verdicts have their sentences, which are most of the answer when many groups have problems.
    """

    after: str | None = None
    max_groups: int = MAX_METRIC_GROUPS
    max_topics: int = MAX_METRIC_TOPICS
    estimate: bool = False
    alone: bool = False
    sentences: bool = False


class TopicMetrics(Shape, frozen=True):
    """A group's progress in one topic, in messages; None if it is unknown.

    ``lag`` messages are not committed: ``in_flight`` ones were pulled, ``ready`` ones were not. They may have been
    deleted, as in RocketMQ. Each is a sum over the queues where it is known, and None if that sum is 0 and one of the
    queues is unknown. ``unknown_queues`` have an unknown lag. ``oldest_ms`` is the age of the oldest message in the
    lag, 0 if none waits. ``delivered`` counts since the broker's start, None if none was.
    """

    topic: str
    is_system: bool
    lag: int | None
    oldest_ms: int | None
    in_flight: int | None
    ready: int | None
    unknown_queues: int
    delivered: int | None


class VerdictLine(Shape, frozen=True):
    """A verdict without its evidence. ``id`` is in the catalogue; ``sentence`` has at most MAX_SENTENCE characters, and
    none where the question asks for no sentences."""

    id: str
    severity: Literal["error", "warning", "info", "ok"]
    sentence: str


class GroupMetrics(Shape, frozen=True):
    """``state``, ``holds``, ``retrying`` and ``dead_letters`` as in ConsumerGroupView.

    ``verdicts`` are the errors and warnings, the worst first and each id once; if there are none, the first verdict.
    ``dead_lettered`` also counts the dead letters that were deleted since.
    """

    group: str
    state: Literal["ok", "catching up", "falling behind", "stalled", "stopped", "unknown"]
    holds: int | None
    retrying: int | None
    dead_letters: int
    dead_lettered: int
    topics: list[TopicMetrics]
    verdicts: list[VerdictLine]


class TimerFigures(Shape, frozen=True):
    """The timer wheel. Its tables are by topic, of 1000 topics at most; ``left_out`` is the sum of all others' numbers.

    ``enqueue_lag``: messages of the timer queue that are not in the wheel; the first of them has waited for
    ``enqueue_latency_ms``, None if that is unknown. ``dequeue_lag``: messages in the wheel, due or not. The second that
    is being delivered ended ``dequeue_latency_ms`` ago, 0 if it has not ended. ``waiting``: ``dequeue_lag`` by topic,
    None while it is counted after a start; as in RocketMQ, a recall counts as -1 until the recalled message is due.
    ``enqueued``: messages that were put into the wheel since the start. ``dequeued``: messages that were stored again
    because their time had come, or because they are to be put into the wheel again.
    """

    enqueue_lag: int
    enqueue_latency_ms: int | None
    dequeue_lag: int
    dequeue_latency_ms: int
    waiting: dict[str, int] | None
    enqueued: dict[str, int]
    dequeued: dict[str, int]
    left_out: int


class EndedTransactions(Shape, frozen=True):
    """Transactions that ended since the start, by topic, of 1000 topics at most; ``left_out`` are those of others."""

    committed: dict[str, int]
    rolled_back: dict[str, int]
    left_out: int


class BrokerMetrics(Reply, frozen=True):
    """``groups_left_out`` groups are beyond ``max_groups``. ``topics_left_out`` pairs of group and topic are beyond
    ``max_topics``, or in a group with more queues than are looked at; those of groups that are left out do not count.
    ``next`` is the ``after`` of the next page, None on the last one and without ``after``. Of the connected ``slaves``,
    the one furthest behind lacks ``slave_lag_bytes``, None if none acknowledges anything. ``slave_timeouts`` requests
    were answered FLUSH_SLAVE_TIMEOUT since the start. ``timers`` is None while the timer messages are not loaded, as in
    the store of another broker. A page has neither ``timers`` nor ``transactions``.
    """

    broker: str
    cluster: str
    disk_used_percent: float
    slaves: int
    slave_lag_bytes: int | None
    slave_timeouts: int
    groups: list[GroupMetrics]
    groups_left_out: int
    topics_left_out: int
    next: str | None = None
    timers: TimerFigures | None = None
    transactions: EndedTransactions | None = None


class GetHistorySample(Command, frozen=True):
    """What the history keeps: of the broker, of its first groups and of its first topics by name. -> HistorySample"""

    max_groups: int = MAX_HISTORY_GROUPS
    max_topics: int = MAX_HISTORY_TOPICS


class HistorySample(Reply, frozen=True):
    """Totals since the start of this ``epoch``, and values of now.

    ``group_columns`` are ``delivered``, ``woken``, ``holds``, ``wake_p99_us`` and ``lag`` of the groups;
    ``topic_columns`` begin with ``stored``. Each column has one entry for each name; None is unknown. ``lag`` is that
    of a group, or of a topic's groups together; None without a committed offset in an existing topic. The broker's is
    the sum over all groups. ``woken`` counts the held pulls that were answered, for whatever cause. ``wake_p99_us`` is
    the p99 of the wake-ups by arrivals in the 10 s of the wall clock that ended last; None if there were none.
    """

    broker: str
    epoch: int
    stored: int
    delivered: int
    woken: int
    holds: int
    wake_p99_us: int | None
    lag: int | None
    groups: list[str]
    group_columns: list[list[int | None]]
    topics: list[str]
    topic_columns: list[list[int | None]]
    groups_left_out: int
    topics_left_out: int


MetricsCommand = GetHistorySample | GetMetrics
MetricsReply = BrokerMetrics | HistorySample
