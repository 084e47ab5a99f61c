"""Recalls, and messages that were put back from the timer wheel, while they are in the timer queue only.

A message is put back if it is due after the roll window. The messages of a slot are delivered, and its recalls are
carried out, only when nothing of that slot is on its way into the wheel.
"""

from collections import Counter, deque


class OnTheirWay:
    """What is on its way into the wheel: its offsets in the timer queue, and the times of its slots, ms."""

    def __init__(self) -> None:
        self.unknown_until = 0
        """Messages of the timer queue before this offset were stored before the start: any of them may be a recall."""
        self._offset = 0
        self._messages: deque[tuple[int, int, bool]] = deque()
        self._slots: Counter[int] = Counter()
        self._recalls: Counter[int] = Counter()

    def add(self, queue_offset: int, slot_ms: int, is_recall: bool) -> None:
        """Note a message that was stored. Call it in the order of the offsets."""
        self._messages.append((queue_offset, slot_ms, is_recall))
        self._slots[slot_ms] += 1
        if is_recall:
            self._recalls[slot_ms] += 1

    def remove_before(self, queue_offset: int) -> None:
        """Everything in the timer queue before this offset is in the wheel."""
        self._offset = queue_offset
        while self._messages and self._messages[0][0] < queue_offset:
            _, slot_ms, is_recall = self._messages.popleft()
            for counter in (self._slots, self._recalls) if is_recall else (self._slots,):
                counter[slot_ms] -= 1
                if not counter[slot_ms]:
                    del counter[slot_ms]

    def recalls(self, slot_ms: int) -> int:
        """How many recalls of messages of one slot are known."""
        return self._recalls.get(slot_ms, 0)

    def may_concern(self, slot_ms: int) -> bool:
        """Whether anything of this slot may be on its way."""
        return slot_ms in self._slots or self._offset < self.unknown_until

    def first_slot_ms(self) -> int | None:
        """The earliest slot; None if nothing is on its way."""
        return min(self._slots, default=None)
