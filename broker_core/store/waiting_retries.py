"""Which messages wait for a group's next try: found among all delayed messages when somebody asks.

    queue of a level    .. delivered | noted by topic | not looked at yet .. end

Storing and delivering them costs nothing more for this. A question forgets what was delivered since the one before,
and looks at some more of what came; where much came, several questions it takes.
"""

from collections import deque
from typing import NamedTuple

from broker_core.formats import message_properties
from broker_core.formats.message_properties import REAL_TOPIC
from broker_core.store.schedule_message_service import ScheduleMessageService

LOOKS = 500
BYTES = 1 << 20
"""What a question looks at, at most; the record that reaches it is the last one."""
MAX_NOTED = 100_000


class Waiting(NamedTuple):
    """Messages of one retry topic. ``next_due_ms`` is wall time, None while there are none; with ``is_all`` False there
    may be more, and one of those may be due earlier."""

    messages: int
    next_due_ms: int | None
    is_all: bool


class WaitingRetries:
    """Delayed messages of the topics whose names begin with ``prefix``."""

    def __init__(self, delayed: ScheduleMessageService, prefix: str) -> None:
        self._delayed = delayed
        self._prefix = prefix
        self._looked_to: dict[int, int] = {}
        self._noted: dict[tuple[str, int], deque[tuple[int, int]]] = {}
        """(topic, level) -> (offset, when it is due), in their order."""
        self._count = 0

    def of(self, topic: str) -> Waiting:
        """What waits for a retry topic."""
        progress = self._delayed.progress()
        self._forget_delivered(progress)
        is_all = self._look(progress)
        mine = [noted for (name, _), noted in self._noted.items() if name == topic]
        return Waiting(sum(map(len, mine)), min((noted[0][1] for noted in mine), default=None), is_all)

    def _forget_delivered(self, progress: dict[int, tuple[int, int]]) -> None:
        for key, noted in list(self._noted.items()):
            delivered, _ = progress[key[1]]
            while noted and noted[0][0] < delivered:
                noted.popleft()
                self._count -= 1
            if not noted:
                del self._noted[key]

    def _look(self, progress: dict[int, tuple[int, int]]) -> bool:
        """Note what was not looked at yet, as much as a question may; whether that was everything."""
        looks, size, is_all = LOOKS, 0, True
        for level, (delivered, end) in progress.items():
            offset = max(delivered, self._looked_to.get(level, 0))
            while offset < end and looks and size < BYTES and self._count < MAX_NOTED:
                message = self._delayed.message_at(level, offset)
                if message.record is not None:
                    size += message.record.size
                    self._note(
                        message_properties.find(message.record.properties, REAL_TOPIC),
                        level,
                        offset,
                        message.deliver_ms,
                    )
                offset = message.next_offset
                looks -= 1
            self._looked_to[level] = offset
            is_all &= offset >= end
        return is_all

    def _note(self, topic: str, level: int, offset: int, deliver_ms: int) -> None:
        if topic.startswith(self._prefix):
            self._noted.setdefault((topic, level), deque()).append((offset, deliver_ms))
            self._count += 1
