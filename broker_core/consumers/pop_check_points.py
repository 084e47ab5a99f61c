"""The messages that were popped and not acknowledged yet, by their check points.

    table    topic -> group -> (queue id, start offset, pop time) -> check point     for acknowledgements
    buckets  tick of 20 ms  -> check points whose messages become visible then       for the engine's timer
    live     revive queue   -> offset there -> check point                           for the start of the next load

A popped message is in exactly one check point until it is acknowledged or given again. The log of all this is the
revive log; this module knows neither it nor the store.
"""

from collections import deque
from heapq import heappop, heappush
from itertools import islice
from random import Random
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.consumers.subscription_group_manager import retry_topic
from broker_core.formats.pop_check_point import pop_retry_topics

TICK_NS = 20_000_000
COARSE_TICKS = 50
"""Messages that are invisible for more than a minute become visible at whole seconds, so that there are few ticks."""
MAX_IN_FLIGHT = 200_000
"""Popped messages of all groups."""
MAX_IN_FLIGHT_OF_QUEUE = 10_000
"""Popped messages of a group in a queue. RocketMQ's popInflightMessageThreshold."""
STALE = 100_000
"""A check point is stored again that is followed by so many records of its revive queue, and two for each check point
in memory: else many check points would be stored again and again because of each other."""
RETRY_PREFIX = retry_topic("")
POPS_REMEMBERED = 20_000
"""Pairs of group and topic."""
AHEAD_MS = 1000
"""How far a pop time may be ahead of the clock, ms, after the clock was set back."""
ALONE_NS = 60 * 1_000_000_000
"""If nothing is unacknowledged, a delivery this long after the last one sets ``still_ns`` anew."""

Key = tuple[int, int, int]


class CheckPoint(msgspec.Struct, eq=False, gc=False):
    """One check point. ``waiting`` are the queue offsets that are not acknowledged. ``pop_time`` is wall time, ms.

    ``is_void``: its topic or group was deleted, so that nobody gets the messages again. ``is_unseen``: nobody got them.
    A start forgets that, so it counts an attempt. ``is_timed``: RocketMQ stored it, and its acknowledgements may still
    be timer messages.
    """

    group: str
    topic: str
    queue_id: int
    start_offset: int
    pop_time: int
    invisible_ms: int
    waiting: list[int]
    revive_queue: int = 0
    revive_offset: int = -1
    tick: int = 0
    is_void: bool = False
    is_unseen: bool = False
    is_timed: bool = False

    @property
    def key(self) -> Key:
        return self.queue_id, self.start_offset, self.pop_time

    @property
    def revive_time(self) -> int:
        """When the messages become visible again, wall ms."""
        return self.pop_time + self.invisible_ms


class Popping(msgspec.Struct, gc=False):
    """How a group pops from a topic; times are monotonic.

    Of the messages that it got, ``unacknowledged`` are invisible. It has acknowledged none since ``still_ns``: the last
    acknowledgement or, if that left none unacknowledged, the next delivery. ``is_settled``: the last acknowledgement
    came after the last delivery. ``in_order``: the last pop was one in order.
    """

    client_id: str
    popped_ns: int
    in_order: bool = False
    unacknowledged: int = 0
    still_ns: int = 0
    given_ns: int = 0
    is_settled: bool = True


def _without_retry(group: str, topic: str) -> str:
    """The topic whose retry topic for pops of the group this is; another topic itself."""
    for prefix in pop_retry_topics("", group):
        topic = topic.removeprefix(prefix)
    return topic


class PopCheckPoints:
    """RocketMQ's PopBufferMergeService and PopInflightMessageCounter, as far as they decide."""

    def __init__(self) -> None:
        self._table: dict[str, dict[str, dict[Key, CheckPoint]]] = {}
        self._in_flight: dict[tuple[str, str, int], int] = {}
        self._buckets: dict[int, dict[Any, CheckPoint]] = {}
        self._ticks: list[int] = []
        self._live: dict[int, dict[int, CheckPoint]] = {}
        self._ends: dict[int, int] = {}
        self._void: deque[dict[Key, CheckPoint]] = deque()
        self._popping: dict[tuple[str, str], Popping] = {}
        self._full: dict[tuple[str, str, int], str] = {}
        self.freed: deque[tuple[str, str, int]] = deque()
        """(topic, group, queue id) of pops that could not read a queue because of a limit, and can read it now."""
        self._random = Random(0)  # the same numbers after each start, so that tests can be repeated
        self.messages = 0
        """Popped messages that are not acknowledged."""
        self.loaded = False
        self.log_end = 0
        """The physical offset behind the last record of a check point, of an acknowledgement or of a copy."""
        self._last_before_reset = 0
        self.paused_until_ns = 0
        """The store refused a record: no check point is due before this monotonic time."""

    def random_turn(self) -> int:
        """A number that says which queues a pop looks at first.

        It is random, as in RocketMQ. If it grew with each pop, a group whose pops alternate with those of another group
        would always begin at the same half of the queues.
        """
        return self._random.getrandbits(32)

    def note_reset(self, pop_time: int) -> None:
        """Note that an offset was reset after all pops up to ``pop_time``, wall ms."""
        self._last_before_reset = max(self._last_before_reset, pop_time)

    def pop_time(self, wall_ms: int) -> int:
        """The time to give to a pop now, wall ms. It differs from the times of all pops before a reset; else their late
        acknowledgements would count for this pop. If the clock was set back, it is ahead by ``AHEAD_MS`` at most."""
        return max(wall_ms, min(self._last_before_reset + 1, wall_ms + AHEAD_MS))

    def note_pop(self, group: str, topic: str, client_id: str, now_ns: int, *, in_order: bool = False) -> None:
        """Note a pop: who consumes so, and when last (monotonic)."""
        popping = self._popping.pop((group, topic), None)
        if popping is None:
            popping = Popping(client_id, now_ns)
            if len(self._popping) >= POPS_REMEMBERED:
                del self._popping[next(iter(self._popping))]
        self._popping[group, topic] = popping
        popping.client_id, popping.popped_ns, popping.in_order = client_id, now_ns, in_order

    def popping(self, group: str, topic: str) -> Popping | None:
        """How the group pops from the topic; None if it has not done so lately."""
        return self._popping.get((group, topic))

    def reading(self, group: str, topic: str) -> tuple[str, Popping] | None:
        """The topic whose pops read ``topic``, and how the group pops from it. Other pops than those in order read the
        retry topic as well."""
        source = _without_retry(group, topic) if topic.startswith(RETRY_PREFIX) else topic
        popping = self._popping.get((group, source))
        return None if popping is None or (popping.in_order and source != topic) else (source, popping)

    def note_given(self, group: str, topic: str, messages: int, now_ns: int) -> None:
        """Note that a pop, which was noted before, got messages."""
        popping = self._popping.get((group, topic))
        if popping is None:
            return
        if not popping.unacknowledged and (popping.is_settled or now_ns - popping.given_ns > ALONE_NS):
            popping.still_ns = now_ns
        popping.unacknowledged += messages
        popping.given_ns, popping.is_settled = now_ns, False

    def note_acknowledged(self, group: str, topic: str, messages: int, now_ns: int) -> None:
        """Note an acknowledgement of so many invisible messages. ``topic`` may be the retry topic."""
        popping = self._find_popping(group, topic)
        if popping is not None:
            popping.unacknowledged = max(0, popping.unacknowledged - messages)
            popping.still_ns, popping.is_settled = now_ns, True

    def note_returned(self, group: str, topic: str, messages: int) -> None:
        """Note that messages are invisible no more; below 0, that they are again. ``topic`` may be the retry topic."""
        popping = self._find_popping(group, topic)
        if popping is not None:
            popping.unacknowledged = max(0, popping.unacknowledged - messages)

    def _find_popping(self, group: str, topic: str) -> Popping | None:
        return self._popping.get((group, _without_retry(group, topic)))

    # --- the table ------------------------------------------------------------------------------------------------

    def find(self, group: str, topic: str, key: Key) -> CheckPoint | None:
        return self._table.get(topic, {}).get(group, {}).get(key)

    def in_flight(self, group: str, topic: str, queue_id: int) -> int:
        """How many messages of a queue the group has popped and not acknowledged."""
        return self._in_flight.get((group, topic, queue_id), 0)

    def add(self, point: CheckPoint, now: Now) -> None:
        """Add a check point whose record is in the revive log, or replace it by a later record.

        A clock that was set back does not hide messages for longer than their invisible time.
        """
        old = self.find(point.group, point.topic, point.key)
        if old is not None:
            self.remove(old)
        self._table.setdefault(point.topic, {}).setdefault(point.group, {})[point.key] = point
        self._count(point, len(point.waiting))
        self._live.setdefault(point.revive_queue, {})[point.revive_offset] = point
        self.extend(point.revive_queue, point.revive_offset + 1)
        self._schedule(point, now.mono_ns, min(max(0, point.revive_time - now.wall_ms), point.invisible_ms))

    def _schedule(self, point: CheckPoint, now_ns: int, wait_ms: int) -> None:
        step = COARSE_TICKS if point.invisible_ms > 60_000 else 1
        point.tick = -(-(now_ns + wait_ms * 1_000_000) // (TICK_NS * step)) * step if wait_ms else now_ns // TICK_NS
        bucket = self._buckets.get(point.tick)
        if bucket is None:
            bucket = self._buckets[point.tick] = {}
            heappush(self._ticks, point.tick)
        bucket[id(point)] = point

    def acknowledge(self, point: CheckPoint, *offsets: int) -> int:
        """Note that messages need no more deliveries. Returns how many of them were still in the check point."""
        left = [offset for offset in point.waiting if offset not in offsets]
        number = len(point.waiting) - len(left)
        if number:
            point.waiting = left
            self._count(point, -number)
            if not left:
                self.remove(point)
        return number

    def remove(self, point: CheckPoint) -> None:
        """Forget a check point: its messages are acknowledged, or copies of them are in the log."""
        self._count(point, -len(point.waiting))
        point.waiting = []
        self._live[point.revive_queue].pop(point.revive_offset, None)
        self._buckets.get(point.tick, {}).pop(id(point), None)
        groups = self._table.get(point.topic, {})
        points = groups.get(point.group, {})
        if points.get(point.key) is point:
            del points[point.key]
            if not points:
                del groups[point.group]
                if not groups:
                    del self._table[point.topic]

    def _count(self, point: CheckPoint, messages: int) -> None:
        if point.is_void:
            return
        key = point.group, point.topic, point.queue_id
        if messages < 0 and self._full:
            self._free(key)
        self.messages += messages
        count = self._in_flight.get(key, 0) + messages
        if count:
            self._in_flight[key] = count
        else:
            self._in_flight.pop(key, None)

    def note_full(self, group: str, topic: str, queue_id: int, asked: str) -> None:
        """A pop from the topic ``asked`` could not read this queue, because too many messages are in flight."""
        if len(self._full) < POPS_REMEMBERED:
            self._full[group, topic, queue_id] = asked

    def _free(self, key: tuple[str, str, int]) -> None:
        """A message of this group and queue leaves. If all groups have too many, another queue may be read instead."""
        if key not in self._full:
            if self.messages < MAX_IN_FLIGHT:
                return
            key = next(iter(self._full))
        asked = self._full.pop(key)
        group, topic, queue_id = key
        self.freed.append((asked, group, queue_id if topic == asked else -1))

    # --- deletions ------------------------------------------------------------------------------------------------

    def remove_topic(self, topic: str) -> None:
        """A topic was deleted: its messages are given to nobody. ``take_due`` returns its check points as void."""
        self._void.extend(self._table.pop(topic, {}).values())

    def remove_group(self, group: str) -> None:
        """A group was deleted: the same happens to its check points."""
        for topic in [topic for topic, groups in self._table.items() if group in groups]:
            self._void.append(self._table[topic].pop(group))
            if not self._table[topic]:
                del self._table[topic]

    # --- time -----------------------------------------------------------------------------------------------------

    def take_due(self, now_ns: int, limit: int) -> list[CheckPoint]:
        """Up to ``limit`` check points whose messages are visible again, or which are void.

        Call ``remove`` or ``postpone`` for each.
        """
        due: list[CheckPoint] = []
        while self._void and len(due) < limit:
            points = self._void[0]
            if not points:
                self._void.popleft()
                continue
            _, point = points.popitem()
            if point.waiting:
                self._count(point, -len(point.waiting))
                point.is_void = True
                due.append(point)
        while self._ticks and len(due) < limit and self._ticks[0] * TICK_NS <= now_ns:
            bucket = self._buckets[self._ticks[0]]
            if not bucket:
                del self._buckets[heappop(self._ticks)]
                continue
            for number in list(islice(bucket, limit - len(due))):
                point = bucket.pop(number)
                if self.find(point.group, point.topic, point.key) is point:  # else it is among the void ones
                    due.append(point)
        return due

    def postpone(self, points: list[CheckPoint], now_ns: int, wait_ms: int) -> None:
        """What had to be stored for them was not: they are due again after this time."""
        for point in points:
            self._schedule(point, now_ns, wait_ms)

    def next_due_ns(self) -> int | None:
        """The monotonic time at which to call ``take_due``; a past one means at once, None never."""
        while self._ticks and not self._buckets[self._ticks[0]]:
            del self._buckets[heappop(self._ticks)]
        if not self._void and not self._ticks:
            return None
        return max(0 if self._void else self._ticks[0] * TICK_NS, self.paused_until_ns)

    # --- the revive log -------------------------------------------------------------------------------------------

    def extend(self, revive_queue: int, end: int) -> None:
        """The revive queue ends at this offset."""
        self._ends[revive_queue] = max(end, self._ends.get(revive_queue, 0))

    def progress(self) -> dict[int, int]:
        """Revive queue -> offset of the first record that the next load needs."""
        return {queue: next(iter(self._live.get(queue, ())), end) for queue, end in self._ends.items()}

    def ends(self) -> dict[int, int]:
        """Revive queue -> its end."""
        return dict(self._ends)

    def stored_again(self, point: CheckPoint, revive_offset: int) -> None:
        """The record of a check point was repeated at a later offset of its revive queue."""
        live = self._live[point.revive_queue]
        live.pop(point.revive_offset, None)
        live[revive_offset] = point
        point.revive_offset = revive_offset
        self.extend(point.revive_queue, revive_offset + 1)

    def stale(self, limit: int) -> list[CheckPoint]:
        """Up to ``limit`` check points that keep the next load from beginning near the end of its revive queue."""
        found: list[CheckPoint] = []
        for queue, end in self._ends.items():
            live = self._live.get(queue, {})
            oldest = end - STALE - 2 * len(live)
            for offset, point in live.items():
                if offset >= oldest or len(found) >= limit:
                    break
                found.append(point)
        return found
