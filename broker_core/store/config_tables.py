"""The JSON tables in ``config/``, such as topics and offsets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from broker_core.errors import StoreCorruptError
from broker_core.formats import rocketmq_json
from broker_core.formats.rocketmq_json import RocketmqJsonError
from broker_core.store.files import Files

Table = TypeVar("Table")
TableValue = dict[Any, Any] | Callable[[], dict[Any, Any]]


class TableWrite:
    """RocketMQ's ConfigManager.persist: one table to be written. ``value`` must not change any more. It may be a
    function that returns the table; the thread that writes calls it.

    ``run`` may be called in another thread, because it touches only the table's own files.
    """

    def __init__(self, files: Files, folder: Path, name: str, value: TableValue, suffix: str = ".json") -> None:
        self._files = files
        self._path = folder / f"{name}{suffix}"
        self._value = value
        self.name = name

    def run(self) -> "TableWrite":
        """Write the table. At every moment the file or its ``.bak`` is complete. OSError when the disk refuses."""
        value = self._value if isinstance(self._value, dict) else self._value()
        replace_file(self._files, self._path, rocketmq_json.encode(value).encode())
        return self


def replace_file(files: Files, path: Path, data: bytes) -> None:
    """Replace a file; its old content stays in its ``.bak``. At every moment one of the two is complete."""
    files.make_folders(path.parent)
    fresh = path.with_name(path.name + ".tmp")
    files.write(fresh, data)
    if files.exists(path):
        files.rename(path, path.with_name(path.name + ".bak"))
    files.rename(fresh, path)
    files.sync_folder(path.parent)


def load_table(files: Files, folder: Path, name: str) -> dict[Any, Any] | None:
    """A table, read from its ``.bak`` when the file is missing or damaged; None when neither can be read."""
    for file_name in (f"{name}.json", f"{name}.json.bak"):
        data = files.read(folder / file_name)
        if not data:
            continue
        try:
            return rocketmq_json.decode(data)
        except RocketmqJsonError:
            continue
    return None


def load_as(files: Files, folder: Path, name: str, make: Callable[[dict[Any, Any] | None], Table]) -> Table:
    """Load a table and pass it to ``make``. StoreCorruptError if its JSON has another form."""
    try:
        return make(load_table(files, folder, name))
    except (msgspec.ValidationError, AttributeError, TypeError, ValueError) as error:
        raise StoreCorruptError(
            f"{name}.json in {folder} does not have RocketMQ's form ({error}); "
            "correct it, or replace it by its .bak file"
        ) from error
