"""Commands that observe: the pullRequestTable, the broker, events, a snapshot for the dashboard."""

from typing import Any

import msgspec

from broker_core.commands.base import Command, Protocol, Reply, Shape
from broker_core.commands.ha import Replication
from broker_core.commands.topics import QueueView


class OrderWait(Shape, frozen=True):
    """A queue that is handed out in order: it is free when ``messages`` of its last pop are acknowledged, or at
    ``until_ms``, when their invisible times are over. ``client_id`` popped them; it is empty after a restart."""

    queue_id: int
    messages: int
    client_id: str
    until_ms: int


class HoldView(Shape, frozen=True):
    """One row of the pullRequestTable.

    The offsets of a held pop are -1, because the broker knows where its group reads. Its ``queue_id`` is -1 if it waits
    for all queues. ``waits_for``: the queue for which a pop in order waited when its hold began; of several queues, the
    one that was handed out first.
    """

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
    waits_for: OrderWait | None = None


class GetHolds(Command, frozen=True):
    """Held pulls with ids above ``after``, by id. -> Holds"""

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
    """-> Holds with one hold; Failed QUERY_NOT_FOUND"""

    hold_id: int


class GetHoldTimeline(Command, frozen=True):
    """-> HoldTimeline; Failed QUERY_NOT_FOUND if nothing is known of a hold with this id"""

    hold_id: int


class HoldTimeline(Reply, frozen=True):
    """The ``events`` of one held pull, as in ``broker_core.events``, and its row while it is held.

    ``complete`` is False if the ring does not reach back to its PullHeld event, or events in the middle are left out.
    """

    hold: HoldView | None
    complete: bool
    events: list[dict[str, Any]]


class StorePositions(Shape, frozen=True):
    """Physical offsets, in bytes: the beginning of the log, and the ends of what is written, flushed and dispatched."""

    min: int
    appended: int
    flushed: int
    dispatched: int


class GetBroker(Command, frozen=True):
    """-> BrokerView"""


class BrokerView(Reply, frozen=True):
    """``config`` by RocketMQ's names. ``problem`` is why the broker does not accept messages, empty if it does."""

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
    replication: Replication


class UpdateBrokerConfig(Command, frozen=True):
    """Change options by RocketMQ's names. -> BrokerView"""

    changes: dict[str, Any]


class WakeUp(Shape, frozen=True):
    """The end of a held pull, for the wake-up stream. ``cause`` is a WakeCause or a ReleaseCause.

    ``messages`` counts the messages in the answer; ``wake_us`` is from the arrival to the answer, 0 without an arrival.
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
    """``counts[i]`` values were below ``bounds[i]``, but not below the previous bound; the last count has no bound."""

    bounds: list[int]
    counts: list[int]


class GetSnapshot(Command, frozen=True):
    """-> Snapshot"""

    max_holds: int = 1000
    max_queues: int = 2000


class Snapshot(Reply, frozen=True):
    """Everything that a page needs before it applies events above ``seq``.

    ``*_total`` also count what is beyond the limits. ``client_events`` are the latest events about clients and groups,
    oldest first, as in ``broker_core.events``.
    """

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
    client_events: list[dict[str, Any]] = msgspec.field(default_factory=list)


class GetEvents(Command, frozen=True):
    """Events of the ring with ``seq`` above ``after``, oldest first. -> Events"""

    after: int = 0
    limit: int = 1000


class Events(Reply, frozen=True):
    """``events`` as in ``broker_core.events``. ``first_seq`` is the ``seq`` of the oldest event in the ring."""

    epoch: int
    seq: int
    first_seq: int
    events: list[dict[str, Any]]


ObserveCommand = GetHolds | GetHold | GetHoldTimeline | GetBroker | UpdateBrokerConfig | GetSnapshot | GetEvents
ObserveReply = Holds | HoldTimeline | BrokerView | Snapshot | Events
