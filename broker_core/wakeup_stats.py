"""Wake-ups by topic and by group: how many there were, and the 99th percentile of their latency in 10 s.

A latency is counted in its *slot*, 10 s of the wall clock, so it belongs to the history's step of that time. The counts
of one name in one slot are one integer. It has 32 bits for each bucket of the histogram:

    | bucket 18 | ... | bucket 1 | bucket 0 |        bits 576 to 607, ..., 32 to 63, 0 to 31

The garbage collector does not look at integers, and most are short, because wake-ups are quick.
"""

from bisect import bisect_right
from collections import Counter
from struct import Struct

WAKEUP_US_BOUNDS = [
    10,
    20,
    30,
    50,
    75,
    100,
    150,
    200,
    300,
    500,
    750,
    1000,
    2000,
    5000,
    10_000,
    50_000,
    100_000,
    1_000_000,
]
SLOT_MS = 10_000
SLOTS_KEPT = 2
"""The slot that goes on, and the one that ended."""

MAX_NAMES = 20_000
"""Limit of topics, and of groups; the others are not counted."""

_COUNTS = Struct(f"<{len(WAKEUP_US_BOUNDS) + 1}I")
_UNITS = [1 << (32 * bucket) for bucket in range(len(WAKEUP_US_BOUNDS) + 1)]
Histograms = Counter[str]
"""Name -> its histogram as one integer."""


class Totals:
    """A running total for each of the first ``MAX_NAMES`` names."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}

    def add(self, name: str) -> bool:
        """Count one. False if there is no place for the name."""
        totals = self._totals
        if name in totals:
            totals[name] += 1
        elif len(totals) < MAX_NAMES:
            totals[name] = 1
        else:
            return False
        return True

    def get(self, name: str) -> int | None:
        """The total of a name; None if there may have been no place for it."""
        return self._totals.get(name, 0 if len(self._totals) < MAX_NAMES else None)

    def forget(self, name: str) -> None:
        """Drop the total of a deleted topic or group."""
        self._totals.pop(name, None)


class Slot:
    """The latencies of 10 s: of the broker, and by topic and by group."""

    def __init__(self) -> None:
        self.of_broker = 0
        self.of_topics = Histograms()
        self.of_groups = Histograms()


class WakeupStats:
    """``add((topic, group, wake_us, wall_ms))`` notes a held pull that was answered, since its client is waiting.

    ``wake_us`` is the time since the arrival; None if no arrival woke the pull. ``group`` may be empty. ``settle``
    counts the notes, when no client waits and before every read.
    """

    def __init__(self) -> None:
        self.of_topics = Totals()
        self.of_groups = Totals()
        self._slots: dict[int, Slot] = {}
        self._new: list[tuple[str, str, int | None, int]] = []
        self.add = self._new.append

    @property
    def unsettled(self) -> int:
        return len(self._new)

    def settle(self) -> None:
        for topic, group, wake_us, wall_ms in self._new:
            has_topic, has_group = self.of_topics.add(topic), group and self.of_groups.add(group)
            if wake_us is None:
                continue
            slot, unit = self._slot(wall_ms // SLOT_MS), _UNITS[bisect_right(WAKEUP_US_BOUNDS, wake_us)]
            slot.of_broker += unit
            if has_topic:
                slot.of_topics[topic] += unit
            if has_group:
                slot.of_groups[group] += unit
        self._new.clear()

    def _slot(self, number: int) -> Slot:
        slot = self._slots.get(number)
        if slot is None:
            if len(self._slots) == SLOTS_KEPT:
                del self._slots[next(iter(self._slots))]
            slot = self._slots[number] = Slot()
        return slot

    def slot_at(self, wall_ms: int) -> Slot:
        """The latencies of the 10 s that contain a time of the last 10 s."""
        self.settle()
        return self._slots.get(wall_ms // SLOT_MS) or Slot()

    def forget_topic(self, topic: str) -> None:
        self.settle()
        self.of_topics.forget(topic)

    def forget_group(self, group: str) -> None:
        self.settle()
        self.of_groups.forget(group)


def percentile_99(histogram: int) -> int | None:
    """The 99th percentile, us: the upper bound of its bucket, or the lower one of the last bucket. None without
    wake-ups."""
    if not histogram:
        return None
    counts = _COUNTS.unpack(histogram.to_bytes(_COUNTS.size, "little"))
    total, seen = sum(counts), 0
    for bound, count in zip(WAKEUP_US_BOUNDS, counts, strict=False):
        seen += count
        if seen * 100 >= total * 99:
            return bound
    return WAKEUP_US_BOUNDS[-1]
