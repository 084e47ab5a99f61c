"""Which timer messages wait when a store is opened, by the files of GlassMQ or of RocketMQ.

1. The check point says how far timer log and wheel are on the disk. Entries after it count if their messages exist.
2. Slots that lead to entries after the end are mended.
3. Messages after the last entry are put into the wheel again.

If a file is missing or cut short, all three are made anew from the timer queue. A message that was rolled may then be
delivered twice; nothing is lost.
"""

from pathlib import Path

from broker_core.clock import Now
from broker_core.formats import timer_checkpoint
from broker_core.formats.commit_log_record import LONG
from broker_core.formats.timer_checkpoint import TimerCheckpoint
from broker_core.formats.timer_log_unit import MAGIC_DELETE, NONE, TimerLogUnit
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import Files
from broker_core.store.store_checkpoint import TIMER_CHECKPOINT
from broker_core.store.timer import timer_message
from broker_core.store.timer.timer_message import TIMER_TOPIC
from broker_core.store.timer.timer_message_store import TimerMessageStore

NO_END = 1
"""Stands for the end of the timer log in a check point: no entry ends here."""
QUEUE_OFFSET_AT = 20
"""Where a record has its queue offset."""


class TimerRecovery:
    """RocketMQ's TimerMessageStore.recover, for one store."""

    def __init__(
        self, timers: TimerMessageStore, files: Files, root: Path, log: CommitLog, queues: ConsumeQueueStore
    ) -> None:
        self._timers = timers
        self._files = files
        self._root = root
        self._log = log
        self._queues = queues
        self._steps: list[tuple[str, str]] = []

    def run(self, now: Now) -> list[tuple[str, str]]:
        """Load everything. Returns recovery steps, none if no timer message was ever stored.

        OSError when the disk is full: call it again later.
        """
        timers = self._timers
        queue = self._queues.table.get((TIMER_TOPIC, 0))
        if queue is None or not queue.max_offset:
            timers.loaded = True
            return []
        if timers.wheel.is_whole:
            timers.wheel.reserve()  # RocketMQ's file is sparse
        low = queue.min_offset(self._log.min_offset)
        checkpoint = timer_checkpoint.decode(self._files.read(self._root / TIMER_CHECKPOINT) or b"")
        timers.version = (checkpoint.state_version, checkpoint.counter)
        timers.read_ms = checkpoint.last_read_time_ms // timers.precision_ms * timers.precision_ms
        timers.waiting_from_ms = min(checkpoint.waiting_from_ms or timers.read_ms, timers.read_ms)
        flushed = checkpoint.last_timer_log_flush_pos
        is_whole = timers.wheel.is_whole and timers.timer_log.load(flushed, self._is_stored)
        if is_whole and self._leads_to(flushed) and self._mend(flushed):
            timers.queue_offset = self._next_queue_offset(checkpoint)
            self._flush(flushed)
        else:
            self._begin_again(checkpoint, low)
        timers.queue_offset = min(max(timers.queue_offset, low), queue.max_offset)
        timers.on_their_way.unknown_until = queue.max_offset
        timers.on_their_way.remove_before(timers.queue_offset)
        timers.loaded = True
        self._begin_counting(now)
        if messages := timers.counts.pending + timers.behind:
            self._report(f"{messages} messages wait for their time (timer messages)")
        timers.note_arrival()
        return self._steps

    def _report(self, sentence: str) -> None:
        self._steps.append(("timer", sentence))

    def _is_stored(self, unit: TimerLogUnit) -> bool:
        """Whether the log has the message of an entry, due when the entry says, and its slot is the one that it would
        be put into now.

        A message is put into a later slot if its own was delivered. By the check point, its own was not, and recalls
        that are still to come go there. So the message is put into the wheel again.
        """
        record = self._log.record(unit.physical_offset)
        if record is None or len(record) != unit.record_size:
            return False
        message = timer_message.read(record, self._timers.precision_ms)
        if message is None or unit.rolls or not unit.due_ms:
            return message is not None
        return unit.due_ms == message.due_ms and unit.slot_ms == self._timers.slot_ms_of(message.out_ms)

    def _leads_to(self, flushed: int) -> bool:
        """Whether the wheel has the slot of the last entry that was flushed. A wheel of zeros does not."""
        unit = self._timers.timer_log.unit_before(flushed)
        slot = self._timers.wheel.get(unit.slot_ms) if unit is not None else None
        return unit is None or (slot is not None and slot.last != NONE)

    def _queue_offset(self, unit: TimerLogUnit) -> int:
        record = self._log.record(unit.physical_offset)
        return int(LONG.unpack_from(record, QUEUE_OFFSET_AT)[0]) if record is not None else -1

    def _next_queue_offset(self, checkpoint: TimerCheckpoint) -> int:
        """The first message without an entry.

        GlassMQ's check point names it as of its end of the timer log. RocketMQ's may name a later one.
        """
        timer_log = self._timers.timer_log
        last = timer_log.unit_before(timer_log.end)
        if last is None:
            return 0
        if not last.due_ms:
            return self._queue_offset(last) + 1
        following, position = checkpoint.last_timer_queue_offset, checkpoint.last_timer_log_flush_pos
        while position < timer_log.end:
            unit = timer_log.unit(position)
            if unit is not None:
                following = max(following, self._queue_offset(unit) + 1)
            position = timer_log.position_after(position)
        return following

    def _revise(self, position: int, *, everything: bool, wanted: frozenset[int] = frozenset()) -> None:
        """Make slots lead to the entries from ``position`` on: to all, or to those of ``wanted`` times."""
        timer_log, wheel = self._timers.timer_log, self._timers.wheel
        while position < timer_log.end:
            unit = timer_log.unit(position)
            if unit is not None and (everything or unit.slot_ms in wanted):
                slot = wheel.get(unit.slot_ms)
                change = -1 if unit.magic & MAGIC_DELETE else 1
                if slot is None:
                    wheel.put(unit.slot_ms, position, position, change, int(change < 0))
                elif slot.last < position:
                    recalls = slot.recalls + (change < 0)
                    wheel.put(unit.slot_ms, slot.first, position, slot.messages + change, recalls)
            position = timer_log.position_after(position)

    def _mend(self, flushed: int) -> bool:
        """Make slots lead to the entries after ``flushed``, and not to entries after the end, which a power cut took.

        False if slots have the places of earlier ones that, by the check point, were not delivered.
        """
        self._revise(flushed, everything=True)
        timers = self._timers
        end, broken = timers.timer_log.end, []
        for slot_ms, slot in timers.wheel.used(timers.read_ms):
            if timers.read_ms and slot_ms - timers.read_ms >= timers.wheel.slots * timers.precision_ms:
                return False
            if slot.last >= end:
                broken.append((slot_ms, slot))
        for slot_ms, _ in broken:
            timers.wheel.clear(slot_ms)
        firsts = [slot.first for _, slot in broken if slot.first < end]
        if firsts:
            self._revise(min(firsts), everything=False, wanted=frozenset(slot_ms for slot_ms, _ in broken))
        return True

    def _flush(self, flushed: int) -> None:
        """Wait until everything that was mended, and everything that a killed process wrote, is on the disk.

        Otherwise a power cut could bring back slots that lead to positions where other slots have entries since.
        """
        timers = self._timers
        if timers.timer_log.end > flushed:
            timers.wheel.mark_dirty()
            timers.dirty = True
        for file, start, end in (*timers.timer_log.take_dirty(), *timers.wheel.take_dirty()):
            file.flush(start, end)

    def _begin_again(self, checkpoint: TimerCheckpoint, low: int) -> None:
        """Make the files anew: ``enqueue`` puts the messages that were not delivered into the wheel."""
        timers = self._timers
        self._report("timerwheel or timerlog is missing or damaged; both are made anew from the timer queue")
        path = self._root / TIMER_CHECKPOINT
        if self._files.exists(path):  # until the next check point, each start begins again
            self._files.write(path, timer_checkpoint.encode(checkpoint._replace(last_timer_log_flush_pos=NO_END)))
        timers.wheel.begin_empty()
        timers.timer_log.begin_empty()
        timers.queue_offset = low
        timers.skip_delivered(checkpoint.last_timer_queue_offset, timers.waiting_from_ms)
        timers.dirty = True

    def _begin_counting(self, now: Now) -> None:
        """Count what is in the wheel. For which topics, ``TimerCounts`` finds out afterwards."""
        timers = self._timers
        used, messages, first_ms, last_ms = 0, 0, 1 << 62, 0
        for slot_ms, slot in timers.wheel.used(timers.read_ms) if timers.wheel.is_whole else ():
            used += 1
            messages += slot.messages
            first_ms, last_ms = min(first_ms, slot_ms), max(last_ms, slot_ms)
        timers.used_slots = used
        if used:
            now_ms = now.wall_ms // timers.precision_ms * timers.precision_ms
            if last_ms - now_ms < timers.wheel.slots * timers.precision_ms:  # otherwise the clock was set far back
                first_ms = min(first_ms, now_ms)
            timers.read_ms = max(timers.read_ms, first_ms)
            timers.counts.begin(timers.read_ms, messages)
