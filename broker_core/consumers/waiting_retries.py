"""The messages that wait for a group's next retry, or those that producers delayed, found among all delayed messages on
request.

    queue of a level    .. delivered | noted by topic | not read yet .. end

Storing and delivering messages costs nothing extra. Each request drops the notes of messages delivered since the
last one and reads some of the new messages. If many are new, it takes several requests to read them all.
"""

from collections import deque
from typing import NamedTuple

from broker_core.formats import message_properties
from broker_core.formats.message_properties import REAL_TOPIC
from broker_core.store.schedule_message_service import ScheduleMessageService

MESSAGES_A_REQUEST = 500
BYTES_A_REQUEST = 1 << 20
"""What one request reads at most; the record that reaches the limit is the last one read."""
MAX_NOTED = 100_000


class Waiting(NamedTuple):
    """The waiting messages of one topic. ``next_due_ms`` is wall time, None without messages.

    If ``is_all`` is False, there may be more messages, and one of them may be due earlier.
    """

    messages: int
    next_due_ms: int | None
    is_all: bool


class WaitingRetries:
    """Delayed messages of topics with names that begin with ``prefix``, or, if ``others``, of all other topics."""

    def __init__(self, delayed: ScheduleMessageService, prefix: str, *, others: bool = False) -> None:
        self._delayed = delayed
        self._prefix = prefix
        self._others = others
        self._read_to: dict[int, int] = {}
        self._noted: dict[tuple[str, int], deque[tuple[int, int]]] = {}
        """(topic, level) -> (offset, due time ms), in order."""
        self._count = 0

    def waiting_for(self, topic: str) -> Waiting:
        """The messages that wait for a topic."""
        return self.noted_for(topic, is_all=self.count())

    def noted_for(self, topic: str, *, is_all: bool) -> Waiting:
        """The messages that wait for a topic, by the last ``count``, which returned ``is_all``."""
        by_level = [noted for (name, _), noted in self._noted.items() if name == topic]
        return Waiting(sum(map(len, by_level)), min((noted[0][1] for noted in by_level), default=None), is_all)

    def by_topic(self) -> dict[str, int]:
        """How many messages, as far as they are counted, wait for each retry topic."""
        waiting: dict[str, int] = {}
        for (topic, _), noted in self._noted.items():
            waiting[topic] = waiting.get(topic, 0) + len(noted)
        return waiting

    def count(self) -> bool:
        """Read and note some of the new messages. Returns whether all messages are known now."""
        progress = self._delayed.progress()
        self._drop_delivered(progress)
        return self._read_new(progress)

    def _drop_delivered(self, progress: dict[int, tuple[int, int]]) -> None:
        for key, noted in list(self._noted.items()):
            delivered, _ = progress[key[1]]
            while noted and noted[0][0] < delivered:
                noted.popleft()
                self._count -= 1
            if not noted:
                del self._noted[key]

    def _read_new(self, progress: dict[int, tuple[int, int]]) -> bool:
        """Read and note new messages, up to the limits of a request. Returns whether none is left to read."""
        left, size, is_all = MESSAGES_A_REQUEST, 0, True
        for level, (delivered, end) in progress.items():
            offset = max(delivered, self._read_to.get(level, 0))
            while offset < end and left and size < BYTES_A_REQUEST and self._count < MAX_NOTED:
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
                left -= 1
            self._read_to[level] = offset
            is_all &= offset >= end
        return is_all

    def _note(self, topic: str, level: int, offset: int, deliver_ms: int) -> None:
        if topic.startswith(self._prefix) is not self._others:
            self._noted.setdefault((topic, level), deque()).append((offset, deliver_ms))
            self._count += 1
