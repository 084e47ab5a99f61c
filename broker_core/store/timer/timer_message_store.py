"""Timer messages: which are due, and what the timer wheel and the timer log record of them.

    timer queue   .. in the wheel | queue_offset: not yet .. end
    timer wheel   slot, slot, [read_ms: open] [open] slot, ..        one slot for each second (timerPrecisionMs)
    timer log     .. entry <- entry <- entry                         a slot's entries, from the last to the first

A message is stored in the timer queue first (``rmq_sys_wheel_timer``). Then an entry of the timer log leads to it, and
the slot of its time to the entry. Only the slot of the present second and the next are in memory. A message that is due
after the roll window is put into an earlier slot, and from there back into the timer queue, so that retention does not
delete it.

The check point is written after the log, the timer log and the wheel are on the disk. A start continues from there:
what was delivered since may be delivered twice, and nothing is lost. All files can be made anew from the timer queue.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from broker_core.clock import Now
from broker_core.formats.commit_log_record import Buffer
from broker_core.formats.consume_queue_unit import is_hole
from broker_core.formats.message_properties import TIMER_OUT_MS, find
from broker_core.formats.tags_code import tags_code
from broker_core.formats.timer_checkpoint import TimerCheckpoint
from broker_core.formats.timer_log_unit import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    NONE,
    TimerLogUnit,
)
from broker_core.options import Options
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps
from broker_core.store.timer import timer_message
from broker_core.store.timer.on_their_way import OnTheirWay
from broker_core.store.timer.open_slot import OpenSlot
from broker_core.store.timer.timer_counts import TimerCounts
from broker_core.store.timer.timer_log import TimerLog
from broker_core.store.timer.timer_message import TIMER_DEL_UNIQKEY, TIMER_TOPIC, TimerMessage
from broker_core.store.timer.timer_wheel import TimerWheel

ENQUEUED_A_TURN = 24
READ_A_TURN = 150
"""Entries of the timer log that are read in one turn. One whose record must be read counts as 10."""
SLOTS_A_TURN = 300
RECALLS_OF_A_SLOT = 100_000
"""Recalls that are accepted for one slot: they are in memory, 200 bytes each, while it is delivered."""
MOVED_AT_STOP = 200_000
"""A stop moves no slot with more entries, so that it takes less than a second."""
LOOK_AGAIN_MS = 1000
"""While a message waits, the wall clock is checked this often, because it may be set."""
TIMER_METRICS = "timermetrics"
BLANK_SLOTS = 60
"""RocketMQ's TIMER_BLANK_SLOTS: messages are put ahead by half of the wheel less these slots at most."""


class DueTimer(NamedTuple):
    """A message that is due, by its entry in the timer log at ``position``. ``record`` is None if it is lost."""

    due_ms: int
    position: int
    unit: TimerLogUnit
    record: bytes | None


class Missed(NamedTuple):
    """Messages of the timer queue, before ``next_offset``, that cannot be put into the wheel."""

    queue_offset: int
    next_offset: int
    reason: str


class TimerMessageStore:
    """RocketMQ's TimerMessageStore, except that the engine stores the copies, and at the exact millisecond."""

    def __init__(
        self,
        files: Files,
        maps: OpenMaps,
        root: Path,
        log: CommitLog,
        queues: ConsumeQueueStore,
        options: Callable[[], Options],
    ) -> None:
        self.loaded = False
        self.queue_offset = 0
        """The first message of the timer queue that is not in the wheel."""
        self.read_ms = 0
        """RocketMQ's currReadTimeMs: time of the slot that is being delivered. Those before it are done."""
        self.waiting_from_ms = 0
        """No waiting message was to be delivered earlier, wall ms. It is before ``read_ms`` if a message came so late
        that it was put into the slot that is being delivered."""
        self.used_slots = 0
        """Slots from ``read_ms`` on with entries."""
        self.on_their_way = OnTheirWay()
        self.precision_ms = options().timer_precision_ms
        self.wheel = TimerWheel(files, maps, root, self.precision_ms)
        self.timer_log = TimerLog(files, maps, root, options().mapped_file_size_timer_log)
        self.counts = TimerCounts(self.wheel, self.timer_log, self.message_of)
        self.dirty = False
        """Whether something changed that ``take_dirty`` has not returned."""
        self.version = (0, 0)
        """stateVersion and counter of RocketMQ's DataVersion."""
        self._log = log
        self._queues = queues
        self._options = options
        self._open: dict[int, OpenSlot] = {}
        self._next_ns: int | None = None
        self._paused_until_ns = 0
        self._delivered = (0, 0)
        self._delivered_ms = 0
        self._lost = 0
        self._lossy_ms = 0
        """The last slot, by its time, of which messages were lost since the topics were counted; 0 if there is none.
        Until it is over, the numbers of some topics are too high. Then the topics are counted again."""

    # --- the timer ------------------------------------------------------------------------------------------------

    @property
    def next_deadline_ns(self) -> int | None:
        """Monotonic ns at which to do more; None while no message waits."""
        return None if self._next_ns is None else max(self._next_ns, self._paused_until_ns)

    def note_arrival(self) -> None:
        """Note that messages were dispatched into the timer queue."""
        self._next_ns = 0

    def pause(self, until_ns: int) -> None:
        """The disk or the store refused something: try again at this monotonic time."""
        self._paused_until_ns = until_ns

    def set_deadline(self, now: Now) -> None:
        """Determine when there is more to do."""
        if self.behind or not self.counts.is_complete or any(not slot.is_read for slot in self._open.values()):
            self._next_ns = 0
            return
        if self._is_incomplete:
            self._next_ns = now.mono_ns + LOOK_AGAIN_MS * 1_000_000  # their dispatch ends the wait
            return
        if not self.used_slots:
            self._next_ns = None
            return
        due_ms = self.read_ms + self.precision_ms
        current = self._open.get(self.read_ms)
        first_ms = current.next_due_ms() if current is not None else None
        if first_ms is not None:
            due_ms = min(due_ms, first_ms)
        self._next_ns = now.mono_ns + min(max(0, due_ms - now.wall_ms), LOOK_AGAIN_MS) * 1_000_000

    @property
    def delivered_ms(self) -> int:
        """Messages that are due at this time or earlier, wall ms, may have been delivered, even if the clock was set
        back since."""
        return max(self._delivered_ms, self._log.recovered_timestamp)

    @property
    def behind(self) -> int:
        """Messages of the timer queue that are not in the wheel yet."""
        queue = self._queues.table.get((TIMER_TOPIC, 0))
        return queue.max_offset - self.queue_offset if queue is not None and self.loaded else 0

    def dequeue_latency_ms(self, wall_ms: int) -> int:
        """How long ago the second that is being delivered ended; 0 if it has not ended, or no message waits."""
        return max(0, wall_ms - self.read_ms - self.precision_ms) if self.used_slots else 0

    def has_delivered(self, wall_ms: int) -> bool:
        """Whether no message of this time or earlier waits, but for new ones that are not in the wheel yet."""
        may_come = self.on_their_way.may_concern(self.slot_ms_of(wall_ms))
        return self.loaded and not may_come and (not self.used_slots or self.waiting_from_ms > wall_ms)

    # --- into the wheel -------------------------------------------------------------------------------------------

    def enqueue(self, now: Now) -> list[Missed]:
        """Put a turn's messages of the timer queue into the wheel. OSError when the disk is full: nothing is lost."""
        queue = self._queues.table.get((TIMER_TOPIC, 0))
        missed: list[Missed] = []
        if queue is None or self.queue_offset >= queue.max_offset:
            return missed
        self.timer_log.reserve()
        self.wheel.reserve()
        self._begin_at(now)
        for _ in range(min(ENQUEUED_A_TURN, queue.max_offset - self.queue_offset)):
            low = queue.min_offset(self._log.min_offset)
            if self.queue_offset < low:
                missed.append(Missed(self.queue_offset, low, "retention deleted them"))
                self.queue_offset = low
                self.dirty = True
                continue
            physical_offset, size, _ = queue.unit(self.queue_offset)
            record = self._log.record(physical_offset) if size and not is_hole(physical_offset, size) else None
            message = timer_message.read(record, self.precision_ms) if record is not None else None
            if record is None or message is None:
                self._miss(missed)
            elif self.queue_offset >= self._delivered[0] or message.out_ms >= self._delivered[1]:
                self.put(message, physical_offset, len(record), now)
            self.queue_offset += 1
            self.dirty = True
        self.on_their_way.remove_before(self.queue_offset)
        return missed

    def _miss(self, missed: list[Missed]) -> None:
        """Note that the next message cannot be read, together with those directly before it."""
        first = self.queue_offset
        if missed and missed[-1].next_offset == first:
            first = missed.pop().queue_offset
        missed.append(Missed(first, self.queue_offset + 1, "the record is damaged, or has no TIMER_OUT_MS"))

    def skip_delivered(self, queue_offset: int, slot_ms: int) -> None:
        """Pass over messages of the timer queue before ``queue_offset`` whose slot is before ``slot_ms``."""
        self._delivered = (queue_offset, slot_ms)

    def _begin_at(self, now: Now) -> None:
        """An empty wheel begins at the present second."""
        if not self.used_slots and not self._open:
            first_ms = self.on_their_way.first_slot_ms()
            start_ms = now.wall_ms // self.precision_ms * self.precision_ms
            self.read_ms = max(self.read_ms, start_ms if first_ms is None else min(start_ms, first_ms))
            self.waiting_from_ms = self.read_ms

    def note_stored(self, properties: str, queue_offset: int) -> None:
        """Note that a recall, or a message that was put back, was stored in the timer queue."""
        out_ms = timer_message.number(find(properties, TIMER_OUT_MS)) or 0
        self.on_their_way.add(queue_offset, self.slot_ms_of(out_ms), bool(find(properties, TIMER_DEL_UNIQKEY)))

    def slot_ms_of(self, out_ms: int) -> int:
        """The time of the slot into which a message is put now, if it is due within the roll window."""
        return max(out_ms // self.precision_ms * self.precision_ms, self.read_ms)

    @property
    def _is_incomplete(self) -> bool:
        """Whether a message or a recall of the slot that is being delivered may be on its way into the wheel."""
        return self.on_their_way.may_concern(self.read_ms)

    def put(self, message: TimerMessage, physical_offset: int, size: int, now: Now) -> None:
        """Append an entry to the timer log and to its slot. OSError when the disk is full."""
        write_ms = max(now.wall_ms // self.precision_ms * self.precision_ms, self.read_ms)  # the clock may be set back
        slot_ms = self.slot_ms_of(message.out_ms)
        self.waiting_from_ms = min(self.waiting_from_ms, message.out_ms)
        due_ms, magic = message.due_ms, MAGIC_DEFAULT
        window_ms = self._roll_window_ms
        if slot_ms - write_ms >= window_ms:
            magic |= MAGIC_ROLL
            is_near = slot_ms - write_ms - window_ms < window_ms // 3
            steps = window_ms // self.precision_ms
            slot_ms = write_ms + (steps // 2 if is_near else steps) * self.precision_ms
        last_ms = self.read_ms + (self.wheel.slots - 1) * self.precision_ms
        if slot_ms > last_ms:  # the wall clock is so far ahead that an earlier slot still uses this place
            magic |= MAGIC_ROLL
            slot_ms = last_ms
        if magic & MAGIC_ROLL:
            due_ms = slot_ms + self.precision_ms
        if message.deletes:
            magic |= MAGIC_DELETE
        unit = TimerLogUnit(
            NONE, magic, write_ms, slot_ms - write_ms, physical_offset, size, tags_code(message.real_topic), due_ms
        )
        self.append(unit, message.deletes)
        self.counts.add_to(slot_ms, message, bool(magic & MAGIC_ROLL))
        self.counts.enqueued.add(message.real_topic)

    def append(self, unit: TimerLogUnit, deletes: str) -> None:
        """Append an entry to the timer log and to the slot of its time."""
        slot_ms = unit.slot_ms
        slot = self.wheel.get(slot_ms)
        position = self.timer_log.append(unit._replace(previous=slot.last) if slot is not None else unit)
        first, count, recalls = (slot.first, slot.messages, slot.recalls) if slot is not None else (position, 0, 0)
        change = -1 if deletes else 1
        self.wheel.put(slot_ms, first, position, count + change, recalls + (change < 0))
        self.used_slots += slot is None
        self.dirty = True
        is_open = self._open.get(slot_ms)
        if is_open is not None:
            is_open.count(unit)
            if unit.deletes:
                is_open.deletes[deletes] = position
                message = self.message_of(unit)
                self.counts.add(message.real_topic if message is not None else "", 1)
            else:
                is_open.add(unit.due_ms, position)

    @property
    def _roll_window_ms(self) -> int:
        """RocketMQ's timerRollWindowSlot, ms."""
        most = self.wheel.slots // 2 - BLANK_SLOTS
        wanted = self._options().timer_roll_window_slot
        return (wanted if 2 <= wanted <= most else most) * self.precision_ms

    def metrics_table(self, wall_ms: int) -> dict[str, Any]:
        """The content of ``config/timermetrics``, which no start of GlassMQ reads: it counts anew."""
        self.counts.changed = False
        counts = {topic: {"count": count, "timeStamp": wall_ms} for topic, count in self.counts.by_topic.items()}
        version = {"counter": self.version[1], "stateVersion": self.version[0], "timestamp": wall_ms}
        return {"dataVersion": version, "timingCount": counts}

    def record_of(self, unit: TimerLogUnit) -> Buffer | None:
        """An entry's record; None if it is missing."""
        return self._log.record(unit.physical_offset)

    def message_of(self, unit: TimerLogUnit) -> TimerMessage | None:
        """An entry's message; None if its record is missing."""
        record = self.record_of(unit)
        return timer_message.read(record, self.precision_ms) if record is not None else None

    def recalls_at(self, slot_ms: int) -> int:
        """How many recalls are in the slot of a time, or stored for it."""
        slot = self.wheel.get(slot_ms) if self.used_slots else None
        elsewhere = self.on_their_way.recalls(slot_ms) + self.counts.rolled_recalls.get(slot_ms, 0)
        return (slot.recalls if slot is not None else 0) + elsewhere

    def may_be_recalled_elsewhere(self, out_ms: int) -> bool:
        """Whether entries that are not in its slot yet may recall a message with this TIMER_OUT_MS."""
        slot_ms = self.slot_ms_of(out_ms)
        return slot_ms in self.counts.rolled_recalls or self.on_their_way.may_concern(slot_ms)

    # --- out of the wheel -----------------------------------------------------------------------------------------

    def advance(self, now: Now) -> None:
        """Open the slots of the present second and the next, read a turn's entries, pass over slots that are done."""
        left = SLOTS_A_TURN
        while left and self.used_slots:
            self._open_slot(self.read_ms)
            current = self._open.get(self.read_ms)
            if now.wall_ms < self.read_ms + self.precision_ms or self._is_incomplete:
                break
            if current is not None:
                if not current.is_read or current.left:
                    break
                del self._open[self.read_ms]
                self.used_slots -= 1
            self.read_ms += self.precision_ms
            self.waiting_from_ms = self.read_ms
            if 0 < self._lossy_ms < self.read_ms and self.counts.is_complete:
                self._count_again()
            self.dirty |= current is not None
            left -= 1
        if self.used_slots and self.read_ms <= now.wall_ms:
            self._open_slot(self.read_ms + self.precision_ms)
        self.counts.work(READ_A_TURN)
        units = READ_A_TURN
        for slot in sorted(self._open.values(), key=lambda slot: slot.time_ms):
            while units > 0 and not slot.is_read:
                units -= self._read_entry(slot)

    def _open_slot(self, slot_ms: int) -> None:
        if slot_ms not in self._open:
            slot = self.wheel.get(slot_ms)
            if slot is not None:
                self._open[slot_ms] = OpenSlot(slot_ms, slot.last)

    def _read_entry(self, slot: OpenSlot) -> int:
        """Read the entry at a slot's cursor. Returns what it counts for."""
        position = slot.cursor
        unit = self.timer_log.unit(position)
        slot.read(unit)
        if unit is None:
            in_wheel = self.wheel.get(slot.time_ms)
            self._lose(in_wheel.messages - slot.messages if in_wheel is not None else 0, slot.time_ms)
            return 1
        if unit.due_ms and not unit.deletes:
            slot.note(unit.due_ms, position)
            return 1
        message = self.message_of(unit)
        if not unit.deletes:  # RocketMQ wrote it
            exact_ms = message.due_ms if message is not None and not unit.rolls else unit.slot_ms + self.precision_ms
            slot.note(exact_ms, position)
        else:
            self.counts.add(message.real_topic if message is not None else "", 1)
            if message is not None:
                slot.deletes[message.deletes] = position
        return 10

    def _lose(self, messages: int, slot_ms: int) -> None:
        """Count lost messages of a slot. Retention deleted their records and then their entries, so nothing is known
        about them but their number.

        ``messages`` is below 0 if more recalls than messages are gone: a message may be recalled more than once.
        """
        self._lost += max(0, messages)
        self.counts.add("", -messages)
        self._lossy_ms = max(self._lossy_ms, slot_ms)

    def take_lost(self) -> int:
        """Return how many messages were lost together with their entries since the last call."""
        lost, self._lost = self._lost, 0
        return lost

    def _count_again(self) -> None:
        """Count the messages of each topic again, because it is unknown of which topics messages were lost.

        The slots that are open are read again, so that their recalls are counted once.
        """
        recalls = sum(slot.recalls for slot in self._open.values())
        self._open.clear()
        self.counts.begin(self.read_ms, self.counts.pending - recalls)
        self._lossy_ms = 0

    def due(self, now: Now, max_count: int, max_bytes: int) -> list[DueTimer]:
        """Take the messages that are due, the one due longest first, within the limits of a turn.

        What is put back has a turn of its own, because a recall in it may concern the messages that are due after it.
        Call ``delivered`` or ``put_back`` with them, in the same turn.
        """
        current = self._open.get(self.read_ms)
        if current is None or not current.is_read or self._is_incomplete:
            return []
        due: list[DueTimer] = []
        size = 0
        while len(due) < max_count and size < max_bytes and (taken := current.take(now.wall_ms, 1)):
            ((due_ms, position),) = taken
            unit = self.timer_log.unit(position)
            if unit is None:
                self._lose(1, self.read_ms)
                continue
            if due and due[-1].unit.rolls and not unit.rolls:
                current.put_back(taken)
                break
            record = self._log.record(unit.physical_offset)
            due.append(DueTimer(due_ms, position, unit, record))
            size += unit.record_size
        if due:
            self._delivered_ms = max(self._delivered_ms, due[-1].due_ms)
        return due

    @property
    def has_recalls(self) -> bool:
        """Whether any message of the slot that is being delivered was recalled."""
        return bool(self._open[self.read_ms].deletes)

    def is_recalled(self, unique_key: str, topic: str) -> bool:
        """Whether a message of the slot that is being delivered was recalled."""
        deletes = self._open[self.read_ms].deletes
        return unique_key in deletes or f"{topic}+{unique_key}" in deletes

    def put_back(self, due: list[DueTimer]) -> None:
        """These messages were not delivered."""
        self._open[self.read_ms].put_back([(timer.due_ms, timer.position) for timer in due])

    def note_taken_out(self, timer: DueTimer, topic: str) -> None:
        """A message of this real topic was delivered, put back into the timer queue, recalled, or is lost."""
        deletes = bool(timer.unit.magic & MAGIC_DELETE)
        self.counts.add(topic, 1 if deletes else -1)
        if not topic:
            self._lossy_ms = self.read_ms
        if deletes and timer.unit.rolls and (message := self.message_of(timer.unit)) is not None:
            self.counts.add_rolled_recall(message, -1)

    # --- the disk -------------------------------------------------------------------------------------------------

    def take_dirty(self, now: Now) -> tuple[list[tuple[MappedFile, int, int]], TimerCheckpoint | None]:
        """What to flush, and the check point to write after it; None if nothing changed since the last call."""
        if not self.dirty:
            return [], None
        self.dirty = False
        state_version, counter = self.version
        self.version = (state_version, counter + 1)
        checkpoint = TimerCheckpoint(
            self.read_ms,
            self.timer_log.end,
            self.queue_offset,
            self.queue_offset,
            state_version,
            now.wall_ms,
            counter + 1,
            self.waiting_from_ms,
        )
        return [*self.timer_log.take_dirty(), *self.wheel.take_dirty()], checkpoint

    def close(self) -> None:
        """Put the rest of the slot that is being delivered into the next one, so that a start repeats nothing of it.

        OSError when the disk is full; then the start repeats what was delivered of this second. It does so, too, if the
        slot has more than MOVED_AT_STOP messages.
        """
        current = self._open.get(self.read_ms)
        slot = self.wheel.get(self.read_ms) if current is not None else None
        if current is None or slot is None or slot.messages + 2 * slot.recalls > MOVED_AT_STOP:
            return
        while not current.is_read:
            self._read_entry(current)
        next_ms = self.read_ms + self.precision_ms
        begin = self.timer_log.begin  # retention may have taken older entries
        deletes = [position for position in current.deletes.values() if position >= begin]
        noted = current.take_all()
        left = [position for position in noted if position >= begin]
        self._lose(max(0, len(noted) - len(left) - (len(current.deletes) - len(deletes))), self.read_ms)
        if positions := [*deletes, *left]:
            messages, recalls = len(left) - len(deletes), len(deletes)
            following = self.wheel.get(next_ms)
            first, last = self.timer_log.move(positions, next_ms, following.last if following is not None else NONE)
            if following is not None:
                first, messages, recalls = following.first, messages + following.messages, recalls + following.recalls
            self.wheel.put(next_ms, first, last, messages, recalls)
        del self._open[self.read_ms]
        self.read_ms = next_ms
        self.dirty = True
