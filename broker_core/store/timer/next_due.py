"""When the first timer message of a topic is due. Each question searches anew, and reads at most MOST entries."""

from collections.abc import Iterator

from broker_core.clock import Now
from broker_core.formats.commit_log_record import properties_at
from broker_core.formats.message_properties import UNIQ_KEY, find
from broker_core.formats.tags_code import tags_code
from broker_core.formats.timer_log_unit import MAGIC_DELETE, NONE, TimerLogUnit
from broker_core.store.timer.timer_counts import BLANK_COST, BLOCK_COST, RECORD_COST
from broker_core.store.timer.timer_message_store import READ_A_TURN, TimerMessageStore
from broker_core.walk import Steps

MOST = 3000
"""Entries of the timer log that are read for one answer; a block of the wheel and a record count as several."""
NEVER_MS = 1 << 62


def first_due_ms(timers: TimerMessageStore, topic: str, now: Now) -> Steps[int | None]:
    """When the first message for a topic is due, wall ms; None if that is not known.

    It is also unknown if the first message may be recalled by an entry that is not in its slot yet. If a slot has more
    entries than are read, another message of the same second may be due earlier.
    """
    if not timers.loaded or not timers.used_slots:
        return None
    search, piece, left = _Search(timers, topic, now), 0, MOST
    for cost in search.run():
        left, piece = left - cost, piece + cost
        if left <= 0:
            break
        if piece >= READ_A_TURN:
            piece = 0
            yield
    return search.first_ms if search.first_ms < min(search.unsure_ms + 1, NEVER_MS) else None


class _Search:
    """The slots of the wheel from the one that is being delivered on, each from its last entry to its first."""

    def __init__(self, timers: TimerMessageStore, topic: str, now: Now) -> None:
        self.first_ms = NEVER_MS
        self.unsure_ms = NEVER_MS
        """When the first of the messages is due that an entry in another slot may recall."""
        self._timers = timers
        self._topic, self._topic_hash = topic, tags_code(topic)
        self._now_ms = now.wall_ms
        self._recalled: set[str] = set()
        """UNIQ_KEYs of recalled messages of the slot."""

    def run(self) -> Iterator[int]:
        """Search; yields what each step costs."""
        wheel = self._timers.wheel
        start = wheel.block_of(self._timers.read_ms)
        for number in range(wheel.blocks // 2 + 1):  # no slot is later than the roll window, half of the wheel
            block = (start + number) % wheel.blocks
            yield BLANK_COST if wheel.is_blank(block) else BLOCK_COST
            for slot_ms, slot in sorted(wheel.used_in(block, self._timers.read_ms)):
                if min(self.first_ms, self.unsure_ms) <= slot_ms:
                    return
                self._recalled.clear()
                if slot.recalls:
                    for unit in self._entries(slot.last):
                        yield self._look_for_recall(unit)
                for unit in self._entries(slot.last):
                    yield self._look_at(unit)

    def _entries(self, position: int) -> Iterator[TimerLogUnit]:
        """The entries of a slot from its last one on, as far as they exist."""
        while (unit := self._timers.timer_log.unit(position) if position != NONE else None) is not None:
            yield unit
            position = unit.previous

    def _look_for_recall(self, unit: TimerLogUnit) -> int:
        """Note the message that an entry recalls, if it recalls one. Returns the cost of this step."""
        if not unit.magic & MAGIC_DELETE:
            return 1
        message = self._timers.message_of(unit)
        if message is not None:
            self._recalled.add(message.deletes.rpartition("+")[2])
        return RECORD_COST

    def _look_at(self, unit: TimerLogUnit) -> int:
        """Look at an entry. Returns what that costs."""
        if unit.magic & MAGIC_DELETE:  # a slot by RocketMQ has no count of recalls; they are its last entries
            return self._look_for_recall(unit)
        may_be_first = unit.rolls or not unit.due_ms or self._now_ms < unit.due_ms < self.first_ms
        if unit.topic_hash != self._topic_hash or not may_be_first:
            return 1
        record, message = self._timers.record_of(unit), self._timers.message_of(unit)
        if record is None or message is None or message.real_topic != self._topic:
            return RECORD_COST
        if self._now_ms < message.due_ms < self.first_ms:
            key = find(properties_at(record, 0).decode("utf-8", "surrogateescape"), UNIQ_KEY)
            if key not in self._recalled:
                if self._timers.may_be_recalled_elsewhere(message.out_ms):
                    self.unsure_ms = min(self.unsure_ms, message.due_ms)
                else:
                    self.first_ms = message.due_ms
        return RECORD_COST
