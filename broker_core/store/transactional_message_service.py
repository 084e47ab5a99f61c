"""Transactions: which half messages are pending, and which ended ones the log does not name as ended yet.

A half message waits in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC, with its real topic and queue in the properties REAL_TOPIC
and REAL_QID. A commit stores a copy in the real queue; the copy's PREPAREDTRANSACTIONOFFSET is the physical offset of
the half message. An op message in RMQ_SYS_TRANS_OP_HALF_TOPIC then lists the queue offsets of half messages that have
ended. How far both queues are done with is in consumerOffset.json, as offsets of the group CID_RMQ_SYS_TRANS.

The op message of a rollback is stored before the rollback is answered; RocketMQ keeps it in memory for up to 3 s. The
op message of a commit is stored only when the copy is on the disk. So a power cut cannot leave the op message of a copy
that is lost. A crash before the op message is stored commits nothing twice either: ``load`` reads the log from the
oldest pending half message on, and finds the copies by their PREPAREDTRANSACTIONOFFSET.
"""

from collections import deque
from collections.abc import Iterable
from itertools import chain, takewhile

import msgspec

from broker_core.clock import Now
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, decode
from broker_core.formats.consume_queue_unit import is_hole
from broker_core.formats.message_properties import TAGS, TRANSACTION_ID, find
from broker_core.store.commit_log import Arrival, CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.queue.consume_queue import ConsumeQueue

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
REMOVE_TAG = "d"
"""The tag of op messages. RocketMQ's REMOVE_TAG."""

OP_BATCH_NS = 3_000_000_000
"""RocketMQ's transactionOpBatchInterval: an op message waits this long for more half messages to end."""

OP_MESSAGE_BYTES = 4096
"""RocketMQ's transactionOpMsgMaxSize."""

ENDED_AT_ONCE = 500
"""About as many queue offsets fit into an op message. If so many wait, it is stored at once."""


OpBody = tuple[bytes, list[int]]
"""The body of an op message, and the offsets of the half messages that it lists."""


def op_bodies(offsets: Iterable[int]) -> list[OpBody]:
    """The op messages that list half messages with these offsets in their queue."""
    bodies: list[OpBody] = []
    parts: list[bytes] = []
    listed: list[int] = []
    size = 0
    for offset in offsets:
        part = b"%d," % offset
        if size + len(part) > OP_MESSAGE_BYTES:
            bodies.append((b"".join(parts), listed))
            parts, listed, size = [], [], 0
        parts.append(part)
        listed.append(offset)
        size += len(part)
    if parts:
        bodies.append((b"".join(parts), listed))
    return bodies


class Half(msgspec.Struct, gc=False):
    """A pending half message. ``checks`` is how often its producer was asked; None until its record was read."""

    physical_offset: int
    stored_ms: int
    checks: int | None = None


class TransactionalMessageService:
    """RocketMQ's TransactionalMessageService, except that the engine stores the messages and asks the producers."""

    def __init__(self, log: CommitLog, queues: ConsumeQueueStore) -> None:
        self.pending: dict[int, Half] = {}
        """By the offset in the half queue, in their order."""
        self.to_check: deque[int] = deque()
        """The half messages that the present round of checks has yet to look at."""
        self.next_check_ns = 0
        self.next_turn_ns = 0
        """When the present round goes on, monotonic ns."""
        self.loaded = False
        self._log = log
        self._queues = queues
        self._end = 0  # the offset after the last half message
        self._ended: deque[tuple[int, int]] = deque()  # (physical end of what ended it, offset)
        self._ended_ns = 0  # since when the first of them waits
        self._rolled_back: deque[tuple[int, int]] = deque()  # the same for rollbacks, whose op messages are stored
        self._ops: deque[tuple[int, int]] = deque()  # (offset in the op queue, highest offset in the op message)
        self._ops_end = 0
        self._paused_until_ns = 0

    def load(self, half_offset: int | None, op_offset: int | None) -> list[tuple[str, str]]:
        """Find the pending half messages, from these offsets of CID_RMQ_SYS_TRANS on. Returns recovery steps."""
        self.loaded = True
        queue = self._queues.table.get((HALF_TOPIC, 0))
        if queue is None:
            return []
        steps = []
        self._end = queue.max_offset
        first = half_offset or 0
        if first > self._end:
            steps.append(
                (
                    "transactions",
                    f"consumerOffset.json records half messages as ended up to offset {first}, but their queue ends "
                    f"at {self._end}",
                )
            )
            first = self._end
        first = max(first, queue.min_offset(self._log.min_offset))
        ended = self._read_ops(op_offset or 0, first)
        for offset in range(first, self._end):
            physical_offset, size, _ = queue.unit(offset)
            if ended.get(offset, -1) < physical_offset and size and not is_hole(physical_offset, size):
                stored_ms = self._log.store_timestamp(physical_offset)
                if stored_ms is not None:
                    self.pending[offset] = Half(physical_offset, stored_ms)
        self._end_committed()
        if self.pending:
            steps.append(("transactions", f"{len(self.pending)} half messages wait for their transactions to end"))
        return steps

    def _read_ops(self, op_offset: int, first: int) -> dict[int, int]:
        """The offsets of half messages from ``first`` on that op messages from ``op_offset`` on list.

        Each has the physical offset of the last such op message, which ends no half message that was stored after it.
        """
        queue = self._queues.table.get((OP_TOPIC, 0))
        if queue is None:
            return {}
        ended: dict[int, int] = {}
        self._ops_end = queue.max_offset
        for offset in range(max(op_offset, queue.min_offset(self._log.min_offset)), self._ops_end):
            record = self._record(queue, offset)
            if record is None or find(record.properties, TAGS) != REMOVE_TAG:
                continue
            listed = [int(text) for text in record.body.split(b",") if text.isdigit() and len(text) < 20]
            ended.update((number, record.physical_offset) for number in listed if number >= first)
            self._ops.append((offset, max(listed, default=-1)))
        return ended

    def _record(self, queue: ConsumeQueue, offset: int) -> CommitLogRecord | None:
        physical_offset, size, _ = queue.unit(offset)
        data = self._log.record(physical_offset) if size and not is_hole(physical_offset, size) else None
        try:
            return decode(data) if data is not None else None
        except RecordError:  # the body does not match its checksum
            return None

    def _end_committed(self) -> None:
        """End the half messages whose copies are in the log, although no op message lists them."""
        if not self.pending:
            return
        by_place = {half.physical_offset: offset for offset, half in self.pending.items()}
        for start, physical_end, prepared_offset in self._log.prepared_offsets(min(by_place)):
            offset = by_place.get(prepared_offset)
            if offset is not None and offset in self.pending and (prepared_offset or self._is_of_the_first(start)):
                self.end(offset, physical_end, 0)

    def _is_of_the_first(self, position: int) -> bool:
        """Whether the record there is the copy of the log's first record. Its offset, 0, also stands for none."""
        records = [self._log.record(at) for at in (0, position)]
        ids = {
            find(decode(data, check_crc=False).properties, TRANSACTION_ID) if data is not None else ""
            for data in records
        }
        return len(ids) == 1 and "" not in ids

    # --- half messages --------------------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival) -> None:
        """Half messages were stored."""
        for index, offset in enumerate(range(arrival.from_offset, arrival.to_offset)):
            self.pending[offset] = Half(arrival.fields[3 * index], arrival.store_timestamp, 0)
        self._end = arrival.to_offset

    def end(self, offset: int, physical_end: int, now_ns: int) -> None:
        """The half message ended by what is in the log before ``physical_end``: an op message is to list it."""
        del self.pending[offset]
        if not self._ended:
            self._ended_ns = now_ns
        self._ended.append((physical_end, offset))

    def check_by(self, when_ns: int) -> None:
        """Let the next round of checks begin no later than at this monotonic time."""
        self.next_check_ns = min(self.next_check_ns, when_ns)

    def next_due_ns(self, flushed_offset: int) -> int | None:
        """Monotonic ns of the next round of checks or the next op message; None if neither is to come."""
        if self.to_check:
            check_ns: int | None = self.next_turn_ns
        else:
            check_ns = self.next_check_ns if self.pending else None
        ops_ns = self.ops_due_ns(flushed_offset)
        if check_ns is None or ops_ns is None:
            return ops_ns if check_ns is None else check_ns
        return min(check_ns, ops_ns)

    # --- op messages ----------------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether there are ended half messages that ``progress`` did not count yet."""
        return bool(self._ended or self._rolled_back)

    def ops_due_ns(self, flushed_offset: int) -> int | None:
        """Monotonic ns at which to store an op message; None while there is nothing that it may list."""
        if not self._ended or self._ended[0][0] > flushed_offset:
            return None
        at_once = len(self._ended) >= ENDED_AT_ONCE
        return max(0 if at_once else self._ended_ns + OP_BATCH_NS, self._paused_until_ns)

    def op_bodies(self, flushed_offset: int) -> list[OpBody]:
        """The op messages to store now, each with the offsets that it lists. They wait until ``listed``."""
        on_disk = takewhile(lambda ended: ended[0] <= flushed_offset, self._ended)
        return op_bodies(offset for _, offset in on_disk)

    def roll_back(self, bodies: list[OpBody], arrival: Arrival, physical_end: int) -> None:
        """Note that these op messages were stored, at the offsets of ``arrival``, and end the half messages in them."""
        for op_offset, (_, offsets) in enumerate(bodies, arrival.from_offset):
            self._ops.append((op_offset, max(offsets)))
            for offset in offsets:
                del self.pending[offset]
                self._rolled_back.append((physical_end, offset))
        self._ops_end = arrival.to_offset

    def listed(self, bodies: list[OpBody], arrival: Arrival, now: Now) -> None:
        """These op messages were stored, at the offsets of ``arrival``."""
        for op_offset, (_, offsets) in enumerate(bodies, arrival.from_offset):
            self._ops.append((op_offset, max(offsets)))
            for _ in offsets:
                self._ended.popleft()
        self._ops_end = arrival.to_offset
        self._ended_ns = now.mono_ns

    def pause(self, until_ns: int) -> None:
        """The store refused an op message: try again at this monotonic time."""
        self._paused_until_ns = until_ns

    def has_progressed(self, flushed_offset: int) -> bool:
        """Whether ``progress`` would return more, because op messages of rollbacks have reached the disk."""
        return bool(self._rolled_back) and self._rolled_back[0][0] <= flushed_offset

    def progress(self, flushed_offset: int) -> tuple[int, int]:
        """(offset of the first half message that is pending or not listed, of the first op message that counts).

        Op messages before the second offset list only half messages before the first one. A half message that is rolled
        back, but is not on the disk, counts as not listed: after a power cut another one may have its offset.
        """
        while self._rolled_back and self._rolled_back[0][0] <= flushed_offset:
            self._rolled_back.popleft()
        unlisted = min((offset for _, offset in chain(self._ended, self._rolled_back)), default=self._end)
        half_offset = min(next(iter(self.pending), self._end), unlisted)
        while self._ops and self._ops[0][1] < half_offset:
            self._ops.popleft()
        return half_offset, self._ops[0][0] if self._ops else self._ops_end
