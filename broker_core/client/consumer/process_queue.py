"""The messages of one queue that were pulled and not consumed yet, and the offset that the group may commit."""

from bisect import insort
from collections import deque
from collections.abc import Iterable
from typing import Literal

from broker_core.client.message import MessageExt

PULL_MAX_IDLE_NS = 120 * 1_000_000_000
"""A queue that nobody has pulled from for so long is given up and taken again: its pull got lost."""
REBALANCE_LOCK_MAX_LIVE_NS = 30 * 1_000_000_000
"""How long after its last renewal a lock is relied on. Brokers give it to others after 60 s (GlassMQ at the end of a
connection after 35 s)."""

Flow = Literal["", "count", "size", "span"]


class ProcessQueue:
    """RocketMQ's ProcessQueue.

    The offset to commit is that of the first message that is not consumed, or the one behind the last message when all
    are consumed, so that no message is lost when the client ends.
    """

    __slots__ = (
        "_messages",
        "_next_offset",
        "_offsets",
        "bytes",
        "consuming",
        "dropped",
        "last_lock_ns",
        "last_pull_ns",
        "needs_lock",
        "suspended",
    )

    def __init__(self, now_ns: int, *, needs_lock: bool = False) -> None:
        """``needs_lock``: the queue is consumed in order, and was locked at ``now_ns``."""
        self.needs_lock = needs_lock
        self.last_lock_ns = now_ns
        self.consuming = False
        """In order: its messages are with the listener, or wait for one of its threads."""
        self.suspended = False
        """In order: it pauses, since a message has failed."""
        self.dropped = False
        """The queue belongs to another client now, or is taken again: nothing is pulled or committed for it."""
        self.last_pull_ns = now_ns
        self.bytes = 0
        """Of the bodies as they are stored."""
        self._messages: dict[int, MessageExt] = {}
        self._offsets: deque[int] = deque()
        """Ascending. Consumed messages leave it only when they are the first."""
        self._next_offset = -1

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message: MessageExt) -> bool:
        return self._messages.get(message.record.queue_offset) is message

    @property
    def span(self) -> int:
        """How far the last message is behind the first in the queue; 0 with fewer than two."""
        return self._offsets[-1] - self._offsets[0] if self._messages else 0

    def put(self, messages: Iterable[MessageExt]) -> list[MessageExt]:
        """Add messages. Returns those that were not there yet."""
        new = []
        offsets, by_offset = self._offsets, self._messages
        for message in messages:
            offset = message.record.queue_offset
            if offset in by_offset:
                continue
            by_offset[offset] = message
            self.bytes += len(message.record.body)
            if not offsets or offset > offsets[-1]:
                offsets.append(offset)
            elif offset not in offsets:
                insort(offsets, offset)
            self._next_offset = max(self._next_offset, offset + 1)
            new.append(message)
        return new

    def remove(self, messages: Iterable[MessageExt]) -> int | None:
        """Take out consumed messages. Returns the offset to commit, or None when there were no messages."""
        by_offset = self._messages
        if not by_offset:
            return None
        for message in messages:
            if by_offset.get(message.record.queue_offset) is message:
                del by_offset[message.record.queue_offset]
                self.bytes -= len(message.record.body)
        offsets = self._offsets
        while offsets and offsets[0] not in by_offset:
            offsets.popleft()
        return offsets[0] if offsets else self._next_offset

    def first_messages(self, limit: int) -> list[MessageExt]:
        """The first messages that are not consumed, at most ``limit``, by their offsets."""
        first: list[MessageExt] = []
        for offset in self._offsets:
            message = self._messages.get(offset)
            if message is not None:
                first.append(message)
                if len(first) == limit:
                    break
        return first

    def may_consume(self, now_ns: int) -> bool:
        """Whether the queue is this client's: not given up, and its lock, if it needs one, is still relied on."""
        return not self.dropped and not (self.needs_lock and self.is_lock_expired(now_ns))

    def is_lock_expired(self, now_ns: int) -> bool:
        return now_ns - self.last_lock_ns > REBALANCE_LOCK_MAX_LIVE_NS

    def flow_control(self, max_count: int, max_bytes: int, max_span: int) -> Flow:
        """Which limit is exceeded, so that the next pull must wait; empty if none is."""
        if len(self._messages) > max_count:
            return "count"
        if self.bytes > max_bytes:
            return "size"
        return "span" if self.span > max_span else ""

    def is_pull_expired(self, now_ns: int) -> bool:
        return now_ns - self.last_pull_ns > PULL_MAX_IDLE_NS

    def expired(self, now_ns: int, timeout_ns: int, limit: int) -> list[MessageExt]:
        """The first messages, at most ``limit``, whose listener was called more than ``timeout_ns`` ago."""
        expired: list[MessageExt] = []
        for offset in self._offsets:
            message = self._messages.get(offset)
            if message is None:
                continue
            started = message.consume_started_ns
            if len(expired) >= limit or not started or now_ns - started <= timeout_ns:
                break
            expired.append(message)
        return expired

    def clear(self) -> None:
        """Forget all messages."""
        self._messages.clear()
        self._offsets.clear()
        self.bytes = 0

    def info(self) -> dict[str, object]:
        """RocketMQ's ProcessQueueInfo, without the times."""
        offsets = [offset for offset in self._offsets if offset in self._messages]
        return {
            "cachedMsgMinOffset": offsets[0] if offsets else 0,
            "cachedMsgMaxOffset": offsets[-1] if offsets else 0,
            "cachedMsgCount": len(offsets),
            "cachedMsgSizeInMiB": self.bytes >> 20,
            "droped": self.dropped,
            "locked": self.needs_lock,
        }
