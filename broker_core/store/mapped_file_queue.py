"""A sequence of files of one size, each named by the offset of its first byte."""

from itertools import pairwise
from pathlib import Path

from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps

NAME_DIGITS = 20


def file_name(offset: int) -> str:
    """``00000000000000000042``"""
    return f"{offset:0{NAME_DIGITS}d}"


class MappedFileQueue:
    """RocketMQ's MappedFileQueue. The file size of an existing queue comes from its files, not from the options."""

    __slots__ = ("_by_base", "_files", "_folder", "_maps", "file_size", "first")

    def __init__(self, files: Files, maps: OpenMaps, folder: Path, file_size: int) -> None:
        self._files = files
        self._maps = maps
        self._folder = str(folder)
        self.file_size = file_size
        self.first: MappedFile | None = None
        """The oldest file. It is a field because every pull needs to know where the log begins."""
        self._by_base: dict[int, MappedFile] = {}

    @property
    def folder(self) -> Path:
        """Built anew, as MappedFile.path is."""
        return Path(self._folder)

    def load(self) -> list[str]:
        """Find the existing files. Returns sentences about those with an unexpected size."""
        bases = [int(name) for name in self._files.names(self.folder) if len(name) == NAME_DIGITS and name.isdigit()]
        if not bases:
            return []
        sizes = {base: self._files.size(self.folder / file_name(base)) for base in bases}
        largest = max(sizes.values())
        if largest and not any(base % largest for base in bases):
            self.file_size = largest
        elif len(bases) > 1:
            self.file_size = min(next_base - base for base, next_base in pairwise(bases))
        for base in bases:
            self.add(base)
        return [
            f"{file_name(base)} has {size} bytes instead of {self.file_size}; the rest reads as zeros"
            for base, size in sizes.items()
            if size != self.file_size
        ]

    def add(self, base: int) -> MappedFile:
        """The file that begins at ``base``. It is created when it is first mapped."""
        file = MappedFile(self._files, self._maps, self.folder / file_name(base), base, self.file_size)
        self._by_base[base] = file
        self._update_first()
        return file

    def create(self, offset: int) -> MappedFile:
        """Create the file that contains ``offset``, also on the disk. An OSError leaves no trace."""
        base = offset - offset % self.file_size
        file = self.add(base)
        try:
            _ = file.buffer
        except OSError:
            self.take_out(file)
            raise
        self._maps.new_folders.add(self.folder)
        return file

    def find(self, offset: int) -> MappedFile | None:
        """The file that contains ``offset``."""
        return self._by_base.get(offset - offset % self.file_size)

    def next_after(self, offset: int) -> MappedFile | None:
        """The first file that begins after ``offset``."""
        return next((file for base, file in self._by_base.items() if base > offset), None)

    def gaps(self) -> list[tuple[int, int]]:
        """(start, end) of each range between two files that no file contains."""
        size = self.file_size
        return [(base + size, next_base) for base, next_base in pairwise(self._by_base) if base + size < next_base]

    def all(self) -> list[MappedFile]:
        """Oldest first."""
        return list(self._by_base.values())

    def __len__(self) -> int:
        return len(self._by_base)

    @property
    def last(self) -> MappedFile | None:
        return next(reversed(self._by_base.values()), None)

    def take_out(self, file: MappedFile) -> None:
        """Take a file out of the queue; it stays on the disk."""
        self._by_base.pop(file.base, None)
        file.unmap()
        self._update_first()

    def _update_first(self) -> None:
        self.first = next(iter(self._by_base.values()), None)

    def ranges(self, start: int, end: int) -> list[tuple[MappedFile, int, int]]:
        """(file, from, to) for every file that contains bytes from ``start`` to ``end``."""
        ranges = []
        while start < end:
            file = self.find(start) or self.next_after(start)
            if file is None or file.base >= end:
                break
            stop = min(end - file.base, file.size)
            ranges.append((file, max(start - file.base, 0), stop))
            start = file.base + stop
        return ranges
