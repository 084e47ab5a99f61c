"""The messages that wait for a group's next retry, or those that producers delayed, found among all delayed messages on
request.

    queue of a level    .. delivered | noted by topic | not read yet .. end

Storing and delivering messages costs nothing extra. Each request drops the notes of messages delivered since the
last one and reads some of the new messages. If many are new, it takes several requests to read them all.
"""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from broker_core.formats import message_properties
from broker_core.formats.message_properties import REAL_TOPIC
from broker_core.store.schedule_message_service import ScheduleMessageService
from broker_core.walk import Steps

MESSAGES_A_REQUEST = 500
BYTES_A_REQUEST = 1 << 20
"""What one request reads at most; the record that reaches the limit is the last one read."""
DROPPED_A_PIECE = 1000
"""Notes of delivered messages that are dropped in one piece."""
MAX_NOTED = 100_000


Place = tuple[int, int, int]
"""Due time in ms, level, offset in the queue of the level."""
BEFORE_ALL = (-1, 0, 0)


class Waiting(NamedTuple):
    """The waiting messages of one topic. ``next_due_ms`` is wall time, None without messages.

    If ``is_all`` is False, there may be more messages, and one of them may be due earlier.
    """

    messages: int
    next_due_ms: int | None
    is_all: bool


class WaitingRetries:
    """Delayed messages of topics with names that begin with ``prefix``, or, if ``others``, of all other topics.

    The messages of a level are delivered in the order of their offsets, those of one topic too. So a delivered message
    is the first note of its level and the first of its topic there: dropping it looks at no other note.
    """

    def __init__(self, delayed: ScheduleMessageService, prefix: str, *, others: bool = False) -> None:
        self._delayed = delayed
        self._prefix = prefix
        self._others = others
        self._read_to: dict[int, int] = {}
        self._by_level: dict[int, deque[tuple[int, str]]] = {}
        """Level -> (offset, topic), in order."""
        self._by_topic: dict[str, dict[int, deque[tuple[int, int]]]] = {}
        """Topic -> level -> (due time in ms, offset), in the same order."""
        self._count = 0

    def noted_for(self, topic: str, *, is_all: bool) -> Waiting:
        """The messages that wait for a topic, by the last ``count``, which returned ``is_all``."""
        by_level = self._by_topic.get(topic, {}).values()
        return Waiting(sum(map(len, by_level)), min((notes[0][0] for notes in by_level), default=None), is_all)

    def first_for(self, topic: str, most: int, after: Place = BEFORE_ALL) -> list[Place]:
        """The places of the messages of a topic that are due first after a place, in this order."""
        found: list[Place] = []
        for level, notes in self._by_topic.get(topic, {}).items():
            start = bisect_right(notes, after, key=lambda note: (note[0], level, note[1]))
            found += [(notes[at][0], level, notes[at][1]) for at in range(start, min(start + most, len(notes)))]
        return sorted(found)[:most]

    def count(self) -> Steps[bool]:
        """Read and note some of the new messages. Returns whether all messages are known now."""
        progress = self._delayed.progress()
        dropped = 0
        for level, noted in list(self._by_level.items()):
            delivered, _ = progress[level]
            while noted and noted[0][0] < delivered:
                self._drop(noted.popleft()[1], level)
                dropped += 1
                if dropped % DROPPED_A_PIECE == 0:
                    yield
        return self._read_new(self._delayed.progress())

    def _drop(self, topic: str, level: int) -> None:
        """The first message of a topic in this level was delivered."""
        self._count -= 1
        levels = self._by_topic[topic]
        levels[level].popleft()
        if not levels[level]:
            del levels[level]
            if not levels:
                del self._by_topic[topic]

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
            self._by_level.setdefault(level, deque()).append((offset, topic))
            notes = self._by_topic.setdefault(topic, {}).setdefault(level, deque())
            # A message is delivered after those before it, even if the clock was set back between the two.
            notes.append((max(deliver_ms, notes[-1][0]) if notes else deliver_ms, offset))
            self._count += 1
