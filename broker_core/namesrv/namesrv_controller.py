"""A name server without its sockets: the tables, the options, and the files in which they are stored.

    kvConfig.json        the key-value configuration
    namesrv.properties   options that were changed at run time

Routes are not stored, because brokers register again.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from broker_core.errors import RequestError
from broker_core.namesrv.kv_config_manager import KVConfigManager
from broker_core.namesrv.namesrv_options import NamesrvOptions, as_properties, change_options
from broker_core.namesrv.route_info_manager import RouteInfoManager
from broker_core.properties import parse_properties
from broker_core.store.config_tables import TableWrite, load_table, replace_file
from broker_core.store.files import Files

log = logging.getLogger(__name__)

KV_CONFIG = "kvConfig"
PROPERTIES = "namesrv.properties"


class Write(NamedTuple):
    """A file to be written. ``run`` may be called in another thread. OSError when the disk refuses."""

    name: str
    run: Callable[[], object]


class NamesrvController:
    """RocketMQ's NamesrvController, without sockets and threads."""

    def __init__(self, folder: Path, files: Files, listen_port: int = 9876) -> None:
        """Read the files in ``folder``. A file that cannot be read is ignored with a warning."""
        self.routes = RouteInfoManager()
        self.kv_config = KVConfigManager(load_table(files, folder, KV_CONFIG))
        self.options = NamesrvOptions()
        self.folder = folder
        self.listen_port = listen_port
        self._files = files
        self._options_dirty = False
        try:
            text = (files.read(folder / PROPERTIES) or b"").decode("utf-8")
            self.options = change_options(self.options, parse_properties(text))
        except (UnicodeDecodeError, RequestError) as error:
            log.warning("%s is ignored: %s", folder / PROPERTIES, error)

    def update_config(self, text: str) -> None:
        """Change options, given as Java properties. RequestError for a forbidden option or an invalid value."""
        self.options = change_options(self.options, parse_properties(text))
        self._options_dirty = True

    def config(self) -> str:
        """All options, the port and the paths of the files, as Java properties."""
        return as_properties(
            msgspec.to_builtins(self.options)
            | {
                "listenPort": self.listen_port,
                "kvConfigPath": self.folder / f"{KV_CONFIG}.json",
                "configStorePath": self.folder / PROPERTIES,
            }
        )

    def next_write(self) -> Write | None:
        """A file to be written, or None. Call this again when it is written, or after ``write_failed``."""
        if self.kv_config.dirty:
            self.kv_config.dirty = False
            table = TableWrite(self._files, self.folder, KV_CONFIG, self.kv_config.as_table())
            return Write(KV_CONFIG, table.run)
        if self._options_dirty:
            self._options_dirty = False
            data = as_properties(msgspec.to_builtins(self.options)).encode()
            return Write(PROPERTIES, lambda: replace_file(self._files, self.folder / PROPERTIES, data))
        return None

    def write_failed(self, write: Write) -> None:
        """Note that the disk refused the file, so that it is written again."""
        if write.name == KV_CONFIG:
            self.kv_config.dirty = True
        else:
            self._options_dirty = True
