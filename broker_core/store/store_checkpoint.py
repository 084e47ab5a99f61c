"""The two small files that record how far the store is on the disk: RocketMQ's ``checkpoint``, and ``safe_end``."""

from pathlib import Path

from broker_core.formats import checkpoint, safe_end
from broker_core.formats.checkpoint import Checkpoint
from broker_core.formats.safe_end import SafeEnd
from broker_core.store.files import Files, Mapping


class StoreCheckpoint:
    """RocketMQ's StoreCheckpoint, and GlassMQ's safe end beside it.

    ``write`` is called in the flush thread, for one flush at a time. Nothing else touches these maps.
    """

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._paths = (root / "checkpoint", root / safe_end.FILE_NAME)
        self._maps: list[Mapping] = []

    def read(self) -> tuple[Checkpoint, SafeEnd | None]:
        """The content of the files. A missing or damaged ``checkpoint`` gives zeros, ``safe_end`` None."""
        checkpoint_bytes, safe_end_bytes = (self._files.read(path) or b"" for path in self._paths)
        return checkpoint.decode(checkpoint_bytes), safe_end.decode(safe_end_bytes)

    def write(self, moment: Checkpoint, end: SafeEnd) -> None:
        """Write both files and wait for the disk. OSError when the disk refuses."""
        if not self._maps:
            for path in self._paths:
                mapping = self._files.map(path, checkpoint.FILE_SIZE, create=True)
                assert mapping is not None
                self._files.allocate(path, 0, checkpoint.FILE_SIZE)
                self._maps.append(mapping)
        for mapping, data in zip(self._maps, (checkpoint.LAYOUT.pack(*moment), safe_end.encode(end)), strict=True):
            mapping.buffer[: len(data)] = data
            mapping.flush(0, checkpoint.FILE_SIZE)
