"""All consume queues of a store."""

from collections.abc import Callable
from pathlib import Path

from broker_core.errors import RequestError
from broker_core.formats.commit_log_record import TOPIC_LENGTH_MAX
from broker_core.formats.tags_code import is_ext_address
from broker_core.store.consume_queue import ConsumeQueue
from broker_core.store.consume_queue_ext import ConsumeQueueExt
from broker_core.store.files import Files
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue
from broker_core.store.removed_folders import RemovedFolders

EXT_FILE_SIZE = 48 << 20


class ConsumeQueueStore:
    """RocketMQ's ConsumeQueueStore: (topic, queue id) -> ConsumeQueue."""

    def __init__(self, files: Files, maps: OpenMaps, root: Path, file_size: int) -> None:
        self._files = files
        self._maps = maps
        self._folder = root / "consumequeue"
        self._ext_folder = root / "consumequeue_ext"
        self._file_size = file_size
        self._ext: dict[tuple[str, int], ConsumeQueueExt] = {}
        self.table: dict[tuple[str, int], ConsumeQueue] = {}
        self._by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self.removed_folders = RemovedFolders(files, root)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, created if it does not exist. Its first file is created with its first unit."""
        queue = self.table.get((topic, queue_id))
        if queue is None:
            if not topic or "/" in topic or "\0" in topic or topic in (".", "..") or queue_id < 0:
                raise RequestError(f"{topic!r} cannot be the name of a topic, or {queue_id} not the id of a queue")
            if len(topic.encode()) > TOPIC_LENGTH_MAX:
                raise RequestError(f"the topic name is longer than {TOPIC_LENGTH_MAX} bytes")
            queue = self._add(topic, queue_id)
        return queue

    def _add(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self.table[topic, queue_id] = self._make(topic, queue_id)
        self._by_topic.setdefault(topic, {})[queue_id] = queue
        return queue

    def queue_ids(self, topic: str) -> list[int]:
        """The ids of the queues of a topic that have ever had a message."""
        return list(self._by_topic.get(topic, ()))

    def message_count(self, topic: str, queue_nums: int, min_physical_offset: int) -> int:
        """How many messages from ``min_physical_offset`` on the first ``queue_nums`` queues of a topic have."""
        return sum(
            queue.max_offset - queue.min_offset(min_physical_offset)
            for queue_id, queue in self._by_topic.get(topic, {}).items()
            if queue_id < queue_nums
        )

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        folder = self._folder / topic / str(queue_id)
        return ConsumeQueue(self._files, self._maps, folder, topic, queue_id, self._file_size)

    def load(self, *, clean: bool) -> list[str]:
        """Find the queues on the disk and their ends. Returns sentences about irregularities."""
        steps = []
        for topic in self._files.names(self._folder):
            for name in self._files.names(self._folder / topic):
                if name.isdigit():
                    queue = self._add(topic, int(name))
                    steps += [f"{topic}@{name}: {step}" for step in queue.recover(clean=clean)]
                    self._load_ext(topic, int(name))
        return steps

    def _load_ext(self, topic: str, queue_id: int) -> None:
        folder = self._ext_folder / topic / str(queue_id)
        if self._files.names(folder):
            self._ext[topic, queue_id] = ConsumeQueueExt(
                MappedFileQueue(self._files, self._maps, folder, EXT_FILE_SIZE)
            )

    def tags_code(self, queue: ConsumeQueue, tags_code: int) -> int | None:
        """The tagsCode of a unit; if the field points to an ext unit, that unit's, or None when it is gone."""
        if not is_ext_address(tags_code):
            return tags_code
        ext = self._ext.get((queue.topic, queue.queue_id))
        unit = ext.unit(tags_code) if ext else None
        return unit.tags_code if unit else None

    def truncate(self, physical_end: int) -> int:
        """Drop the units of records that end after ``physical_end``, and flush; returns how many were dropped."""
        dropped = 0
        for queue in self.table.values():
            dropped += queue.truncate(physical_end)
            self._flush_changed(queue)
        return dropped

    def make_holes(self, start: int, is_lost: Callable[[int], bool]) -> int:
        """``ConsumeQueue.make_holes`` of all queues, and flush; returns the number of holes."""
        total = 0
        for queue in self.table.values():
            if count := queue.make_holes(start, is_lost):
                total += count
                self._flush_changed(queue)
        return total

    @staticmethod
    def _flush_changed(queue: ConsumeQueue) -> None:
        for file in queue.mapped_files.all():
            if file.changed:
                file.flush(0, file.size)

    @property
    def unit_count(self) -> int:
        return sum(queue.max_offset for queue in self.table.values())

    @property
    def queue_count(self) -> int:
        return sum(queue.max_offset > 0 for queue in self.table.values())

    def folders(self) -> set[Path]:
        """The folders in which queues are created: those of all topics, and the one above them."""
        return {self._folder} | {queue.mapped_files.folder.parent for queue in self.table.values()}

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic. Their files are removed by a ``Removal``."""
        for queue_id, queue in self._by_topic.pop(topic, {}).items():
            del self.table[topic, queue_id]
            queue.deleted = True
            self._ext.pop((topic, queue_id), None)
            for file in queue.mapped_files.all():
                queue.mapped_files.take_out(file)
        self.removed_folders.take(self._folder / topic)
        self.removed_folders.take(self._ext_folder / topic)

    def take_expired(self, min_physical_offset: int) -> list[Path]:
        """Queue files with units of expired records only. The caller removes them."""
        return [
            path
            for queue in self.table.values()
            if len(queue.mapped_files) > 1
            for path in queue.take_expired(min_physical_offset)
        ]
