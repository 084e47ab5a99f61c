"""Files in memory that lose unsynced data, as in a power cut.

Every file has a volatile image, which the process reads and writes, and a durable one, which is on the disk. After
``crash``, each page that differs has the old content, the new, or a torn mixture. Of the names created, renamed or
removed since their folder was synced, only the changes up to some point survive. ``kill`` ends the process only, so
nothing is lost. ``fail`` makes the n-th call of a method raise.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

PAGE = 4096
SECTOR = 512


class SimulatedFile:
    """One file's two images."""

    def __init__(self) -> None:
        self.volatile = bytearray()
        self.durable = b""
        self.modified_ms = 0
        self.reserved = 0

    def sync(self, start: int, end: int) -> None:
        start, end = start - start % PAGE, min(-(-end // PAGE) * PAGE, len(self.volatile))
        image = bytearray(self.durable.ljust(len(self.volatile), b"\0"))
        image[start:end] = self.volatile[start:end]
        self.durable = bytes(image)

    def lose(self, chance: Random) -> None:
        """Keep only what is left after a power cut."""
        if len(self.durable) != len(self.volatile) and chance.random() < 0.5:
            self.volatile = bytearray(self.durable)
            return
        image = bytearray(self.durable.ljust(len(self.volatile), b"\0"))
        for start in range(0, len(image), PAGE):
            new = self.volatile[start : start + PAGE]
            if new != image[start : start + PAGE]:
                kept = chance.choice((0, PAGE, PAGE, chance.randrange(0, PAGE + 1, SECTOR)))
                if chance.random() < 0.5:
                    image[start : start + kept] = new[:kept]
                else:
                    first = max(0, len(new) - kept)
                    image[start + first : start + len(new)] = new[first:]
        self.volatile, self.durable = bytearray(image), bytes(image)


class SimulatedMapping:
    """A file's volatile image, as if mapped."""

    def __init__(self, files: "SimulatedFiles", file: SimulatedFile) -> None:
        self._files = files
        self._file = file
        self.buffer = file.volatile
        self.prefetched: list[tuple[int, int]] = []
        self.expected = (0, 0)

    def flush(self, start: int, end: int) -> None:
        self._files.called("flush")
        self._file.sync(start, end)

    def expect_writes(self, start: int, end: int) -> None:
        self.expected = (start, end)

    def prefetch(self, start: int, end: int) -> None:
        self.prefetched.append((start, end))


class SimulatedLock:
    def __init__(self, locked: set[Path], path: Path) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


def is_in(path: Path, folder: Path) -> bool:
    """Whether the folder or one below it has the path; many times faster than ``path.parents``."""
    depth = len(folder.parts)
    return len(path.parts) > depth and path.parts[:depth] == folder.parts


class SimulatedFiles:
    """A faulty version of RealFiles."""

    def __init__(self, chance: Random | None = None) -> None:
        self._chance = chance or Random(0)
        self._names: dict[Path, SimulatedFile] = {}
        self._durable_names: dict[Path, SimulatedFile] = {}
        self._unsynced: dict[Path, list[Callable[[], object]]] = {}
        self._locked: set[Path] = set()
        self._calls: Counter[str] = Counter()
        self._failures: dict[tuple[str, int], int] = {}
        self.map_limit = 8
        self.memory = 1 << 30
        self.used_percent = 10.0
        self.free_bytes = 1 << 40
        self.wall_ms = 0
        self.full = False
        """Whether the disk has no free space: what needs more than it has raises ENOSPC."""

    # --- faults -------------------------------------------------------------------------------------------------

    def fail(self, call: str, nth: int, errno: int) -> None:
        """Make the ``nth`` call of this method from now on raise; 1 is the next call."""
        self._failures[call, self._calls[call] + nth] = errno

    def mend(self) -> None:
        """Let no call fail any more."""
        self._failures.clear()

    def count(self, call: str) -> int:
        """How often this method was called."""
        return self._calls[call]

    def called(self, call: str) -> None:
        self._calls[call] += 1
        errno = self._failures.get((call, self._calls[call]))
        if errno is not None:
            raise OSError(errno, f"simulated failure of {call}")

    def kill(self) -> None:
        """End the process, but not the machine."""
        self._locked.clear()

    def crash(self) -> None:
        """Cut the power and restore it."""
        for steps in self._unsynced.values():
            for step in steps[: self._chance.randint(0, len(steps))]:
                step()
        self._unsynced.clear()
        self._locked.clear()
        self._names = dict(self._durable_names)
        for file in dict.fromkeys(self._names.values()):
            file.lose(self._chance)

    def _need_room(self, needed: bool) -> None:
        if needed and self.full:
            raise OSError(28, "No space left on device")

    def _later(self, folder: Path, step: Callable[[], object]) -> None:
        self._unsynced.setdefault(folder, []).append(step)

    # --- the port -----------------------------------------------------------------------------------------------

    def total_memory(self) -> int:
        return self.memory

    def make_folders(self, folder: Path) -> None:
        pass

    def names(self, folder: Path) -> list[str]:
        depth = len(folder.parts)
        return sorted({path.parts[depth] for path in self._names if is_in(path, folder)})

    def exists(self, path: Path) -> bool:
        return path in self._names

    def size(self, path: Path) -> int:
        return len(self._names[path].volatile)

    def modified_ms(self, path: Path) -> int:
        return self._names[path].modified_ms

    def read(self, path: Path) -> bytes | None:
        return bytes(self._names[path].volatile) if path in self._names else None

    def _make(self, path: Path) -> SimulatedFile:
        file = self._names.get(path)
        if file is None:
            file = self._names[path] = SimulatedFile()
            file.modified_ms = self.wall_ms
            self._later(path.parent, lambda made=file: self._durable_names.__setitem__(path, made))
        return file

    def write(self, path: Path, data: bytes) -> None:
        self.called("write")
        self._need_room(len(data) > (len(self._names[path].volatile) if path in self._names else 0))
        file = self._make(path)
        file.volatile, file.durable = bytearray(data), data

    def append(self, path: Path, data: bytes) -> None:
        self.called("append")
        file = self._make(path)
        file.volatile += data
        file.modified_ms = self.wall_ms

    def map(self, path: Path, size: int, *, create: bool) -> SimulatedMapping | None:
        if path not in self._names:
            if not create:
                return None
            self.called("create")
            self._need_room(True)
        file = self._make(path)
        if len(file.volatile) < size:
            file.volatile.extend(bytes(size - len(file.volatile)))
        return SimulatedMapping(self, file)

    def map_copy(self, path: Path, size: int) -> SimulatedMapping:
        copy = SimulatedFile()
        copy.volatile = bytearray((self.read(path) or b"").ljust(size, b"\0"))
        return SimulatedMapping(self, copy)

    def allocate(self, path: Path, start: int, end: int) -> None:
        self.called("allocate")
        file = self._names[path]
        self._need_room(end > file.reserved)
        file.reserved = max(file.reserved, end)

    def data_start(self, path: Path, start: int) -> int:
        return start

    def rename(self, path: Path, to: Path) -> None:
        self.called("rename")
        moved = [old for old in self._names if old == path or is_in(old, path)]
        if not moved:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        for old in moved:
            self._rename_file(path.parent, old, to / old.relative_to(path))

    def _rename_file(self, folder: Path, path: Path, to: Path) -> None:
        """Rename one file; durable once ``folder`` is synced."""
        file = self._names[to] = self._names.pop(path)

        def step() -> None:
            self._durable_names[to] = file
            self._durable_names.pop(path, None)

        self._later(folder, step)

    def remove(self, path: Path) -> None:
        self.called("remove")
        if self._names.pop(path, None) is not None:
            self._later(path.parent, lambda: self._durable_names.pop(path, None))

    def remove_folder(self, folder: Path) -> None:
        for path in [path for path in self._names if is_in(path, folder)]:
            self.remove(path)
            self.sync_folder(path.parent)

    def sync_folder(self, folder: Path) -> None:
        self.called("sync_folder")
        for step in self._unsynced.pop(folder, []):
            step()

    def lock(self, path: Path, *, shared: bool) -> SimulatedLock | None:
        if path in self._locked:
            return None
        self._make(path)
        self._locked.add(path)
        return SimulatedLock(self._locked, path)

    def disk_used_percent(self, folder: Path) -> float:
        return self.used_percent

    def free_space(self, folder: Path) -> int:
        return 0 if self.full else self.free_bytes
