"""The one owner of an engine: its inbox, its timer, its flush thread, its slow file work.

    submit ----> inbox --(next turn of the loop)--> engine.handle_batch --> replies, grouped by sink
           '--> questions --(pieces of one a turn)--------^                and, before them, topics that changed
    timer -----------------------------------------> engine.tick         --> the same
    flush thread: flush.run() ---------------------> engine.flushed      --> the same
    file thread:  work.run()  ---------------------> engine.file_work_done
    journal thread <------------------------------- what each turn did (``poll_journal``)

A turn is bounded by the weight of its commands. Commands that do not fit into it are delayed (``DelayedCommands``): the
connections take turns then, and a command that waits too long is answered SYSTEM_BUSY. Questions about whole tables are
set aside (``Questions``). They are answered one after another, the connections taking turns, in pieces of some
milliseconds a turn, so other requests are late by at most one of these pieces. No question is begun before the commands
that its connection submitted before it are handled.

Everything but the two ``run`` calls happens on the event loop's thread, so the engine needs no lock. Commands that
arrive during a turn are handled as one batch in the next one: the busier the engine, the larger the batches.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

from broker_core import commands
from broker_core.clock import Clock, Now
from broker_core.codes import ResponseCode
from broker_core.commands import Command, Failed, Reply, SendMessage
from broker_core.engine import Engine, FileWork, Out
from broker_core.server.delayed_commands import DelayedCommands
from broker_core.server.garbage_collection import collect_young
from broker_core.server.poll_journal import PollJournal
from broker_core.server.questions import WHOLE_TABLES, Questions
from broker_core.store.flush import Flush

log = logging.getLogger(__name__)

MAX_BATCH = 512
"""Weight of the commands of a turn: 1 for each message sent, ``WEIGHTS``, 1 for others. One command may have more."""

MAX_DELAYED_BATCH = 128
"""The same where commands of several connections are delayed: each waits less for its turn then."""

WEIGHTS: dict[type[Command], int] = {
    commands.PullMessage: 8,
    commands.PopMessage: 64,
    commands.PeekMessage: 64,
    commands.Notification: 4,
    commands.EndTransaction: 2,
    commands.ChangeInvisibleTime: 16,
    commands.ViewMessage: 8,
    commands.HeartBeat: 32,
    commands.CloseConnection: 8,
    commands.DeleteTopic: 128,
    commands.UpdateAndCreateTopic: 8,
    commands.GetQueues: 128,
    commands.GetTopicStats: 128,
    commands.ResetConsumerOffset: 128,
    commands.UpdateAndCreateTopicList: MAX_BATCH,
    commands.UpdateSubscriptionGroupList: MAX_BATCH,
    commands.CloneGroupOffset: MAX_BATCH,
    commands.DeleteExpiredCommitLog: MAX_BATCH,
}
"""Commands that read or write much. A pull reads 256 KiB, or one larger message: 64 pulls read 16 MiB, the limit of
wake-ups in a turn."""

FILTERED_PULL_WEIGHT = 64
"""A pull with an SQL92 filter: it may take a millisecond or two (``get_message.EVALUATED_BYTES_MAX``)."""

OFFSETS_OF_A_WEIGHT = 8
"""So many further offsets of an acknowledgement weigh as much as a sent message."""

MAX_QUESTIONS = 256
"""How many such questions of one client may wait."""

LATE_NS = 100_000_000
"""Commands that waited as long as this for their turn are reported, and turns that took so long: the engine is busy.
Sends are refused after twice this time by default."""

DRAIN_SECONDS = 5.0
RETRY_FILE_WORK_SECONDS = 1.0
FILE_WORK_PERIOD = 0.25
FAILED_TURN_PAUSE = 0.1

Sink = Callable[[list[tuple["Connection", int, Reply]]], None]


class Connection:
    """The source of commands. ``sink`` gets the replies of a turn: one call per turn and sink, on the loop's thread.

    ``key`` is for the creator's own use. At most ``questions`` questions about whole tables may wait. Where connections
    take turns with delayed commands, ``share`` commands of this one are taken in its turn.
    """

    __slots__ = ("key", "questions", "share", "sink")

    def __init__(self, sink: Sink, key: Any = None, questions: int = MAX_QUESTIONS, share: int = 1) -> None:
        self.sink = sink
        self.key = key
        self.questions = questions
        self.share = share


Submission = tuple[Connection, int, Command]


class EngineRunner:
    """Runs an engine on the event loop that ``start`` is called on."""

    def __init__(self, open_engine: Callable[[], Engine], clock: Clock, *, journal: PollJournal | None = None) -> None:
        self._open_engine = open_engine
        self._clock = clock
        self._journal = journal
        self._inbox: deque[Submission] = deque()
        self._delayed = DelayedCommands()
        self._questions = Questions()
        self.handled = 0
        """Commands that were handled or delayed, without those set aside."""
        self._turn_scheduled = False
        self._tick_waits = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._flush: Future[Flush] | None = None
        self._file_work: Future[FileWork] | None = None
        self._file_work_timer: asyncio.TimerHandle | None = None
        self._retries_file_work = False
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="store")
        self._stopped = False
        self.topic_listeners: list[Callable[[set[str]], None]] = []
        """Called with the topics that a turn created, changed or deleted, before its replies are sent."""
        self.turn_listeners: list[Callable[[], None]] = []
        """Called after each step of the engine, after its replies were sent."""
        self.is_log_readable = False
        """Whether the commit log is written in turns only. False while the store opens or closes."""

    engine: Engine

    async def start(self) -> None:
        """Open the store, in a thread because recovery may take seconds, and begin. Raises StoreError."""
        self._loop = asyncio.get_running_loop()
        self.engine = await self._loop.run_in_executor(self._threads, self._open_engine)
        self.is_log_readable = True
        if self._journal is not None:
            self._journal.start(self.engine)
        self._look_for_file_work()
        self._arm()

    async def stop(self) -> None:
        """Answer every hold with the cause shutdown, flush, close the store. No command is accepted afterwards."""
        if self._stopped:
            return
        deadline = self._loop.time() + DRAIN_SECONDS
        self._deliver(self.engine.drain(self._clock.now()))
        while (self.backlog or not self.engine.drained) and self._loop.time() < deadline:
            self._turn()
            self._start_flush()
            await asyncio.sleep(0.001)
        self._stopped, self.is_log_readable = True, False
        for handle in (self._timer, self._file_work_timer):
            if handle is not None:
                handle.cancel()
        for running in (self._flush, self._file_work):
            if running is not None:
                await asyncio.wait([asyncio.wrap_future(running)])  # nothing may touch a file during close
        if self._journal is not None:  # while the store is still locked
            await self._loop.run_in_executor(self._threads, self._journal.stop)
        out = await self._loop.run_in_executor(self._threads, self.engine.close, self._clock.now())
        self._deliver(out)
        self.is_log_readable = True
        self._threads.shutdown(wait=False)

    # --- turns --------------------------------------------------------------------------------------------------

    @property
    def backlog(self) -> int:
        """How many commands wait for their turn."""
        return len(self._inbox) + len(self._delayed) + len(self._questions)

    @property
    def submitted(self) -> int:
        """The value of ``handled`` when all commands submitted so far were handled or delayed."""
        return self.handled + len(self._inbox)

    def has_waiting(self, connection: Connection) -> bool:
        """Whether delayed commands or questions of the connection wait."""
        return connection in self._questions or connection in self._delayed

    def is_delayed(self, connection: Connection) -> bool:
        """Whether commands of the connection did not fit into their turn and wait."""
        return connection in self._delayed

    def submit(self, connection: Connection, request_id: int, command: Command) -> None:
        """Submit a command to the next turn. Call this on the loop's thread."""
        kind = type(command)
        narrowing_fields = WHOLE_TABLES.get(kind)
        if narrowing_fields is None or any(getattr(command, field) for field in narrowing_fields):
            self._inbox.append((connection, request_id, command))
            if kind is commands.CloseConnection:
                self._questions.drop(connection)
        elif not self._questions.put((connection, request_id, command), self.submitted):
            busy: Reply = Failed(
                code=ResponseCode.SYSTEM_BUSY,
                kind="unavailable",
                retry_after_ms=1000,
                remark=f"{connection.questions} questions of this connection about whole tables are waiting; "
                "ask again later",
            )
            self._loop.call_soon(connection.sink, [(connection, request_id, busy)])
        if not self._turn_scheduled and not self._stopped:
            self._turn_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """One turn: waiting commands up to ``MAX_BATCH``, then everything whose time has come.

        After answers the second part waits for the next turn, once, so that the answers are sent first.
        """
        self._turn_scheduled = False
        if self._stopped:
            return
        now, pause = self._clock.now(), 0.0
        tick_waited, self._tick_waits = self._tick_waits, False
        try:
            if self._inbox or self._delayed or self._questions:
                batch, refused = self._next_batch(now)
                out = self.engine.handle_batch(batch, now)
                out.replies.extend(refused)
                if self._questions:
                    out.replies.extend(self._questions.answer(self._clock))
                self._tick_waits = bool(out.replies) and not tick_waited
                self._deliver(out)
            due = self.engine.next_deadline()
            if due is None or due > now.mono_ns:
                self._tick_waits = False
            elif not self._tick_waits:
                self._deliver(self.engine.tick(now))
        except Exception:
            log.exception("a turn of the engine failed; the next one follows")
            pause = FAILED_TURN_PAUSE
        if (self._inbox or self._delayed or self._questions or self._tick_waits) and not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._turn)
        self._start_flush()
        self._note_long_turn(now)
        self._hurry_file_work()
        if not self._tick_waits:
            self._arm(pause)

    def _note_long_turn(self, now: Now) -> None:
        """Report a turn that took so long that whatever was submitted at its beginning was late."""
        took_ns = self._clock.mono_ns() - now.mono_ns
        if took_ns >= LATE_NS:
            self.engine.was_late(took_ns, 0, self._clock.now())

    def _next_batch(self, now: Now) -> tuple[list[Submission], list[tuple[Connection, int, Reply]]]:
        """Take the commands of the next turn. Also returns the answers to those that have waited too long.

        Begins with the next question that is answered in pieces, if no other is being answered.
        """
        inbox, delayed, room = self._inbox, self._delayed, MAX_BATCH
        batch: list[Submission] = []
        refused: list[tuple[Connection, int, Reply]] = []
        is_overloaded = len(delayed) > 0
        while inbox and not is_overloaded:
            room -= self._weigh(inbox[0][2])
            is_overloaded = room < 0 and bool(batch)
            if not is_overloaded:
                batch.append(inbox.popleft())
        self.handled += len(batch)
        if is_overloaded:
            delayed.add(inbox, self.handled, now.mono_ns)
            self.handled += len(inbox)
            inbox.clear()
            if not batch:
                room = MAX_DELAYED_BATCH if delayed.connections > 1 else MAX_BATCH
                batch, refused = delayed.take(self._weigh, room, now.mono_ns, self._wait_limits_ns())
                if delayed.waited_ns >= LATE_NS:
                    self.engine.was_late(delayed.waited_ns, len(refused), now)
        question = self._questions.take(delayed) if self._questions else None
        if question is not None and not self._questions.begin(question, self.engine, now):
            batch.append(question)
        return batch, refused

    def _weigh(self, command: Command) -> int:
        if isinstance(command, commands.AckMessage):
            return 1 + len(command.offsets) // OFFSETS_OF_A_WEIGHT
        if isinstance(command, SendMessage):
            return len(command.messages) or 1
        if isinstance(command, commands.PullMessage) and self.engine.reads_properties(command):
            return FILTERED_PULL_WEIGHT
        return WEIGHTS.get(type(command), 1)

    def _wait_limits_ns(self) -> dict[type[Command], int]:
        options = self.engine.options
        return {
            SendMessage: options.wait_time_mills_in_send_queue * 1_000_000,
            commands.PopMessage: options.wait_time_mills_in_pull_queue * 1_000_000,
            commands.PullMessage: options.wait_time_mills_in_pull_queue * 1_000_000,
        }

    def _arm(self, pause: float = 0.0) -> None:
        """Set the one timer to the engine's next deadline, or ``pause`` seconds from now if that is later."""
        due = self.engine.next_deadline()
        flush_due = None if self._flush else self.engine.next_flush_deadline(self._clock.now())
        if flush_due is not None and (due is None or flush_due < due):
            due = flush_due
        if self._timer is not None:
            if due == self._timer_due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None and not self._stopped:
            self._timer_due = due
            delay = max(pause, (due - self._clock.mono_ns()) / 1e9)
            self._timer = self._loop.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._turn()

    def _deliver(self, out: Out) -> None:
        """Give each sink all its replies of this turn at once, then call the listeners.

        A listener sends new messages to slaves. So they do not wait for the work that comes next (``Engine.tick``).
        """
        changed = self.engine.take_changed_topics()
        if changed is not None:
            self._tell_changed(changed)
        if out.replies:
            self._send_replies(out)
        for listener in self.turn_listeners:
            try:
                listener()
            except Exception:
                log.exception("a listener failed after a turn")

    def _send_replies(self, out: Out) -> None:
        by_sink: dict[Sink, list[tuple[Connection, int, Reply]]] = {}
        for reply in cast("list[tuple[Connection, int, Reply]]", out.replies):
            by_sink.setdefault(reply[0].sink, []).append(reply)
        for sink, replies in by_sink.items():
            try:
                sink(replies)
            except Exception:
                log.exception("replies could not be delivered; their callers will time out")

    def _tell_changed(self, topics: set[str]) -> None:
        for listener in self.topic_listeners:
            try:
                listener(topics)
            except Exception:
                log.exception("a listener failed on a change of topics")

    # --- the disk ---------------------------------------------------------------------------------------------

    def _start_flush(self) -> None:
        """Begin the flush that is due, unless one is under way. Messages stored meanwhile share the next flush."""
        if self._flush is not None or self._stopped:
            return
        flush = self.engine.next_flush(self._clock.now())
        if flush is None:
            return
        began = self._clock.mono_ns()
        self._flush = self._threads.submit(flush.run)
        self._flush.add_done_callback(
            lambda done: self._loop.call_soon_threadsafe(self._on_flushed, flush, done, began)
        )

    def _on_flushed(self, flush: Flush, done: "Future[Flush]", began: int) -> None:
        self._flush = None
        now = self._clock.now()
        error = done.exception()
        try:
            if error is None:
                self._deliver(self.engine.flushed(flush, (now.mono_ns - began) // 1000, now))
            else:
                log.error("a flush failed; the broker accepts no more messages", exc_info=error)
                self._deliver(self.engine.flush_failed(error, now))
        except Exception:
            log.exception("handling a finished flush failed; the next turn follows")
        self._start_flush()
        self._arm()

    def _hurry_file_work(self) -> None:
        """Write a table at once if an answer waits for it. After a failure that has its pause."""
        if self.engine.has_urgent_file_work and self._file_work is None and not self._retries_file_work:
            if self._file_work_timer is not None:
                self._file_work_timer.cancel()
            self._look_for_file_work()

    def _look_for_file_work(self) -> None:
        """Write changed tables and delete expired segments, one thing at a time."""
        if self._stopped:
            return
        collect_young()
        self._retries_file_work = False
        if self._file_work is None:
            try:
                work = self.engine.next_file_work(self._clock.now())
            except Exception:
                log.exception("looking for file work failed; the broker will try again")
                work = None
            if work is not None:
                self._file_work = self._threads.submit(work.run)
                self._file_work.add_done_callback(
                    lambda done: self._loop.call_soon_threadsafe(self._on_file_work, work, done)
                )
                return
        self._file_work_timer = self._loop.call_later(FILE_WORK_PERIOD, self._look_for_file_work)

    def _on_file_work(self, work: FileWork, done: "Future[Any]") -> None:
        self._file_work = None
        now = self._clock.now()
        error = done.exception()
        if error is None:
            try:
                self._deliver(self.engine.file_work_done(work, now))
            except Exception:
                log.exception("handling a finished %s failed; the broker looks for the next", type(work).__name__)
            self._look_for_file_work()
            return
        log.error("%s failed; the broker will try again: %s", type(work).__name__, error)
        self.engine.file_work_failed(work, now)
        if not self._stopped:
            self._retries_file_work = True
            self._file_work_timer = self._loop.call_later(RETRY_FILE_WORK_SECONDS, self._look_for_file_work)
