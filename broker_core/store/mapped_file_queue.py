"""Files of one size in a row, named by the offset of their first byte."""

from itertools import pairwise
from pathlib import Path

from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps

NAME_DIGITS = 20


def file_name(offset: int) -> str:
    """``00000000000000000042``"""
    return f"{offset:0{NAME_DIGITS}d}"


class MappedFileQueue:
    """RocketMQ's MappedFileQueue. The size of an existing row is read off its files, not off the options."""

    __slots__ = ("_by_base", "_files", "_maps", "file_size", "first", "folder")

    def __init__(self, files: Files, maps: OpenMaps, folder: Path, file_size: int) -> None:
        self._files = files
        self._maps = maps
        self.folder = folder
        self.file_size = file_size
        self.first: MappedFile | None = None
        """The oldest file; every pull asks where the log begins."""
        self._by_base: dict[int, MappedFile] = {}

    def load(self) -> list[str]:
        """Find the files there are. Sentences about those that are not as they should be."""
        bases = [int(name) for name in self._files.names(self.folder) if len(name) == NAME_DIGITS and name.isdigit()]
        if not bases:
            return []
        sizes = {base: self._files.size(self.folder / file_name(base)) for base in bases}
        full = [size for size in sizes.values() if size > 0]
        if len(bases) > 1:
            self.file_size = min(after - before for before, after in pairwise(bases))
        elif full:
            self.file_size = full[0]
        for base in bases:
            self.add(base)
        return [
            f"{file_name(base)} has {size} bytes instead of {self.file_size}; the rest reads as zeros"
            for base, size in sizes.items()
            if size != self.file_size
        ]

    def add(self, base: int) -> MappedFile:
        """The file that begins at ``base``; it is made when it is first mapped."""
        file = MappedFile(self._files, self._maps, self.folder / file_name(base), base, self.file_size)
        self._by_base[base] = file
        self._note_first()
        return file

    def create(self, offset: int) -> MappedFile:
        """Make the file that holds ``offset``, on the disk too. OSError leaves no trace."""
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
        """The file that holds ``offset``."""
        return self._by_base.get(offset - offset % self.file_size)

    def all(self) -> list[MappedFile]:
        """Oldest first."""
        return list(self._by_base.values())

    def __len__(self) -> int:
        return len(self._by_base)

    @property
    def last(self) -> MappedFile | None:
        return next(reversed(self._by_base.values()), None)

    def take_out(self, file: MappedFile) -> None:
        """Forget a file; it stays on the disk."""
        self._by_base.pop(file.base, None)
        file.unmap()
        self._note_first()

    def _note_first(self) -> None:
        self.first = next(iter(self._by_base.values()), None)

    def ranges(self, start: int, end: int) -> list[tuple[MappedFile, int, int]]:
        """(file, from, to) of every file that the bytes from ``start`` to ``end`` touch."""
        found = []
        while start < end:
            base = start - start % self.file_size
            stop = min(end, base + self.file_size)
            file = self._by_base.get(base)
            if file is not None:
                found.append((file, start - base, stop - base))
            start = stop
        return found
