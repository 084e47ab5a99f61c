"""Making a store whole after it was stopped, cleanly or not.

    1  find the files; the queues' ends                              (MappedFileQueue, ConsumeQueue.recover)
    2  choose where to begin reading the log                         (start_position)
    3  read records until the first that is not one                  (find_end)
    4  keep a copy of what lies behind, then cut the log there       (cut_log)
    5  drop queue units and index entries of what was cut            (ConsumeQueueStore.truncate, IndexService.cut)
    6  dispatch what queues and index lack                           (ReputMessageService)

The log is the truth: queues and index can always be made from it. RocketMQ's CommitLog.recoverNormally and
recoverAbnormally do the same steps.
"""

from pathlib import Path

from broker_core.formats.checkpoint import Checkpoint
from broker_core.formats.commit_log_record import fields_at, is_blank, measure, store_timestamp_at
from broker_core.formats.safe_end import SafeEnd
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import Files
from broker_core.store.index_service import IndexService
from broker_core.store.mapped_file import MappedFile
from broker_core.store.reput_message import MissingUnits, ReputMessageService

FULL_SCAN_MAX = 4 << 30
"""A log up to this size is read whole when nothing says where reading may begin."""

TAIL_MAX = 64 << 20
"""Bytes of a broken tail that are copied away; what lies behind them is lost, and that is said."""

REPUT_BATCH = 10_000
SECTOR = 512
Step = tuple[str, str]


def has_lost_sector(data: memoryview, start: int, length: int) -> bool:
    """Whether a power cut took a part of a record's properties, which no checksum covers.

    Then one sector's share of them is zero: to the end of the record, or longer than any value made of zeros.
    """
    properties_start = fields_at(data, start)[2] + 2
    end = start + length
    text = bytes(data[properties_start:end])
    if b"\0" not in text:
        return False
    for sector in range(properties_start - properties_start % SECTOR, end, SECTOR):
        share = text[max(sector - properties_start, 0) : sector + SECTOR - properties_start]
        if not share.strip(b"\0") and (sector + SECTOR >= end or len(share) >= 16):
            return True
    return False


class Recovery:
    """One recovery. ``steps`` tells what was done, as (step, sentence)."""

    def __init__(
        self,
        files: Files,
        root: Path,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        reput: ReputMessageService,
        *,
        clean: bool,
        read_only: bool,
    ) -> None:
        self._files = files
        self._root = root
        self._log = log
        self._queues = queues
        self._index = index
        self._reput = reput
        self._clean = clean
        self._read_only = read_only
        self.steps: list[Step] = []
        self.start = 0
        """Physical offset from which the log was read: what lies behind may not be on the disk yet."""

    def _say(self, step: str, detail: str) -> None:
        self.steps.append((step, detail))

    def run(self, checkpoint: Checkpoint, safe_end: SafeEnd | None) -> None:
        """Everything. Afterwards log, queues and index agree, and everything in the log is dispatched."""
        self._load()
        if not self._log.mapped_files:
            self._begin_empty()
            return
        start, why = self._start_position(checkpoint, safe_end)
        self.start = start
        end, records = self._find_end(start)
        how = "after a clean shutdown" if self._clean else "after an unclean stop"
        self._say("log", f"{how} the log was read from {start} ({why}): {records} records, it ends at {end}")
        self._cut_log(end)
        dropped = self._queues.truncate(end)
        if dropped:
            self._say("queues", f"{dropped} queue units pointed behind the log's end and were dropped")
        if self._index is not None and not self._clean and not self._read_only:
            trusted = safe_end is not None and start == safe_end.dispatched_offset
            forgotten = self._index.cut(start, safe_end.index_count if safe_end is not None and trusted else None)
            if forgotten:
                self._say("index", f"{forgotten} index entries were not known to be whole and are made again")
        self._dispatch(start, end)

    def _load(self) -> None:
        """Files, queues and index as they lie on the disk."""
        for sentence in self._log.mapped_files.load():
            self._say("log", f"segment {sentence}")
        for sentence in self._queues.load(clean=self._clean):
            self._say("queues", sentence)
        for sentence in self._index.load() if self._index is not None else ():
            self._say("index", sentence)

    def _begin_empty(self) -> None:
        """A log without segments: new, or all of it expired; queues then have nothing to point at."""
        dropped = self._queues.truncate(0)
        if dropped:
            self._say("queues", f"the log has no segments; {dropped} queue units pointed nowhere and were dropped")

    # --- 2: where to begin ----------------------------------------------------------------------------------------

    def _start_position(self, checkpoint: Checkpoint, safe_end: SafeEnd | None) -> tuple[int, str]:
        files = self._log.mapped_files.all()
        low, high = files[0].base, files[-1].base + files[-1].size
        index_missing = self._index is not None and not self._index.index_files
        queues_missing = not self._queues.table
        if safe_end is not None and low <= safe_end.dispatched_offset <= high:
            complete = (
                self._queues.unit_count >= safe_end.unit_count and self._queues.queue_count >= safe_end.queue_count
            )
            if complete and not index_missing:
                return safe_end.dispatched_offset, "the safe end"
            if not complete:
                return low, "queues are missing"
        if queues_missing or index_missing or high - low <= FULL_SCAN_MAX:
            return low, "its beginning"
        return self._segment_start(files, checkpoint)

    def _segment_start(self, files: list[MappedFile], checkpoint: Checkpoint) -> tuple[int, str]:
        """RocketMQ's rule: the newest segment that begins with a record from before the checkpoint."""
        dispatched = max((queue.max_physical_offset for queue in self._queues.table.values()), default=0)
        for file in reversed(files):
            if not measure(file.buffer, 0, file.size, file.base):
                continue
            if self._clean and file.base <= dispatched:
                return file.base, "the newest segment that is dispatched"
            if not self._clean and store_timestamp_at(file.buffer, 0) <= checkpoint.recovery_timestamp:
                return file.base, "the newest segment older than the checkpoint"
        return files[0].base, "its beginning"

    # --- 3 and 4: the end of the log --------------------------------------------------------------------------------

    def _find_end(self, position: int) -> tuple[int, int]:
        """(where the last whole record ends, records read). Nothing is made per record but a few integers."""
        records, last = 0, -1
        segment_size = self._log.mapped_files.file_size
        while True:
            file = self._log.mapped_files.find(position)
            if file is None:
                break
            with memoryview(file.buffer) as buffer:
                base, size = file.base, file.size
                start = position - base
                while length := measure(buffer, start, size, base + start):
                    if not self._clean and has_lost_sector(buffer, start, length):
                        break
                    last, start = start, start + length
                    records += 1
            if last >= 0:
                self._log.last_store_timestamp = store_timestamp_at(file.buffer, last)
                last = -1
            if not is_blank(file.buffer, start):
                return base + start, records
            position = base + segment_size
        return position, records

    def _cut_log(self, end: int) -> None:
        """Let the log end here. What lies behind and is not zero is kept aside, since it is not understood."""
        mapped_files = self._log.mapped_files
        for file in mapped_files.all():
            if file.base >= end and file.base > 0 and file is not mapped_files.first:
                self._set_aside(file)
            elif file.base <= end < file.base + file.size:
                self._cut_segment(file, end - file.base)
        self._log.max_offset = end

    def _set_aside(self, file: MappedFile) -> None:
        """A whole segment behind the end: an empty one, made ahead, stays out of the way; another is moved."""
        used = file.data_end(0) > 0
        self._log.mapped_files.take_out(file)
        if used:
            self._say(
                "tail",
                f"segment {file.path.name} lies behind the log's end; "
                + ("it is not read" if self._read_only else f"it was moved to recovered-tail/{file.path.name}"),
            )
        if self._read_only:
            return
        if used:
            self._files.make_folders(self._root / "recovered-tail")
            self._files.rename(file.path, self._root / "recovered-tail" / file.path.name)
        else:
            self._files.remove(file.path)
        self._files.sync_folder(self._log.mapped_files.folder)

    def _cut_segment(self, file: MappedFile, start: int) -> None:
        file.allocated = start
        tail_end = file.data_end(start)
        if tail_end == start:
            return
        kept = min(tail_end - start, TAIL_MAX)
        end = file.base + start
        if self._read_only:
            self._say("tail", f"{tail_end - start} bytes behind {end} are no records; they are not read")
            return
        folder = self._root / "recovered-tail"
        self._files.make_folders(folder)
        self._files.write(folder / f"{end:020d}.tail", bytes(file.buffer[start : start + kept]))
        self._files.sync_folder(folder)
        file.clear(start)
        file.flush(start, tail_end)
        lost = tail_end - start - kept
        self._say(
            "tail",
            f"{tail_end - start} bytes behind {end} are no records; "
            f"kept in recovered-tail/{end:020d}.tail" + (f", all but the last {lost}" if lost else ""),
        )

    # --- 6: dispatch ------------------------------------------------------------------------------------------------

    def _dispatch(self, start: int, end: int) -> None:
        """From ``start`` on; from the log's beginning when a queue turns out to lack units from before."""
        reput, begin = self._reput, self._log.min_offset
        reput.position = start
        reput.holes_allowed = start <= begin
        units = self._queues.unit_count
        try:
            self._drain(end)
        except MissingUnits as missing:
            self._say("queues", f"{missing}; all queues are made again from the log's beginning")
            reput.position, reput.holes_allowed = begin, True
            self._drain(end)
        reput.holes_allowed = True
        added = self._queues.unit_count - units
        if added:
            self._say("queues", f"{added} queue units were missing and made from the log")
        if reput.unreadable:
            self._say("log", f"{reput.unreadable} records name a topic that no queue can have; they stay in the log")

    def _drain(self, end: int) -> None:
        while self._reput.position < end:
            self._reput.reput(end, REPUT_BATCH)
