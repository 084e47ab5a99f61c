"""Running totals of one engine. Adding to them is cheap; they are read on request.

They start at zero with the engine (one epoch) and never decrease. Fields that end in ``_now`` are not totals.
"""

from bisect import bisect_right

from broker_core.commands import Histogram
from broker_core.wakeup_stats import WAKEUP_US_BOUNDS, WakeupStats

HELD_MS_BOUNDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 15_100, 20_000, 30_000, 30_100]
"""Holds of 15 and 30 s end some milliseconds later. Their buckets are narrow, so that they are not taken for 17 s."""


class Buckets:
    """Counts by range; ``bounds[i]`` is the first value above bucket ``i``.

    ``add`` only notes a value, since a client may be waiting for its answer. ``settle`` counts the noted values later.
    """

    __slots__ = ("_counts", "_new", "add", "bounds")

    def __init__(self, bounds: list[int]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._new: list[int] = []
        self.add = self._new.append

    @property
    def unsettled(self) -> int:
        return len(self._new)

    def settle(self) -> None:
        for value in self._new:
            self._counts[bisect_right(self.bounds, value)] += 1
        self._new.clear()

    def view(self) -> Histogram:
        self.settle()
        return Histogram(bounds=self.bounds, counts=list(self._counts))


class Counters:
    """RocketMQ's BrokerStats, for what this broker shows live."""

    __slots__ = (
        "acknowledged_late",
        "bytes_stored",
        "connections_now",
        "damaged_bytes_now",
        "damaged_ranges_now",
        "delayed_messages_lost",
        "delays_elapsed",
        "groups_now",
        "half_messages_stored",
        "held_ms",
        "holds_now",
        "journal_entries",
        "journal_lost",
        "journal_write_errors",
        "members_now",
        "messages_acknowledged",
        "messages_dead_lettered",
        "messages_delayed",
        "messages_delivered",
        "messages_dispatched",
        "messages_invisible_now",
        "messages_passed_over",
        "messages_passed_over_by_bitmap",
        "messages_passed_over_by_sql",
        "messages_recalled",
        "messages_sent_back",
        "messages_stored",
        "offsets_committed",
        "pulls_answered_at_once",
        "pulls_held",
        "pulls_passed_over",
        "pulls_passed_over_by_bitmap",
        "pulls_passed_over_by_sql",
        "pulls_read",
        "pulls_received",
        "pulls_refused",
        "rebalances_notified",
        "released",
        "replies_pushed",
        "replies_without_client",
        "requests_refused",
        "timer_messages_now",
        "transactions_checked",
        "transactions_committed",
        "transactions_given_up",
        "transactions_pending_now",
        "transactions_rolled_back",
        "wakeup_us",
        "wakeups",
        "woken",
    )

    def __init__(self) -> None:
        self.messages_stored = 0
        self.bytes_stored = 0
        self.messages_dispatched = 0
        self.messages_delayed = 0
        self.delays_elapsed = 0
        self.delayed_messages_lost = 0
        self.messages_recalled = 0
        self.timer_messages_now: int | None = None
        """None while the timer messages are not loaded, as in the store of another broker."""
        self.messages_sent_back = 0
        self.messages_dead_lettered = 0
        self.messages_acknowledged = 0
        self.acknowledged_late = 0
        self.messages_invisible_now: int | None = None
        """None while the check points are not loaded, as in the store of another broker."""
        self.messages_delivered = 0
        self.messages_passed_over = 0
        self.messages_passed_over_by_bitmap = 0
        self.messages_passed_over_by_sql = 0
        self.pulls_received = 0
        self.pulls_refused = 0
        self.pulls_read = 0
        self.pulls_answered_at_once = 0
        self.pulls_held = 0
        self.pulls_passed_over = 0
        self.pulls_passed_over_by_bitmap = 0
        self.pulls_passed_over_by_sql = 0
        self.released = 0
        self.half_messages_stored = 0
        self.transactions_committed = 0
        self.transactions_rolled_back = 0
        self.transactions_checked = 0
        self.transactions_given_up = 0
        self.transactions_pending_now: int | None = None
        """None while the transactions are not loaded, as in the store of another broker."""
        self.replies_pushed = 0
        self.replies_without_client = 0
        self.requests_refused = 0
        self.offsets_committed = 0
        self.rebalances_notified = 0
        self.journal_entries = 0
        self.journal_lost = 0
        self.journal_write_errors = 0
        self.damaged_ranges_now = 0
        self.damaged_bytes_now = 0
        self.holds_now = 0
        self.connections_now = 0
        self.groups_now = 0
        self.members_now = 0
        self.woken: dict[str, int] = dict.fromkeys(
            ("arrival", "filter_advanced", "missed_arrival", "timeout", "short_poll", "shutdown"), 0
        )
        self.wakeup_us = Buckets(WAKEUP_US_BOUNDS)
        self.held_ms = Buckets(HELD_MS_BOUNDS)
        self.wakeups = WakeupStats()

    def pass_over(self, messages: int, by_bitmap: int, *, by_sql: bool) -> None:
        """A pull's filter rejected so many messages. ``by_bitmap``: how many of them without their properties."""
        self.messages_passed_over += messages
        if by_sql or by_bitmap:
            self.messages_passed_over_by_sql += messages
            self.messages_passed_over_by_bitmap += by_bitmap

    @property
    def unsettled(self) -> int:
        """How many values are noted but not counted yet."""
        return self.wakeup_us.unsettled + self.held_ms.unsettled + self.wakeups.unsettled

    def settle(self) -> None:
        """Count the noted values."""
        self.wakeup_us.settle()
        self.held_ms.settle()
        self.wakeups.settle()

    def as_dict(self) -> dict[str, int]:
        """Every known total by its public name; the causes of wake-ups as ``woken_<cause>``."""
        names = [name for name in self.__slots__ if name not in ("woken", "wakeup_us", "held_ms", "wakeups")]
        plain = {name: value for name in names if (value := getattr(self, name)) is not None}
        return plain | {f"woken_{cause}": count for cause, count in self.woken.items()}
