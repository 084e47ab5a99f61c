"""Dispatch from the log to the queues and the index, which makes messages visible to consumers."""

from collections import deque
from collections.abc import Iterable, Mapping
from struct import Struct

from broker_core.errors import RequestError
from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import (
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    is_blank,
    measure,
    properties_at,
    store_timestamp_at,
    topic_at,
)
from broker_core.formats.inner_batch import inner_number, is_inner_batch
from broker_core.formats.tags_code import tags_code
from broker_core.store.commit_log import Arrival, Batch, CommitLog, DispatchRequest
from broker_core.store.commit_log_dispatcher_calc_bit_map import CommitLogDispatcherCalcBitMap
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.delay_level import SCHEDULE_TOPIC, DelayLevels
from broker_core.store.files import MutableBuffer
from broker_core.store.index.index_service import IndexService
from broker_core.store.queue.batch_consume_queue import BatchConsumeQueue
from broker_core.store.queue.consume_queue import ConsumeQueue

PENDING_BYTES = 64 * 1024 * 1024
"""Bytes of undispatched batches kept in memory. Beyond that, when flushes are slow, they are read from the log."""

RECORDS_AHEAD = 1000
"""Records that are read to check a QUEUEOFFSET that does not follow the one before it."""

_FRONT = Struct(">12xi4xq8xi")
"""QUEUEID, QUEUEOFFSET, SYSFLAG of a record."""


class MissingUnits(Exception):
    """A queue lacks units of records before the position from which the log was read."""


class ReputMessageService:
    """RocketMQ's ReputMessageService. ``position`` is the physical offset up to which everything is dispatched.

    Each append passes its batch to ``appended``. The log is read only for records that came by no batch: in recovery,
    and when too much is waiting for a flush.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        delay_levels: DelayLevels,
        calc_bit_map: CommitLogDispatcherCalcBitMap,
    ) -> None:
        self._log = log
        self._delay_levels = delay_levels
        self._queues = queues
        self._index = index
        self._calc_bit_map = calc_bit_map
        self._pending: deque[Batch] = deque()
        self.position = 0
        self.last_store_timestamp = 0
        self.touched: set[ConsumeQueue] = set()
        """Queues written to since the last flush was made."""
        self.holes_allowed = True
        self.messages_moved_max = 1 << 62
        """Messages that may be moved from ordinary queues of a topic to batch consume queues in one call."""
        self.unreadable = 0
        """Records that are in no queue, because their topic or their queue offset is damaged."""
        self.unreadable_ranges: Mapping[int, int] = {}
        """Ranges of the log (start: end) that are passed over, because they are damaged."""
        self.lmq_topics: dict[str, None] = {}
        """Topics whose messages RocketMQ put into light message queues (LMQ) too, as far as they were read here."""
        self._covered_bytes = 0
        """Bytes of placeholders: recovery could not read the records that were there."""
        self._unindexed: list[DispatchRequest] = []
        self._arrivals: list[Arrival] = []

    def appended(self, batch: Batch) -> None:
        """Take the records of an append, to be dispatched when they are confirmed."""
        if batch.end - self.position > PENDING_BYTES:
            self._pending.clear()
        else:
            self._pending.append(batch)

    def reput(self, confirmed_offset: int, limit: int) -> list[Arrival]:
        """Dispatch about ``limit`` messages before ``confirmed_offset``. OSError when a queue cannot be written."""
        count, end = 0, self.position
        pending = self._pending
        if len(pending) == 1:  # the usual case: the batch of the append just made
            batch = pending[0]
            if batch.start == end and batch.end <= confirmed_offset:
                pending.clear()
                self._dispatch(batch.arrivals, batch.requests)
                self.position = batch.end
                arrivals, self._arrivals = self._arrivals, []
                return arrivals
        batches: list[Batch] = []
        while pending and count < limit:
            batch = pending[0]
            if batch.start != end or batch.end > confirmed_offset:
                break
            batches.append(pending.popleft())
            count += len(batch.requests)
            end = batch.end
        if not batches and end < confirmed_offset:
            batch = self._read(end, confirmed_offset, limit)
            batches.append(batch)
            end = batch.end
            while pending and pending[0].start < end:
                pending.popleft()
        self._dispatch(_joined(batches), [request for batch in batches for request in batch.requests])
        if end > self.position:
            self.position = end
        return self.take_arrivals()

    def take_arrivals(self) -> list[Arrival]:
        """What was dispatched since the last call, including by a ``reput`` that failed at a later queue."""
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    # --- dispatch -----------------------------------------------------------------------------------------------

    def _dispatch(self, arrivals: Iterable[Arrival], requests: list[DispatchRequest]) -> None:
        """Write to the queues, then note the arrivals; one write and one arrival per queue.

        RocketMQ indexes a message between the two. Here ``build_index`` does so after the arrivals, because the index
        wakes nobody and costs as much as the rest.
        """
        for arrival in arrivals:
            queue = arrival.queue
            if not queue.deleted:
                fields = self._calc_bit_map.dispatch(arrival) if queue.filters else arrival.fields
                if arrival.batches is None:
                    queue.put(arrival.from_offset, fields)
                elif isinstance(queue, BatchConsumeQueue):
                    queue.put_batches(arrival.from_offset, fields, arrival.batches)
                self.touched.add(queue)
                self._arrivals.append(arrival)
        if requests:
            self.last_store_timestamp = requests[-1].store_timestamp
            if self._index is not None:
                self._unindexed += requests

    @property
    def index_is_behind(self) -> bool:
        """Whether messages are dispatched that are not in the index yet."""
        return bool(self._unindexed)

    def build_index(self) -> None:
        """Index what was dispatched. If no index file can be created, raises OSError and keeps the messages."""
        if self._index is not None and self._unindexed:
            self._index.put(self._unindexed)
            self._unindexed.clear()

    # --- reading the log ------------------------------------------------------------------------------------------

    def _read(self, position: int, end: int, limit: int) -> Batch:
        """Read records that queues or index lack from the log. The batch ends where reading stopped."""
        self.build_index()
        begin = position
        requests: list[DispatchRequest] = []
        arrivals: dict[ConsumeQueue, Arrival] = {}
        indexed_up_to = self._index.max_physical_offset if self._index is not None else 1 << 63
        read = 0
        while position < end and read < limit:
            if position in self.unreadable_ranges:
                start, position = position, min(self.unreadable_ranges[position], end)
                self._covered_bytes += position - start
                continue
            file = self._log.mapped_files.find(position)
            if file is None:
                after = self._log.mapped_files.next_after(position)
                position = end if after is None else min(after.base, end)
                continue
            buffer, start = file.buffer, position - file.base
            size = measure(buffer, start, min(file.size, end - file.base), position, check_crc=False)
            if not size:
                if not is_blank(buffer, start):
                    self.unreadable += 1
                    position = end
                    break
                position = self._next_segment(position)
                continue
            place = self._place_of(buffer, start, position, size, arrivals)
            if place is None:
                break
            queue, queue_id, queue_offset, transaction = place
            if transaction == TRANSACTION_ROLLBACK:
                self._covered_bytes += size
            indexed = transaction != TRANSACTION_ROLLBACK and position > indexed_up_to
            if queue is not None or indexed:
                requests.append(self._request(buffer, start, position, size, queue_id, queue_offset, indexed))
                self.note_lmq(requests[-1].topic, requests[-1].properties)
            if queue is not None:
                self._enter(arrivals, queue, requests[-1])
            position += size
            read += 1
        return Batch(begin, position, requests, list(arrivals.values()))

    def _next_segment(self, position: int) -> int:
        size = self._log.mapped_files.file_size
        return position - position % size + size

    def _place_of(
        self, buffer: MutableBuffer, start: int, position: int, size: int, arrivals: dict[ConsumeQueue, Arrival]
    ) -> tuple[ConsumeQueue | None, int, int, int] | None:
        """(queue that lacks the record or None, queue id, queue offset, transaction state).

        Returns None if there is a gap before the record in its queue, or the queue must be replaced. The batch must
        then end here, because both happen before a write. While messages are moved to the queue that replaces it, no
        record is read.
        """
        queue_id, queue_offset, sys_flag = _FRONT.unpack_from(buffer, start)
        transaction = sys_flag & TRANSACTION_MASK
        no_queue = None, queue_id, queue_offset, transaction
        if transaction in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            return no_queue
        try:
            topic = topic_at(buffer, start).decode()
            queue = self._queues.find(topic, queue_id)
        except (RequestError, UnicodeDecodeError):
            self.unreadable += 1
            return no_queue
        if is_inner_batch(sys_flag) and not queue.is_batch:
            if any(arrived.topic == topic for arrived in arrivals) or not self._make_batch_queues(topic):
                return None
            queue = self._queues.find(topic, queue_id)
        arrival = arrivals.get(queue)
        next_offset = queue.max_offset if arrival is None else arrival.to_offset
        if queue_offset < next_offset:
            return no_queue
        if queue_offset > next_offset:
            known = queue_offset - next_offset <= self._covered_bytes // queue.message_size_min + self.unreadable
            if not known and not self._is_plausible(queue, queue_offset, next_offset, position, position + size):
                self.unreadable += 1
                return no_queue
            if not known and not self.holes_allowed:
                raise MissingUnits(f"{queue.topic}@{queue.queue_id} lacks units before {queue_offset}")
            if arrival is not None:
                return None
        return queue, queue_id, queue_offset, transaction

    def _make_batch_queues(self, topic: str) -> bool:
        """Replace a topic's queues by batch consume queues. False if messages are left to be moved by the next call."""
        log = self._log
        made = self._queues.make_batch_queues(topic, log.min_offset, log.store_timestamp, self.messages_moved_max)
        if made is None:
            return False
        self.touched = {queue for queue in self.touched.union(made) if not queue.deleted}
        return True

    def _is_plausible(self, queue: ConsumeQueue, queue_offset: int, next_offset: int, position: int, end: int) -> bool:
        """Whether a record may lie so far after the end of its queue. No checksum covers its QUEUEOFFSET.

        The records between must have been in the log. And the queue's next record, if it is near, has a higher offset.
        """
        if (queue_offset - next_offset) * queue.message_size_min > position - queue.max_physical_offset:
            return False
        if next_offset == 0 and self._log.min_offset > 0:  # its first records may have expired
            return True
        following = self._queue_offset_after(queue, end)
        return following is None or following > queue_offset

    def _queue_offset_after(self, queue: ConsumeQueue, position: int) -> int | None:
        """QUEUEOFFSET of the next record of a queue from ``position`` on; None if it is far or there is none."""
        name = queue.topic.encode()
        for _ in range(RECORDS_AHEAD):
            file = self._log.mapped_files.find(position)
            if file is None:
                return None
            start = position - file.base
            size = measure(file.buffer, start, file.size, position, check_crc=False)
            if size:
                queue_id, queue_offset, sys_flag = _FRONT.unpack_from(file.buffer, start)
                rolled_back = sys_flag & TRANSACTION_MASK in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
                if queue_id == queue.queue_id and not rolled_back and topic_at(file.buffer, start) == name:
                    return int(queue_offset)
                position += size
            elif is_blank(file.buffer, start):
                position = self._next_segment(position)
            else:
                return None
        return None

    @staticmethod
    def _request(
        buffer: MutableBuffer, start: int, position: int, size: int, queue_id: int, queue_offset: int, indexed: bool
    ) -> DispatchRequest:
        topic = topic_at(buffer, start).decode("utf-8", "replace")
        properties = properties_at(buffer, start).decode("utf-8", "surrogateescape")
        tag = message_properties.find(properties, message_properties.TAGS)
        return DispatchRequest(
            topic, queue_id, queue_offset, position, size, store_timestamp_at(buffer, start), properties, tag, indexed
        )

    def note_lmq(self, topic: str, properties: str) -> None:
        """Note the topic of a message if RocketMQ put it into light message queues too."""
        if message_properties.find(properties, message_properties.INNER_MULTI_QUEUE_OFFSET):
            self.lmq_topics[topic] = None

    def _enter(self, arrivals: dict[ConsumeQueue, Arrival], queue: ConsumeQueue, request: DispatchRequest) -> None:
        """Add a record to the arrival of its queue."""
        offset, stored = request.queue_offset, request.store_timestamp
        arrival = arrivals.get(queue)
        if arrival is None:
            arrival = arrivals[queue] = Arrival(queue, queue.topic, queue.queue_id, offset, offset, stored, 0, [])
        code = tags_code(request.tag) if request.tag else 0
        if request.topic == SCHEDULE_TOPIC:
            code = self._delay_levels.tags_code(request.properties, stored, code)
        count = 1
        if queue.is_batch:
            count = inner_number(request.properties)
            arrival.add_batch(count, stored)
        arrival.to_offset = offset + count
        arrival.size += request.size
        arrival.fields += (request.physical_offset, request.size, code)


def _joined(batches: Iterable[Batch]) -> Iterable[Arrival]:
    """The arrivals of several batches, joined to one per queue."""
    joined: dict[ConsumeQueue, Arrival] = {}
    for batch in batches:
        for arrival in batch.arrivals:
            first = joined.setdefault(arrival.queue, arrival)
            if first is not arrival:
                first.fields += arrival.fields
                if arrival.batches is not None:
                    first.batches = (first.batches or []) + arrival.batches
                first.to_offset = arrival.to_offset
                first.size += arrival.size
    return joined.values()
