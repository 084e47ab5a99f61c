"""Delayed messages: when each is due, and how far each level is delivered.

Each queue of SCHEDULE_TOPIC_XXXX is a delay level: queue 0 is level 1. A message waits there with its real topic and
queue in the properties REAL_TOPIC and REAL_QID. Its queue unit contains the deliver time in place of a tagsCode. At
that time a copy is stored in the real queue. All messages of a level have the same delay, so they become due in
order, and one offset per level records what is delivered. ``config/delayOffset.json`` contains these offsets:

    {"dataVersion": {...}, "offsetTable": {level: offset}}

An offset is written only when the copies of all messages before it are flushed. So a power cut may cause messages to
be delivered twice, but loses none.
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
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.delay_level import SCHEDULE_TOPIC, DelayLevels
from broker_core.store.files import Files
from broker_core.store.queue.consume_queue import ConsumeQueue

DELAY_OFFSETS = "delayOffset"

LOOK_AGAIN_MS = 1000
"""While a message waits, the wall clock is checked this often, because it may be set; otherwise it is not checked."""

RETRY_NS = 10_000_000_000
"""RocketMQ's DELAY_FOR_A_PERIOD: how long to wait after the store refused a copy."""


class DueMessage(NamedTuple):
    """A message that is due, at ``queue_offset`` of its level's queue.

    ``record`` is None if the log no longer contains it or it is damaged, so that it cannot be delivered. The entry
    then stands for all messages from ``queue_offset`` up to, but not including, ``next_offset``.
    """

    level: int
    queue_offset: int
    next_offset: int
    deliver_ms: int
    record: CommitLogRecord | None


class ScheduleMessageService:
    """RocketMQ's ScheduleMessageService, except that the engine stores the copies."""

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
        """Read delayOffset.json and continue from its offsets; without ``deliver`` nothing is ever due.

        Returns recovery steps about irregularities. Raises StoreCorruptError if the file is not such a table.
        """
        table = load_table(self._files, self._folder, DELAY_OFFSETS)
        self._rest = dict(table or {})
        try:
            self._counter = int((self._rest.get("dataVersion") or {}).get("counter", 0))
            saved = {int(level): int(offset) for level, offset in (self._rest.get("offsetTable") or {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise StoreCorruptError(
                f"{DELAY_OFFSETS}.json in {self._folder} is not a RocketMQ offset table ({error}); "
                "correct it, or replace it by its .bak file"
            ) from error
        steps = []
        for level in {*saved, *(queue_id + 1 for topic, queue_id in self._queues.table if topic == SCHEDULE_TOPIC)}:
            queue = self._queues.table.get((SCHEDULE_TOPIC, level - 1))
            end = queue.max_offset if queue else 0
            offset = saved.get(level)
            if offset is None:
                offset = queue.min_offset(self._log.min_offset) if queue else 0
            elif offset > end:
                steps.append(
                    (
                        "delayed",
                        f"{DELAY_OFFSETS}.json records level {level} as delivered up to offset {offset}, "
                        f"but its queue ends at {end}",
                    )
                )
                offset = end
            self._offsets[level] = self._safe[level] = max(offset, 0)
        if deliver:
            self.look(now)
        return steps

    def replicate(self, offsets: dict[int, int]) -> None:
        """Take the offsets of the broker whose copy this store is; nothing is delivered here."""
        if any(self._offsets.get(level) != offset for level, offset in offsets.items()):
            self._offsets |= offsets
            self._safe |= offsets
            self._dirty = True

    # --- the timer ------------------------------------------------------------------------------------------------

    @property
    def next_deadline_ns(self) -> int | None:
        """Monotonic ns at which to look for due messages; None while none is waiting."""
        return None if self._next_ns is None else max(self._next_ns, self._paused_until_ns)

    def arrived(self, queue_id: int, now: Now) -> None:
        """Note that messages were dispatched into the queue of a level."""
        level = queue_id + 1
        self._offsets.setdefault(level, 0)
        due_ms = self._due_ms(level, self._offsets[level], now)
        if due_ms is not None:
            due_ns = _monotonic_ns(due_ms, now)
            self._next_ns = due_ns if self._next_ns is None else min(due_ns, self._next_ns)

    def look(self, now: Now) -> None:
        """Determine when the next message is due."""
        waiting = [
            due_ms
            for level, offset in self._offsets.items()
            if (due_ms := self._due_ms(level, offset, now)) is not None
        ]
        self._next_ns = _monotonic_ns(min(waiting), now) if waiting else None

    def pause(self, now: Now) -> None:
        """Wait before trying again, after the store refused a copy."""
        self._paused_until_ns = now.mono_ns + RETRY_NS

    def _due_ms(self, level: int, offset: int, now: Now) -> int | None:
        """When the message at ``offset`` is due, wall ms; None if there is no message.

        0 for a message that can no longer be delivered. If the deliver time is further away than the level's delay,
        the clock was set back, and the message is due now.
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

    # --- due messages ---------------------------------------------------------------------------------------------

    def due(self, now: Now, max_count: int, max_bytes: int) -> list[DueMessage]:
        """The messages that are due, the one due longest first and each level in order, within the limits of a turn.

        They stay due until ``delivered`` is called with them.
        """
        offsets = dict(self._offsets)
        heads = {
            level: due_ms
            for level, offset in offsets.items()
            if (due_ms := self._due_ms(level, offset, now)) is not None
        }
        messages: list[DueMessage] = []
        size = 0
        while heads and len(messages) < max_count and size < max_bytes:
            level = min(heads, key=heads.__getitem__)
            if heads.pop(level) > now.wall_ms:
                break
            message = self.message_at(level, offsets[level])
            messages.append(message)
            size += message.record.size if message.record else 0
            offsets[level] = message.next_offset
            due_ms = self._due_ms(level, message.next_offset, now)
            if due_ms is not None:
                heads[level] = due_ms
        return messages

    def message_at(self, level: int, offset: int) -> DueMessage:
        """The message at an offset of a level's queue, due or not."""
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
        except RecordError:  # the body does not match its checksum
            return None
        place = record.topic, record.queue_id, record.queue_offset
        return record if place == (queue.topic, queue.queue_id, offset) else None

    # --- progress -------------------------------------------------------------------------------------------------

    def delivered(self, messages: list[DueMessage], physical_end: int) -> None:
        """Note that copies of these messages are in the log, before ``physical_end``, or can never be made."""
        reached = {message.level: message.next_offset for message in messages}
        self._offsets |= reached
        self._unflushed.append((physical_end, reached))

    def progress(self) -> dict[int, tuple[int, int]]:
        """For each level that was ever used: (offset up to which it is delivered, end of its queue)."""
        ends = {level: self._queues.table.get((SCHEDULE_TOPIC, level - 1)) for level in self._offsets}
        return {
            level: (self._offsets[level], queue.max_offset if queue else 0) for level, queue in sorted(ends.items())
        }

    def next_write(self, flushed_offset: int, now: Now) -> TableWrite | None:
        """The write of delayOffset.json that is due now; None if the file is up to date.

        ``flushed_offset`` is the physical offset up to which the log is on the disk. Fields that a newer RocketMQ
        wrote into the file are kept.
        """
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
        """Note that the table was not written, so that it is written again."""
        self._dirty = True

    def write(self, flushed_offset: int, now: Now) -> None:
        """Write delayOffset.json if it is out of date, and wait for the disk. OSError when the disk refuses."""
        table = self.next_write(flushed_offset, now)
        if table is not None:
            table.run()


def _monotonic_ns(wall_ms: int, now: Now) -> int:
    """Monotonic ns of a wall time by today's clock; a past time is now, a distant one is LOOK_AGAIN_MS from now."""
    return now.mono_ns + min(max(0, wall_ms - now.wall_ms), LOOK_AGAIN_MS) * 1_000_000
