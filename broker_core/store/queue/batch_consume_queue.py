"""The queue of a topic with ``queue.type=BatchCQ``: an entry for each record, which may have many messages."""

from collections.abc import Iterator
from pathlib import Path

from broker_core.formats.batch_consume_queue_unit import UNIT, UNIT_SIZE, BatchUnit
from broker_core.formats.consume_queue_unit import HOLE, HOLE_SIZE
from broker_core.formats.consume_queue_unit import UNIT as ONE_MESSAGE
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps
from broker_core.store.queue.consume_queue import ALLOCATE_CHUNK, ConsumeQueue

FILE_SIZE = 300_000 * UNIT_SIZE
"""RocketMQ's default of mapperFileSizeBatchConsumeQueue."""
MESSAGE_SIZE_MIN = 22
"""The smallest number of bytes that a message takes in a batch."""


class BatchConsumeQueue(ConsumeQueue):
    """RocketMQ's BatchConsumeQueue: a sequence of 46-byte units, sorted by the queue offsets of their messages.

    Offsets count messages, as in every queue. The unit of a message is found by a binary search. Whoever reads by
    offset sees the record of a batch at the offset of each of its messages; ``batches`` yields each record once.
    """

    __slots__ = ("unit_end",)

    unit_end: int
    is_batch = True
    unit_size = UNIT_SIZE
    message_size_min = MESSAGE_SIZE_MIN

    def __init__(
        self, files: Files, maps: OpenMaps, folder: Path, topic: str, queue_id: int, file_size: int = FILE_SIZE
    ) -> None:
        self.unit_end = 0
        super().__init__(files, maps, folder, topic, queue_id, file_size)

    # --- writing ------------------------------------------------------------------------------------------------

    def reserve(self, end_offset: int) -> None:
        """Reserve disk space for the units of messages before ``end_offset``. OSError when the disk is full.

        Each unit has at least one message, so there are at most as many units as messages.
        """
        end_unit = self.unit_end + max(0, end_offset - self.max_offset)
        self._reserve_units(end_unit)

    def _reserve_units(self, end_unit: int) -> None:
        position, end = self.unit_end * UNIT_SIZE, end_unit * UNIT_SIZE
        while position < end:
            file = self.mapped_files.find(position) or self.mapped_files.create(position)
            file.allocate(min(end - file.base, file.size), ALLOCATE_CHUNK)
            position = file.base + file.size
            self.reserved = self.max_offset + (file.base + file.allocated) // UNIT_SIZE - self.unit_end

    def put_batches(self, offset: int, fields: list[int], batches: list[tuple[int, int]]) -> None:
        """Write units from queue offset ``offset`` on. ``fields`` has physical offset, size and tagsCode of each;
        ``batches`` has (number of messages, store time in ms) of each."""
        self._reserve_units(self.unit_end + len(batches))
        for index, (number, store_timestamp) in enumerate(batches):
            physical_offset, size, tags_code = fields[3 * index : 3 * index + 3]
            if not self.unit_end:
                self._min_offset, self._min_for = offset, 0
            unit = BatchUnit(physical_offset, size, tags_code, store_timestamp, offset, number)
            self._write(self.unit_end * UNIT_SIZE, unit.encode())
            self.unit_end += 1
            offset += number
        self.reserved = max(self.reserved, offset)
        self.max_offset = offset
        if self.next_offset < offset:
            self.next_offset = offset

    # --- reading ------------------------------------------------------------------------------------------------

    def batch_unit(self, number: int) -> BatchUnit | None:
        """The unit with this number; None when its file is gone."""
        position = number * UNIT_SIZE
        file = self.mapped_files.find(position)
        return None if file is None else BatchUnit._make(UNIT.unpack_from(file.buffer, position - file.base))

    def numbered(self, number: int) -> tuple[int, int, int]:
        """(physical offset, size, tagsCode) of the unit with this number; zeros when its file is gone."""
        unit = self.batch_unit(number)
        return (0, 0, 0) if unit is None else unit[:3]

    def _offset_after(self, number: int) -> int:
        """The queue offset after the messages of the unit with this number."""
        unit = self.batch_unit(number)
        return self.max_offset if unit is None else unit.end

    def unit_number(self, offset: int) -> int:
        """The number of the first unit that ends after ``offset``; ``unit_end`` if there is none."""
        low, high = self.first_unit, self.unit_end
        while low < high:
            middle = (low + high) // 2
            unit = self.batch_unit(middle)
            if unit is None or unit.end <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def batches(self, offset: int) -> Iterator[BatchUnit]:
        """The units of the messages from ``offset`` on; the first may begin before it."""
        for number in range(self.unit_number(offset), self.unit_end):
            if (unit := self.batch_unit(number)) is not None:
                yield unit

    def base_of(self, offset: int) -> int:
        """The offset of the first message in the record that contains ``offset``."""
        unit = self.batch_unit(self.unit_number(offset))
        return offset if unit is None else min(offset, unit.base)

    def unit(self, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tagsCode) of the record with ``offset``; those of a hole if no record has it."""
        unit = self.batch_unit(self.unit_number(offset)) if offset < self.max_offset else None
        if unit is None:
            return (0, 0, 0)
        return unit[:3] if unit.base <= offset else (0, HOLE_SIZE, 0)

    def read(self, offset: int, count: int) -> bytes:
        """Up to ``count`` messages from ``offset`` on, each as a unit of an ordinary consume queue."""
        parts: list[bytes] = []
        end = min(offset + count, self.max_offset)
        for unit in self.batches(offset) if offset < end else ():
            if unit.base > offset:
                parts.append(HOLE * (min(unit.base, end) - offset))
                offset = min(unit.base, end)
            if offset < end:
                parts.append(ONE_MESSAGE.pack(*unit[:3]) * (min(unit.end, end) - offset))
                offset = min(unit.end, end)
            if offset >= end:
                break
        return b"".join(parts)

    @property
    def first_file_offset(self) -> int:
        """Offset of the first message in the first file."""
        unit = self.batch_unit(self.first_unit) if self.first_unit < self.unit_end else None
        return self.max_offset if unit is None else unit.base

    def _after_holes(self, offset: int) -> int:
        """Offset of the first message at or after ``offset``; ``max_offset`` if there is none."""
        return next((max(offset, unit.base) for unit in self.batches(offset) if not unit.is_hole), self.max_offset)

    def before_holes(self, offset: int, low: int) -> int:
        """Offset of the last message from ``low`` to ``offset``; ``low - 1`` if there is none."""
        for number in range(min(self.unit_number(offset), self.unit_end - 1), self.first_unit - 1, -1):
            unit = self.batch_unit(number)
            if unit is None or unit.end <= low:
                break
            if unit.base <= offset and not unit.is_hole:
                return max(low, min(offset, unit.end - 1))
        return low - 1

    # --- recovery -----------------------------------------------------------------------------------------------

    @staticmethod
    def _is_written(file: MappedFile, number: int) -> bool:
        """Whether the unit with this number in a file was written. The unwritten part of a file is zero."""
        return BatchUnit._make(UNIT.unpack_from(file.buffer, number * UNIT_SIZE)).is_valid

    @staticmethod
    def _written(file: MappedFile) -> int:
        """How many units precede the first invalid one."""
        previous = -1, 0
        with memoryview(file.buffer) as view, view[: file.size - file.size % UNIT_SIZE] as whole:
            for count, fields in enumerate(UNIT.iter_unpack(whole)):
                unit = BatchUnit._make(fields)
                physical_offset = previous[0] + 1 if unit.is_hole else unit.physical_offset
                if not unit.is_valid or physical_offset <= previous[0] or unit.base < previous[1]:
                    return count
                previous = previous[0] if unit.is_hole else physical_offset, unit.end
        return file.size // UNIT_SIZE

    def drop_ext_addresses(self, physical_start: int) -> int:
        """0: a batch consume queue has no extension."""
        return 0

    def _cut(self, end: int) -> None:
        """End the queue before the unit number ``end``, and clear the files from there on.

        If no unit would be left, a hole keeps the queue's end before the first message, so that offsets do not begin
        at 0 again.
        """
        first, offset = self.first_unit, self.first_file_offset
        if end == first < self.unit_end and offset > 0:
            self._write(first * UNIT_SIZE, BatchUnit(0, HOLE_SIZE, 0, 0, offset - 1, 1).encode())
            end += 1
        super()._cut(end)

    def _make_hole(self, number: int) -> int:
        """Replace the unit with this number by a hole; returns how many messages were in it."""
        unit = self.batch_unit(number)
        assert unit is not None
        hole = unit._replace(physical_offset=0, size=HOLE_SIZE, tags_code=0)
        self._write(number * UNIT_SIZE, hole.encode())
        return unit.number

    def _set_end(self, end: int) -> None:
        """Set the end of the queue before the unit number ``end``.

        If the unit before it is lost, the queue's offset is ``end``: each unit had at least one message, so no message
        that is left has a lower offset.
        """
        self.unit_end = self.flushed_units = end
        last = self.batch_unit(end - 1) if end > self.first_unit else None
        self.max_offset = self.next_offset = self.reserved = end if last is None else last.end
        file = self.mapped_files.find(end * UNIT_SIZE)
        if file is not None:
            file.allocated = end * UNIT_SIZE - file.base
