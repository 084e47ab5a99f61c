"""Retention: whole segments are removed when they are old enough, or at any age when the disk is too full.

If a lake is filled from the store, segments that it has not read are kept longer, within limits of their own.
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from broker_core.clock import Now
from broker_core.formats.lake_position import FILE_NAME, decode
from broker_core.options import Options
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import Files
from broker_core.store.index.index_service import IndexService
from broker_core.store.timer.timer_log import TimerLog

CLEAN_FORCIBLY_PERCENT = 85
"""Disk use above which segments are removed at any age."""
WARNING_PERCENT = 90
"""Disk use from which on no message is accepted."""
FILES_A_RUN = 10
NO_LAKE_WAITS = 1 << 63
HOUR_MS = 3_600_000


class Clean:
    """Files to be removed.

    ``run`` may be called in another thread: log, queues and index no longer contain these files, so nothing else
    reads, writes or flushes them.
    """

    def __init__(self, files: Files, segments: list[tuple[int, str, Path]], others: list[Path], folder: Path) -> None:
        self._files = files
        self._others = others
        self._folder = folder
        self.segments = segments
        """(physical offset, reason, path), oldest first."""

    def run(self) -> "Clean":
        """Remove the oldest first, so that the log never has a gap. After an OSError the rest is tried again."""
        for _, _, path in self.segments:
            self._files.remove(path)
        self._files.sync_folder(self._folder)
        for path in self._others:
            self._files.remove(path)
        return self


class CleanCommitLogService:
    """RocketMQ's CleanCommitLogService, with its CleanConsumeQueueService."""

    def __init__(
        self,
        files: Files,
        root: Path,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        timer_log: TimerLog,
        options: Callable[[], Options],
        now: Now,
    ) -> None:
        self._files = files
        self._root = root
        self._timer_log = timer_log
        self._log = log
        self._queues = queues
        self._index = index
        self._options = options
        self._next_ns = now.mono_ns
        self._is_requested = False
        self._unfinished: Clean | None = None
        self.disk_used_percent = 0.0
        self.measure()

    def measure(self) -> None:
        """Measure how full the disk is."""
        self.disk_used_percent = self._files.disk_used_percent(self._root)

    def look_now(self, now: Now) -> None:
        """Make the next run due at once."""
        self._next_ns = now.mono_ns

    def execute_delete_files_manually(self, now: Now) -> None:
        """Make the next run, which is due at once, remove expired files whatever ``deleteWhen`` says."""
        self._is_requested = True
        self.look_now(now)

    def next_clean(self, now: Now) -> Clean | None:
        """The files to remove now, or None. This call takes them out of log, queues and index.

        No other thread can be reading them, because only the engine's thread reads.
        """
        if now.mono_ns < self._next_ns:
            return None
        self._next_ns = now.mono_ns + self._options().clean_resource_interval * 1_000_000
        self.measure()
        if self._unfinished is not None:
            return self._unfinished
        segments = self._take_segments(now)
        if not segments:
            return None
        low = self._log.min_offset
        others = self._queues.take_expired(low, self._log.store_timestamp(low)) + (
            self._index.take_expired(low) if self._index else []
        )
        others += self._timer_log.take_expired(low)
        self._unfinished = Clean(self._files, segments, others, self._log.mapped_files.folder)
        return self._unfinished

    def cleaned(self, clean: Clean) -> list[tuple[int, str]]:
        """After ``clean.run()`` has returned: (physical offset, reason) of each removed segment."""
        self._unfinished = None
        return [(physical_offset, reason) for physical_offset, reason, _ in clean.segments]

    def _take_segments(self, now: Now) -> list[tuple[int, str, Path]]:
        options, mapped_files = self._options(), self._log.mapped_files
        forced = self.disk_used_percent > CLEAN_FORCIBLY_PERCENT
        full = self.disk_used_percent > options.disk_max_used_space_ratio
        is_requested, self._is_requested = self._is_requested, False
        if not (forced or full or is_requested or self._is_hour(now)):
            return []
        taken = []
        awaited = self._awaited_offset(options)
        for file in mapped_files.all()[:-1][:FILES_A_RUN]:
            if file.base + file.size > self._log.max_offset:
                break  # the log ends in this segment; the segments after it were created ahead
            age_ms = now.wall_ms - self._files.modified_ms(file.path)
            unread = file.base + file.size > awaited
            if age_ms > options.file_reserved_time * HOUR_MS and not unread:
                reason = f"older than fileReservedTime, {options.file_reserved_time} hours"
            elif forced:
                reason = f"the disk is {self.disk_used_percent:.0f} % full"
            elif unread and age_ms > max(options.lake_wait_max_hours, options.file_reserved_time) * HOUR_MS:
                reason = f"older than lakeWaitMaxHours, {options.lake_wait_max_hours} hours; the lake has not read it"
            else:
                break
            mapped_files.take_out(file)
            taken.append((file.base, reason, file.path))
        return taken

    def _awaited_offset(self, options: Options) -> int:
        """Physical offset up to which the lake has read; beyond any offset if retention waits for no lake."""
        if not options.lake_wait_enable or self.disk_used_percent > options.lake_wait_max_used_space_ratio:
            return NO_LAKE_WAITS
        position = decode(self._files.read(self._root / FILE_NAME) or b"")
        return NO_LAKE_WAITS if position is None else position.physical_offset

    def _is_hour(self, now: Now) -> bool:
        """Whether deleteWhen contains the current hour, local time."""
        hour = datetime.fromtimestamp(now.wall_ms / 1000).hour
        return any(int(name) == hour for name in self._options().delete_when.split(";"))
