"""What is flushed to the disk, in which thread and when.

    engine thread   next_flush: freezes what is due        flushed / flush_failed: moves the positions
    flush thread              Flush.run: waits for the disk

One flush is under way at a time. Messages appended meanwhile belong to the next flush.
"""

from collections.abc import Callable
from pathlib import Path

from broker_core.clock import Now
from broker_core.formats.checkpoint import Checkpoint
from broker_core.formats.safe_end import SafeEnd
from broker_core.formats.timer_checkpoint import TimerCheckpoint
from broker_core.options import Options
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile
from broker_core.store.reput_message import ReputMessageService
from broker_core.store.store_checkpoint import StoreCheckpoint

PAGE = 4096
MS = 1_000_000
Ranges = list[tuple[MappedFile, int, int]]
Marks = tuple[Checkpoint, SafeEnd, TimerCheckpoint | None]


def make_marks(
    log: CommitLog,
    queues: ConsumeQueueStore,
    reput: ReputMessageService,
    index_count: int,
    timer_ms: int,
    timer_checkpoint: TimerCheckpoint | None,
) -> Marks:
    """What the checkpoint files will say when everything written so far is on the disk."""
    safe_end = SafeEnd(
        log.max_offset,
        reput.position,
        log.min_offset,
        queues.queue_count,
        queues.unit_count,
        timer_ms,
        index_count,
    )
    return Checkpoint(log.last_store_timestamp, reput.last_store_timestamp), safe_end, timer_checkpoint


class Flush:
    """One round of RocketMQ's FlushRealTimeService or GroupCommitService.

    ``run`` is called in the flush thread. That is safe because its fields were frozen in the engine's turn: they are
    values, and file ranges that are never written again. If the engine has unmapped a file, ``run`` maps it for
    itself. It changes no field that the engine reads.
    """

    def __init__(
        self,
        files: Files,
        *,
        log: Ranges,
        queues: Ranges,
        index: Ranges,
        folders: set[Path],
        store_checkpoint: StoreCheckpoint,
        timers: Ranges,
        marks: Marks | None,
        flushed_offset: int,
    ) -> None:
        self._files = files
        self._ranges = [*log, *queues, *index, *timers]
        self._folders = folders
        self._store_checkpoint = store_checkpoint
        self._marks = marks
        self.flushed_offset = flushed_offset
        """Physical offset up to which the log is on the disk when ``run`` returns."""
        self.with_queues = marks is not None

    def run(self) -> "Flush":
        """Flush the log, then queues, index, timer log and timer wheel, and last the checkpoint files.

        After an OSError nothing may be assumed to be on the disk.
        """
        for file, start, end in self._ranges:
            file.flush(start, end)
        for folder in self._folders:
            self._files.sync_folder(folder)
        if self._marks is not None:
            self._store_checkpoint.write(*self._marks)
        return self


class FlushSchedule:
    """When a flush is due. Times are in monotonic nanoseconds, amounts in bytes."""

    def __init__(self, options: Callable[[], Options], now: Now) -> None:
        self._options = options
        self._log_ns = self._log_thorough_ns = self._queues_ns = now.mono_ns
        self.under_way = False

    def log_due_ns(self, dirty: int) -> int | None:
        """When the log is due; None when nothing is dirty."""
        options = self._options()
        if not dirty:
            return None
        if options.flush_disk_type == "SYNC_FLUSH":
            return 0
        if dirty >= options.flush_commit_log_least_pages * PAGE:
            return self._log_ns + options.flush_interval_commit_log * MS
        return self._log_thorough_ns + options.flush_commit_log_thorough_interval * MS

    def queues_due_ns(self, dirty: bool) -> int | None:
        """When queues, index and checkpoint are due; None when they are clean."""
        return self._queues_ns + self._options().flush_interval_consume_queue * MS if dirty else None

    def hurry_queues(self) -> None:
        """Queues, index and checkpoint are due at once."""
        self._queues_ns = -(1 << 62)

    def begun(self, now: Now, *, log: bool, queues: bool) -> None:
        """A flush begins. ``queues``: the queues were due; if they could not be included, they wait another period."""
        self.under_way = True
        if log:
            self._log_ns = self._log_thorough_ns = now.mono_ns
        if queues:
            self._queues_ns = now.mono_ns
