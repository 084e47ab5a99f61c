"""How many timer messages wait, in all and for each topic. RocketMQ's TimerMetrics.

A start knows at once how many wait, because each slot of the wheel has its number. For which topics they wait is in the
timer log only. It is read a piece at a time, while messages are put into the wheel and taken out:

    wheel   [counted | counted | this block's slots | not yet | not yet]

A message that is put into a slot that is not yet counted is counted together with that slot. What leaves the wheel is
subtracted at once, so the number of a topic may be below 0 until everything is counted.
"""

from collections.abc import Callable

from broker_core.formats.timer_log_unit import MAGIC_DELETE, NONE, TimerLogUnit
from broker_core.store.timer.timer_log import TimerLog
from broker_core.store.timer.timer_wheel import TimerWheel

BLOCK_COST = 100
"""What it costs to read a block of the wheel, in entries of the timer log."""
BLANK_COST = 4
"""The same for a block of zeros."""


class TimerCounts:
    """As in RocketMQ, a recall counts -1 until its time."""

    def __init__(self, wheel: TimerWheel, timer_log: TimerLog, topic_of: Callable[[TimerLogUnit], str]) -> None:
        self.by_topic: dict[str, int] = {}
        """By real topic, without what is not counted yet."""
        self.changed = False
        """Whether ``by_topic`` has changed since ``config/timermetrics`` was written."""
        self._wheel = wheel
        self._timer_log = timer_log
        self._topic_of = topic_of
        self._topics: dict[int, str] = {}
        """Topics by their hash, while counting."""
        self._counted = 0
        self._uncounted = 0
        """Messages in the slots that are not counted yet."""
        self._from_ms = 0
        self._block = wheel.blocks
        """The first block of the wheel whose slots are not counted."""
        self._slots: list[int] = []
        """The last entries of a block's slots."""
        self._position = NONE

    @property
    def pending(self) -> int:
        """Messages in the wheel."""
        return self._counted + self._uncounted

    @property
    def is_complete(self) -> bool:
        """Whether all messages in the wheel are in ``by_topic``."""
        return self._block == self._wheel.blocks and not self._slots and self._position == NONE

    @property
    def is_to_write(self) -> bool:
        """Whether ``config/timermetrics`` is to be written: it never gets numbers that are not complete."""
        return self.changed and self.is_complete

    def begin(self, from_ms: int, messages: int) -> None:
        """Count the slots of this time and later; ``messages`` is the sum of their numbers."""
        self.by_topic = {}
        self._topics = {}
        self._counted, self._uncounted = 0, messages
        self._from_ms, self._block = from_ms, 0

    def add(self, topic: str, change: int) -> None:
        """Count messages that wait for a topic, or with a negative ``change`` do so no more."""
        self._counted += change
        self.changed = True
        count = self.by_topic.get(topic, 0) + change
        if count:
            self.by_topic[topic] = count
        else:
            self.by_topic.pop(topic, None)

    def add_to(self, slot_ms: int, topic: str, change: int) -> None:
        """The same for a message that was put into the slot of this time."""
        if self._wheel.block_of(slot_ms) < self._block:
            self.add(topic, change)
        else:
            self._uncounted += change

    def work(self, entries: int) -> None:
        """Count so many entries of the timer log, if so many are not counted."""
        if self.is_complete:
            return
        while entries > 0 and not self.is_complete:
            if self._position != NONE:
                self._count_entry()
                entries -= 1
            elif self._slots:
                self._position = self._slots.pop()
            else:
                entries -= BLANK_COST if self._wheel.is_blank(self._block) else BLOCK_COST
                self._slots = [slot.last for _, slot in self._wheel.used_in(self._block, self._from_ms)]
                self._block += 1
        if self.is_complete:
            self._uncounted = 0
            self._topics = {}
            self.changed = True

    def _count_entry(self) -> None:
        unit = self._timer_log.unit(self._position)
        self._position = unit.previous if unit is not None else NONE
        if unit is None:
            return
        topic = self._topics.get(unit.topic_hash)
        if topic is None:
            topic = self._topics[unit.topic_hash] = self._topic_of(unit)
        change = -1 if unit.magic & MAGIC_DELETE else 1
        self._uncounted -= change
        self.add(topic, change)
