"""Message rates by topic, by consumer group, and of the whole broker, over the last minute, hour and day.

RocketMQ's BrokerStatsManager, StoreStatsService and BrokerStats. There is no timer. Each count is a running total, and
the first addition in a slot of time notes the total before it. A slot without additions has no note, because the total
at its beginning is that of the next note:

    total        3   3   3 | 8   8   8 | 8   8   8 | 9        added: 5 in slot 1, 1 in slot 3
    notes        (1: 3)                  (3: 8)
                           the total at the beginning of slot 2 is 8, as in the next note

As in RocketMQ, a window ends with the last finished slot, so the newest counts are not included yet.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

import msgspec

from broker_core.clock import Now

SECOND = 1_000_000_000
MINUTE_HOUR_DAY = ((10 * SECOND, 6), (600 * SECOND, 6), (3600 * SECOND, 24))
"""The slots of RocketMQ's windows: (length of a slot in ns, number of slots)."""

RECENT = ((1, 1), (1, 6), (2, 24))
"""Windows that include the newest counts, as (index in MINUTE_HOUR_DAY, slots): 10 minutes, an hour, a day."""

MAX_KEYS = 20_000
"""Limit of topics, and of (topic, group) pairs; beyond it the oldest are dropped."""

MAX_TOTALS = 1000
"""Topics whose parts a TopicTotals has at most."""

Key = TypeVar("Key", bound=Hashable)


class StatsSnapshot(NamedTuple):
    """RocketMQ's StatsSnapshot: the sum of a window, the average per second, and the average per addition."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class StatsWindows(NamedTuple):
    """RocketMQ's BrokerStatsData."""

    minute: StatsSnapshot
    hour: StatsSnapshot
    day: StatsSnapshot


class Notes(msgspec.Struct, eq=False, gc=False):
    """The values of some running totals at the beginnings of the last ``slots`` slots, which are ``slot_ns`` long.

    ``rows`` is an array("q") as bytes, so that the garbage collector sees none of the 60,000 notes that there may be:
    beginning of the slot, total, total, ..., and the next row.
    """

    slot_ns: int
    slots: int
    width: int
    born_ns: int
    rows: bytes

    @classmethod
    def begin(cls, slot_ns: int, slots: int, totals: Sequence[int], now_ns: int) -> "Notes":
        born_ns = now_ns - now_ns % slot_ns
        return cls(slot_ns, slots, 1 + len(totals), born_ns, array("q", (born_ns, *totals)).tobytes())

    def note(self, totals: Sequence[int], now_ns: int) -> None:
        """Note the totals before an addition. Only the first note of a slot counts."""
        begin, rows = now_ns - now_ns % self.slot_ns, array("q", self.rows)
        if rows[-self.width] == begin:
            return
        rows.extend((begin, *totals))
        oldest, drop = begin - self.slots * self.slot_ns, 0
        while rows[drop] < oldest:
            drop += self.width
        self.rows = rows[drop:].tobytes()

    def added(self, totals: Sequence[int], now_ns: int, slots: int = 0) -> tuple[list[int], float]:
        """(sum added to each total in the last ``slots`` finished slots, their length in seconds); 0: all slots."""
        end = now_ns - now_ns % self.slot_ns
        begin = max(end - (slots or self.slots) * self.slot_ns, self.born_ns)
        old_totals, new_totals = self._totals_at(begin, totals), self._totals_at(end, totals)
        return [new - old for old, new in zip(old_totals, new_totals, strict=True)], (end - begin) / SECOND

    def added_since(self, totals: Sequence[int], now_ns: int, slots: int) -> tuple[int, int]:
        """(sum added to the first total in the last ``slots`` finished slots and since, that time in ms)."""
        begin = max(now_ns - now_ns % self.slot_ns - slots * self.slot_ns, self.born_ns)
        return totals[0] - self._totals_at(begin, totals)[0], (now_ns - begin) // 1_000_000

    def _totals_at(self, time_ns: int, totals: Sequence[int]) -> Sequence[int]:
        rows, width = array("q", self.rows), self.width
        for row in range(0, len(rows), width):
            if rows[row] >= time_ns:
                return rows[row + 1 : row + width]
        return totals


class StatsItem(msgspec.Struct, eq=False, gc=False):
    """RocketMQ's StatsItem: number of messages, bytes of their records, and number of additions."""

    notes: tuple[Notes, ...]
    slot_end_ns: int = 0
    nums: int = 0
    size: int = 0
    times: int = 0

    @classmethod
    def begin(cls, now_ns: int) -> "StatsItem":
        item = cls(tuple(Notes.begin(slot_ns, slots, (0, 0, 0), now_ns) for slot_ns, slots in MINUTE_HOUR_DAY))
        item.begin_slot(now_ns)
        return item

    def begin_slot(self, now_ns: int) -> None:
        """Call this before an addition at or after ``slot_end_ns``."""
        for notes in self.notes:
            notes.note((self.nums, self.size, self.times), now_ns)
        slot_ns, _ = MINUTE_HOUR_DAY[0]
        self.slot_end_ns = now_ns - now_ns % slot_ns + slot_ns

    def recent(self, window: int, now_ns: int) -> tuple[int, int]:
        """(messages of the last slots of ``RECENT[window]`` and since, the length of that time in ms)."""
        which, slots = RECENT[window]
        return self.notes[which].added_since((self.nums, self.size, self.times), now_ns, slots)

    def windows(self, now_ns: int) -> tuple[StatsWindows, StatsWindows]:
        """(windows of the messages, windows of their bytes)."""
        nums, sizes = [], []
        for notes in self.notes:
            (num, size, times), seconds = notes.added((self.nums, self.size, self.times), now_ns)
            nums.append(_snapshot(num, seconds, times))
            sizes.append(_snapshot(size, seconds, times))
        return StatsWindows(*nums), StatsWindows(*sizes)


def _snapshot(added: int, seconds: float, times: int = 0) -> StatsSnapshot:
    return StatsSnapshot(added, added / seconds if seconds else 0.0, added / times if times else 0.0)


class StatsItemSet(Generic[Key]):
    """RocketMQ's StatsItemSet.

    ``add((key, messages, bytes, now_ns))`` only appends to a list, because a client is waiting for its answer. The
    list is counted by ``settle``, which is called when no client waits, and before every read.
    """

    def __init__(self) -> None:
        self._items: OrderedDict[Key, StatsItem] = OrderedDict()
        self._new: list[tuple[Key, int, int, int]] = []
        self.add = self._new.append

    def __len__(self) -> int:
        self.settle()
        return len(self._items)

    def get(self, key: Key) -> StatsItem | None:
        """The item of a key; None if nothing was ever added."""
        self.settle()
        return self._items.get(key)

    def keys(self) -> list[Key]:
        """A copy of all keys."""
        self.settle()
        return list(self._items)

    @property
    def unsettled(self) -> int:
        return len(self._new)

    def settle(self) -> None:
        for key, nums, size, now_ns in self._new:
            item = self._items.get(key)
            if item is None:
                if len(self._items) >= MAX_KEYS:
                    self._items.popitem(last=False)
                item = self._items[key] = StatsItem.begin(now_ns)
            elif now_ns >= item.slot_end_ns:
                item.begin_slot(now_ns)
            item.nums += nums
            item.size += size
            item.times += 1
        self._new.clear()

    def tps(self, key: Key, now_ns: int) -> float:
        """Messages per second in the last minute."""
        item = self.get(key)
        return item.windows(now_ns)[0].minute.tps if item else 0.0

    def drop(self, key: Key) -> None:
        """Forget one key."""
        self.settle()
        self._items.pop(key, None)

    def forget(self, which: Callable[[Key], bool]) -> None:
        self.settle()
        for key in [key for key in self._items if which(key)]:
            del self._items[key]


class TopicTotals:
    """A running total, and the parts of the first ``MAX_TOTALS`` topics. ``left_out`` is the part of all others."""

    def __init__(self) -> None:
        self.total = 0
        self.by_topic: dict[str, int] = {}
        self.left_out = 0

    def add(self, topic: str) -> None:
        """Count one."""
        self.total += 1
        by_topic = self.by_topic
        if topic in by_topic:
            by_topic[topic] += 1
        elif len(by_topic) < MAX_TOTALS:
            by_topic[topic] = 1
        else:
            self.left_out += 1

    def forget(self, topic: str) -> None:
        """Drop the part of a deleted topic."""
        self.by_topic.pop(topic, None)


class BrokerTotals(NamedTuple):
    """Totals of the whole broker: messages stored, pulls that found messages, pulls that found none, messages read,
    timer messages put into the timer wheel, and timer messages stored again when their time had come."""

    stored: int = 0
    found: int = 0
    missed: int = 0
    transferred: int = 0
    enqueued: int = 0
    dequeued: int = 0


class BrokerStatsManager:
    """RocketMQ's BrokerStatsManager.

    ``topic_put`` is by topic, the others by (topic, group): ``group_ack`` counts acknowledgements of popped messages,
    ``group_ck`` their check points; neither counts pops in order, nor what is sent in the name of a group that does not
    exist. ``committed`` and ``rolled_back`` are transactions that ended. ``found`` counts the pulls that returned
    messages. From ``next_sample_ns`` on, ``sample`` must be called before the next addition.
    """

    def __init__(self, now: Now) -> None:
        self.topic_put: StatsItemSet[str] = StatsItemSet()
        self.group_get: StatsItemSet[tuple[str, str]] = StatsItemSet()
        self.send_back: StatsItemSet[tuple[str, str]] = StatsItemSet()
        self.group_ack: StatsItemSet[tuple[str, str]] = StatsItemSet()
        self.group_ck: StatsItemSet[tuple[str, str]] = StatsItemSet()
        self._of_groups = (self.group_get, self.send_back, self.group_ack, self.group_ck)
        self.committed = TopicTotals()
        self.rolled_back = TopicTotals()
        self.found = 0
        self.next_sample_ns = 0
        self.yesterday_morning = self.today_morning = BrokerTotals()
        """The totals when these days began in local time; zeros if the broker was not running then."""
        self._day = _day(now)
        self._seconds = Notes.begin(SECOND, 600, BrokerTotals(), now.mono_ns)
        self._notes = [Notes.begin(slot_ns, slots, BrokerTotals(), now.mono_ns) for slot_ns, slots in MINUTE_HOUR_DAY]

    def sample(self, totals: BrokerTotals, now: Now) -> None:
        """Note the totals, which are about to change."""
        for notes in (self._seconds, *self._notes):
            notes.note(totals, now.mono_ns)
        self.next_sample_ns = now.mono_ns - now.mono_ns % SECOND + SECOND
        day = _day(now)
        if day != self._day:
            is_next = day == self._day + 1  # otherwise nothing was added for at least a whole day
            self.yesterday_morning, self.today_morning = self.today_morning if is_next else totals, totals
            self._day = day

    @property
    def unsettled(self) -> int:
        """Number of additions that are not counted yet."""
        return self.topic_put.unsettled + sum([table.unsettled for table in self._of_groups])

    def settle(self) -> None:
        """Count all additions."""
        self.topic_put.settle()
        for table in self._of_groups:
            table.settle()

    def windows(self, totals: BrokerTotals, now_ns: int) -> tuple[StatsWindows, StatsWindows]:
        """(windows of messages stored, windows of messages read). As in RocketMQ, ``avgpt`` is 0 here."""
        puts, gets = [], []
        for notes in self._notes:
            (stored, _, _, transferred, *_), seconds = notes.added(totals, now_ns)
            puts.append(_snapshot(stored, seconds))
            gets.append(_snapshot(transferred, seconds))
        return StatsWindows(*puts), StatsWindows(*gets)

    def rates(self, totals: BrokerTotals, seconds: int, now_ns: int) -> list[float]:
        """Increase of each total per second, over the last ``seconds`` seconds (600 at most)."""
        added, span = self._seconds.added(totals, now_ns, seconds)
        return [count / span if span else 0.0 for count in added]

    def forget_topic(self, topic: str) -> None:
        """Drop the counts of a deleted topic."""
        self.topic_put.drop(topic)
        self.committed.forget(topic)
        self.rolled_back.forget(topic)
        for table in self._of_groups:
            table.forget(lambda key: key[0] == topic)

    def forget_group(self, group: str) -> None:
        """Drop the counts of a deleted group."""
        for table in self._of_groups:
            table.forget(lambda key: key[1] == group)


def _day(now: Now) -> int:
    return datetime.fromtimestamp(now.wall_ms / 1000).toordinal()
