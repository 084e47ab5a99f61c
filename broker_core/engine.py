"""The engine: one synchronous machine that makes every decision of a broker.

    out  = engine.handle_batch(batch, now)   a batch of commands: store, answer or hold each
    out  = engine.tick(now)                  deadlines that have passed, the periodic check, the rest of long work
    when = engine.next_deadline()            when to call tick
    out  = engine.flushed(flush, ...)        after a flush: acknowledgements, and dispatch that waited for it
    snap = engine.snapshot(now)              a frozen view with the number of its last event

It has no sockets, threads, timers or sleep. Time comes in as ``now``; the engine's clock only measures how long a
step took. All calls must be made from one thread.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from broker_core import commands
from broker_core.clock import Clock, Now
from broker_core.commands import Command, QueueView, Reply, Snapshot
from broker_core.consumers.consumer_filter_manager import ConsumerFilterManager
from broker_core.consumers.consumer_offset import ConsumerOffsetManager
from broker_core.consumers.consumer_order_info_manager import ConsumerOrderInfoManager
from broker_core.consumers.message_request_mode_manager import MessageRequestModeManager
from broker_core.consumers.subscription_group_manager import SubscriptionGroupManager
from broker_core.counters import Counters
from broker_core.errors import StoreCorruptError
from broker_core.event_log import EventLog
from broker_core.events import FlushDone, RecoveryStep, SegmentDeleted
from broker_core.filters.sql92.sql_filter import SQL92
from broker_core.gathered_commands import GatheredCommands
from broker_core.longpolling.pull_request import PopRequest
from broker_core.options import Options
from broker_core.processor_table import FOLLOWER_PROCESSORS, GATHERED, PROCESSORS, WAITS_FOR_DISK, WALKS
from broker_core.processors import client_manage, lock_batch_mq, observe, pull_message, reset_offset
from broker_core.processors.consumer_ids_changed import notify_again, notify_consumer_ids_changed
from broker_core.processors.context import INDEX_MAY_WAIT_NS, Context, FindQueues, Request, Waking
from broker_core.processors.group_commit import DeletionCommit, GroupCommit
from broker_core.processors.message_stored import dispatch
from broker_core.processors.outcome import failed, refuse
from broker_core.processors.pop import pop_long_polling, pop_revive
from broker_core.processors.pop.check_point_log import load_check_points
from broker_core.processors.producers import check_transaction
from broker_core.processors.producers.half_message import load_transactions
from broker_core.processors.schedule_message import deliver_due
from broker_core.processors.table_writes import OFFSETS_A_TURN, TableWrites
from broker_core.processors.timer import timer_delivery
from broker_core.store.clean_commit_log import Clean
from broker_core.store.commit_log import NOTHING_LOST
from broker_core.store.config_tables import TableWrite, load_as, load_table
from broker_core.store.files import CopyingFiles
from broker_core.store.flush import Flush
from broker_core.store.message_store import MessageStore
from broker_core.store.removed_folders import Removal
from broker_core.store.slave.follower_store import FollowerStore
from broker_core.topics import TopicConfigManager
from broker_core.walk import Steps

log = logging.getLogger(__name__)

WORK_A_TURN = 200
"""Pulls run again, holds expired, or holds checked in one turn. The rest waits for the next turn: turns stay short."""

BYTES_A_TURN = 16 * 1024 * 1024
"""Bytes of messages read for wake-ups in one turn, because all answers of a turn are in memory at once. The wake-up
that reaches this limit is the last of its turn."""

UNSETTLED = 1024
"""If more values than this wait to be counted, a turn is taken only to count them."""


class Out(msgspec.Struct, frozen=True, gc=False):
    """The effects of one turn that leave the engine at once: replies, by connection and request."""

    replies: list[tuple[Hashable, int, Reply]]


FileWork = TableWrite | Clean | Removal


class Engine:
    """RocketMQ's BrokerController, reduced to its decisions."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stats = context.stats
        self.commit_log = context.store.commit_log  # for reading only, between two turns
        self._commit = GroupCommit(context)
        self._deletions = DeletionCommit(context)
        self._gathered = GatheredCommands(context, self._commit)
        self._table_writes = TableWrites(context, self._deletions)
        self._processors = FOLLOWER_PROCESSORS if context.store.follows else PROCESSORS
        self._gathers = GATHERED - self._processors.keys()
        self._steps_reported = 0
        self._last_check_ns = context.started.mono_ns

    @classmethod
    def open(
        cls,
        root: Path,
        options: Options,
        files: CopyingFiles,
        clock: Clock,
        unique_key: Callable[[int], str],
        *,
        adopt: bool = False,
        follows: bool = False,
    ) -> "Engine":
        """Open or create the store in ``root``, recover it, and return its engine. Raises StoreError and subclasses."""
        now = clock.now()
        store = (FollowerStore if follows else MessageStore).open(root, options, files, now, adopt=adopt)
        tables = (store.files, root / "config")
        try:
            topics = load_as(*tables, "topics", lambda table: TopicConfigManager(options, table, now))
            offsets = load_as(*tables, "consumerOffset", ConsumerOffsetManager)
            groups = load_as(*tables, "subscriptionGroup", lambda table: SubscriptionGroupManager(options, table, now))
            modes = load_as(*tables, "messageRequestMode", MessageRequestModeManager)
            orders = load_as(*tables, "consumerOrderInfo", lambda table: ConsumerOrderInfoManager(table, now))
            filters = load_as(*tables, "consumerFilter", lambda table: ConsumerFilterManager(options, table, now))
        except StoreCorruptError:
            store.close(now)
            raise
        store.batch_topics.update(topics.batch_topics)
        topics.batch_topics = store.batch_topics
        unknown = topics.adopt_unknown(store.queues(), now)
        store.recovery_steps += [("topic", f"{topic} has queues but was not in topics.json") for topic in unknown]
        unsupported = topics.unsupported(load_table(*tables, "topicQueueMapping"))
        store.recovery_steps += [("unsupported", sentence) for sentence in unsupported]
        context = Context(
            options=options,
            store=store,
            topics=topics,
            clock=clock,
            unique_key=unique_key,
            offsets=offsets,
            subscription_groups=groups,
            request_modes=modes,
            order_infos=orders,
            filters=filters,
        )
        if store.calc_bit_map.is_enabled and not (store.read_only or store.follows):
            filters.set_filters = store.calc_bit_map.set_filters
        engine = cls(context)
        engine._report_recovery(now)
        has_decided = store.appended_offset > store.flushed_offset or store.commit_log.lost_from < NOTHING_LOST
        if has_decided and not (store.read_only or store.follows):
            with suppress(OSError):  # what the start decided about pops; if the disk refuses, ``problem`` says so
                store.flush_everything(now)
        return engine

    def _report_recovery(self, now: Now) -> None:
        """Report the steps of the store's recovery since the last call; load the transactions after its last step."""
        steps = self._context.store.recovery_steps
        steps += load_transactions(self._context) + load_check_points(self._context, now)
        steps += timer_delivery.load_timers(self._context, now)
        for step, detail in steps[self._steps_reported :]:
            self._context.events.emit(RecoveryStep, now, step, detail)
            if step in ("damage", "tail", "unsupported"):
                log.warning("Recovery of the store: %s.", detail)
        self._steps_reported = len(steps)

    # --- in ---------------------------------------------------------------------------------------------------

    def handle_batch(self, batch: Sequence[tuple[Hashable, int, Command]], now: Now) -> Out:
        """Handle the commands of a batch in order. Consecutive ones that store messages are one block for each kind."""
        if now.mono_ns >= self._stats.next_sample_ns:
            self._stats.sample(self._context.totals(), now)
        if not self._context.store.index_is_behind:
            self._context.index_due_ns = now.mono_ns + INDEX_MAY_WAIT_NS
        self._gathered.begin_turn()
        for connection, request_id, command in batch:
            request = Request(connection, request_id, command)
            if type(command) in self._gathers:
                self._gathered.add(request, now)
                continue
            if not self._gathered.is_empty:
                self._gathered.store(now)
            self._process(request, now)
        if not self._gathered.is_empty:
            self._gathered.store(now)
        return self._end_turn(now)

    def _process(self, request: Request, now: Now) -> None:
        try:
            reply = self._processors[type(request.command)](self._context, request, now)
        except Exception as error:
            refuse(self._context, request, error, now)
        else:
            if type(request.command) in WAITS_FOR_DISK and reply is not None:
                self._commit.acknowledge(request, reply, WAITS_FOR_DISK[type(request.command)](request.command), now)
            elif reply is not None:
                self._context.reply(request.connection, request.request_id, reply)

    def walk(self, command: Command, now: Now) -> Steps[Reply]:
        """Answer a question about whole tables in pieces. Handle other commands between them."""
        try:
            return (yield from WALKS[type(command)](self._context, Request(None, 0, command), now))
        except Exception as error:
            return failed(error)

    # --- time -------------------------------------------------------------------------------------------------

    def tick(self, now: Now) -> Out:
        """Do everything that is due."""
        context = self._context
        if now.mono_ns >= self._stats.next_sample_ns:
            self._stats.sample(context.totals(), now)
        for held in context.holds.take_due(now.mono_ns, WORK_A_TURN):
            context.waking.append(Waking(held, "short_poll" if held.short else "timeout", 0))
        check_due_ns = self._next_check_ns()
        if check_due_ns is not None and now.mono_ns >= check_due_ns:
            context.holds.start_check()
            self._last_check_ns = now.mono_ns
        if context.holds.checking:
            for held in context.holds.check(context.store.max_offset, WORK_A_TURN):
                checked_to = context.store.max_offset(held.many.topic, held.many.queue_id)
                context.waking.append(Waking(held, "check", checked_to=checked_to))
        if context.store.dispatched_offset < context.store.confirmed_offset:
            dispatch(context, now)
        delayed_due_ns = self._delayed_due_ns()
        if delayed_due_ns is not None and now.mono_ns >= delayed_due_ns:
            deliver_due(context, now)
        reset_offset.continue_resets(context, now)
        self._gathered.continue_look_ups(now)
        check_transaction.tick(context, now)
        pop_revive.tick(context, now)
        timer_delivery.tick(context, now)
        self._commit.tick(now)
        self._deletions.tick(now)
        context.offsets.work(OFFSETS_A_TURN)
        context.pulls.work()
        context.store.look_for_room(now)
        if not context.store.transactions.loaded:
            self._report_recovery(now)
        client_manage.expire_clients(context, now, WORK_A_TURN)
        lock_batch_mq.expire_locks(context, now, WORK_A_TURN)
        notify_again(context, now, WORK_A_TURN)
        context.store.build_index()
        context.stats.settle()
        context.counters.settle()
        return self._end_turn(now)

    def _next_check_ns(self) -> int | None:
        """When the periodic check is due by the current options, monotonic ns; None if it is switched off."""
        options = self._context.options
        interval_ms = (
            options.hold_check_interval_mills if options.long_polling_enable else options.short_polling_time_mills
        )
        return self._last_check_ns + interval_ms * 1_000_000 if interval_ms else None

    def _delayed_due_ns(self) -> int | None:
        """When to look for due delayed messages, monotonic ns. While the broker stops, they wait for its next start."""
        return None if self._context.draining else self._context.store.delayed.next_deadline_ns

    def next_deadline(self) -> int | None:
        """Monotonic ns at which to call ``tick``: 0 means at once, None that nothing is due."""
        context = self._context
        store = context.store
        if (
            context.has_work
            or self._gathered.is_looking_up
            or (store.index_is_behind and not context.ha_service.waiting)
            or store.dispatched_offset < store.confirmed_offset
            or context.stats.unsettled + context.counters.unsettled > UNSETTLED
        ):
            return 0
        due = [
            when
            for when in (
                context.holds.next_deadline_ns(),
                context.index_due_ns if store.index_is_behind else None,
                self._commit.next_deadline_ns(),
                self._deletions.next_deadline_ns(),
                self._delayed_due_ns(),
                None if context.draining else store.timers.next_deadline_ns,
                None if context.draining else store.transactions.next_due_ns(store.flushed_offset),
                store.next_step_ns,
                None if context.draining else context.check_points.next_due_ns(),
                None if context.draining else context.order_infos.next_due_ns(),
                context.consumers.memberships.next_due_ns(),
                context.producers.next_due_ns(),
                context.locks.next_due_ns(),
                context.second_notices.next_due_ns(),
                self._next_check_ns() if len(context.holds) else None,
            )
            if when is not None
        ]
        return min(due) if due else None

    def _end_turn(self, now: Now) -> Out:
        """Release holds and answer woken pulls, both within limits; publish the turn's events; return its replies."""
        context = self._context
        if context.holds.leaving:
            client_manage.release_leaving(context, now, WORK_A_TURN)
        waking, left, size = context.waking, WORK_A_TURN, 0
        while waking and left and size < BYTES_A_TURN:
            woken = waking.popleft()
            pops = type(woken.request) is PopRequest
            size += (pop_long_polling if pops else pull_message).run_again(context, woken, now)
            left -= 1
        if context.changed_groups:
            notify_consumer_ids_changed(context, now)
        if context.ha_service.take_news():
            self._commit.acknowledge_safe()
        replies, context.replies = context.replies, []
        context.events.publish()
        return Out(replies)

    # --- the disk ---------------------------------------------------------------------------------------------

    def next_flush_deadline(self, now: Now) -> int | None:
        """Monotonic ns at which the next flush is due; None when nothing waits for the disk."""
        return self._context.store.next_deadline_ns(now)

    def next_flush(self, now: Now) -> Flush | None:
        """The flush that is due by flushDiskType's rules; None if none is, or while one is under way."""
        flush = self._context.store.next_flush(now)
        if flush is not None and flush.with_queues:
            self._deletions.begin(DeletionCommit.MARKS)
        return flush

    def flushed(self, flush: Flush, took_us: int, now: Now) -> Out:
        """After ``flush.run()`` has returned: acknowledge, and under SYNC_FLUSH dispatch, the messages on the disk."""
        context = self._context
        previous_offset = context.store.flushed_offset
        context.store.flushed(flush, now)
        flushed_offset = context.store.flushed_offset
        if flushed_offset > previous_offset:
            context.events.emit(FlushDone, now, flushed_offset, flushed_offset - previous_offset, took_us)
        if context.store.dispatched_offset < context.store.confirmed_offset:
            dispatch(context, now)
        self._commit.acknowledge_safe()
        self._deletions.done(DeletionCommit.MARKS)
        return self._end_turn(now)

    def flush_failed(self, error: BaseException, now: Now) -> Out:
        """After ``flush.run()`` has failed: no sender is acknowledged, and the store accepts no more messages."""
        self._context.store.flush_failed(error)
        self._commit.give_up(now)
        self._deletions.give_up()
        return self._end_turn(now)

    @property
    def has_urgent_file_work(self) -> bool:
        """Whether an answer waits for a table to be written."""
        context = self._context
        return bool(context.deletions) and (context.topics.dirty or context.offsets.urgent)

    def next_file_work(self, now: Now) -> FileWork | None:
        """The slow work on files that is due, if any: deleting expired segments or topics, or writing a changed table.

        Deleting comes first: on a full disk no table can be written until it has made room.
        """
        context = self._context
        if context.store.read_only:
            return None
        clean = context.store.next_clean(now)
        self._report_recovery(now)
        if clean is not None:
            return clean
        return context.store.removed_folders.next_removal(now) or self._table_writes.next(now)

    def file_work_done(self, work: FileWork, now: Now) -> Out:
        if isinstance(work, Clean):
            for physical_offset, reason in self._context.store.cleaned(work, now):
                self._context.events.emit(SegmentDeleted, now, physical_offset, reason)
        elif isinstance(work, Removal):
            self._context.store.removed_folders.removed(work)
        else:
            self._deletions.done(work.name)
        return self._end_turn(now)

    def file_work_failed(self, work: FileWork, now: Now) -> None:
        """A table that could not be written stays dirty and is written again later."""
        if isinstance(work, TableWrite):
            self._table_writes.failed(work)

    # --- reading and closing ------------------------------------------------------------------------------------

    @property
    def events(self) -> EventLog:
        return self._context.events

    @property
    def counters(self) -> Counters:
        return self._context.count()

    @property
    def options(self) -> Options:
        """The current options; a change replaces the object."""
        return self._context.options

    @property
    def epoch(self) -> int:
        return self._context.epoch

    @property
    def store_root(self) -> Path:
        return self._context.store.root

    @property
    def read_only(self) -> bool:
        """Whether the store belongs to another broker and was not adopted, or is a copy of its log."""
        return self._context.store.read_only or self._context.store.follows

    @property
    def problem(self) -> str:
        """Why the broker accepts no messages, in a sentence; empty when it accepts them."""
        return self._context.problem()

    @property
    def topics(self) -> TopicConfigManager:
        """The topics, for reading only."""
        return self._context.topics

    @property
    def sendable_offset(self) -> int:
        """Slaves get the log up to here: under SYNC_FLUSH, what no power cut can take from this broker."""
        store = self._context.store
        return store.flushed_offset if self.options.flush_disk_type == "SYNC_FLUSH" else store.appended_offset

    @property
    def hold_count(self) -> int:
        return len(self._context.holds)

    def reads_properties(self, command: commands.PullMessage) -> bool:
        """Whether a pull's filter reads properties. Go's client says TAG, whatever its group subscribes to."""
        expression_type = command.expression_type
        if command.subscription is None:
            info = self._context.consumers.get(command.consumer_group)
            subscription = info.subscriptions.get(command.topic) if info is not None else None
            expression_type = subscription.expression_type if subscription is not None else ""
        return expression_type == SQL92

    def queues(self) -> list[tuple[str, int]]:
        """Topic and queue id of every queue in the store."""
        return self._context.store.queues()

    def queue_view(self, topic: str, queue_id: int) -> QueueView:
        return self._context.queue_view(topic, queue_id)

    def snapshot(self, now: Now, max_holds: int = 1000, max_queues: int = 2000) -> Snapshot:
        return observe.snapshot(self._context, now, max_holds, max_queues)

    def take_changed_topics(self) -> set[str] | None:
        """The names of the topics that changed since the last call; None when none did."""
        return self._context.topics.take_changed()

    def find_queues_with(self, find_queues: FindQueues) -> None:
        """Look up a topic's queues on all brokers by ``find_queues``, which uses the name server's routes."""
        self._context.find_queues = find_queues

    def was_late(self, waited_ns: int, refused: int, now: Now) -> None:
        """Commands waited up to so long for this turn, and so many were refused for that."""
        self._context.lateness.note(waited_ns, refused, now.mono_ns)

    def drain(self, now: Now) -> Out:
        """Accept no more requests; answer every held pull with the cause ``shutdown``. Call until ``drained``."""
        context = self._context
        context.draining = True
        context.holds.leave_all()
        return self._end_turn(now)

    @property
    def drained(self) -> bool:
        context = self._context
        unfinished = context.waking or context.holds.leaving or context.resets or self._gathered.is_looking_up
        return context.draining and not (unfinished or self._commit)

    def close(self, now: Now) -> Out:
        """Write the tables, flush everything, and leave the store as after a clean shutdown.

        A disk error is logged, and the next start recovers the store. Requests that wait are answered in any case.
        """
        context, is_written = self._context, True
        try:
            check_transaction.end_before_stop(context, now)
            if not context.store.read_only:
                if context.check_points.log_end > context.store.flushed_offset:
                    context.store.flush_everything(now)  # no offset may reach the disk before its check point
                self._table_writes.write_all()
        except OSError as error:
            is_written = False
            log.error("topics and offsets could not be written: %s", error)
        try:
            context.store.close(now)
        except OSError as error:
            is_written = False
            log.error("the store could not be closed cleanly; the next start recovers it: %s", error)
        timer_delivery.report_lost_entries(context, now)
        self._commit.give_up(now)
        self._deletions.give_up(is_written=is_written)
        return self._end_turn(now)
