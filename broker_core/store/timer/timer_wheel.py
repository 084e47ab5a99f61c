"""The timer wheel: for each second of the next days, where its messages are in the timer log."""

from collections.abc import Iterator
from pathlib import Path

from broker_core.formats import timer_wheel_slot
from broker_core.formats.timer_log_unit import NONE
from broker_core.formats.timer_wheel_slot import SLOT, SLOT_SIZE, TimerWheelSlot
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps

FILE_NAME = "timerwheel"
READ_AT_ONCE = 2048 * SLOT_SIZE
ZEROS = bytes(READ_AT_ONCE)


class TimerWheel:
    """RocketMQ's TimerWheel. Times are wall times in ms, multiples of ``precision_ms``."""

    def __init__(self, files: Files, maps: OpenMaps, root: Path, precision_ms: int) -> None:
        self._files = files
        self.precision_ms = precision_ms
        self.slots = 2 * timer_wheel_slot.TTL_SLOTS
        self._file = MappedFile(files, maps, root / FILE_NAME, 0, self.slots * SLOT_SIZE)
        self._dirty = (self._file.size, 0)

    @property
    def is_whole(self) -> bool:
        """Whether the file exists and has its size."""
        path = self._file.path
        return self._files.exists(path) and self._files.size(path) == self._file.size

    def reserve(self) -> None:
        """Create the file, with disk space for all of it. OSError when the disk is full."""
        self._file.allocate(self._file.size, 0)

    def begin_empty(self) -> None:
        """Replace a file that cannot be used by one without messages."""
        self._file.unmap()
        self._files.remove(self._file.path)
        self._file.allocated = 0

    def _at(self, slot_ms: int) -> int:
        return slot_ms // self.precision_ms % self.slots * SLOT_SIZE

    def get(self, slot_ms: int) -> TimerWheelSlot | None:
        """The slot of a time; None if it has no messages."""
        slot = TimerWheelSlot(*SLOT.unpack_from(self._file.buffer, self._at(slot_ms)))
        return slot if slot.time == slot_ms // self.precision_ms and slot.last != NONE else None

    def put(self, slot_ms: int, first: int, last: int, count: int) -> None:
        """Write the slot of a time. Call ``reserve`` first."""
        at = self._at(slot_ms)
        slot = TimerWheelSlot(slot_ms // self.precision_ms, first, last, count)
        self._file.write(at, timer_wheel_slot.encode(slot))
        low, high = self._dirty
        self._dirty = (min(low, at), max(high, at + SLOT_SIZE))

    def clear(self, slot_ms: int) -> None:
        """Leave a slot without messages."""
        self.put(slot_ms, NONE, NONE, 0)

    def used(self, from_ms: int) -> Iterator[tuple[int, TimerWheelSlot]]:
        """(time in ms, slot) of each slot with messages of this time or later. It reads all of the file."""
        buffer = self._file.buffer
        for start in range(0, self._file.size, READ_AT_ONCE):
            block = bytes(buffer[start : start + READ_AT_ONCE])
            if block == ZEROS[: len(block)]:
                continue
            for fields in SLOT.iter_unpack(block):
                slot_ms = fields[0] * self.precision_ms
                if fields[0] > 0 and slot_ms >= from_ms and fields[2] != NONE:
                    yield slot_ms, TimerWheelSlot(*fields)

    def take_dirty(self) -> list[tuple[MappedFile, int, int]]:
        """What was written since the last call, from its first to its last byte."""
        low, high = self._dirty
        self._dirty = (self._file.size, 0)
        return [(self._file, low, high)] if low < high else []
