"""The folder of a store: who wrote it, and whether another broker uses it."""

from pathlib import Path

from broker_core.errors import StoreError, StoreLockedError
from broker_core.store.files import CopyingFiles, Lock
from broker_core.store.mapped_file_queue import NAME_DIGITS

MARKER = "glassmq"
FORMAT_VERSION = 1


class StoreFolder:
    """A folder that is locked for this broker. Create one with ``open``.

    A folder with a commit log but without the file ``glassmq`` is ``foreign``: another broker wrote it. Unless it is
    adopted, it is ``read_only``.
    """

    def __init__(
        self, root: Path, files: CopyingFiles, lock: Lock | None, *, foreign: bool, is_new: bool, read_only: bool
    ) -> None:
        self._root = root
        self._files = files
        self.lock = lock
        self.foreign = foreign
        self._is_new = is_new
        self.read_only = read_only

    @classmethod
    def open(cls, root: Path, files: CopyingFiles, *, adopt: bool) -> "StoreFolder":
        """Look at the folder and lock it.

        Raises StoreLockedError when another broker is using it, StoreError when its format is unknown.
        """
        marker = files.read(root / MARKER)
        if marker is not None and marker.strip() != str(FORMAT_VERSION).encode():
            raise StoreError(f"the store in {root} has format {marker[:20]!r}; this version reads {FORMAT_VERSION}")
        has_log = any(len(name) == NAME_DIGITS and name.isdigit() for name in files.names(root / "commitlog"))
        read_only = marker is None and has_log and not adopt
        if not read_only:
            files.make_folders(root)
        lock = None
        if not read_only or files.exists(root / "lock"):
            lock = files.lock(root / "lock", shared=read_only)
            if lock is None:
                raise StoreLockedError(f"the store in {root} is in use by another broker; stop that one first")
        return cls(root, files, lock, foreign=marker is None, is_new=not has_log, read_only=read_only)

    def mark_new(self) -> None:
        """Mark a new store as this broker's."""
        if self.foreign and self._is_new:
            self._write_marker()

    def mark_adopted(self) -> None:
        """Mark a store that was adopted as this broker's, after its recovery."""
        if self.foreign and not self._is_new and not self.read_only:
            self._write_marker()
            self._files.sync_folder(self._root)

    def _write_marker(self) -> None:
        self._files.write(self._root / MARKER, f"{FORMAT_VERSION}\n".encode())
