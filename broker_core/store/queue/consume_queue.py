"""The queue of one topic and queue id: the position of each of its messages in the commit log."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker_core.formats.commit_log_record import RECORD_SIZE_MIN
from broker_core.formats.consume_queue_unit import HOLE, UNIT, UNIT_SIZE, encode_units, is_hole, is_valid
from broker_core.formats.tags_code import is_ext_address
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue

if TYPE_CHECKING:
    from broker_core.filters.consumer_filter_data import ConsumerFilterData

ALLOCATE_CHUNK = 1 << 16
FILES_CHECKED = 3
HOLES_READ = 4096
EXT_ADDRESSES_LOOKED_AT = 4096
TAGS_CODE_AT = 12
"""Where the tagsCode begins in a unit."""
EXT_ADDRESS_BYTE = b"\x80"
"""The first byte of an address in an extension of up to 2^56 bytes. A tagsCode begins with 0 or 255."""
HOLES = HOLE * HOLES_READ


class ConsumeQueue:
    """RocketMQ's ConsumeQueue: a sequence of 20-byte units; a queue offset is a byte position divided by 20.

    ``next_offset`` is the offset of the next message to be appended to the log. ``max_offset`` is the offset after
    the last dispatched message; consumers see messages before it.
    """

    is_batch = False
    """Whether an entry may have several messages: the queue is a BatchConsumeQueue."""
    unit_size = UNIT_SIZE
    """Bytes of an entry."""
    message_size_min = RECORD_SIZE_MIN
    """The smallest number of bytes that a message takes in the log."""

    __slots__ = (
        "_min_for",
        "_min_offset",
        "deleted",
        "filters",
        "flushed_units",
        "mapped_files",
        "max_offset",
        "next_offset",
        "queue_id",
        "reserved",
        "topic",
    )

    def __init__(self, files: Files, maps: OpenMaps, folder: Path, topic: str, queue_id: int, file_size: int) -> None:
        self.mapped_files = MappedFileQueue(files, maps, folder, -(-file_size // self.unit_size) * self.unit_size)
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = 0
        self.max_offset = 0
        self.flushed_units = 0
        self.deleted = False
        self.filters: Sequence[ConsumerFilterData] = ()
        """The SQL92 filters with which a bitmap of each message is computed when it is dispatched."""
        self._min_offset = 0
        self._min_for = 0
        self.reserved = 0
        """Units before this offset have disk space reserved."""

    # --- writing ------------------------------------------------------------------------------------------------

    def reserve(self, end_offset: int) -> None:
        """Reserve disk space for the units before ``end_offset``. OSError when the disk is full."""
        position, end = self.reserved * UNIT_SIZE, end_offset * UNIT_SIZE
        while position < end:
            file = self.mapped_files.find(position) or self.mapped_files.create(position)
            file.allocate(min(end - file.base, file.size), ALLOCATE_CHUNK)
            position = file.base + file.size
            self.reserved = (file.base + file.allocated) // UNIT_SIZE

    def put(self, offset: int, fields: list[int]) -> None:
        """Write units (physical offset, size, tagsCode, ...) from ``offset`` on, in one piece.

        If ``offset`` lies beyond the queue's end, because earlier records are gone, the gap is filled first.
        """
        end = offset + len(fields) // 3
        if offset > self.max_offset:
            self._fill_hole(offset)
        if end > self.reserved:
            self.reserve(end)
        position, units = offset * UNIT_SIZE, UNIT.pack(*fields) if len(fields) == 3 else encode_units(fields)
        file = self.mapped_files.find(position)
        if file is not None and position - file.base + len(units) <= file.size:
            file.write(position - file.base, units)
        else:
            self._write(position, units)
        self.max_offset = end
        if self.next_offset < end:
            self.next_offset = end

    def _write(self, position: int, data: bytes) -> None:
        file = self.mapped_files.find(position)
        assert file is not None
        start = position - file.base
        room = file.size - start
        if len(data) <= room:
            file.write(start, data)
            return
        file.write(start, data[:room])
        self._write(position + room, data[room:])

    def _fill_hole(self, offset: int) -> None:
        """RocketMQ's fillPreBlank: fill with holes from the last unit, or in an empty queue from the file's start."""
        size = self.mapped_files.file_size
        start = self.max_offset
        if not self.mapped_files or start == 0:
            start = self.reserved = max(start, offset * UNIT_SIZE // size * size // UNIT_SIZE)
            self._min_offset, self._min_for = offset, 0
        while start < offset:
            stop = min(offset, (start * UNIT_SIZE // size + 1) * size // UNIT_SIZE)
            self.reserve(stop)
            self._write(start * UNIT_SIZE, HOLE * (stop - start))
            start = stop

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def unit_end(self) -> int:
        """The number of the unit after the last one. Numbers count from the first unit ever written."""
        return self.max_offset

    @property
    def first_unit(self) -> int:
        """The number of the first unit in the first file."""
        first = self.mapped_files.first
        return first.base // self.unit_size if first else self.unit_end

    def numbered(self, number: int) -> tuple[int, int, int]:
        """(physical offset, size, tagsCode) of the unit with this number; zeros when its file is gone."""
        return self.unit(number)

    def _offset_after(self, number: int) -> int:
        """The queue offset after the messages of the unit with this number."""
        return number + 1

    def read(self, offset: int, count: int) -> bytes:
        """Up to ``count`` units from ``offset`` on, as far as the end of their file or of the queue."""
        position = offset * UNIT_SIZE
        file = self.mapped_files.find(position)
        if file is None:
            return b""
        start = position - file.base
        return bytes(file.buffer[start : min(start + min(count, self.max_offset - offset) * UNIT_SIZE, file.size)])

    def unit(self, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tagsCode) at ``offset``; zeros when its file is gone."""
        position = offset * UNIT_SIZE
        file = self.mapped_files.find(position)
        if file is None:
            return (0, 0, 0)
        physical_offset, size, tags_code = UNIT.unpack_from(file.buffer, position - file.base)
        return physical_offset, size, tags_code

    def base_of(self, offset: int) -> int:
        """The offset of the first message in the record that contains ``offset``."""
        return offset

    @property
    def last_ext_address(self) -> int:
        """The tagsCode of the last unit that refers to the extension; 0 if none of the last units does."""
        offset, address = max(self.first_file_offset, self.max_offset - EXT_ADDRESSES_LOOKED_AT), 0
        while offset < self.max_offset:  # they may lie in several files
            units = self.read(offset, EXT_ADDRESSES_LOOKED_AT)
            place = units[TAGS_CODE_AT::UNIT_SIZE].rfind(EXT_ADDRESS_BYTE)
            if place >= 0:
                address = self.unit(offset + place)[2]
            offset = self.next_file_offset(offset)
        return address

    @property
    def max_physical_offset(self) -> int:
        """End of the last message's record in the log; 0 without messages."""
        for number in range(self.unit_end - 1, self.first_unit - 1, -1):
            physical_offset, size, _ = self.numbered(number)
            if size and not is_hole(physical_offset, size):
                return physical_offset + size
        return 0

    def min_offset(self, min_physical_offset: int) -> int:
        """First offset with a record at or after ``min_physical_offset``, where the log begins."""
        if self._min_for < min_physical_offset:
            self._min_offset = self.first_offset_where(
                max(self._min_offset, self.first_file_offset),
                lambda offset: self.unit(offset)[0] >= min_physical_offset,
            )
            self._min_for = min_physical_offset
        return self._min_offset

    @property
    def first_file_offset(self) -> int:
        """Offset of the first message in the first file."""
        return self.first_unit

    def first_offset_where(self, start: int, reached: Callable[[int], bool]) -> int:
        """Offset of the first message from ``start`` on for which ``reached`` is true; ``max_offset`` if there is none.

        ``reached`` must be true for all messages after the first one. It is not called with the offset of a hole.
        """
        low, high = start, self.max_offset
        while low < high:
            middle = (low + high) // 2
            message = self._after_holes(middle)
            if message >= high or reached(message):
                high = middle
            else:
                low = message + 1
        return self._after_holes(low)

    def _after_holes(self, offset: int) -> int:
        """Offset of the first message at or after ``offset``; ``max_offset`` if there is none."""
        while offset < self.max_offset and is_hole(*self.unit(offset)[:2]):
            units = self.read(offset, HOLES_READ)
            offset += len(units) // UNIT_SIZE if units == HOLES[: len(units)] else 1
        return offset

    def before_holes(self, offset: int, low: int) -> int:
        """Offset of the last message from ``low`` to ``offset``; ``low - 1`` if there is none."""
        while offset >= low and is_hole(*self.unit(offset)[:2]):
            start = max(low, offset + 1 - HOLES_READ)
            units = self.read(start, offset + 1 - start)
            is_all = len(units) == (offset + 1 - start) * UNIT_SIZE and units == HOLES[: len(units)]
            offset = start - 1 if is_all else offset - 1
        return offset

    def next_file_offset(self, offset: int) -> int:
        """First offset of the file after the one that ``offset`` belongs to."""
        size = self.mapped_files.file_size
        return (offset * UNIT_SIZE // size + 1) * size // UNIT_SIZE

    # --- recovery -----------------------------------------------------------------------------------------------

    def recover(self, *, clean: bool) -> list[str]:
        """Find the queue's end on the disk. After an unclean stop the last files are read unit by unit.

        Returns sentences about irregularities.
        """
        steps = self.mapped_files.load()
        files, size = self.mapped_files.all(), self.unit_size
        while len(files) > 1 and not self._is_written(files[-1], 0):
            files.pop()  # created for a message that was not stored in the end
        checked = files[-1:] if clean else files[-FILES_CHECKED:]
        end = checked[0].base // size if files else 0
        for file in checked:
            if file.base != end * size:
                break
            count = self._written_cleanly(file) if clean else self._written(file)
            end += count
            if count * size < file.size:
                break
        self._set_end(end)
        self._min_offset = self.first_offset_where(self.first_file_offset, lambda offset: True) if files else 0
        self._min_for = 0
        return steps

    @staticmethod
    def _is_written(file: MappedFile, number: int) -> bool:
        """Whether the unit with this number in a file was written. The unwritten part of a file is zero."""
        return bool(UNIT.unpack_from(file.buffer, number * UNIT_SIZE)[1] > 0)

    @staticmethod
    def _written(file: MappedFile) -> int:
        """How many units precede the first invalid one."""
        previous = -1
        with memoryview(file.buffer) as view, view[: file.size - file.size % UNIT_SIZE] as whole:
            for count, (physical_offset, size, _) in enumerate(UNIT.iter_unpack(whole)):
                if is_hole(physical_offset, size):
                    continue
                if not is_valid(physical_offset, size) or physical_offset <= previous:
                    return count
                previous = physical_offset
        return file.size // UNIT_SIZE

    def _written_cleanly(self, file: MappedFile) -> int:
        """The same, for a file in which no written unit follows an unwritten one."""
        low, high = 0, file.size // self.unit_size
        while low < high:
            middle = (low + high) // 2
            if self._is_written(file, middle):
                low = middle + 1
            else:
                high = middle
        return low

    def truncate(self, physical_end: int) -> int:
        """Drop the units of records that end after ``physical_end``, and clear the files after the last unit.

        Returns how many messages were dropped.
        """
        old_end, end = self.max_offset, self.unit_end
        while end > self.first_unit:
            physical_offset, size, _ = self.numbered(end - 1)
            if is_hole(physical_offset, size) or physical_offset + size <= physical_end:
                break
            end -= 1
        self._cut(end)
        return old_end - self.max_offset

    def drop_ext_addresses(self, physical_start: int) -> int:
        """Drop all units from the first one on that refers to the extension, among those of records at or after
        ``physical_start``.

        After an unclean stop, the units of the extension may not be on the disk. Returns how many units were dropped.
        """
        end = old_end = self.max_offset
        for offset in range(old_end - 1, self.first_file_offset - 1, -1):
            physical_offset, size, tags_code = self.unit(offset)
            if is_hole(physical_offset, size):
                continue
            if physical_offset < physical_start:
                break
            if is_ext_address(tags_code):
                end = offset
        if end < old_end:
            self._cut(end)
        return old_end - end

    def _cut(self, end: int) -> None:
        """End the queue before the unit number ``end``, and clear the files from there on."""
        self._set_end(end)
        size = self.unit_size
        for file in self.mapped_files.all():
            if file.base + file.size > end * size:
                file.clear(max(end * size - file.base, 0))
        # Units that a killed process wrote may not be on the disk yet: the next flush includes the last files again.
        units_checked = FILES_CHECKED * self.mapped_files.file_size // size
        self.flushed_units = max(self.first_unit, end - units_checked)

    def make_holes(self, start: int, is_lost: Callable[[int], bool]) -> int:
        """Replace the units of lost records from physical offset ``start`` on by holes; returns how many messages
        were in them.

        ``is_lost`` is called with the physical offset of a record.
        """
        count = 0
        for number in range(self.unit_end - 1, self.first_unit - 1, -1):
            physical_offset, size, _ = self.numbered(number)
            if not size or is_hole(physical_offset, size):
                continue
            if physical_offset < start:
                break
            if is_lost(physical_offset):
                count += self._make_hole(number)
        return count

    def _make_hole(self, number: int) -> int:
        """Replace the unit with this number by a hole; returns how many messages were in it."""
        self._write(number * UNIT_SIZE, HOLE)
        return 1

    def _set_end(self, end: int) -> None:
        """Set the end of the queue before the unit number ``end``."""
        self.max_offset = self.next_offset = self.flushed_units = self.reserved = end
        last = self.mapped_files.find(end * UNIT_SIZE)
        if last is not None:
            last.allocated = end * UNIT_SIZE - last.base

    # --- flush and retention ------------------------------------------------------------------------------------

    def take_dirty(self) -> list[tuple[MappedFile, int, int]]:
        """Ranges written since the last call, for the flush thread."""
        end, size = self.unit_end, self.unit_size
        ranges = self.mapped_files.ranges(self.flushed_units * size, end * size)
        self.flushed_units = end
        return ranges

    def take_expired(self, min_physical_offset: int) -> list[Path]:
        """Files with units of expired records only; the file with the last unit stays, because it says where the queue
        ends. The caller removes them."""
        expired = []
        while len(self.mapped_files) > 1:
            first = self.mapped_files.first
            assert first is not None
            next_unit = (first.base + first.size) // self.unit_size
            if next_unit >= self.unit_end or self.min_offset(min_physical_offset) < self._offset_after(next_unit - 1):
                break
            self.mapped_files.take_out(first)
            expired.append(first.path)
        return expired
