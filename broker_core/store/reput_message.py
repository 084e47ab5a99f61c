"""From the log to the queues and the index: what consumers may see."""

from collections import deque
from collections.abc import Sequence
from struct import Struct

import msgspec

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
from broker_core.formats.tags_code import tags_code
from broker_core.store.commit_log import Batch, CommitLog, DispatchRequest
from broker_core.store.consume_queue import ConsumeQueue
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.delay_level import SCHEDULE_TOPIC, schedule_tags_code
from broker_core.store.files import MutableBuffer
from broker_core.store.index_service import IndexService

PENDING_MAX = 200_000
"""Messages kept ready for dispatch; when the disk confirms too slowly the rest is read from the log again."""

_FRONT = Struct(">12xi4xq8xi")
"""QUEUEID, QUEUEOFFSET, SYSFLAG of a record."""


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """Messages that consumers of a queue see from now on: offsets ``from_offset`` up to, not with, ``to_offset``."""

    topic: str
    queue_id: int
    from_offset: int
    to_offset: int
    tags_codes: list[int]


class MissingUnits(Exception):
    """A queue lacks units of records that lie before the position from which the log was read."""


class ReputMessageService:
    """RocketMQ's ReputMessageService. ``position`` is the physical offset up to which everything is dispatched.

    It is handed what an append has just encoded, and reads the log itself only where it was not: in recovery, or
    when too much waits for the disk.
    """

    def __init__(self, log: CommitLog, queues: ConsumeQueueStore, index: IndexService | None) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._pending: deque[Batch] = deque()
        self._pending_count = 0
        self.position = 0
        self.last_store_timestamp = 0
        self.touched: set[ConsumeQueue] = set()
        """Queues written to since the flush last took them."""
        self.holes_allowed = True
        self.unreadable = 0
        """Records that have no place in any queue: their topic's name could not be a folder's."""
        self._unindexed: list[DispatchRequest] = []
        self._arrivals: list[Arrival] = []

    def appended(self, batch: Batch) -> None:
        """An append's records, to be dispatched when they are confirmed."""
        if self._pending_count > PENDING_MAX:
            self._pending.clear()
            self._pending_count = 0
            return
        self._pending.append(batch)
        self._pending_count += len(batch.requests)

    def reput(self, confirmed_offset: int, limit: int) -> list[Arrival]:
        """Dispatch up to ``confirmed_offset``, about ``limit`` messages. OSError when a queue cannot be written."""
        requests: list[DispatchRequest] = []
        end = self.position
        pending = self._pending
        while pending and pending[0].end <= confirmed_offset and len(requests) < limit and pending[0].start == end:
            batch = pending.popleft()
            self._pending_count -= len(batch.requests)
            requests += batch.requests
            end = batch.end
        if not requests and end < confirmed_offset:
            requests, end = self._read(end, confirmed_offset, limit)
            while pending and pending[0].start < end:
                self._pending_count -= len(pending.popleft().requests)
        self._dispatch(requests)
        if end > self.position:
            self.position = end
        return self.take_arrivals()

    def take_arrivals(self) -> list[Arrival]:
        """What was dispatched since the last call: also by a ``reput`` that failed at a later queue."""
        arrivals, self._arrivals = self._arrivals, []
        return arrivals

    # --- dispatch -----------------------------------------------------------------------------------------------

    def _dispatch(self, requests: Sequence[DispatchRequest]) -> None:
        """Queue, then notice; one write and one notice per queue.

        RocketMQ files a message in the index between the two. Here the index comes after the notice
        (``build_index``), since nobody is woken by it and it costs as much as the rest.
        """
        if not requests:
            return
        groups: dict[ConsumeQueue, tuple[int, list[int], list[int]]] = {}
        for request in requests:
            queue = request.queue
            if queue is None or queue.deleted:
                continue
            group = groups.get(queue)
            if group is None:
                group = groups[queue] = (request.queue_offset, [], [])
            code = request.tags_code
            group[1].extend((request.physical_offset, request.size, code))
            group[2].append(code)
        for queue, (first, fields, codes) in groups.items():
            queue.put(first, fields)
            self.touched.add(queue)
            self._arrivals.append(Arrival(queue.topic, queue.queue_id, first, first + len(codes), codes))
        if self._index is not None:
            self._unindexed += requests
        self.last_store_timestamp = requests[-1].store_timestamp

    @property
    def index_is_behind(self) -> bool:
        """Messages are dispatched that the index does not have yet."""
        return bool(self._unindexed)

    def build_index(self) -> None:
        """File what was dispatched. OSError when no index file can be made; the messages stay to be filed."""
        if self._index is not None and self._unindexed:
            self._index.put(self._unindexed)
            self._unindexed.clear()

    # --- reading the log ------------------------------------------------------------------------------------------

    def _read(self, position: int, end: int, limit: int) -> tuple[list[DispatchRequest], int]:
        """Records from the log that queues or index lack, and how far it was read."""
        self.build_index()
        requests: list[DispatchRequest] = []
        expected: dict[ConsumeQueue, int] = {}
        indexed_up_to = self._index.max_physical_offset if self._index is not None else 1 << 63
        read = 0
        while position < end and read < limit:
            file = self._log.mapped_files.find(position)
            if file is None:
                position = self._next_segment(position)
                continue
            buffer, start = file.buffer, position - file.base
            size = measure(buffer, start, min(file.size, end - file.base), position, check_crc=False)
            if not size:
                if not is_blank(buffer, start):
                    self.unreadable += 1
                    return requests, end
                position = self._next_segment(position)
                continue
            place = self._place_of(buffer, start, expected)
            if place is None:
                break
            queue, queue_offset, transaction = place
            indexed = transaction != TRANSACTION_ROLLBACK and position > indexed_up_to
            if queue is not None or indexed:
                requests.append(self._request(buffer, start, position, size, queue, queue_offset, indexed))
            position += size
            read += 1
        return requests, position

    def _next_segment(self, position: int) -> int:
        size = self._log.mapped_files.file_size
        return position - position % size + size

    def _place_of(self, buffer: MutableBuffer, start: int,
                  expected: dict[ConsumeQueue, int]) -> tuple[ConsumeQueue | None, int, int] | None:
        """(queue that lacks the record, queue offset, transaction state); no queue when none does.

        None: there is a hole before it in its queue, which is filled when the next write begins behind it.
        """
        queue_id, queue_offset, sys_flag = _FRONT.unpack_from(buffer, start)
        transaction = sys_flag & TRANSACTION_MASK
        if transaction in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
            return None, queue_offset, transaction
        try:
            queue = self._queues.find(topic_at(buffer, start).decode(), queue_id)
        except (RequestError, UnicodeDecodeError):
            self.unreadable += 1
            return None, queue_offset, transaction
        next_offset = expected.get(queue, queue.max_offset)
        if queue_offset < next_offset:
            return None, queue_offset, transaction
        if queue_offset > next_offset:
            if not self.holes_allowed:
                raise MissingUnits(f"{queue.topic}@{queue.queue_id} lacks units before {queue_offset}")
            if queue in expected:
                return None
        expected[queue] = queue_offset + 1
        return queue, queue_offset, transaction

    @staticmethod
    def _request(buffer: MutableBuffer, start: int, position: int, size: int, queue: ConsumeQueue | None,
                 queue_offset: int, indexed: bool) -> DispatchRequest:
        topic = topic_at(buffer, start).decode("utf-8", "replace")
        properties = properties_at(buffer, start).decode("utf-8", "surrogateescape")
        store_timestamp = store_timestamp_at(buffer, start)
        tag = message_properties.find(properties, message_properties.TAGS)
        code = tags_code(tag) if tag else 0
        if topic == SCHEDULE_TOPIC:
            code = schedule_tags_code(properties, store_timestamp, code)
        return DispatchRequest(queue, queue_offset, position, size, code, store_timestamp, topic, properties, tag,
            indexed)
