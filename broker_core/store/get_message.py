"""Reading from a queue: which messages a pull returns, and where the next pull begins."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from broker_core.filters.consumer_filter_data import ConsumerFilterData
from broker_core.filters.message_filter import SEARCH_BYTES, MessageFilter
from broker_core.formats.commit_log_record import properties_at, properties_within, store_timestamp_at
from broker_core.formats.consume_queue_unit import HOLE_SIZE, UNIT, UNIT_SIZE, decode_units, is_hole, iter_units
from broker_core.formats.tags_code import EXT_ADDRESS_MAX
from broker_core.options import Options
from broker_core.store.commit_log import Arrival, CommitLog
from broker_core.store.consume_queue_store import ConsumeQueueStore
from broker_core.store.files import MutableBuffer
from broker_core.store.queue.batch_consume_queue import BatchConsumeQueue
from broker_core.store.queue.consume_queue import ConsumeQueue

SCAN_BYTES = 16_000
"""Bytes of queue units (800 units) that a pull with a filter examines at least, if the queue has them."""

EVALUATED_BYTES_MAX = 1 << 20
"""A pull ends when evaluating its filter has read so many bytes, which takes a millisecond or two."""

BATCHES_READ = SCAN_BYTES // UNIT_SIZE
"""Records of a batch consume queue that a pull examines at most."""

FOUND = "FOUND"
NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class GetMessageResult(msgspec.Struct, frozen=True, gc=False):
    """RocketMQ's GetMessageResult; ``status`` is its GetMessageStatus.

    ``records`` are complete commit log records, back to back. ``first_offset`` and ``last_offset`` are the queue
    offsets of the first and last record, ``oldest_store_timestamp`` (ms) is that of the first; all -1 without records.
    The filter rejected ``passed_over`` messages, ``by_bitmap`` of them by their bitmaps. ``work``: the bytes that
    evaluating it has read.
    """

    status: str
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: bytes = b""
    message_count: int = 0
    first_offset: int = -1
    last_offset: int = -1
    oldest_store_timestamp: int = -1
    passed_over: int = 0
    work: int = 0
    by_bitmap: int = 0


class _Picked(NamedTuple):
    """The status, the next offset to read, and offset and (physical offset, size) of each unit to return."""

    status: str
    next_offset: int
    offsets: Sequence[int]
    places: list[tuple[int, int]]
    passed_over: int = 0
    work: int = 0
    by_bitmap: int = 0


class MessageReader:
    """The reading half of RocketMQ's DefaultMessageStore.getMessage."""

    def __init__(self, log: CommitLog, queues: ConsumeQueueStore, options: Options, total_memory: int) -> None:
        self._log = log
        self._queues = queues
        self._total_memory = total_memory
        self.change_options(options)

    def change_options(self, options: Options) -> None:
        """Read the limits of a pull from the options."""
        self._in_memory = (
            options.max_transfer_count_on_message_in_memory,
            options.max_transfer_bytes_on_message_in_memory,
        )
        self._in_disk = (options.max_transfer_count_on_message_in_disk, options.max_transfer_bytes_on_message_in_disk)
        self._memory = self._total_memory * options.access_message_in_memory_max_ratio // 100

    def get_message(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_msg_nums: int,
        max_msg_bytes: int,
        message_filter: MessageFilter | None,
    ) -> GetMessageResult:
        """Messages of a queue from ``offset`` on, as many as one pull may return.

        The statuses are checked in RocketMQ's order. The first match is returned whatever its size.
        """
        queue = self._queues.table.get((topic, queue_id))
        if queue is None:
            return GetMessageResult(NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        low, high = queue.min_offset(self._log.min_offset), queue.max_offset
        if high == 0:
            return GetMessageResult(NO_MESSAGE_IN_QUEUE, 0, low, high)
        if offset < low:
            return GetMessageResult(OFFSET_TOO_SMALL, low, low, high)
        if offset == high:
            return GetMessageResult(OFFSET_OVERFLOW_ONE, offset, low, high)
        if offset > high:
            return GetMessageResult(OFFSET_OVERFLOW_BADLY, high, low, high)
        max_msg_nums = max(1, max_msg_nums)
        if isinstance(queue, BatchConsumeQueue):
            return self._get_batches(queue, offset, low, max_msg_nums, max_msg_bytes, message_filter)
        if message_filter is None:
            units = queue.read(offset, min(max_msg_nums, max(self._in_memory[0], self._in_disk[0])))
        else:
            units = queue.read(offset, max(SCAN_BYTES // UNIT_SIZE, max_msg_nums))
        if not units:
            return GetMessageResult(OFFSET_FOUND_NULL, min(queue.next_file_offset(offset), high), low, high)
        picked = self._pick_row(units, offset, max_msg_nums, max_msg_bytes) if message_filter is None else None
        if picked is None:
            by_properties = message_filter is not None and message_filter.reads_properties
            pick = self._pick_by_properties if by_properties else self._pick
            picked = pick(queue, units, offset, max_msg_nums, max_msg_bytes, message_filter)
        return self._result(picked, low, high)

    def get_arrived(
        self,
        arrival: Arrival,
        offset: int,
        message_filter: MessageFilter | None,
    ) -> GetMessageResult | None:
        """The result of ``get_message`` if it is just the one message that arrived; otherwise None.

        The arrival contains the record's position, so the queue is not read. No limit applies, because the message is
        the first match.
        """
        queue = arrival.queue
        end = queue.max_offset
        if arrival.from_offset != offset or end != offset + 1 or queue.deleted:
            return None
        physical_offset, size, tags_code = arrival.fields
        file = self._log.mapped_files.find(physical_offset)
        if file is None:
            return None
        buffer, start, work = file.buffer, physical_offset - file.base, 0
        if message_filter is not None:
            if not self._matches(message_filter, queue, tags_code, buffer, start):
                return None
            if message_filter.reads_properties:
                work = message_filter.work * (len(properties_at(buffer, start)) + SEARCH_BYTES)
        first = self._log.mapped_files.first or file
        return GetMessageResult(
            FOUND,
            end,
            queue.min_offset(first.base),
            end,
            bytes(buffer[start : start + size]),
            1,
            offset,
            offset,
            arrival.store_timestamp,
            work=work,
        )

    def properties(self, physical_offset: int) -> bytes:
        """The property string of a record that has just been dispatched; empty when it is gone."""
        file = self._log.mapped_files.find(physical_offset)
        return properties_at(file.buffer, physical_offset - file.base) if file is not None else b""

    def earliest_store_time(self) -> int | None:
        """When the first message of the log was stored, ms; None when it has none."""
        return self._log.store_timestamp(self._log.min_offset)

    def recent_properties(self, topic: str, queue_id: int, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
        """(store time in ms, property string) of a queue's messages from ``begin`` up to ``end``, without their bodies.

        Messages that are deleted or damaged are left out.
        """
        queue = self._queues.table.get((topic, queue_id))
        if queue is None:
            return
        log_end = self._log.max_offset
        for number in range(max(begin, queue.min_offset(self._log.min_offset)), min(end, queue.max_offset)):
            physical_offset, size, _ = queue.unit(number)
            file = None if not size or is_hole(physical_offset, size) else self._log.mapped_files.find(physical_offset)
            if file is not None and physical_offset + size <= log_end:
                start = physical_offset - file.base
                yield store_timestamp_at(file.buffer, start), bytes(properties_at(file.buffer, start))

    def queue_units(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]:
        """(physical offset, size, tagsCode) of up to ``count`` messages of a queue.

        If the unit of the extension with a tagsCode is gone, its address is returned.
        """
        queue = self._queues.table.get((topic, queue_id))
        if queue is None:
            return []
        units = [
            queue.unit(number)
            for number in range(
                max(offset, queue.min_offset(self._log.min_offset)), min(offset + count, queue.max_offset)
            )
        ]
        tags_code = self._queues.tags_code
        return [(place, size, code if (own := tags_code(queue, code)) is None else own) for place, size, code in units]

    def sample(
        self, topic: str, queue_id: int, offset: int, count: int, wanted: frozenset[int] | ConsumerFilterData
    ) -> list[bool]:
        """Which of up to ``count`` messages from ``offset`` on may match, by the queue alone; within two files.

        ``wanted`` are tagsCodes, or an SQL92 filter, whose bitmaps are tested. A message whose tagsCode or bitmap is
        missing may match.
        """
        queue = self._queues.table.get((topic, queue_id))
        if queue is None:
            return []
        first = max(offset, queue.min_offset(self._log.min_offset))
        units = queue.read(first, count)
        if 0 < len(units) < count * UNIT_SIZE:
            units += queue.read(first + len(units) // UNIT_SIZE, count - len(units) // UNIT_SIZE)
        if isinstance(wanted, ConsumerFilterData):
            candidates = self._candidates(queue, units, wanted)[0] if units else []
            may_match = range(len(units) // UNIT_SIZE) if candidates is None else set(candidates)
            return [number in may_match for number in range(len(units) // UNIT_SIZE)]
        tags_code = self._queues.tags_code
        own = (code if code > EXT_ADDRESS_MAX else tags_code(queue, code) for code in decode_units(units)[2::3])
        return [code is None or code in wanted for code in own]

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Whether the queue has this message, in the recent part of the log that is likely to be in memory."""
        queue = self._queues.table.get((topic, queue_id))
        if queue is None or not queue.min_offset(self._log.min_offset) <= offset < queue.max_offset:
            return False
        physical_offset, size, _ = queue.unit(offset)
        return size > 0 and self._log.max_offset - physical_offset <= self._memory

    def _limits(self, physical_offset: int, max_msg_nums: int, max_msg_bytes: int) -> tuple[int, int]:
        """(messages, bytes) that a pull may return once it reaches this part of the log."""
        far = self._log.max_offset - physical_offset > self._memory
        count, size = self._in_disk if far else self._in_memory
        return min(count, max_msg_nums), min(size, max_msg_bytes)

    def _pick_row(self, units: bytes, offset: int, max_msg_nums: int, max_msg_bytes: int) -> _Picked | None:
        """Pick many units at once; None if they must be examined one by one."""
        fields = decode_units(units)
        if len(fields) == 3:  # usually a woken pull; no limit applies to the first match
            return self._pick_one(fields[0], fields[1], offset)
        places = fields[0::3]
        count, byte_limit = limits = self._limits(places[0], max_msg_nums, max_msg_bytes)
        places, sizes = places[:count], fields[1 : 3 * count : 3]
        last = places[-1]
        if limits != self._limits(last, max_msg_nums, max_msg_bytes) or max(sizes) == HOLE_SIZE:
            return None
        file = self._log.mapped_files.find(places[0])
        if file is None or last + sizes[-1] > min(file.base + file.size, self._log.max_offset):
            return None
        if sum(sizes) > byte_limit:
            fitting = max(1, bisect_right(list(accumulate(sizes)), byte_limit))
            places, sizes = places[:fitting], sizes[:fitting]
        end = offset + len(places)
        return _Picked(FOUND, end, range(offset, end), list(zip(places, sizes, strict=True)))

    def _pick_one(self, physical_offset: int, size: int, offset: int) -> _Picked | None:
        file = self._log.mapped_files.find(physical_offset)
        if file is None or size == HOLE_SIZE or physical_offset + size > self._log.max_offset:
            return None
        return _Picked(FOUND, offset + 1, [offset], [(physical_offset, size)])

    def _pick_by_properties(
        self,
        queue: ConsumeQueue,
        units: bytes,
        offset: int,
        max_msg_nums: int,
        max_msg_bytes: int,
        message_filter: MessageFilter | None,
    ) -> _Picked:
        """``_pick`` for a filter that evaluates properties. It ends when that becomes too much for one turn.

        The bitmaps are tested first, if there are any.
        """
        assert message_filter is not None
        end, (candidates, work) = len(units) // UNIT_SIZE, self._candidates(queue, units, message_filter)
        rows: Iterable[tuple[int, tuple[int, int, int]]] = enumerate(iter_units(units))
        if candidates is not None:
            rows = [(number, UNIT.unpack_from(units, number * UNIT_SIZE)) for number in candidates]
        matches, searches = message_filter.matches_record, message_filter.work
        status, total, passed_over = NO_MATCHED_MESSAGE, 0, 0
        offsets: list[int] = []
        places: list[tuple[int, int]] = []
        find, log_end = self._log.mapped_files.find, self._log.max_offset
        file, base, file_end = None, 0, 0  # the segment that the last record is in
        for number, (physical_offset, size, _) in rows:
            if places:
                count, byte_limit = self._limits(physical_offset, max_msg_nums, max_msg_bytes)
                if len(places) >= count or total + size > byte_limit:
                    end = number
                    break
            if work >= EVALUATED_BYTES_MAX:
                end = number
                break
            if not base <= physical_offset < file_end:
                file = find(physical_offset)
                base, file_end = (0, 0) if file is None else (file.base, file.base + file.size)
            if file is None or size == HOLE_SIZE or physical_offset + size > log_end:
                status = MESSAGE_WAS_REMOVING if not places else status
            else:
                properties = properties_within(file.buffer, physical_offset - base, size)
                work += searches * (len(properties) + SEARCH_BYTES)
                if matches(properties):
                    offsets.append(offset + number)
                    places.append((physical_offset, size))
                    total += size
                else:
                    passed_over += 1
                    status = NO_MATCHED_MESSAGE if not places else status
        by_bitmap = 0 if candidates is None else end - bisect_left(candidates, end)
        passed_over += by_bitmap
        return _Picked(FOUND if places else status, offset + end, offsets, places, passed_over, work, by_bitmap)

    def _candidates(self, queue: ConsumeQueue, units: bytes, wanted: MessageFilter) -> tuple[Sequence[int] | None, int]:
        """The numbers of the units whose messages may match by their bitmaps (None if there are no bitmaps), and the
        work, as bytes read."""
        if not isinstance(wanted, ConsumerFilterData) or wanted.topic != queue.topic:
            return None, 0
        fields = decode_units(units)
        places = fields[0::3]
        begin = wanted.bitmaps_from
        if places[-1] < begin or HOLE_SIZE in fields[1::3]:
            return None, 0
        start = bisect_left(places, begin)
        rest, work = self._queues.candidates(queue, fields[3 * start + 2 :: 3], wanted)
        return (rest if not start else [*range(start), *(start + number for number in rest)]), work

    def _pick(
        self,
        queue: ConsumeQueue,
        units: bytes,
        offset: int,
        max_msg_nums: int,
        max_msg_bytes: int,
        message_filter: MessageFilter | None,
    ) -> _Picked:
        """Pick unit by unit."""
        units = self._queues.with_tags_codes(queue, units)
        status, total, passed_over = NO_MATCHED_MESSAGE, 0, 0
        offsets: list[int] = []
        places: list[tuple[int, int]] = []
        find, log_end = self._log.mapped_files.find, self._log.max_offset
        for physical_offset, size, tags_code in iter_units(units):
            if places:
                count, byte_limit = self._limits(physical_offset, max_msg_nums, max_msg_bytes)
                if len(places) >= count or total + size > byte_limit:
                    break
            file = None if is_hole(physical_offset, size) else find(physical_offset)
            if file is None or physical_offset + size > log_end:
                status = MESSAGE_WAS_REMOVING if not places else status
            elif message_filter is None or self._matches(
                message_filter, queue, tags_code, file.buffer, physical_offset - file.base
            ):
                offsets.append(offset)
                places.append((physical_offset, size))
                total += size
            else:
                passed_over += 1
                status = NO_MATCHED_MESSAGE if not places else status
            offset += 1
        return _Picked(FOUND if places else status, offset, offsets, places, passed_over)

    def _get_batches(
        self,
        queue: BatchConsumeQueue,
        offset: int,
        low: int,
        max_msg_nums: int,
        max_msg_bytes: int,
        message_filter: MessageFilter | None,
    ) -> GetMessageResult:
        """``get_message`` for a batch consume queue. It returns whole records; the first may begin before ``offset``.

        Filters see the tag and the properties of a record, not those of its messages.
        """
        status, size, passed_over, work, count = NO_MATCHED_MESSAGE, 0, 0, 0, 0
        places: list[tuple[int, int]] = []
        first_offset = last_offset = stored = -1
        find, log_end, next_offset = self._log.mapped_files.find, self._log.max_offset, queue.max_offset
        for looked_at, unit in enumerate(queue.batches(offset)):
            if looked_at == BATCHES_READ or work >= EVALUATED_BYTES_MAX:
                next_offset = unit.base
                break
            if places:
                count_limit, byte_limit = self._limits(unit.physical_offset, max_msg_nums, max_msg_bytes)
                if count + unit.number > count_limit or size + unit.size > byte_limit:
                    next_offset = unit.base
                    break
            file = None if unit.is_hole else find(unit.physical_offset)
            if file is None or unit.physical_offset + unit.size > log_end:
                status = status if places else MESSAGE_WAS_REMOVING
                continue
            status = NO_MATCHED_MESSAGE
            start = unit.physical_offset - file.base
            if message_filter is not None and message_filter.reads_properties:
                work += message_filter.work * (len(properties_at(file.buffer, start)) + SEARCH_BYTES)
            if message_filter is None or self._matches(message_filter, queue, unit.tags_code, file.buffer, start):
                if not places:
                    first_offset, stored = unit.base, unit.store_timestamp
                places.append(unit[:2])
                last_offset = unit.end - 1
                size += unit.size
                count += unit.number
            else:
                passed_over += unit.number
        return GetMessageResult(
            FOUND if places else status,
            next_offset,
            low,
            queue.max_offset,
            self._copy(places) if places else b"",
            count,
            first_offset,
            last_offset,
            stored,
            passed_over,
            work,
        )

    def _matches(
        self, message_filter: MessageFilter, queue: ConsumeQueue, tags_code: int, buffer: MutableBuffer, start: int
    ) -> bool:
        code = self._queues.tags_code(queue, tags_code)
        if code is not None and not message_filter.matches_tags_code(code):
            return False
        return message_filter.matches_record(properties_at(buffer, start))

    def _result(self, picked: _Picked, low: int, high: int) -> GetMessageResult:
        status, next_offset, offsets, places, passed_over, work, by_bitmap = picked
        if not places:
            return GetMessageResult(
                status, next_offset, low, high, passed_over=passed_over, work=work, by_bitmap=by_bitmap
            )
        records = self._copy(places)
        return GetMessageResult(
            FOUND,
            next_offset,
            low,
            high,
            records,
            len(places),
            offsets[0],
            offsets[-1],
            store_timestamp_at(records, 0),
            passed_over,
            work,
            by_bitmap,
        )

    def _copy(self, places: list[tuple[int, int]]) -> bytes:
        """Copy the records, the only copy that is made; in one piece if they are adjacent in one segment."""
        start, (last, last_size) = places[0][0], places[-1]
        file = self._log.mapped_files.find(start)
        assert file is not None
        base, buffer = file.base, file.buffer
        if len(places) == 1:
            return bytes(buffer[start - base : start - base + last_size])
        if last + last_size > base + file.size:
            in_segment = [place for place in places if place[0] < base + file.size]
            return self._copy(in_segment) + self._copy(places[len(in_segment) :])
        if last + last_size - start == sum([size for _, size in places]):
            return bytes(buffer[start - base : last + last_size - base])
        return b"".join([buffer[place - base : place - base + size] for place, size in places])
