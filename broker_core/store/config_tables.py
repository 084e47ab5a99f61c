"""The JSON tables in ``config/``: topics, offsets and the like."""

from pathlib import Path
from typing import Any

from broker_core.formats import rocketmq_json
from broker_core.formats.rocketmq_json import RocketmqJsonError
from broker_core.store.files import Files


class TableWrite:
    """RocketMQ's ConfigManager.persist: one table to be written. ``value`` must not change any more.

    ``run`` may be called in another thread: it touches the table's own files and nothing else of the store.
    """

    def __init__(self, files: Files, folder: Path, name: str, value: dict[Any, Any]) -> None:
        self._files = files
        self._path = folder / f"{name}.json"
        self._value = value
        self.name = name

    def run(self) -> "TableWrite":
        """At every moment the file or its ``.bak`` is whole. OSError when the disk refuses."""
        replace_file(self._files, self._path, rocketmq_json.encode(self._value).encode())
        return self


def replace_file(files: Files, path: Path, data: bytes) -> None:
    """Write a file anew; what it held stays in its ``.bak``. At every moment one of the two is whole."""
    files.make_folders(path.parent)
    fresh = path.with_name(path.name + ".tmp")
    files.write(fresh, data)
    if files.exists(path):
        files.rename(path, path.with_name(path.name + ".bak"))
    files.rename(fresh, path)
    files.sync_folder(path.parent)


def load_table(files: Files, folder: Path, name: str) -> dict[Any, Any] | None:
    """A table, from its ``.bak`` when the file is missing or damaged; None when there is neither."""
    for file_name in (f"{name}.json", f"{name}.json.bak"):
        data = files.read(folder / file_name)
        if not data:
            continue
        try:
            return rocketmq_json.decode(data)
        except RocketmqJsonError:
            continue
    return None
