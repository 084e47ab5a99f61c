"""Folders of deleted topics. They may have thousands of files, so they are only renamed in the engine's turn.

consumequeue/orders --(rename)--> deleted/7 --(Removal.run, in another thread)--> gone
"""

from pathlib import Path
from typing import TYPE_CHECKING

from broker_core.clock import Now
from broker_core.store.files import Files

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "deleted"
TRY_AGAIN_NS = 10_000_000_000


class Removal:
    """Folders to be removed. ``run`` may be called in another thread, because nothing else uses these folders."""

    def __init__(self, files: Files, paths: list[Path], parents: list[Path]) -> None:
        self._files = files
        self._parents = parents
        self.paths = paths

    def run(self) -> "Removal":
        """Make the renaming durable, then remove everything. After an OSError all of it is tried again."""
        for folder in self._parents:
            self._files.sync_folder(folder)
        for path in self.paths:
            self._files.remove_folder(path)
        return self


class RemovedFolders:
    """The renamed folders that are not removed yet, with those that the last run of the broker left."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._folder = root / FOLDER
        names = [name for name in files.names(self._folder) if name.isdecimal()]
        self.due = [self._folder / name for name in names]
        """Folders that are not removed yet."""
        self._number = max(map(int, names), default=0)
        self._parents: set[Path] = set()
        self._next_ns = 0
        self.wait: Callable[[], bool] = lambda: False
        """Whether the marks still count queues in these folders. Until they do not, the folders explain to recovery why
        there are fewer queues than the marks count. On a full disk they make room at once."""

    def take(self, folder: Path) -> None:
        """Rename a folder, so that its name is free at once. It need not exist."""
        if not self._files.names(folder):
            return
        self._number += 1
        path = self._folder / str(self._number)
        try:
            self._files.make_folders(self._folder)
            self._files.rename(folder, path)
        except OSError:  # a full disk, on which deleting must be possible
            self._files.remove_folder(folder)
            self._files.sync_folder(folder.parent)
            return
        self.due.append(path)
        self._parents.add(folder.parent)

    def next_removal(self, now: Now) -> Removal | None:
        """The removal that is due, if any; one that failed is due again 10 s later."""
        if not self.due or now.mono_ns < self._next_ns or self.wait():
            return None
        self._next_ns = now.mono_ns + TRY_AGAIN_NS
        return Removal(self._files, list(self.due), sorted(self._parents))

    def removed(self, removal: Removal) -> None:
        """After ``removal.run()`` has returned."""
        self.due = [path for path in self.due if path not in removal.paths]
        if not self.due:
            self._parents.clear()
        self._next_ns = 0
