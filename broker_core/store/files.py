"""All disk access of the store. Tests replace it by a faulty version.

RealFiles       the machine's files
ReadOnlyFiles   the same, except that writes stay in memory, so that a foreign store is never changed
"""

import errno
import fcntl
import mmap
import os
import resource
import shutil
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Protocol

QUARANTINE = "quarantine"
"""Folder in a store for what recovery could not read: bytes of the log, and index files."""

AMPLE_ON_TMPFS = 4 << 30
"""With less free space than this on tmpfs, space for a whole file is reserved when the file is mapped."""

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of an OSError that passes when there is space again."""

MutableBuffer = mmap.mmap | bytearray


class Mapping(Protocol):
    """A file as bytes in memory. It is unmapped when the last reference to it is gone."""

    buffer: MutableBuffer

    def flush(self, start: int, end: int) -> None:
        """Wait until these bytes are on the disk. OSError when the disk refuses."""
        ...

    def expect_writes(self, start: int, end: int) -> None:
        """Tell the kernel that these bytes will be written next, in order. This replaces the range of the last call."""
        ...

    def prefetch(self, start: int, end: int) -> None:
        """Load these bytes into memory, as far as the file has them."""
        ...


class Lock(Protocol):
    """A held file lock."""

    def release(self) -> None: ...


class Files(Protocol):
    """What the store needs of a file system. Every method raises OSError when the disk refuses."""

    map_limit: int
    """How many maps may be open at once."""

    def total_memory(self) -> int:
        """Bytes of memory of the machine."""
        ...

    def make_folders(self, folder: Path) -> None:
        """Create a folder and its parents. It may exist already."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; empty when there is no such folder."""
        ...

    def exists(self, path: Path) -> bool: ...

    def size(self, path: Path) -> int: ...

    def modified_ms(self, path: Path) -> int: ...

    def read(self, path: Path) -> bytes | None:
        """The content of a file; None when it does not exist."""
        ...

    def write(self, path: Path, data: bytes) -> None:
        """Replace the content and wait for the disk."""
        ...

    def append(self, path: Path, data: bytes) -> None:
        """Append by one write, without waiting for the disk. A missing file is created.

        If a full disk accepts only a part, that part is removed again.
        """
        ...

    def map(self, path: Path, size: int, *, create: bool) -> Mapping | None:
        """Map the file, extended with zeros to ``size``. A missing file is created with ``create``, else None."""
        ...

    def allocate(self, path: Path, start: int, end: int) -> None:
        """Reserve disk space for the range, so that a write to its map cannot fail."""
        ...

    def data_start(self, path: Path, start: int) -> int:
        """Position of the first byte at or after ``start`` that may be non-zero; -1 when the rest is a hole."""
        ...

    def rename(self, path: Path, to: Path) -> None: ...

    def remove(self, path: Path) -> None:
        """Remove a file. It need not exist."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder and everything in it."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Wait until names created or removed in a folder are on the disk."""
        ...

    def lock(self, path: Path, *, shared: bool) -> Lock | None:
        """Lock a file; None when another process, or another store of this process, has locked it."""
        ...

    def disk_used_percent(self, folder: Path) -> float:
        """Disk use in percent of the space that an unprivileged user can have."""
        ...

    def free_space(self, folder: Path) -> int:
        """Bytes that an unprivileged user can still have; a quota may allow less."""
        ...


class RealMapping:
    """A file mapped by the operating system."""

    __slots__ = ("_expected", "buffer")

    def __init__(self, buffer: mmap.mmap) -> None:
        self.buffer: MutableBuffer = buffer
        self._expected = (0, 0)

    def flush(self, start: int, end: int) -> None:
        assert isinstance(self.buffer, mmap.mmap)
        aligned = start - start % mmap.ALLOCATIONGRANULARITY
        if end > aligned:
            self.buffer.flush(aligned, end - aligned)

    def expect_writes(self, start: int, end: int) -> None:
        """Without this, the first write to a page reads ahead: megabytes of zeros, for up to 30 ms."""
        self._advise(mmap.MADV_NORMAL, *self._expected)
        self._expected = start, end
        self._advise(mmap.MADV_RANDOM, start, end)

    def prefetch(self, start: int, end: int) -> None:
        self._advise(mmap.MADV_WILLNEED, start, end)

    def _advise(self, advice: int, start: int, end: int) -> None:
        assert isinstance(self.buffer, mmap.mmap)
        start, end = start - start % mmap.PAGESIZE, min(end, len(self.buffer))
        if start < end:
            with suppress(OSError):  # no map entries are left in the kernel; then writes only take longer
                self.buffer.madvise(advice, start, end - start)


_locked: set[str] = set()
"""Files that this process has locked. A POSIX record lock does not keep its own process out."""


class RealLock:
    """A POSIX record lock on the first byte, as Java's FileChannel.tryLock takes it."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _locked.discard(self._name)


@lru_cache(64)
def is_tmpfs(device: int) -> bool:
    """Whether the file system of this ``st_dev`` is in memory."""
    name = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:  # macOS
        return False
    rows = (line.split(" - ", 1) for line in mounts.splitlines() if " - " in line)
    return any(head.split()[2] == name and tail.startswith("tmpfs ") for head, tail in rows)


def free_space(descriptor: int) -> int:
    """Bytes that an unprivileged user can still have in the file system of an open file."""
    use = os.fstatvfs(descriptor)
    return use.f_bavail * use.f_frsize


class RealFiles:
    """The machine's files."""

    def __init__(self) -> None:
        # Each map uses a file descriptor; half of them are left for sockets.
        self.map_limit = max(64, min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2, 8192))

    def total_memory(self) -> int:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def make_folders(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def names(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        return path.stat().st_size

    def modified_ms(self, path: Path) -> int:
        return path.stat().st_mtime_ns // 1_000_000

    def read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def append(self, path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            written = os.write(descriptor, data)
            if written < len(data):
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        finally:
            os.close(descriptor)

    def map(self, path: Path, size: int, *, create: bool) -> Mapping | None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)
        except FileNotFoundError:
            if not create:
                return None
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o644)
        try:
            before = os.fstat(descriptor)
            if before.st_size < size:
                os.ftruncate(descriptor, size)
            if is_tmpfs(before.st_dev) and free_space(descriptor) < AMPLE_ON_TMPFS:
                self._reserve_all(descriptor, before.st_size, size)
            return RealMapping(mmap.mmap(descriptor, size))
        except OSError:
            if create and before.st_size == 0:
                path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)

    @staticmethod
    def _reserve_all(descriptor: int, old_size: int, size: int) -> None:
        """Reserve space for a whole file on tmpfs, where even reading a hole through a map takes space.

        Without space such a read would kill the process (SIGBUS). OSError, and the old size, when there is none.
        """
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.ftruncate(descriptor, old_size)
            raise

    def map_copy(self, path: Path, size: int) -> Mapping:
        """A private copy that is never written back; a page is copied when it is changed."""
        if not path.exists() or path.stat().st_size < size:
            buffer = mmap.mmap(-1, size)
            content = self.read(path) or b""
            buffer[: len(content)] = content
            return RealMapping(buffer)
        with path.open("rb") as file:
            return RealMapping(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY))

    def allocate(self, path: Path, start: int, end: int) -> None:
        if not hasattr(os, "posix_fallocate"):  # macOS
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, start, end - start)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        finally:
            os.close(descriptor)

    def data_start(self, path: Path, start: int) -> int:
        if not hasattr(os, "SEEK_DATA"):
            return start
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.lseek(descriptor, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return -1
            return start
        finally:
            os.close(descriptor)

    def rename(self, path: Path, to: Path) -> None:
        path.replace(to)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)

    def sync_folder(self, folder: Path) -> None:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # removed with its topic in the meantime
            return
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path, *, shared: bool) -> Lock | None:
        name = str(path.resolve())
        if name in _locked:
            return None
        descriptor = os.open(path, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1)
        except OSError:
            os.close(descriptor)
            return None
        _locked.add(name)
        return RealLock(descriptor, name)

    def disk_used_percent(self, folder: Path) -> float:
        use = shutil.disk_usage(folder)
        return 100.0 * use.used / max(1, use.used + use.free)

    def free_space(self, folder: Path) -> int:
        return shutil.disk_usage(folder).free


class CopyingFiles(Files, Protocol):
    """Files that can also be mapped as private copies (``map_copy``)."""

    def map_copy(self, path: Path, size: int) -> Mapping: ...


class ReadOnlyFiles:
    """A foreign store's files. Maps are private copies, so recovery can correct them without changing the disk.

    The other methods that would change content raise PermissionError, because the store should not call them.
    """

    def __init__(self, files: CopyingFiles) -> None:
        self._files = files
        self.map_limit = files.map_limit
        self.total_memory = files.total_memory
        self.names = files.names
        self.exists = files.exists
        self.size = files.size
        self.modified_ms = files.modified_ms
        self.read = files.read
        self.lock = files.lock
        self.disk_used_percent = files.disk_used_percent
        self.free_space = files.free_space

    def map(self, path: Path, size: int, *, create: bool) -> Mapping | None:
        return self._files.map_copy(path, size) if create or self._files.exists(path) else None

    def data_start(self, path: Path, start: int) -> int:
        return self._files.data_start(path, start) if self._files.exists(path) else -1

    def make_folders(self, folder: Path) -> None: ...

    def allocate(self, path: Path, start: int, end: int) -> None: ...

    def sync_folder(self, folder: Path) -> None: ...

    def write(self, path: Path, data: bytes) -> None:
        raise PermissionError(errno.EROFS, "the store belongs to another broker", str(path))

    def append(self, path: Path, data: bytes) -> None:
        raise PermissionError(errno.EROFS, "the store belongs to another broker", str(path))

    def rename(self, path: Path, to: Path) -> None:
        raise PermissionError(errno.EROFS, "the store belongs to another broker", str(path))

    def remove(self, path: Path) -> None:
        raise PermissionError(errno.EROFS, "the store belongs to another broker", str(path))

    def remove_folder(self, folder: Path) -> None:
        raise PermissionError(errno.EROFS, "the store belongs to another broker", str(folder))
