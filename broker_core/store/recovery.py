"""Recovery: bringing log, queues and index into agreement after a clean or unclean stop.

    1  find the files and the ends of the queues                     (MappedFileQueue, ConsumeQueue.recover)
    2  choose where to begin reading the log                         (_start_position)
    3  read all records; placeholders replace damaged ones           (_find_end, LogRepair)
    4  copy the bytes after the last record to a file and cut them   (_cut_log)
    5  drop the queue units and index entries of cut records         (ConsumeQueueStore.truncate, IndexService.cut)
    6  make holes of the queue units of damaged records              (ConsumeQueueStore.make_holes)
    7  dispatch the messages that queues or index lack               (ReputMessageService)

The log is authoritative: queues and index can always be rebuilt from it. RocketMQ's CommitLog.recoverNormally and
recoverAbnormally take the same steps, but they cut the log at the first damaged record. So does a copy of another
broker's log with what was not on the disk for sure, because the other broker sends it again.

What needs disk space while there is none is postponed (``finish_step``). Until it is done, messages can be read, none
can be appended, and the next start recovers again.
"""

import errno
from bisect import bisect_right
from functools import partial
from pathlib import Path

from broker_core.formats.checkpoint import Checkpoint
from broker_core.formats.commit_log_record import is_blank, is_rolled_back, measure, store_timestamp_at
from broker_core.formats.safe_end import SafeEnd
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import DISK_FULL, QUARANTINE, Files
from broker_core.store.index.index_service import IndexService
from broker_core.store.log_repair import COPY_MAX, LogRepair, damaged_files, has_lost_sector
from broker_core.store.mapped_file import MappedFile
from broker_core.store.mapped_file_queue import file_name
from broker_core.store.postponed_steps import PostponedSteps
from broker_core.store.reput_message import MissingUnits, ReputMessageService

FULL_SCAN_MAX = 4 << 30
"""A log up to this size is read from its beginning when there is no valid safe end."""

REPUT_BATCH = 10_000
GAPS_REPORTED = 20
TAIL = ".tail"
"""Ends the names of copies of bytes after the last record."""
WAITS = f"moving it to {QUARANTINE} waits until the disk has space"
MAX_OFFSET = 1 << 63
Step = tuple[str, str]


class Recovery:
    """One recovery. ``steps`` lists what it did, as (step, sentence)."""

    def __init__(
        self,
        files: Files,
        root: Path,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        reput: ReputMessageService,
        *,
        wall_ms: int,
        clean: bool,
        foreign: bool,
        read_only: bool,
        follows: bool = False,
    ) -> None:
        self._files = files
        self._root = root
        self._follows = follows
        self._cut_from = MAX_OFFSET
        """Where damage cuts the log instead of being covered."""
        self._log = log
        self._queues = queues
        self._index = index
        self._reput = reput
        self._clean = clean
        self._read_only = read_only
        self.postponed = PostponedSteps()
        self._repair = LogRepair(
            files, root, log, self.postponed, wall_ms, clean=clean, foreign=foreign, read_only=read_only
        )
        self._first_lost = MAX_OFFSET
        """Where the first placeholder or damage that was read begins."""
        self._newly_lost = MAX_OFFSET
        """The same, without placeholders before ``_dealt_with``."""
        self._dealt_with = 0
        """Physical offset up to which an earlier start has dealt with what is lost."""
        self.steps: list[Step] = []
        self.start = 0
        """Physical offset from which the log was read. Bytes after it may not be on the disk yet."""

    def _report(self, step: str, detail: str) -> None:
        self.steps.append((step, detail))

    def run(self, checkpoint: Checkpoint, safe_end: SafeEnd | None) -> None:
        """Run all steps. Afterwards log, queues and index agree, and every message in the log is dispatched.

        If the disk is full, ``postponed`` contains what is left to do, and messages may be left to be dispatched.
        """
        self._load()
        if safe_end is not None:
            self._log.recovered_timestamp = safe_end.timer_ms
            self._dealt_with = safe_end.flushed_offset
        if not self._log.mapped_files:
            self._begin_empty()
            return
        start, why = self._start_position(checkpoint, safe_end)
        self.start = start
        if self._follows:
            self._cut_from = safe_end.dispatched_offset if safe_end is not None else 0
        end, records = self._find_end(start)
        how = "after a clean shutdown" if self._clean else "after an unclean stop"
        self._report("log", f"{how} the log was read from {start} ({why}): {records} records, it ends at {end}")
        self._cut_log(end)
        if not self._clean and (unsafe := self._queues.drop_ext_addresses(start)):
            self._report(
                "queues", f"{unsafe} queue units may refer to units of the extension that were not on the disk"
            )
        dropped = self._queues.truncate(end)
        if dropped:
            self._report("queues", f"{dropped} queue units pointed beyond the end of the log and were dropped")
        self._make_holes()
        if self._index is not None and not self._clean and not self._read_only:
            trusted = safe_end is not None and start == safe_end.dispatched_offset
            rebuilt = self._index.cut(start, safe_end.index_count if safe_end is not None and trusted else None)
            if rebuilt:
                self._report("index", f"{rebuilt} index entries may not have been on the disk and are rebuilt")
        self._dispatch(start, end)

    def finish_step(self) -> bool:
        """Do one step of what was postponed; returns whether steps are left. OSError while the disk is still full."""
        try:
            self.postponed.finish_step()
        finally:
            self._report_damage()
        if not self.postponed and self._reput.position < self._log.max_offset:
            raise OSError(errno.ENOSPC, "messages in the log are not in their queues yet")  # their offsets are unknown
        return bool(self.postponed)

    def damaged(self) -> tuple[int, int]:
        """Number and bytes of the ranges of the log whose copies are in the quarantine, and of missing segments."""
        gaps = self._log.mapped_files.gaps()
        count, size = damaged_files(self._files, self._root)
        return count + len(gaps), size + sum(end - start for start, end in gaps)

    def _load(self) -> None:
        """Load log, queues and index as they are on the disk."""
        mapped_files = self._log.mapped_files
        for sentence in mapped_files.load():
            self._report("log", f"segment {sentence}")
        gaps = mapped_files.gaps()
        for start, end in gaps[:GAPS_REPORTED]:
            count, last = (end - start) // mapped_files.file_size, file_name(end - mapped_files.file_size)
            which = f"segment {last} is" if count == 1 else f"{count} segments, {file_name(start)} to {last}, are"
            self._report(
                "damage",
                f"{which} missing in the middle of the log, {end - start} bytes; only the messages in there are lost",
            )
        if len(gaps) > GAPS_REPORTED:
            self._report("damage", f"segments are missing at {len(gaps) - GAPS_REPORTED} more places of the log")
        for sentence in self._queues.load(clean=self._clean):
            self._report("queues", sentence)
        for sentence in self._index.load(mend=not self._read_only) if self._index is not None else ():
            self._report("index", sentence)

    def _begin_empty(self) -> None:
        """Begin with a log without segments: it is new, or all of it has expired. So no queue unit is valid."""
        dropped = self._queues.truncate(0)
        if dropped:
            self._report("queues", f"the log has no segments; {dropped} queue units without a record were dropped")

    # --- 2: where to begin ----------------------------------------------------------------------------------------

    def _start_position(self, checkpoint: Checkpoint, safe_end: SafeEnd | None) -> tuple[int, str]:
        files = self._log.mapped_files.all()
        low, high = files[0].base, files[-1].base + files[-1].size
        index = self._index
        index_missing = index is not None and not index.index_files
        queues_missing = not self._queues.table
        if safe_end is not None and low <= safe_end.dispatched_offset <= high:
            complete = (
                self._queues.unit_count >= safe_end.unit_count and self._queues.queue_count >= safe_end.queue_count
            )
            # Killed after a topic was deleted and before marks without it were written: its folder is still there.
            complete = (complete or bool(self._queues.removed_folders.due)) and not self._queues.lacks_units
            if complete and not index_missing and index is not None and index.is_cut:
                return min(max(low, index.max_physical_offset), safe_end.dispatched_offset), "the end of the index"
            if complete and not index_missing:
                return safe_end.dispatched_offset, "the safe end"
            if not complete:
                return low, "queues are missing"
        if queues_missing or index_missing or (index is not None and index.is_cut) or high - low <= FULL_SCAN_MAX:
            return low, "its beginning"
        return self._segment_start(files, checkpoint)

    def _segment_start(self, files: list[MappedFile], checkpoint: Checkpoint) -> tuple[int, str]:
        """RocketMQ's rule: the newest segment that begins with a record older than the checkpoint."""
        dispatched = max((queue.max_physical_offset for queue in self._queues.table.values()), default=0)
        for file in reversed(files):
            if not measure(file.buffer, 0, file.size, file.base):
                continue
            if self._clean and file.base <= dispatched:
                return file.base, "the newest dispatched segment"
            if not self._clean and store_timestamp_at(file.buffer, 0) <= checkpoint.recovery_timestamp:
                return file.base, "the newest segment older than the checkpoint"
        return files[0].base, "its beginning"

    # --- 3, 4 and 6: the end of the log ---------------------------------------------------------------------------

    def _find_end(self, position: int, stop: int = MAX_OFFSET) -> tuple[int, int]:
        """(end of the last valid record before ``stop``, messages read). Placeholders replace damaged records.

        A record costs a few integers and no other objects. If segments are missing at the end of the records, the
        result is the end of the last missing one, so that no position in the log is used twice.
        """
        records, mapped_files = 0, self._log.mapped_files
        while position < stop:
            file = mapped_files.find(position)
            if file is not None:
                position, count = self._read_segment(file, position, stop)
                records += count
                if position == file.base + file.size or position >= stop:
                    continue
            if position >= self._cut_from:
                return position, records
            end = self._repair.pass_over(position, self._log.last_store_timestamp)
            if end is None:
                break
            self._note_lost(position, is_new=True)
            position = end
        after = mapped_files.next_after(position) if mapped_files.find(position) is None else None
        return position if after is None else after.base, records

    def _read_segment(self, file: MappedFile, position: int, stop: int) -> tuple[int, int]:
        """(physical offset up to which a segment's records are valid or its end is reached, messages read)."""
        records, last, base, size = 0, -1, file.base, min(file.size, stop - file.base)
        newest = self._log.recovered_timestamp
        start = position - base
        with memoryview(file.buffer) as buffer:
            while length := measure(buffer, start, size, base + start):
                if not self._clean and has_lost_sector(buffer, start, length):
                    break
                if is_rolled_back(buffer, start):
                    self._note_lost(base + start, is_new=base + start >= self._dealt_with)
                else:
                    records += 1
                newest = max(newest, store_timestamp_at(buffer, start))
                last, start = start, start + length
        self._log.recovered_timestamp = newest
        if last >= 0:
            self._log.last_store_timestamp = store_timestamp_at(file.buffer, last)
        return base + (file.size if is_blank(file.buffer, start) else start), records

    def _note_lost(self, position: int, *, is_new: bool) -> None:
        self._first_lost = min(self._first_lost, position)
        if is_new:
            self._newly_lost = min(self._newly_lost, position)

    def _make_holes(self) -> None:
        """Report damage, and make holes of the queue units that point at it."""
        self._report_damage()
        if self._first_lost < MAX_OFFSET:
            uncovered = sorted(self._repair.uncovered.items())
            holes = self._queues.make_holes(self._first_lost, partial(self._is_lost, uncovered))
            if holes:
                self._report("damage", f"{holes} messages in queues were damaged; consumers pass over their offsets")
            if not self._clean:
                self._log.lost_from = min(self._log.lost_from, self._newly_lost)
        self._first_lost = self._newly_lost = MAX_OFFSET

    def _is_lost(self, uncovered: list[tuple[int, int]], position: int) -> bool:
        """Whether the log has no message at this physical offset. One whose segment is missing may come back."""
        at = bisect_right(uncovered, (position, MAX_OFFSET)) - 1
        if at >= 0 and position < uncovered[at][1]:
            return True
        file = self._log.mapped_files.find(position)
        if file is None:
            return False
        start = position - file.base
        size = measure(file.buffer, start, file.size, position, check_crc=False)
        return not size or is_rolled_back(file.buffer, start)

    def _report_damage(self) -> None:
        for sentence in self._repair.take_sentences():
            self._report("damage", sentence)

    def _cut_log(self, end: int) -> None:
        """End the log here. Non-zero bytes after the end are kept in other files, because recovery cannot read them.

        The newest segment comes first, so that a power cut leaves no gap.
        """
        mapped_files = self._log.mapped_files
        for file in reversed(mapped_files.all()):
            if file.base >= end and file.base > 0 and file is not mapped_files.first:
                mapped_files.take_out(file)
                if not self.postponed.run(partial(self._set_aside, file)):
                    self._report("tail", f"segment {file.path.name} lies beyond the end of the log; {WAITS}")
            elif file.base <= end < file.base + file.size:
                file.allocated = end - file.base
                if not self.postponed.run(partial(self._cut_segment, file, end - file.base)):
                    self._report("tail", f"the part after {end} has no valid records; {WAITS}")
        self._log.max_offset = end

    def _set_aside(self, file: MappedFile) -> None:
        """Remove a segment after the log's end: move it if it has content, delete it if it was only made ahead."""
        used = file.data_end(0) > 0
        path = self._repair.folder / f"{file.path.name}-{self._repair.wall_ms}"
        file.unmap()
        what = f"segment {file.path.name} lies beyond the end of the log"
        if self._read_only:
            if used:
                self._report("tail", f"{what}; it is not read")
            return
        if used:
            self._files.make_folders(path.parent)
            self._files.rename(file.path, path)
            self._report("tail", f"{what}; it was moved to {QUARANTINE}/{path.name}")
        else:
            self._files.remove(file.path)
        self._files.sync_folder(self._log.mapped_files.folder)

    def _cut_segment(self, file: MappedFile, start: int) -> None:
        tail_end = file.data_end(start)
        if tail_end == start:
            return
        kept = min(tail_end - start, COPY_MAX)
        end = file.base + start
        if self._read_only:
            self._report("tail", f"{tail_end - start} bytes after {end} are not valid records; they are not read")
            return
        self._repair.require_space(kept)
        # The tail may contain pages without disk space, and a mapped write to them kills the process.
        self._files.allocate(file.path, start, tail_end)
        name = self._repair.keep(end, bytes(file.buffer[start : start + kept]), TAIL)
        file.clear(start)
        file.flush(start, tail_end)
        lost = tail_end - start - kept
        self._report(
            "tail",
            f"{tail_end - start} bytes after {end} are not valid records; "
            f"they are kept in {QUARANTINE}/{name}" + (f", except for the last {lost}" if lost else ""),
        )

    # --- 7: dispatch ------------------------------------------------------------------------------------------------

    def _dispatch(self, start: int, end: int) -> None:
        """Dispatch from ``start`` on; if a queue lacks earlier units, from the log's beginning.

        If the disk is full, the rest is left to be dispatched later.
        """
        reput, units = self._reput, self._queues.unit_count
        reput.position, reput.holes_allowed = start, start <= self._log.min_offset
        reput.unreadable_ranges = self._repair.uncovered
        try:
            try:
                self._drain(end)
            except MissingUnits as missing:
                self._report("queues", f"{missing}; all queues are rebuilt from the beginning of the log")
                self._begin_again(start)
                self._drain(end)
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            if not reput.holes_allowed:  # a queue may lack earlier units; that cannot be found out without space
                self._begin_again(start)
            self._report("queues", f"messages from {reput.position} on wait until the disk has space for their queues")
        reput.holes_allowed = True
        added = self._queues.unit_count - units
        if added:
            self._report("queues", f"{added} queue units were missing and were rebuilt from the log")
        if reput.unreadable:
            self._report(
                "damage",
                f"{reput.unreadable} records have a damaged topic or queue offset; they stay in the log only",
            )

    def _begin_again(self, start: int) -> None:
        """Go back to the log's beginning; what is before ``start`` was not read yet."""
        begin = self._log.min_offset
        self._find_end(begin, start)
        self._make_holes()
        self._reput.position, self._reput.holes_allowed = begin, True

    def _drain(self, end: int) -> None:
        while self._reput.position < end:
            self._reput.reput(end, REPUT_BATCH)
