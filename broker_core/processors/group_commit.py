"""The only place where a message is acknowledged. The deletion of a topic is acknowledged here, too.

ASYNC_FLUSH: as soon as the message is in the log. SYNC_FLUSH: when the log is on the disk up to the message's end; many
sends wait for one flush. A message with the property WAIT=false never waits. If a flush takes longer than
syncFlushTimeout, the answer is FLUSH_DISK_TIMEOUT: the message is stored, but its durability is not confirmed.

A deletion is answered when both tables and the safe end were written without the topic. A broker that is killed before
may have the topic when it starts again.
"""

from collections import deque
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.commands import Done, Failed, Reply, Sent
from broker_core.processors.context import Context, Deletion, Request


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """An answer that waits until the log is flushed up to ``physical_end``. The request and its bodies are not kept."""

    physical_end: int
    deadline_ns: int
    connection: Any
    request_id: int
    reply: Reply


class GroupCommit:
    """RocketMQ's GroupCommitService."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waiting: deque[Waiting] = deque()

    def acknowledge(self, request: Request, reply: Reply, wait: bool, now: Now) -> None:
        """Answer now, or as soon as the flush mode allows it."""
        context = self._context
        options, store = context.options, context.store
        if options.flush_disk_type == "ASYNC_FLUSH" or not wait or store.flushed_offset >= store.appended_offset:
            context.replies.append((request.connection, request.request_id, reply))
            return
        deadline_ns = now.mono_ns + options.sync_flush_timeout * 1_000_000
        self._waiting.append(Waiting(store.appended_offset, deadline_ns, request.connection, request.request_id, reply))

    def flushed(self) -> None:
        """The log was flushed: answer the senders of messages that are on the disk now."""
        flushed_offset = self._context.store.flushed_offset
        while self._waiting and self._waiting[0].physical_end <= flushed_offset:
            waiting = self._waiting.popleft()
            self._context.reply(waiting.connection, waiting.request_id, waiting.reply)

    def tick(self, now: Now) -> None:
        """Answer senders that have waited for too long."""
        while self._waiting and self._waiting[0].deadline_ns <= now.mono_ns:
            self._time_out(self._waiting.popleft())

    def give_up(self) -> None:
        """There will be no further flush: answer everybody with FLUSH_DISK_TIMEOUT."""
        while self._waiting:
            self._time_out(self._waiting.popleft())

    def _time_out(self, waiting: Waiting) -> None:
        late: Reply
        if isinstance(waiting.reply, Sent):
            late = msgspec.structs.replace(waiting.reply, code=ResponseCode.FLUSH_DISK_TIMEOUT)
        else:
            late = Failed(
                code=ResponseCode.FLUSH_DISK_TIMEOUT,
                kind="unavailable",
                remark="the message is stored, but was not on the disk within syncFlushTimeout",
                retry_after_ms=1000,
            )
        self._context.reply(waiting.connection, waiting.request_id, late)

    def next_deadline_ns(self) -> int | None:
        return self._waiting[0].deadline_ns if self._waiting else None

    def __len__(self) -> int:
        return len(self._waiting)


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
