"""The front door of the store: append, dispatch, read, flush, clean.

Everything here is called in the engine's turn, except the ``run`` methods of Flush, Clean and TableWrite, which are
called in other threads. Their docstrings explain why that is safe.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import StoreError, StoreReadOnlyError, UnavailableError
from broker_core.options import Options
from broker_core.store.clean_commit_log import WARNING_PERCENT, Clean, CleanCommitLogService
from broker_core.store.commit_log import NOTHING_LOST, Arrival, Batch, CommitLog, PendingMessage
from broker_core.store.commit_log_dispatcher_calc_bit_map import CommitLogDispatcherCalcBitMap
from broker_core.store.config_tables import TableWrite
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.delay_level import DelayLevels
from broker_core.store.files import DISK_FULL, CopyingFiles, Files, Lock, ReadOnlyFiles
from broker_core.store.flush import Flush, FlushSchedule, Ranges, make_marks
from broker_core.store.get_message import GetMessageResult, MessageReader
from broker_core.store.index.index_service import IndexService
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.query_message import MessageQuery
from broker_core.store.recovery import Recovery
from broker_core.store.reput_message import ReputMessageService
from broker_core.store.schedule_message_service import ScheduleMessageService
from broker_core.store.store_checkpoint import StoreCheckpoint
from broker_core.store.store_folder import StoreFolder
from broker_core.store.timer.timer_message_store import TimerMessageStore
from broker_core.store.timer.timer_recovery import TimerRecovery
from broker_core.store.transactional_message_service import TransactionalMessageService

__all__ = ["Arrival", "Batch", "Clean", "Flush", "GetMessageResult", "MessageStore", "PendingMessage", "TableWrite"]

LOOK_FOR_ROOM_NS = 1_000_000_000
STEP_PAUSE_NS = 10_000_000
"""Between two steps of what recovery postponed, so that requests are answered as fast as before and after."""
DISK_FULL_REMEDY = ". Free some space and start the broker again; no message was removed"
READ_ONLY_PROBLEM = (
    "the store was written by another broker and is opened for reading only; set GLASSMQ_STORE_ADOPT=1 to take it over"
)


class MessageStore:
    """RocketMQ's DefaultMessageStore. Create one with ``open``."""

    follows = False

    def __init__(
        self, root: Path, options: Options, files: Files, now: Now, lock: Lock | None, *, read_only: bool
    ) -> None:
        self.root = root
        self.read_only = read_only
        self.recovery_steps: list[tuple[str, str]] = []
        self.damaged = (0, 0)  # Recovery.damaged when the store was opened
        self.flushed_offset = 0
        """Physical offset up to which the log is on the disk."""
        self._options = options
        self.files = files
        self._lock = lock
        self._failure = self._no_room = ""  # a failed disk, no space for the next message: why, in sentences
        self._look_for_room_ns = 0
        self._refused_size = 1  # about how many bytes of the log the last refused messages needed
        self._dispatch_failed = False
        self.unfinished_recovery: Recovery | None = None  # if parts of it wait for disk space
        self._marked_offset = self._marking_offset = 0
        maps = self._maps = OpenMaps(files.map_limit, keep_changed=read_only)
        delay_levels = DelayLevels(options.message_delay_level)
        self._log = CommitLog(
            files,
            maps,
            root / "commitlog",
            options.mapped_file_size_commit_log,
            options.broker_ip1,
            options.listen_port,
            delay_levels,
        )
        self.commit_log = self._log
        self._queues = ConsumeQueueStore(
            files, maps, root, options.mapped_file_size_consume_queue, options.mapped_file_size_consume_queue_ext
        )
        self.batch_topics = self._queues.batch_topics
        self.removed_folders = self._queues.removed_folders
        self.removed_folders.wait = lambda: self._marked_offset < 0 and not self.problem
        self._index = (
            IndexService(files, maps, root / "index", options.max_hash_slot_num, options.max_index_num)
            if options.message_index_enable
            else None
        )
        self.calc_bit_map = CommitLogDispatcherCalcBitMap(self._log, self._queues, options)
        self._reput = ReputMessageService(self._log, self._queues, self._index, delay_levels, self.calc_bit_map)
        self.delayed = ScheduleMessageService(files, root, self._log, self._queues, delay_levels)
        self.transactions = TransactionalMessageService(self._log, self._queues)
        self.timers = TimerMessageStore(files, maps, root, self._log, self._queues, lambda: self._options)
        self.load_timers = TimerRecovery(self.timers, files, root, self._log, self._queues).run
        self.reader = MessageReader(self._log, self._queues, options, files.total_memory())
        self.is_in_memory = self.reader.is_in_memory
        self.get_message = self.reader.get_message
        self.look_message_by_offset = self._log.record
        self.recent_properties = self.reader.recent_properties
        self.get_arrived = self.reader.get_arrived
        self.query = MessageQuery(self._log, self._queues, self._index, self.build_index)
        self.offset_by_time = self.query.offset_by_time
        self.store_time = self.query.store_time
        self.message_count = self.query.message_count
        self.table_write = partial(TableWrite, files, root / "config")
        self._store_checkpoint = StoreCheckpoint(files, root)
        self._schedule = FlushSchedule(lambda: self._options, now)
        self.clean = CleanCommitLogService(
            files, root, self._log, self._queues, self._index, self.timers.timer_log, lambda: self._options, now
        )

    # --- opening and closing ------------------------------------------------------------------------------------

    @classmethod
    def open(
        cls, root: Path, options: Options, files: CopyingFiles, now: Now, *, adopt: bool = False
    ) -> "MessageStore":
        """Open the store in ``root``, or create one, and recover it.

        A folder with a commit log but without the file ``glassmq`` belongs to another broker. Unless ``adopt`` is
        given, it is opened for reading only and nothing on the disk changes.

        Raises StoreLockedError when another broker is using the store, StoreError when it cannot be opened.
        """
        try:
            return cls._open(root, options, files, now, adopt)
        except (OSError, ValueError) as error:
            remedy = DISK_FULL_REMEDY if isinstance(error, OSError) and error.errno in DISK_FULL else ""
            raise StoreError(f"the store in {root} cannot be opened: {error}{remedy}") from error

    @classmethod
    def _open(cls, root: Path, options: Options, files: CopyingFiles, now: Now, adopt: bool) -> "MessageStore":
        folder = StoreFolder.open(root, files, adopt=adopt)
        try:
            store = cls(
                root,
                options,
                ReadOnlyFiles(files) if folder.read_only else files,
                now,
                folder.lock,
                read_only=folder.read_only,
            )
            folder.mark_new()
            store._recover(now, foreign=folder.foreign)
            folder.mark_adopted()
        except BaseException:
            if folder.lock is not None:
                folder.lock.release()
            raise
        return store

    def _recover(self, now: Now, *, foreign: bool) -> None:
        clean = not self.files.exists(self.root / "abort")
        recovery = Recovery(
            self.files,
            self.root,
            self._log,
            self._queues,
            self._index,
            self._reput,
            wall_ms=now.wall_ms,
            clean=clean,
            foreign=foreign,
            read_only=self.read_only,
            follows=self.follows,
        )
        recovery.run(*self._store_checkpoint.read())
        self.build_index()
        self.recovery_steps = recovery.steps
        self.damaged = recovery.damaged()
        self.flushed_offset = min(recovery.start, self._log.max_offset)
        if self.read_only:
            self.flushed_offset = self._log.max_offset
            self.recovery_steps += self.delayed.load(now, deliver=False)
            return
        if not clean:
            # A killed process may have created files; the next power cut would lose their names unless they are synced.
            used = {self.root / name for name in ("commitlog", "index") if self.files.names(self.root / name)}
            self._maps.new_folders |= used | {queue.mapped_files.folder for queue in self._queues.table.values()}
            self._reput.touched.update(self._queues.table.values())
        recovery.postponed.run(self._mark_as_running)
        if recovery.postponed or self._reput.position < self._log.max_offset:
            self.unfinished_recovery = recovery
        self._reserve_room(now)  # and create the files that the first message would wait some milliseconds for
        if self._no_room:
            self.recovery_steps.append(("prepare", self._no_room))
        # Marks after lost records mean that their pops were dealt with. The engine writes these once it has done so.
        self.flush_everything(now, with_marks=self.follows or self._log.lost_from == NOTHING_LOST)
        self.recovery_steps += self.delayed.load(now, deliver=not self.follows)

    def _mark_as_running(self) -> None:
        self.files.write(self.root / "abort", b"")
        self.files.sync_folder(self.root)

    @property
    def next_step_ns(self) -> int | None:
        """When ``look_for_room`` does the next step of what recovery postponed, monotonic ns; None without any."""
        return self._look_for_room_ns if self.unfinished_recovery is not None and not self._failure else None

    def _has_more_recovery(self, now: Now) -> bool:
        """Do one step of what recovery postponed; returns whether more follow. OSError while the disk is full."""
        recovery = self.unfinished_recovery
        if recovery is None:
            return False
        if recovery.finish_step():
            self._no_room = "recovery is being finished; try again soon"
            self._look_for_room_ns = now.mono_ns + STEP_PAUSE_NS
            return True
        self.damaged, self.unfinished_recovery = recovery.damaged(), None
        return False

    def _reserve_room(self, now: Now) -> None:
        """Reserve disk space for the next message, or note why that is not possible."""
        try:
            if self._has_more_recovery(now):
                return
            if not self.follows:  # a copy begins where its first bytes belong
                self._log.prepare(self._refused_size)
            if self._index is not None:
                self._index.reserve(now.wall_ms)
        except OSError as error:
            self._note_no_room(error, now)
        else:
            self._no_room, self._refused_size = "", 1

    def _note_no_room(self, error: OSError, now: Now) -> None:
        """Note that the disk refused space, and make retention look at it at once."""
        unfinished = " (recovery waits for space too)" if self.unfinished_recovery is not None else ""
        self._no_room = f"the disk accepts no more messages: {error.strerror or error}{unfinished}"
        self._look_for_room_ns = now.mono_ns + LOOK_FOR_ROOM_NS
        self.clean.look_now(now)

    @property
    def recovery(self) -> list[str]:
        """What recovery did when the store was opened, in sentences."""
        return [sentence for _, sentence in self.recovery_steps]

    def close(self, now: Now) -> None:
        """Dispatch and flush everything, mark the shutdown as clean, release the lock."""
        try:
            if not self.read_only and not self._failure:
                self.timers.close()
                for _ in range(2):
                    self.reput(1 << 62)
                    self.flush_everything(now)
                self.delayed.write(self.flushed_offset, now)
                if self.unfinished_recovery is None:
                    self.files.remove(self.root / "abort")
                    self.files.sync_folder(self.root)
        finally:
            self._failure = self._failure or "the store is closed"
            if self._lock is not None:
                self._lock.release()

    def change_options(self, options: Options) -> None:
        """Apply the options that may change while the broker runs."""
        self._options = options
        self.reader.change_options(options)

    @property
    def problem(self) -> str:
        """Why the store accepts no messages, in a sentence; empty when it accepts them."""
        if self.read_only:
            return READ_ONLY_PROBLEM
        if self._failure:
            return self._failure
        if self.clean.disk_used_percent >= WARNING_PERCENT:
            return (
                f"the disk is {self.clean.disk_used_percent:.0f} % full; "
                f"messages are accepted again below {WARNING_PERCENT} %"
            )
        return self._no_room

    # --- positions: physical offsets ------------------------------------------------------------------------------

    @property
    def appended_offset(self) -> int:
        return self._log.max_offset

    @property
    def dispatched_offset(self) -> int:
        return self._reput.position

    @property
    def confirmed_offset(self) -> int:
        """Consumers may see messages up to here: everything stored, or under SYNC_FLUSH everything on the disk."""
        if self._dispatch_failed:
            return self._reput.position
        return self.flushed_offset if self._options.flush_disk_type == "SYNC_FLUSH" else self._log.max_offset

    @property
    def min_physical_offset(self) -> int:
        return self._log.min_offset

    # --- writing --------------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[PendingMessage], now: Now) -> Batch:
        """Store messages in this order, as one block. An error means that none of them was stored.

        Raises StoreReadOnlyError; UnavailableError (SERVICE_NOT_AVAILABLE) when the disk is full or has failed;
        RequestError for a message that a record cannot hold.
        """
        if self.read_only:
            raise StoreReadOnlyError(READ_ONLY_PROBLEM)
        if self._failure or self.unfinished_recovery is not None or self.clean.disk_used_percent >= WARNING_PERCENT:
            raise UnavailableError(self.problem, code=ResponseCode.SERVICE_NOT_AVAILABLE)
        self._dispatch_failed = False
        try:
            if self._index is not None and not self._index.has_room:
                self._index.reserve(now.wall_ms)
            batch = self._log.append(messages, now.wall_ms, self._queues.find)
        except OSError as error:
            self._refused_size = sum(len(message.body) + len(message.properties) + 500 for message in messages)
            self._note_no_room(error, now)
            raise UnavailableError(self._no_room, code=ResponseCode.SERVICE_NOT_AVAILABLE) from error
        self._no_room = ""
        self._reput.appended(batch)
        return batch

    def reput(self, limit: int = 10_000) -> list[Arrival]:
        """Dispatch about ``limit`` confirmed messages, so that consumers can read them; one Arrival per queue.

        Disk space for queue units is reserved before a message is accepted. If the disk is full nevertheless (a new
        index file), dispatching is tried again with the next append and with every look for expired files.
        """
        try:
            return self._reput.reput(self.confirmed_offset, limit)
        except OSError as error:
            self._note_dispatch_failure(error, "a queue")
            return self._reput.take_arrivals()

    @property
    def index_is_behind(self) -> bool:
        """Whether messages are dispatched that ``build_index`` has yet to index."""
        return self._reput.index_is_behind and not self._dispatch_failed

    def build_index(self) -> None:
        """Index what was dispatched since the last call. Queries call this first."""
        try:
            self._reput.build_index()
        except OSError as error:
            self._note_dispatch_failure(error, "the index")

    def _note_dispatch_failure(self, error: OSError, what: str) -> None:
        self._dispatch_failed = True
        if error.errno not in DISK_FULL:
            self._failure = f"{what} cannot be written ({error}); mend the disk, then restart the broker"

    def delete_topic(self, topic: str) -> None:
        """Remove the topic's queues. Its messages stay in the log until retention deletes them."""
        if self.read_only:
            raise StoreReadOnlyError(READ_ONLY_PROBLEM)
        self._queues.delete_topic(topic)
        self._reput.touched = {queue for queue in self._reput.touched if not queue.deleted}
        self._marked_offset = self._marking_offset = -1  # the marks of a flush under way still count these queues
        self._schedule.hurry_queues()

    # --- reading --------------------------------------------------------------------------------------------------

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First offset of a queue that can still be read."""
        queue = self._queues.table.get((topic, queue_id))
        return queue.min_offset(self._log.min_offset) if queue else 0

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Offset after the last message of a queue that consumers may see."""
        queue = self._queues.table.get((topic, queue_id))
        return queue.max_offset if queue else 0

    def queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of every queue that has or had a message."""
        return [key for key, queue in self._queues.table.items() if queue.max_offset]

    # --- flush ----------------------------------------------------------------------------------------------------

    @property
    def _queues_dirty(self) -> bool:
        return (
            bool(self._reput.touched)
            or self._marked_offset != self.flushed_offset
            or (self._index is not None and self._index.dirty)
            or self.timers.dirty
        )

    def next_flush(self, now: Now) -> Flush | None:
        """The flush that is due by flushDiskType's rules; None if none is, or while one is under way.

        Queues are flushed every flushIntervalConsumeQueue, even if little is new in them, and the log with them. So
        recovery from an unclean stop has little to read.
        """
        due = self.next_deadline_ns(now)
        if due is None or due > now.mono_ns:
            return None
        queues_due = self._schedule.queues_due_ns(self._queues_dirty)
        return self._make_flush(now, queues_due=queues_due is not None and queues_due <= now.mono_ns)

    def next_deadline_ns(self, now: Now) -> int | None:
        """Monotonic ns at which the next flush is due; None when nothing is dirty."""
        if self.read_only or self._failure or self._schedule.under_way:
            return None
        log_due = self._schedule.log_due_ns(self._log.max_offset - self.flushed_offset)
        queues_due = self._schedule.queues_due_ns(self._queues_dirty)
        return min((due for due in (log_due, queues_due) if due is not None), default=None)

    def _make_flush(self, now: Now, *, queues_due: bool) -> Flush:
        """Freeze what is dirty. The log is always included: a queue unit must not reach the disk before its record."""
        queues = queues_due and self.unfinished_recovery is None  # the next start recovers from the same position
        if queues:
            self.build_index()
            queues = not self._reput.index_is_behind  # messages that the marks count as dispatched must be indexed
        end = self._log.max_offset
        log = self._log.mapped_files.ranges(self.flushed_offset, end)
        folders, marks = self._maps.new_folders & {self._log.mapped_files.folder}, None
        queue_ranges, index_ranges = [], []
        timer_ranges: Ranges = []
        if queues:
            touched, self._reput.touched = self._reput.touched, set()
            queue_ranges = self._queues.take_dirty(touched)
            index_ranges = self._index.take_dirty() if self._index is not None else []
            timer_ranges, timer_checkpoint = self.timers.take_dirty(now)
            folders = set(self._maps.new_folders)
            folders |= {folder.parent for folder in folders}
            self._marking_offset = end
            index_count = self._index.last_count if self._index is not None else 0
            marks = make_marks(
                self._log, self._queues, self._reput, index_count, self.timers.delivered_ms, timer_checkpoint
            )
        self._maps.new_folders -= folders
        self._schedule.begun(now, log=bool(log), queues=queues_due)
        return Flush(
            self.files,
            log=log,
            queues=queue_ranges,
            index=index_ranges,
            timers=timer_ranges,
            folders=folders,
            store_checkpoint=self._store_checkpoint,
            marks=marks,
            flushed_offset=end,
        )

    def flushed(self, flush: Flush, now: Now) -> None:
        """Move the positions after ``flush.run()`` has returned."""
        self._schedule.under_way = False
        self.flushed_offset = flush.flushed_offset
        if flush.with_queues:
            self._marked_offset = self._marking_offset
            self._queues.remove_replaced()
            if self._index is not None:
                self._index.note_indexed()

    def flush_failed(self, error: BaseException) -> None:
        """Accept no more messages after ``flush.run()`` has failed.

        It is unknown what reached the disk. A second flush that succeeds would prove nothing, because the kernel may
        have dropped the pages.
        """
        reason = getattr(error, "strerror", None) or error
        self._failure = f"a flush failed ({reason}); mend the disk, then restart the broker"

    def flush_everything(self, now: Now, *, with_marks: bool = True) -> None:
        """Flush all that is dirty, while no flush is under way. OSError when the disk refuses, or did so before."""
        if self._failure:
            raise OSError(self._failure)
        flush = self._make_flush(now, queues_due=with_marks)
        try:
            flush.run()
        except OSError as error:
            self.flush_failed(error)
            raise
        self.flushed(flush, now)

    # --- retention and tables -------------------------------------------------------------------------------------

    def next_clean(self, now: Now) -> Clean | None:
        """The expired files to remove now, or None."""
        if self.read_only or self._failure:
            return None
        self._dispatch_failed = False
        clean = self.clean.next_clean(now)
        if clean is None:
            self.look_for_room(now)
        return clean

    def look_for_room(self, now: Now) -> None:
        """If the disk refused space a second ago, or recovery has postponed steps, try the next thing again."""
        if self._no_room and not self._failure and now.mono_ns >= self._look_for_room_ns:
            self._reserve_room(now)

    def cleaned(self, clean: Clean, now: Now) -> list[tuple[int, str]]:
        """After ``clean.run()`` has returned: (physical offset, reason) of each removed segment."""
        return self.clean.cleaned(clean)
