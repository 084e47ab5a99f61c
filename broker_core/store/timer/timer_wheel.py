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

    def put(self, slot_ms: int, first: int, last: int, count: int, recalls: int = 0) -> None:
        """Write the slot of a time. Call ``reserve`` first."""
        at = self._at(slot_ms)
        slot = TimerWheelSlot(slot_ms // self.precision_ms, first, last, count, recalls)
        self._file.write(at, timer_wheel_slot.encode(slot))
        low, high = self._dirty
        self._dirty = (min(low, at), max(high, at + SLOT_SIZE))

    def mark_dirty(self) -> None:
        """Let the next flush write everything, because what a killed process wrote may not be on the disk."""
        self._dirty = (0, self._file.size)

    def clear(self, slot_ms: int) -> None:
        """Leave a slot without messages."""
        self.put(slot_ms, NONE, NONE, 0)

    @property
    def blocks(self) -> int:
        """Into how many blocks the file is divided for reading all of it."""
        return -(-self._file.size // READ_AT_ONCE)

    def block_of(self, slot_ms: int) -> int:
        """The number of the block with the slot of a time."""
        return self._at(slot_ms) // READ_AT_ONCE

    def _data(self, block: int) -> bytes:
        return bytes(self._file.buffer[block * READ_AT_ONCE : min((block + 1) * READ_AT_ONCE, self._file.size)])

    def is_blank(self, block: int) -> bool:
        """Whether no slot of a block was ever written."""
        data = self._data(block)
        return data == ZEROS[: len(data)]

    def used_in(self, block: int, from_ms: int) -> list[tuple[int, TimerWheelSlot]]:
        """(time in ms, slot) of each slot of a block with messages of this time or later."""
        if self.is_blank(block):
            return []
        low = max(1, -(-from_ms // self.precision_ms))
        return [
            (fields[0] * self.precision_ms, TimerWheelSlot(*fields))
            for fields in SLOT.iter_unpack(self._data(block))
            if fields[0] >= low and fields[2] != NONE
        ]

    def used(self, from_ms: int) -> Iterator[tuple[int, TimerWheelSlot]]:
        """The same of all blocks. It reads all of the file."""
        for block in range(self.blocks):
            yield from self.used_in(block, from_ms)

    def take_dirty(self) -> list[tuple[MappedFile, int, int]]:
        """What was written since the last call, from its first to its last byte."""
        low, high = self._dirty
        self._dirty = (self._file.size, 0)
        return [(self._file, low, high)] if low < high else []
