"""The messages of one slot, ordered by when they are due, while their time is near."""

from array import array
from collections import deque
from heapq import heappop, heappush
from itertools import chain

from broker_core.formats.timer_log_unit import MAGIC_DELETE, NONE, TimerLogUnit


class OpenSlot:
    """The slot of ``time_ms``. Its entries are read from the last to the first; ``cursor`` is the next one to be read.

    An entry that was read costs 8 bytes: it is noted by its position in the timer log, under the millisecond at which
    it is due.
    """

    __slots__ = ("_added", "_due", "_next", "cursor", "deletes", "left", "messages", "recalls", "time_ms")

    def __init__(self, time_ms: int, last: int) -> None:
        self.time_ms = time_ms
        self.cursor = last
        self.left = 0
        """Entries that were noted and not taken."""
        self.deletes: dict[str, int] = {}
        """The UNIQ_KEYs of recalled messages, and the positions of the entries that recall them."""
        self.messages = 0
        """Messages minus recalls, among the entries that were read or added. The wheel counts in the same way."""
        self.recalls = 0
        """Recalls that take effect in this slot."""
        self._due: dict[int, array[int]] = {}
        """By time: the positions of the entries that were read, the newest first."""
        self._added: dict[int, deque[int]] = {}
        """By time: the positions of newer entries, the oldest first."""
        self._next: list[int] = []
        """A heap of the times."""

    @property
    def is_read(self) -> bool:
        """Whether all entries are read: only then is it known which messages are recalled."""
        return self.cursor == NONE

    def read(self, unit: TimerLogUnit | None) -> None:
        """Move the cursor from the entry ``unit`` to the one before it; to the end if the entry is missing (None)."""
        if unit is None:
            self.cursor = NONE
            return
        self.cursor = unit.previous
        self.count(unit)

    def count(self, unit: TimerLogUnit) -> None:
        """Count an entry that was read or added."""
        self.messages += -1 if unit.magic & MAGIC_DELETE else 1
        self.recalls += unit.deletes

    def note(self, due_ms: int, position: int) -> None:
        """Note an entry that was read, which is older than all others."""
        self._note_time(due_ms)
        if due_ms not in self._due:
            self._due[due_ms] = array("q")
        self._due[due_ms].append(position)

    def add(self, due_ms: int, position: int) -> None:
        """Note a new entry."""
        self._note_time(due_ms)
        self._added.setdefault(due_ms, deque()).append(position)

    def _note_time(self, due_ms: int) -> None:
        self.left += 1
        if due_ms not in self._due and due_ms not in self._added:
            heappush(self._next, due_ms)

    def next_due_ms(self) -> int | None:
        """When the first entry is due; None if none is left."""
        return self._next[0] if self._next else None

    def take(self, until_ms: int, most: int) -> list[tuple[int, int]]:
        """Take up to so many entries that are due: (when, position), in the order of time and log."""
        taken: list[tuple[int, int]] = []
        while self._next and self._next[0] <= until_ms and len(taken) < most:
            due_ms = self._next[0]
            if read := self._due.get(due_ms):
                taken.append((due_ms, read.pop()))
                if not read:
                    del self._due[due_ms]
            else:
                added = self._added[due_ms]
                taken.append((due_ms, added.popleft()))
                if not added:
                    del self._added[due_ms]
            if due_ms not in self._due and due_ms not in self._added:
                heappop(self._next)
        self.left -= len(taken)
        return taken

    def take_all(self) -> list[int]:
        """Take all entries that are left: their positions, in the order of the log."""
        positions = sorted(chain(*self._due.values(), *self._added.values()))
        self._due, self._added, self._next, self.left = {}, {}, [], 0
        return positions

    def put_back(self, taken: list[tuple[int, int]]) -> None:
        """Undo the last ``take``, or the end of it."""
        for due_ms, position in reversed(taken):
            self.note(due_ms, position)
