"""The only place where a message is acknowledged. The deletion of a topic is acknowledged here, too.

ASYNC_FLUSH: as soon as the message is in the log. SYNC_FLUSH: when the log is on the disk up to the message's end; many
sends wait for one flush. A message with the property WAIT=false never waits. If a flush takes longer than
syncFlushTimeout, the answer is FLUSH_DISK_TIMEOUT: the message is stored, but its durability is not confirmed.

SYNC_MASTER: when, besides, inSyncReplicas - 1 slaves have reported that they have the log up to the message's end. If
that takes longer than slaveTimeout, the answer is FLUSH_SLAVE_TIMEOUT. Acknowledgements of popped messages do not wait
for slaves: if one is lost with this broker, its message is delivered again.

After a pause of the disk or of a slave, thousands of answers may be due at once. Several turns give them.

A deletion is answered when both tables and the safe end were written without the topic. A broker that is killed before
may have the topic when it starts again.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import AckMessage, ChangeInvisibleTime, Done, Failed, Reply, Sent
from broker_core.processors.context import Context, Deletion, Request

WAITS_FOR_NO_SLAVE = frozenset((AckMessage, ChangeInvisibleTime))
NEVER_NS = 1 << 62
ANSWERS_A_TURN = 512
"""As many as the sends of one turn. What an answer costs is mostly its encoding, a few microseconds."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """An answer that waits until the log is kept up to ``physical_end``: on this disk until ``flush_deadline_ns``, on
    slaves until ``slave_deadline_ns``; NEVER_NS if that is not waited for. The request and its bodies are not kept."""

    physical_end: int
    flush_deadline_ns: int
    slave_deadline_ns: int
    connection: Any
    request_id: int
    reply: Reply


class GroupCommit:
    """RocketMQ's GroupCommitService, for both the disk and the slaves."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._for_slaves: deque[Waiting] = deque()
        """Those that wait for slaves, and perhaps for the disk, too."""
        self._for_disk: deque[Waiting] = deque()
        """Those that wait for the disk alone."""

    def acknowledge(self, request: Request, reply: Reply, wait: bool, now: Now) -> None:
        """Answer now, or as soon as flushDiskType and brokerRole allow it."""
        context = self._context
        options, physical_end = context.options, context.store.appended_offset
        for_slaves = options.slaves_needed > 0 and type(request.command) not in WAITS_FOR_NO_SLAVE
        if (
            not wait
            or (options.flush_disk_type == "ASYNC_FLUSH" and not for_slaves)
            or (self._on_disk() >= physical_end and (not for_slaves or self._on_slaves() >= physical_end))
        ):
            context.replies.append((request.connection, request.request_id, reply))
            return
        flush_ns = options.sync_flush_timeout * 1_000_000 if options.flush_disk_type == "SYNC_FLUSH" else NEVER_NS
        slave_ns = options.slave_timeout * 1_000_000 if for_slaves else NEVER_NS
        (self._for_slaves if for_slaves else self._for_disk).append(
            Waiting(
                physical_end,
                now.mono_ns + flush_ns,
                now.mono_ns + slave_ns,
                request.connection,
                request.request_id,
                reply,
            )
        )
        context.ha_service.waiting = len(self._for_slaves)

    def acknowledge_popped(self, answers: Sequence[tuple[Request, Reply]], now: Now) -> None:
        """Answer acknowledgements of popped messages, which wait for no slave."""
        context = self._context
        if self._on_disk() >= context.store.appended_offset:
            context.replies += [(request.connection, request.request_id, reply) for request, reply in answers]
            return
        for request, reply in answers:
            self.acknowledge(request, reply, wait=True, now=now)

    def _on_disk(self) -> int:
        """Physical offset up to which flushDiskType's promise is kept."""
        store = self._context.store
        return store.appended_offset if self._context.options.flush_disk_type == "ASYNC_FLUSH" else store.flushed_offset

    def _on_slaves(self) -> int:
        """Physical offset up to which brokerRole's promise is kept."""
        context = self._context
        slaves_needed = context.options.slaves_needed
        return context.ha_service.replicated_offset(slaves_needed) if slaves_needed else context.store.appended_offset

    def acknowledge_safe(self) -> int:
        """The log was flushed or slaves have reported: answer the senders of messages that are safe now.

        Returns how many more answers this turn may give. If that is 0, the next turn goes on: see ``next_deadline_ns``.
        """
        left = ANSWERS_A_TURN
        if self:
            on_disk = self._on_disk()
            left = self._answer_safe(self._for_slaves, min(on_disk, self._on_slaves()), left)
            left = self._answer_safe(self._for_disk, on_disk, left)
            self._context.ha_service.waiting = len(self._for_slaves)
        return left

    def _answer_safe(self, waiting: deque[Waiting], kept: int, left: int) -> int:
        while left and waiting and waiting[0].physical_end <= kept:
            first = waiting.popleft()
            self._context.reply(first.connection, first.request_id, first.reply)
            left -= 1
        return left

    def tick(self, now: Now) -> None:
        """Answer senders that have waited for too long."""
        if not self:
            return
        left = self.acknowledge_safe()  # the options may have changed
        for waiting in (self._for_slaves, self._for_disk):
            while left and waiting and self._deadline_ns(waiting[0]) <= now.mono_ns:
                self._time_out(waiting.popleft(), now.mono_ns)
                left -= 1
        self._context.ha_service.waiting = len(self._for_slaves)

    def _deadline_ns(self, waiting: Waiting) -> int:
        """When one of the promises that are not kept yet is given up; 0 if both are kept."""
        due_ns = NEVER_NS
        if self._on_disk() < waiting.physical_end:
            due_ns = waiting.flush_deadline_ns
        if self._lacks_slaves(waiting):
            due_ns = min(due_ns, waiting.slave_deadline_ns)
        return 0 if due_ns == NEVER_NS else due_ns

    def _lacks_slaves(self, waiting: Waiting) -> bool:
        return waiting.slave_deadline_ns < NEVER_NS and self._on_slaves() < waiting.physical_end

    def give_up(self, now: Now) -> None:
        """There will be no further flush or report: answer all, those whose messages are not safe that they are not."""
        while not self.acknowledge_safe():
            pass  # it answers some at a time
        for waiting in (self._for_slaves, self._for_disk):
            while waiting:
                self._time_out(waiting.popleft(), now.mono_ns)

    def _time_out(self, waiting: Waiting, now_ns: int) -> None:
        code, what = ResponseCode.FLUSH_DISK_TIMEOUT, "on the disk within syncFlushTimeout"
        is_on_disk = self._on_disk() >= waiting.physical_end
        if self._lacks_slaves(waiting) and (is_on_disk or now_ns >= waiting.slave_deadline_ns):
            code, what = ResponseCode.FLUSH_SLAVE_TIMEOUT, "on enough slaves within slaveTimeout"
            self._context.ha_service.note_timeout(now_ns)
        late: Reply
        if isinstance(waiting.reply, Sent):
            late = msgspec.structs.replace(waiting.reply, code=code)
        else:
            late = Failed(
                code=code,
                kind="unavailable",
                remark=f"the message is stored, but was not {what}",
                retry_after_ms=1000,
            )
        self._context.reply(waiting.connection, waiting.request_id, late)

    def next_deadline_ns(self) -> int | None:
        first = [self._deadline_ns(waiting[0]) for waiting in (self._for_slaves, self._for_disk) if waiting]
        return min(first) if first else None

    def __len__(self) -> int:
        return len(self._for_slaves) + len(self._for_disk)


class DeletionCommit:
    """Answers deletions of topics. Each method names what is written: a table, or ``MARKS``."""

    MARKS = "safe_end"
    LEFT = frozenset(("topics", "consumerOffset", MARKS))

    def __init__(self, context: Context) -> None:
        self._context = context
        self._covered: dict[str, list[Deletion]] = {}

    def begin(self, what: str) -> None:
        """Its content is frozen, without the topics deleted so far. If it cannot be written, it is frozen again."""
        self._covered[what] = list(self._context.deletions)

    def done(self, what: str) -> None:
        """It is on the disk."""
        for deletion in self._covered.pop(what, ()):
            deletion.left.discard(what)
            if not deletion.left and deletion in self._context.deletions:
                self._answer(deletion, Done())

    def tick(self, now: Now) -> None:
        """Answer those who have waited for too long."""
        while self._context.deletions and self._context.deletions[0].deadline_ns <= now.mono_ns:
            self._time_out(self._context.deletions[0])

    def give_up(self, *, is_written: bool = False) -> None:
        """Nothing more will be written. ``is_written``: all was written before."""
        for deletion in list(self._context.deletions) if is_written else ():
            self._answer(deletion, Done())
        while self._context.deletions:
            self._time_out(self._context.deletions[0])

    def next_deadline_ns(self) -> int | None:
        deletions = self._context.deletions
        return deletions[0].deadline_ns if deletions else None

    def _time_out(self, deletion: Deletion) -> None:
        late = Failed(
            code=ResponseCode.FLUSH_DISK_TIMEOUT,
            kind="unavailable",
            remark="the topic is deleted, but that was not on the disk within syncFlushTimeout; "
            "if the broker is killed now, it may come back",
            retry_after_ms=1000,
        )
        self._answer(deletion, late)

    def _answer(self, deletion: Deletion, reply: Reply) -> None:
        self._context.deletions.remove(deletion)
        self._context.reply(deletion.connection, deletion.request_id, reply)
