"""Finding messages by key or by time."""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Literal

from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import properties_at, store_timestamp_at, topic_at
from broker_core.formats.consume_queue_unit import is_hole
from broker_core.formats.index_unit import TAG_KEY, key_hash
from broker_core.store.commit_log import CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.index.index_file import PAUSE
from broker_core.store.index.index_service import IndexService, index_words
from broker_core.store.queue.consume_queue import ConsumeQueue
from broker_core.walk import Steps, pieces_of

QUEUES_SEARCHED = 10
"""Queues of a piece in which a time is looked for: some 50 microseconds each."""

NO_END = 1 << 62
"""A time, ms, after that of any message."""

UNITS_READ = 16
"""Units of a piece, whose records are copied."""
BYTES_READ = 1 << 20
"""Bytes of records that are copied in a piece. The record that reaches this limit is the last of the piece."""


class MessageQuery:
    """RocketMQ's DefaultMessageStore.queryMessage and getOffsetInQueueByTime.

    ``build_index`` adds the messages that are dispatched but not yet indexed; it is called before each search by key.
    """

    def __init__(
        self, log: CommitLog, queues: ConsumeQueueStore, index: IndexService | None, build_index: Callable[[], None]
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._build_index = build_index

    @property
    def last_indexed(self) -> tuple[int, int]:
        """Store time (ms) and physical offset of the newest message in the index; zeros before the first."""
        return self._index.last_indexed if self._index is not None else (0, 0)

    def by_key(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, max_bytes: int = 1 << 62
    ) -> Steps[list[bytes]]:
        """Records with this key and a store time from ``begin_ms`` to ``end_ms``, in log order.

        Returns the newest ``max_num``, or fewer: the record that reaches ``max_bytes`` is the last one taken.
        """
        records: dict[int, bytes] = {}
        size = 0
        for found in self.each_by_key(topic, key, begin_ms, end_ms) if max_num > 0 else ():
            if found is None:
                yield
                continue
            records[found[0]] = found[1]
            size += len(found[1])
            if len(records) >= max_num or size >= max_bytes:
                break
        return [records[physical_offset] for physical_offset in sorted(records)]

    def each_by_key(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[tuple[int, bytes] | None]:
        """Yield the same records as (physical offset, record), newest first. The caller need not keep them.

        Between them it yields None after each piece of work, so that the caller can pause.
        """
        if self._index is None:
            return
        self._build_index()
        read = 0
        name = topic.encode("utf-8", "surrogatepass")
        for looked_at, physical_offset in enumerate(self._index.find(key_hash(topic, key), begin_ms, end_ms), 1):
            if physical_offset == PAUSE or not looked_at % UNITS_READ or read >= BYTES_READ:
                read = 0
                yield None
            if physical_offset == PAUSE:
                continue
            record = self._log.record(physical_offset)
            if record is None:
                continue
            read += len(record)
            if topic_at(record, 0) != name or not begin_ms <= store_timestamp_at(record, 0) <= end_ms:
                continue
            properties = properties_at(record, 0).decode("utf-8", "surrogateescape")
            if key in index_words(properties) or key == TAG_KEY + message_properties.find(properties, "TAGS"):
                yield physical_offset, record

    def newest(
        self, topic: str, begin_ms: int, end_ms: int, before: int | None, max_num: int, max_bytes: int
    ) -> Steps[tuple[list[bytes], int | None]]:
        """Records of a topic with a store time from ``begin_ms`` to ``end_ms``, in log order, from all its queues.

        Returns the newest ``max_num`` whose physical offset is below ``before``, or fewer: the record that reaches
        ``max_bytes`` is the last one taken. The second value is the ``before`` with which older ones are found; None if
        there are none.
        """
        heads: list[tuple[int, int, int, int]] = []  # (- physical offset, queue id, offset, first offset)
        for queue_ids in pieces_of(self._queues.queue_ids(topic), QUEUES_SEARCHED):
            for queue_id in queue_ids:
                if (queue := self._queues.table.get((topic, queue_id))) is not None:
                    low, high = self._between(queue, begin_ms, end_ms, before)
                    if (offset := queue.before_holes(high - 1, low)) >= low:
                        heads.append((-queue.unit(offset)[0], queue_id, offset, low))
            yield
        heapify(heads)
        found: list[bytes] = []
        size = looked_at = read = 0
        while heads and len(found) < max_num and size < max_bytes:
            position, queue_id, offset, low = heappop(heads)
            queue = self._queues.table.get((topic, queue_id))
            if queue is None:  # the topic was deleted between two pieces
                continue
            record = self._log.record(-position) if queue.unit(offset)[1] else None  # its file may be gone by now
            if record is not None:
                found.append(record)
                size += len(record)
                read += len(record)
            if (offset := queue.before_holes(queue.base_of(offset) - 1, low)) >= low:
                heappush(heads, (-queue.unit(offset)[0], queue_id, offset, low))
            looked_at += 1
            if not looked_at % UNITS_READ or read >= BYTES_READ:
                read = 0
                yield
        return found[::-1], -position if found and heads else None

    def _between(self, queue: ConsumeQueue, begin_ms: int, end_ms: int, before: int | None) -> tuple[int, int]:
        """First offset stored at ``begin_ms`` or later, and the one after the last at ``end_ms`` or earlier."""
        first, high = queue.min_offset(self._log.min_offset), queue.max_offset
        low = first
        if begin_ms > 0:
            low = queue.first_offset_where(first, lambda offset: self._time_in_order(queue, offset) >= begin_ms)
        if end_ms < NO_END:
            high = queue.first_offset_where(first, lambda offset: self._time_in_order(queue, offset) > end_ms)
        if before is not None:
            high = min(high, queue.first_offset_where(first, lambda offset: queue.unit(offset)[0] >= before))
        return low, high

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: Literal["lower", "upper"]) -> int:
        """``lower``: first offset stored at or after the time; ``upper``: last one stored at or before it."""
        queue = self._queues.table.get((topic, queue_id))
        if queue is None:
            return 0
        low = queue.min_offset(self._log.min_offset)
        if boundary == "lower":
            return queue.first_offset_where(low, lambda offset: self._time_in_order(queue, offset) >= timestamp_ms)
        return max(
            low, queue.first_offset_where(low, lambda offset: self._time_in_order(queue, offset) > timestamp_ms) - 1
        )

    def message_count(self, topic: str, queue_nums: int) -> int:
        """How many messages the first ``queue_nums`` queues of a topic have that can still be read."""
        return self._queues.message_count(topic, queue_nums, self._log.min_offset)

    def store_time(self, topic: str, queue_id: int, queue_offset: int) -> int | None:
        """When a queue's message was stored, ms; None if the queue does not have it (any more)."""
        queue = self._queues.table.get((topic, queue_id))
        if queue is None or not queue.min_offset(self._log.min_offset) <= queue_offset < queue.max_offset:
            return None
        stored_ms = self._store_time(queue, queue_offset)
        return None if stored_ms < 0 else stored_ms

    def _time_in_order(self, queue: ConsumeQueue, offset: int) -> int:
        """Store time of a queue's message, ms; if its segment is missing, that of the segment after it."""
        stored_ms = self._store_time(queue, offset)
        after = self._log.mapped_files.next_after(queue.unit(offset)[0]) if stored_ms < 0 else None
        return stored_ms if after is None else store_timestamp_at(after.buffer, 0)

    def _store_time(self, queue: ConsumeQueue, offset: int) -> int:
        """Store time of a queue's message, ms; -1 when its record is gone."""
        physical_offset, size, _ = queue.unit(offset)
        stored_ms = self._log.store_timestamp(physical_offset) if size and not is_hole(physical_offset, size) else None
        return -1 if stored_ms is None else stored_ms
