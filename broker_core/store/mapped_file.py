"""One file of a store, which is mapped while it is needed."""

from collections import deque
from pathlib import Path

from broker_core.store.files import Files, Mapping, MutableBuffer

ZEROS = bytes(1 << 16)
AHEAD_BITS = 16
"""A write that enters a block of 2^16 bytes (64 KiB) loads the next block into memory: a fraction of a millisecond."""


class OpenMaps:
    """Bounds how many files are mapped at once: each costs a descriptor and up to three of the kernel's map entries.

    When there are too many, the oldest map is closed, unless it was used since it was last considered.
    ``keep_changed``: maps that were written to stay open, because their bytes exist nowhere else.
    """

    def __init__(self, limit: int, *, keep_changed: bool = False) -> None:
        self._limit = limit
        self._keep_changed = keep_changed
        self._open: deque[MappedFile] = deque()
        self.new_folders: set[Path] = set()
        """Folders with new files for which ``sync_folder`` has yet to be called."""

    def opened(self, file: "MappedFile") -> None:
        self._open.append(file)
        for _ in range(2 * len(self._open)):
            if len(self._open) <= self._limit:
                return
            oldest = self._open.popleft()
            if oldest is not file and not oldest.used and not (self._keep_changed and oldest.changed):
                oldest.unmap()
            elif oldest.is_mapped:
                oldest.used = False
                self._open.append(oldest)


class MappedFile:
    """RocketMQ's MappedFile. ``base`` is the offset of its first byte in its MappedFileQueue.

    Only the engine thread maps, writes and unmaps. The flush thread calls only ``flush``, which takes one reference
    to the map and works on that; a map stays open as long as it is referenced.
    """

    __slots__ = ("_files", "_mapping", "_maps", "allocated", "base", "changed", "name", "scattered", "size", "used")

    def __init__(self, files: Files, maps: OpenMaps, path: Path, base: int, size: int) -> None:
        self._files = files
        self._maps = maps
        self._mapping: Mapping | None = None
        self.name = str(path)
        self.base = base
        self.size = size
        self.allocated = 0
        """Bytes from the beginning that have disk space reserved."""
        self.used = False
        self.changed = False
        self.scattered = False
        """Whether writes go to any place of the file, not to its end only."""

    @property
    def path(self) -> Path:
        """Built anew: a Path that stays costs the garbage collector two objects for each file."""
        return Path(self.name)

    @property
    def is_mapped(self) -> bool:
        return self._mapping is not None

    @property
    def buffer(self) -> MutableBuffer:
        """The file's bytes. Do not keep the buffer beyond the turn: a map that is referenced cannot be unmapped."""
        self.used = True
        mapping = self._mapping
        if mapping is None:
            mapping = self._mapping = self._files.map(self.path, self.size, create=True)
            assert mapping is not None
            self._maps.opened(self)
        return mapping.buffer

    def unmap(self) -> None:
        self._mapping = None

    def allocate(self, end: int, chunk: int) -> None:
        """Reserve disk space up to ``end``, and ``chunk`` bytes more so that this is rare. OSError: disk full.

        A write to a map cannot report a full disk: SIGBUS would kill the process.
        """
        if end > self.allocated:
            target = min(self.size, end + chunk)
            if self._mapping is None:
                _ = self.buffer
            self._files.allocate(self.path, self.allocated, target)
            if chunk and self._mapping is not None:
                start = max(0, max(self.allocated, end - chunk) - chunk)  # what needs the space may begin before it
                self._mapping.expect_writes(*((0, self.size) if self.scattered else (start, target)))
            self.allocated = target

    def write(self, position: int, data: bytes) -> None:
        """Write bytes at a position of this file. Call ``allocate`` first."""
        self.changed = self.used = True
        mapping = self._mapping
        buffer = self.buffer if mapping is None else mapping.buffer
        end = position + len(data)
        if position >> AHEAD_BITS != end >> AHEAD_BITS and mapping is not None:
            mapping.prefetch((position >> AHEAD_BITS) + 1 << AHEAD_BITS, (end >> AHEAD_BITS) + 1 << AHEAD_BITS)
        buffer[position:end] = data

    def flush(self, start: int, end: int) -> None:
        """Wait for the disk. Any thread may call this; a file deleted in the meantime needs no flush."""
        mapping = self._mapping or self._files.map(self.path, self.size, create=False)
        if mapping is not None:
            mapping.flush(start, end)

    def data_end(self, start: int) -> int:
        """Position after the last non-zero byte at or after ``start``; ``start`` if all are zero."""
        end, position = start, start
        buffer = self.buffer
        while position < self.size:
            if not self.changed:
                position = self._files.data_start(self.path, position)
                if position < 0:
                    break
            chunk = buffer[position : position + len(ZEROS)]
            if chunk != ZEROS[: len(chunk)]:
                end = position + len(chunk.rstrip(b"\0"))
            position += len(chunk)
        return end

    def clear(self, start: int) -> int:
        """Overwrite with zeros from ``start`` on. Returns the length of the range that was not all zeros."""
        end = self.data_end(start)
        for position in range(start, end, len(ZEROS)):
            self.write(position, ZEROS[: end - position])
        return end - start
