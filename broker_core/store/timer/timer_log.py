"""The timer log: one entry for each timer message, in the order of the timer queue."""

from collections.abc import Callable, Sequence
from pathlib import Path

from broker_core.formats import timer_log_unit
from broker_core.formats.timer_log_unit import FILLER, NONE, UNIT_SIZE, TimerLogUnit
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue

FOLDER = "timerlog"
ALLOCATE_CHUNK = 1 << 20


class TimerLog:
    """RocketMQ's TimerLog. Positions are bytes from the beginning of the first file ever written."""

    def __init__(self, files: Files, maps: OpenMaps, root: Path, file_size: int) -> None:
        self._files = files
        self.mapped_files = MappedFileQueue(files, maps, root / FOLDER, file_size)
        self.end = 0
        self._flushed = 0

    # --- writing ------------------------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Reserve disk space for the next entry. OSError when the disk is full."""
        self._place()

    def _place(self) -> MappedFile:
        """The file of the next entry, with space reserved; begins a new file if this one is full."""
        mapped_files = self.mapped_files
        file = mapped_files.find(self.end) or mapped_files.create(self.end)
        at = self.end - file.base
        if UNIT_SIZE + FILLER.size > file.size - at:
            fresh = mapped_files.find(file.base + file.size) or mapped_files.create(file.base + file.size)
            fresh.allocate(UNIT_SIZE, ALLOCATE_CHUNK)
            left = file.size - at
            if left >= FILLER.size:
                file.allocate(at + FILLER.size, 0)
                file.write(at, timer_log_unit.filler(left))
            self.end = fresh.base
            return fresh
        if at + UNIT_SIZE > file.allocated:
            file.allocate(at + UNIT_SIZE, ALLOCATE_CHUNK)
        return file

    def append(self, unit: TimerLogUnit) -> int:
        """Append an entry; returns its position. OSError when the disk is full: nothing was appended."""
        file = self._place()
        position = self.end
        file.write(position - file.base, timer_log_unit.encode(unit))
        self.end = position + UNIT_SIZE
        return position

    def move(self, positions: Sequence[int], slot_ms: int, previous: int) -> tuple[int, int]:
        """Append copies of these entries to another slot, whose last entry is ``previous``.

        Returns the positions of the first and the last copy. OSError when the disk is full: the copies that were
        appended are in no slot.
        """
        first, done = NONE, 0
        while done < len(positions):
            file = self._place()
            start = self.end
            at = start - file.base
            count = min(len(positions) - done, (file.size - FILLER.size - at) // UNIT_SIZE)
            file.allocate(at + count * UNIT_SIZE, ALLOCATE_CHUNK)
            data = bytearray()
            for position in positions[done : done + count]:
                source = self.mapped_files.find(position)
                assert source is not None
                data += timer_log_unit.moved(source.buffer, position - source.base, previous, slot_ms)
                previous = start + len(data) - UNIT_SIZE
            file.write(at, bytes(data))
            self.end = start + count * UNIT_SIZE
            first, done = start if first == NONE else first, done + count
        return first, previous

    def take_dirty(self) -> list[tuple[MappedFile, int, int]]:
        """What was written since the last call."""
        dirty = self.mapped_files.ranges(self._flushed, self.end)
        self._flushed = self.end
        return dirty

    # --- reading ------------------------------------------------------------------------------------------------

    def unit(self, position: int) -> TimerLogUnit | None:
        """The entry at a position; None if there is none."""
        if not 0 <= position < self.end:
            return None
        file = self.mapped_files.find(position)
        return timer_log_unit.decode(file.buffer, position - file.base) if file is not None else None

    def position_after(self, position: int) -> int:
        """Position of the entry after this one."""
        following = position + UNIT_SIZE
        file = self.mapped_files.find(position)
        if file is None:
            return following
        is_last = UNIT_SIZE + FILLER.size > file.size - (following - file.base)
        return file.base + file.size if is_last else following

    @property
    def begin(self) -> int:
        """Position of the oldest entry."""
        first = self.mapped_files.first
        return first.base if first else self.end

    # --- recovery -----------------------------------------------------------------------------------------------

    def load(self, flushed: int, is_stored: Callable[[TimerLogUnit], bool]) -> bool:
        """Find the end, at ``flushed`` or after it. False if the files do not reach that far, or end in nonsense.

        ``flushed`` is the end by the check point. Entries after it count as long as ``is_stored`` confirms their
        messages.
        """
        self.mapped_files.load()
        if flushed and not self._ends_at(flushed):
            return False
        position = flushed
        while (file := self.mapped_files.find(position)) is not None:
            unit = timer_log_unit.decode(file.buffer, position - file.base)
            if unit is not None and is_stored(unit):
                position += UNIT_SIZE
            elif timer_log_unit.is_filler(file.buffer, position - file.base):
                position = file.base + file.size
            else:
                break
        self.end, self._flushed = position, flushed
        self._clear_tail()
        return True

    def begin_empty(self) -> None:
        """Remove all files."""
        self.end = self._flushed = 0
        self._clear_tail()

    def _ends_at(self, end: int) -> bool:
        """Whether a valid entry ends here."""
        for before in (end - UNIT_SIZE, self._last_of_file(end)):
            file = self.mapped_files.find(before) if before >= 0 else None
            if file is not None and timer_log_unit.decode(file.buffer, before - file.base) is not None:
                return True
        return False

    def unit_before(self, end: int) -> TimerLogUnit | None:
        """The entry that ends here, or before the filler that does; None if there is none."""
        return self.unit(end - UNIT_SIZE) or self.unit(self._last_of_file(end))

    def _last_of_file(self, end: int) -> int:
        """Position of the last entry of the file that ends here; -1 if none does."""
        size = self.mapped_files.file_size
        if end == 0 or end % size:
            return -1
        return end - size + ((size - FILLER.size) // UNIT_SIZE - 1) * UNIT_SIZE

    def _clear_tail(self) -> None:
        """Remove what is after the end, so that no later start takes it for entries."""
        for file in reversed(self.mapped_files.all()):
            if file.base >= self.end:
                self.mapped_files.take_out(file)
                self._files.remove(file.path)
            elif self.end < file.base + file.size:
                start = self.end - file.base
                if tail := file.data_end(start) - start:
                    self._files.allocate(file.path, start, start + tail)
                    file.clear(start)
                    file.flush(start, start + tail)

    def take_expired(self, min_offset: int) -> list[Path]:
        """Take the files out whose messages the commit log, which begins at ``min_offset``, no longer has."""
        paths = []
        for file in self.mapped_files.all()[:-1]:
            following = self.mapped_files.next_after(file.base)
            unit = timer_log_unit.decode(following.buffer, 0) if following is not None else None
            if unit is None or unit.physical_offset >= min_offset:
                break
            self.mapped_files.take_out(file)
            paths.append(file.path)
        return paths
