"""The offsets of a consumer in broadcasting mode, which it keeps in a file of its own.

    <local_offset_store_dir>/<client id>/<group>/offsets.json
    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}

It is RocketMQ's file. The state before the last is in ``offsets.json.bak``, which is read if the file is damaged.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from broker_core.client.mq_client_exception import MQClientException
from broker_core.commands import MessageQueue
from broker_core.formats.rocketmq_json import RocketmqJsonError
from broker_core.remoting import fastjson

log = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
"""A larger file is not read."""


class LocalFileOffsetStore:
    """RocketMQ's LocalFileOffsetStore. Offsets are of the next message to consume."""

    def __init__(self, folder: str, client_id: str, group: str) -> None:
        """MQClientException for a client id that cannot be the name of a folder."""
        if client_id in ("", ".", "..") or Path(client_id).name != client_id:
            raise MQClientException(f"the client id {client_id!r} cannot be the name of a folder for its offsets")
        self.path = Path(folder).expanduser() / client_id / group / "offsets.json"
        self._offsets: dict[MessageQueue, int] = {}
        self._persisted: dict[MessageQueue, int] = {}

    def load(self) -> None:
        """Read the file. MQClientException if neither it nor its copy can be read though one of them is there."""
        self._offsets = self._read()
        self._persisted = dict(self._offsets)

    def _read(self) -> dict[MessageQueue, int]:
        problems = []
        for path in (self.path, self._backup):
            try:
                if path.stat().st_size > MAX_BYTES:
                    raise ValueError(f"it has more than {MAX_BYTES} bytes")
                return _decode(path.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {error}")
                log.warning("the offsets in %s cannot be read: %s", path, error)
        if problems:
            raise MQClientException(
                f"the offsets of this consumer cannot be read: {'; '.join(problems)}. Repair the file, or remove it to "
                f"begin as a new group"
            )
        return {}

    @property
    def _backup(self) -> Path:
        return self.path.with_name("offsets.json.bak")

    def update_offset(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Note an offset; ``persist`` writes it."""
        if not increase_only or offset > self._offsets.get(queue, -1):
            self._offsets[queue] = offset

    def read_memory(self, queue: MessageQueue) -> int:
        """The offset noted last; -1 if there is none."""
        return self._offsets.get(queue, -1)

    async def read_store(self, queue: MessageQueue) -> int | None:
        """The offset that is known; None if there is none."""
        return self._offsets.get(queue)

    async def store_now(self, queue: MessageQueue, offset: int) -> None:
        """Note an offset and write the file, once for all queues whose offsets come at the same moment."""
        self._offsets[queue] = offset
        await asyncio.sleep(0)
        await self.persist([queue])

    async def persist(self, queues: Iterable[MessageQueue]) -> None:
        """Write all offsets if one has changed. If this fails, it is logged and tried again the next time."""
        if self._offsets == self._persisted:
            return
        try:
            self._write()
        except OSError as error:
            log.warning("the offsets could not be written to %s: %s", self.path, error)
        else:
            self._persisted = dict(self._offsets)

    def _write(self) -> None:
        """On the event loop, so without waiting for the disk: after a power cut, the copy may be the one to read."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name("offsets.json.tmp")
        part.write_bytes(fastjson.encode({"offsetTable": self._offsets}))
        if self.path.exists():
            self.path.replace(self._backup)
        part.replace(self.path)

    def remove_offset(self, queue: MessageQueue) -> None:
        """Nothing: this consumer keeps its offsets of a queue that has gone away."""

    def table(self) -> dict[MessageQueue, int]:
        """All offsets noted."""
        return dict(self._offsets)


def _decode(content: bytes) -> dict[MessageQueue, int]:
    """The offsets of a file. ValueError if it is none."""
    try:
        table = fastjson.decode(content).get("offsetTable")
    except RocketmqJsonError as error:
        raise ValueError(str(error)) from error
    if not isinstance(table, dict):
        raise ValueError("it has no offsetTable")
    for queue, offset in table.items():
        if not isinstance(queue, MessageQueue) or type(offset) is not int or offset < 0:
            raise ValueError(f"{queue} has the offset {offset!r}")
    return table
