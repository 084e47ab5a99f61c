"""Delayed messages: what is due when, and how far each level is delivered.

Each queue of SCHEDULE_TOPIC_XXXX is a delay level: queue 0 is level 1. A message lies there under its real topic's
name (properties REAL_TOPIC, REAL_QID), with its deliver time where other queues have a tagsCode; when that has come
a copy is stored in the real queue. All messages of a level wait equally long, so they become due in their order, and
what a level has delivered is one offset. ``config/delayOffset.json`` has that of every level:

    {"dataVersion": {...}, "offsetTable": {level: offset}}

The file never runs ahead of the disk: an offset is written when the copies of everything before it are flushed. So
a power cut may have messages delivered twice, but loses none.
"""

from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

from broker_core.clock import Now
from broker_core.errors import StoreCorruptError
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, decode
from broker_core.formats.consume_queue_unit import is_hole
from broker_core.store.commit_log import CommitLog
from broker_core.store.config_tables import TableWrite, load_table
from broker_core.store.consume_queue import ConsumeQueue
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.delay_level import SCHEDULE_TOPIC, DelayLevels
from broker_core.store.files import Files

DELAY_OFFSETS = "delayOffset"

LOOK_AGAIN_MS = 1000
"""While anything waits the wall clock, which may be set, is looked at this often; when nothing does, never."""

RETRY_NS = 10_000_000_000
"""RocketMQ's DELAY_FOR_A_PERIOD: how long to wait when the store took no copy."""


class DueMessage(NamedTuple):
    """A message whose time has come: offsets ``queue_offset`` up to, not with, ``next_offset`` of its level's queue.

    ``record`` is None for what cannot be delivered, since the log does not have it whole (any more); that may be more
    than one message.
    """

    level: int
    queue_offset: int
    next_offset: int
    deliver_ms: int
    record: CommitLogRecord | None


class ScheduleMessageService:
    """RocketMQ's ScheduleMessageService, but for storing the copies, which is the engine's."""

    def __init__(
        self, files: Files, root: Path, log: CommitLog, queues: ConsumeQueueStore, delay_levels: DelayLevels
    ) -> None:
        self.delay_levels = delay_levels
        self._files = files
        self._folder = root / "config"
        self._log = log
        self._queues = queues
        self._rest: dict[str, Any] = {}
        self._counter = 0
        self._offsets: dict[int, int] = {}
        self._safe: dict[int, int] = {}
        self._unflushed: deque[tuple[int, dict[int, int]]] = deque()
        self._dirty = False
        self._next_ns: int | None = None
        self._paused_until_ns = 0

    def load(self, now: Now, *, deliver: bool = True) -> list[tuple[str, str]]:
        """Go on where delayOffset.json says; without ``deliver`` that is known, and nothing is ever due.

        Recovery steps, for what is not as it should be. StoreCorruptError for a file that is no such table.
        """
        table = load_table(self._files, self._folder, DELAY_OFFSETS)
        self._rest = dict(table or {})
        try:
            self._counter = int((self._rest.get("dataVersion") or {}).get("counter", 0))
            known = {int(level): int(offset) for level, offset in (self._rest.get("offsetTable") or {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreCorruptError(
                f"{DELAY_OFFSETS}.json in {self._folder} does not have RocketMQ's form ({error}); "
                "mend it, or put its .bak file in its place"
            ) from error
        steps = []
        for level in {*known, *(queue_id + 1 for topic, queue_id in self._queues.table if topic == SCHEDULE_TOPIC)}:
            queue = self._queues.table.get((SCHEDULE_TOPIC, level - 1))
            end = queue.max_offset if queue else 0
            offset = known.get(level)
            if offset is None:
                offset = queue.min_offset(self._log.min_offset) if queue else 0
            elif offset > end:
                steps.append(
                    (
                        "delayed",
                        f"{DELAY_OFFSETS}.json has level {level} delivered up to {offset}, but it ends at {end}",
                    )
                )
                offset = end
            self._offsets[level] = self._safe[level] = max(offset, 0)
        if deliver:
            self.look(now)
        return steps

    # --- when ---------------------------------------------------------------------------------------------------

    @property
    def next_deadline_ns(self) -> int | None:
        """Monotonic ns at which to look for due messages; None while there are none to come."""
        return None if self._next_ns is None else max(self._next_ns, self._paused_until_ns)

    def arrived(self, queue_id: int, now: Now) -> None:
        """Messages were dispatched into the queue of a level."""
        level = queue_id + 1
        self._offsets.setdefault(level, 0)
        due_ms = self._due_ms(level, self._offsets[level], now)
        if due_ms is not None:
            due_ns = _at(due_ms, now)
            self._next_ns = due_ns if self._next_ns is None else min(due_ns, self._next_ns)

    def look(self, now: Now) -> None:
        """Find out when the next message is due."""
        waiting = [
            due_ms
            for level, offset in self._offsets.items()
            if (due_ms := self._due_ms(level, offset, now)) is not None
        ]
        self._next_ns = _at(min(waiting), now) if waiting else None

    def pause(self, now: Now) -> None:
        """The store took no copy: try again later."""
        self._paused_until_ns = now.mono_ns + RETRY_NS

    def _due_ms(self, level: int, offset: int, now: Now) -> int | None:
        """When the message at ``offset`` is due, wall ms; at once (0) what cannot be; None when there is none.

        A time that is further away than its level delays is due now: the clock was set back.
        """
        queue = self._queues.table.get((SCHEDULE_TOPIC, level - 1))
        if queue is None or offset >= queue.max_offset:
            return None
        physical_offset, size, _ = queue.unit(offset)
        if not size or is_hole(physical_offset, size) or physical_offset < self._log.min_offset:
            return 0
        deliver_ms = self._deliver_ms(queue, level, offset)
        if level <= len(self.delay_levels) and deliver_ms > now.wall_ms + self.delay_levels.delay_ms(level):
            return now.wall_ms
        return deliver_ms

    def _deliver_ms(self, queue: ConsumeQueue, level: int, offset: int) -> int:
        physical_offset, _, code = queue.unit(offset)
        deliver_ms = self._queues.tags_code(queue, code)
        if deliver_ms is None:  # an ext unit that is gone
            deliver_ms = (self._log.store_timestamp(physical_offset) or 0) + self.delay_levels.delay_ms(level)
        return deliver_ms

    # --- what ---------------------------------------------------------------------------------------------------

    def due(self, now: Now, max_count: int, max_bytes: int) -> list[DueMessage]:
        """The messages whose time has come, longest due first, each level in its order; as many as a turn may take.

        They stay due until they are ``delivered``.
        """
        offsets = dict(self._offsets)
        heads = {
            level: due_ms
            for level, offset in offsets.items()
            if (due_ms := self._due_ms(level, offset, now)) is not None
        }
        found: list[DueMessage] = []
        size = 0
        while heads and len(found) < max_count and size < max_bytes:
            level = min(heads, key=heads.__getitem__)
            if heads.pop(level) > now.wall_ms:
                break
            message = self.message_at(level, offsets[level])
            found.append(message)
            size += message.record.size if message.record else 0
            offsets[level] = message.next_offset
            due_ms = self._due_ms(level, message.next_offset, now)
            if due_ms is not None:
                heads[level] = due_ms
        return found

    def message_at(self, level: int, offset: int) -> DueMessage:
        """What lies at an offset that the queue of a level has, due or not."""
        queue = self._queues.table[SCHEDULE_TOPIC, level - 1]
        low = queue.min_offset(self._log.min_offset)
        if offset < low:
            return DueMessage(level, offset, low, 0, None)
        record = self._record(queue, offset)
        return DueMessage(level, offset, offset + 1, self._deliver_ms(queue, level, offset), record)

    def _record(self, queue: ConsumeQueue, offset: int) -> CommitLogRecord | None:
        physical_offset, size, _ = queue.unit(offset)
        data = self._log.record(physical_offset) if size and not is_hole(physical_offset, size) else None
        if data is None:
            return None
        try:
            record = decode(data)
        except RecordError:  # the body does not have its checksum
            return None
        place = record.topic, record.queue_id, record.queue_offset
        return record if place == (queue.topic, queue.queue_id, offset) else None

    # --- how far ------------------------------------------------------------------------------------------------

    def delivered(self, messages: list[DueMessage], physical_end: int) -> None:
        """Copies of these are in the log, below ``physical_end``, or never will be."""
        reached = {message.level: message.next_offset for message in messages}
        self._offsets |= reached
        self._unflushed.append((physical_end, reached))

    def progress(self) -> dict[int, tuple[int, int]]:
        """Of each level that was ever used: (messages delivered, messages in all), as offsets of its queue."""
        ends = {level: self._queues.table.get((SCHEDULE_TOPIC, level - 1)) for level in self._offsets}
        return {
            level: (self._offsets[level], queue.max_offset if queue else 0) for level, queue in sorted(ends.items())
        }

    def next_write(self, flushed_offset: int, now: Now) -> TableWrite | None:
        """delayOffset.json, to be written now; None when it says all that is on the disk, which is
        ``flushed_offset`` bytes of the log. What a newer RocketMQ put beside the table is kept."""
        while self._unflushed and self._unflushed[0][0] <= flushed_offset:
            self._safe |= self._unflushed.popleft()[1]
            self._dirty = True
        if not self._dirty:
            return None
        self._dirty = False
        self._counter += 1
        version = {"stateVersion": 0} | (self._rest.get("dataVersion") or {})
        return TableWrite(
            self._files,
            self._folder,
            DELAY_OFFSETS,
            self._rest
            | {
                "dataVersion": version | {"counter": self._counter, "timestamp": now.wall_ms},
                "offsetTable": dict(sorted(self._safe.items())),
            },
        )

    def write_failed(self) -> None:
        """The disk did not take the table; it stays to be written."""
        self._dirty = True

    def write(self, flushed_offset: int, now: Now) -> None:
        """Write delayOffset.json, if there is anything to say, and wait for it. OSError when the disk refuses."""
        table = self.next_write(flushed_offset, now)
        if table is not None:
            table.run()


def _at(wall_ms: int, now: Now) -> int:
    """Monotonic ns of a wall time as far as that is known now; past times are now, far ones are looked at again."""
    return now.mono_ns + min(max(0, wall_ms - now.wall_ms), LOOK_AGAIN_MS) * 1_000_000
