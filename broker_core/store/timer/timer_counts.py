"""How many timer messages wait, in all and for each topic. RocketMQ's TimerMetrics.

A start knows at once how many wait, because each slot of the wheel has its number. For which topics they wait is in the
timer log only. It is read a piece at a time, while messages are put into the wheel and taken out:

    wheel   [counted | counted | this block's slots | not yet | not yet]

A message that is put into a slot that is not yet counted is counted together with that slot. What leaves the wheel is
subtracted at once, so the number of a topic may be below 0 until everything is counted.
"""

from collections.abc import Callable

from broker_core.broker_stats import TopicTotals
from broker_core.formats.timer_log_unit import MAGIC_DELETE, NONE, TimerLogUnit
from broker_core.store.timer.timer_log import TimerLog
from broker_core.store.timer.timer_message import TimerMessage
from broker_core.store.timer.timer_wheel import TimerWheel

BLOCK_COST = 100
"""What it costs to read a block of the wheel, in entries of the timer log."""
RECORD_COST = 10
"""The same for a record of the log."""
BLANK_COST = 4
"""The same for a block of zeros in the wheel."""


class TimerCounts:
    """As in RocketMQ, a recall counts -1 until its time."""

    def __init__(
        self, wheel: TimerWheel, timer_log: TimerLog, message_of: Callable[[TimerLogUnit], TimerMessage | None]
    ) -> None:
        self.by_topic: dict[str, int] = {}
        """By real topic, without what is not counted yet."""
        self.changed = False
        """Whether ``by_topic`` has changed since ``config/timermetrics`` was written."""
        self.enqueued = TopicTotals()
        """What was put into the wheel since the start, by real topic. Recalls, and messages that are to be put back
        later, count too."""
        self.dequeued = TopicTotals()
        """What was stored again when its time had come, or was put back."""
        self.rolled_recalls: dict[int, int] = {}
        """How many recalls in the wheel are to be put back later, by the time of the recalled message's slot, ms."""
        self._wheel = wheel
        self._timer_log = timer_log
        self._message_of = message_of
        self._topics: dict[int, str] = {}
        """Topics by their hash, while counting."""
        self._counted = 0
        self._uncounted = 0
        """Messages in the slots that are not counted yet."""
        self._from_ms = 0
        self._block = wheel.blocks
        """The first block of the wheel whose slots are not counted."""
        self._slots: list[tuple[int, int]] = []
        """The last entries of a block's slots, and their numbers of messages."""
        self._position = NONE
        self._left = 0
        """Messages of the slot that is being counted that are not counted yet."""

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
        self.rolled_recalls = {}
        self._topics = {}
        self._slots, self._position = [], NONE
        self._counted, self._uncounted = 0, messages
        self._from_ms, self._block = from_ms, 0

    def add(self, topic: str, change: int) -> None:
        """Add ``change`` to the number of messages that wait for a topic; it is negative when they no longer wait.

        ``topic`` is empty if it is unknown, because the message was lost.
        """
        self._counted += change
        if not topic:
            return
        self.changed = True
        count = self.by_topic.get(topic, 0) + change
        if count:
            self.by_topic[topic] = count
        else:
            self.by_topic.pop(topic, None)

    def add_rolled_recall(self, message: TimerMessage, change: int) -> None:
        """Count a recall that is to be put back, or with a negative ``change`` was put back."""
        slot_ms = message.out_ms // self._wheel.precision_ms * self._wheel.precision_ms
        count = self.rolled_recalls.get(slot_ms, 0) + change
        if count:
            self.rolled_recalls[slot_ms] = count
        else:
            self.rolled_recalls.pop(slot_ms, None)

    def add_to(self, slot_ms: int, message: TimerMessage, is_rolled: bool) -> None:
        """Count a message that was put into the slot of this time."""
        change = -1 if message.deletes else 1
        if self._wheel.block_of(slot_ms) < self._block:
            self.add(message.real_topic, change)
            if is_rolled and message.deletes:
                self.add_rolled_recall(message, 1)
        else:
            self._uncounted += change

    def work(self, entries: int) -> None:
        """Count so many entries of the timer log, if so many are not counted."""
        if self.is_complete:
            return
        while entries > 0 and not self.is_complete:
            if self._position != NONE:
                entries -= self._count_entry()
            elif self._slots:
                self._position, self._left = self._slots.pop()
            else:
                entries -= BLANK_COST if self._wheel.is_blank(self._block) else BLOCK_COST
                self._slots = [
                    (slot.last, slot.messages) for _, slot in self._wheel.used_in(self._block, self._from_ms)
                ]
                self._block += 1
        if self.is_complete:
            self._uncounted = 0
            self._topics = {}
            self.changed = True

    def _count_entry(self) -> int:
        """Count the next entry. Returns what that costs."""
        unit = self._timer_log.unit(self._position)
        self._position = unit.previous if unit is not None else NONE
        if unit is None:  # retention deleted this entry and all entries before it
            self._uncounted -= self._left
            self.add("", self._left)
            return 1
        topic, is_rolled_recall = self._topics.get(unit.topic_hash), unit.rolls and bool(unit.magic & MAGIC_DELETE)
        cost = 1
        if topic is None or is_rolled_recall:
            message, cost = self._message_of(unit), RECORD_COST
            topic = message.real_topic if message is not None else ""
            if topic:
                self._topics[unit.topic_hash] = topic
            if message is not None and is_rolled_recall:
                self.add_rolled_recall(message, 1)
        change = -1 if unit.magic & MAGIC_DELETE else 1
        self._uncounted -= change
        self._left -= change
        self.add(topic, change)
        return cost
