"""The small files that record how far the store is on the disk: RocketMQ's ``checkpoint`` and ``config/timercheck``,
and ``safe_end``."""

from pathlib import Path

from broker_core.formats import checkpoint, safe_end, timer_checkpoint
from broker_core.formats.checkpoint import Checkpoint
from broker_core.formats.safe_end import SafeEnd
from broker_core.formats.timer_checkpoint import TimerCheckpoint
from broker_core.store.files import Files, Mapping

TIMER_CHECKPOINT = Path("config") / "timercheck"


class StoreCheckpoint:
    """RocketMQ's StoreCheckpoint and TimerCheckpoint, and GlassMQ's safe end beside them.

    ``write`` is called in the flush thread, for one flush at a time. Nothing else touches these maps.
    """

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._paths = (root / "checkpoint", root / safe_end.FILE_NAME)
        self._maps: list[Mapping] = []
        self._timer_path = root / TIMER_CHECKPOINT
        self._timer_map: Mapping | None = None

    def read(self) -> tuple[Checkpoint, SafeEnd | None]:
        """The content of the files. A missing or damaged ``checkpoint`` gives zeros, ``safe_end`` None."""
        checkpoint_bytes, safe_end_bytes = (self._files.read(path) or b"" for path in self._paths)
        return checkpoint.decode(checkpoint_bytes), safe_end.decode(safe_end_bytes)

    def write(self, moment: Checkpoint, end: SafeEnd, timer: TimerCheckpoint | None = None) -> None:
        """Write the files and wait for the disk. OSError when the disk refuses.

        Without timer messages ``timer`` is None, and ``config/timercheck`` is not written.
        """
        if not self._maps:
            self._maps = [self._map(path) for path in self._paths]
            self._files.sync_folder(self._paths[0].parent)  # without its name, the next start would not find it
        for mapping, data in zip(self._maps, (checkpoint.LAYOUT.pack(*moment), safe_end.encode(end)), strict=True):
            mapping.buffer[: len(data)] = data
            mapping.flush(0, checkpoint.FILE_SIZE)
        if timer is not None:
            if self._timer_map is None:
                self._timer_map = self._map(self._timer_path)
                self._files.sync_folder(self._timer_path.parent)
            data = timer_checkpoint.encode(timer)
            self._timer_map.buffer[: len(data)] = data
            self._timer_map.flush(0, timer_checkpoint.FILE_SIZE)

    def _map(self, path: Path) -> Mapping:
        mapping = self._files.map(path, checkpoint.FILE_SIZE, create=True)
        assert mapping is not None
        self._files.allocate(path, 0, checkpoint.FILE_SIZE)
        return mapping
