"""All consume queues of a store."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from broker_core.errors import RequestError
from broker_core.filters.consumer_filter_data import ConsumerFilterData
from broker_core.formats.commit_log_record import TOPIC_LENGTH_MAX
from broker_core.formats.consume_queue_unit import HOLE_SIZE, decode_units, encode_units, is_hole
from broker_core.formats.tags_code import is_ext_address
from broker_core.store.config_tables import load_table
from broker_core.store.consume_queue_ext import ConsumeQueueExt
from broker_core.store.delay_level import SCHEDULE_TOPIC
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue
from broker_core.store.queue.batch_consume_queue import BatchConsumeQueue
from broker_core.store.queue.consume_queue import ConsumeQueue
from broker_core.store.removed_folders import RemovedFolders

EXT_FILE_SIZE = 48 << 20


def has_batch_queues(config: Any) -> bool:
    """Whether an entry of topics.json says that the queues of its topic are batch consume queues."""
    attributes = config.get("attributes") if isinstance(config, dict) else None
    return isinstance(attributes, dict) and attributes.get("queue.type") == "BatchCQ"


class ConsumeQueueStore:
    """RocketMQ's ConsumeQueueStore: (topic, queue id) -> ConsumeQueue."""

    def __init__(
        self, files: Files, maps: OpenMaps, root: Path, file_size: int, ext_file_size: int = EXT_FILE_SIZE
    ) -> None:
        self._files = files
        self._maps = maps
        self._folder = root / "consumequeue"
        self._ext_folder = root / "consumequeue_ext"
        self._batch_folder = root / "batchconsumequeue"
        self._config = root / "config"
        self._file_size = file_size
        self._ext_file_size = ext_file_size
        self._ext: dict[tuple[str, int], ConsumeQueueExt] = {}
        self.table: dict[tuple[str, int], ConsumeQueue] = {}
        self._by_topic: dict[str, dict[int, ConsumeQueue]] = {}
        self._filters: dict[str, Sequence[ConsumerFilterData]] = {}
        self.removed_folders = RemovedFolders(files, root)
        self.batch_topics: set[str] = set()
        """Topics with ``queue.type=BatchCQ``: their queues are BatchConsumeQueues."""
        self._moves: dict[str, dict[int, BatchConsumeQueue]] = {}
        """By topic, the batch consume queues into which ``make_batch_queues`` has yet to move more messages."""
        self._replaced: set[str] = set()
        """Topics that ``load`` found with the files of ordinary queues, which batch consume queues have replaced."""
        self.lacks_units = False
        """Whether ``load`` found batch consume queues that end before the queues that they replaced: a process was
        killed while it moved the messages."""

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
        if not queue.is_batch:
            queue.filters = self._filters.get(topic, ())
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
        if topic in self.batch_topics and all(queue.is_batch for queue in self._by_topic.get(topic, {}).values()):
            return self._make_batch_queue(topic, queue_id)
        folder = self._folder / topic / str(queue_id)
        return ConsumeQueue(self._files, self._maps, folder, topic, queue_id, self._file_size)

    def _make_batch_queue(self, topic: str, queue_id: int) -> BatchConsumeQueue:
        folder = self._batch_folder / topic / str(queue_id)
        return BatchConsumeQueue(self._files, self._maps, folder, topic, queue_id)

    def load(self, *, clean: bool) -> list[str]:
        """Find the queues on the disk and their ends. Returns sentences about irregularities."""
        steps = []
        topics, batch_topics = self._files.names(self._folder), self._files.names(self._batch_folder)
        configured = self._configured_topics()
        self.batch_topics.update(topic for topic, is_batch in configured.items() if is_batch)
        # A topic has both folders if batch consume queues replaced its queues; the replaced ones are not up to date.
        self.batch_topics.update(topic for topic in batch_topics if topic not in topics or topic not in configured)
        for folder, names in ((self._folder, topics), (self._batch_folder, batch_topics)):
            for topic in names:
                if (topic in self.batch_topics) is not (folder == self._batch_folder):
                    continue  # queues of a kind that the topic does not have: they are not up to date
                # A stop while messages were moved to batch consume queues did not flush these.
                is_flushed = clean and not (topic in topics and topic in batch_topics)
                for name in self._files.names(folder / topic):
                    if name.isdigit():
                        queue = self._add(topic, int(name))
                        steps += [f"{topic}@{name}: {step}" for step in queue.recover(clean=is_flushed)]
                        if not queue.is_batch:
                            self._load_ext(topic, int(name))
        self._replaced = self.batch_topics.intersection(topics, batch_topics)
        self.lacks_units = any(self._ends_early(topic, clean=clean) for topic in self._replaced)
        return steps

    def _ends_early(self, topic: str, *, clean: bool) -> bool:
        """Whether a batch consume queue of a topic ends before the queue that it replaced."""
        for name in self._files.names(self._folder / topic):
            if name.isdigit():
                old = ConsumeQueue(
                    self._files, self._maps, self._folder / topic / name, topic, int(name), self._file_size
                )
                old.recover(clean=clean)
                new = self.table.get((topic, int(name)))
                self._close(old)
                if old.max_offset > (new.max_offset if new is not None else 0):
                    return True
        return False

    def remove_replaced(self) -> None:
        """Remove the files of queues that batch consume queues have replaced, once all of these are on the disk."""
        while self._replaced:
            topic = self._replaced.pop()
            with suppress(OSError):  # the next start tries it again
                self.removed_folders.take(self._folder / topic)
                self.removed_folders.take(self._ext_folder / topic)

    def _configured_topics(self) -> dict[str, bool]:
        """Whether each topic of topics.json has batch consume queues. The engine complains if its form is wrong."""
        configs = (load_table(self._files, self._config, "topics") or {}).get("topicConfigTable")
        return {name: has_batch_queues(config) for name, config in configs.items()} if isinstance(configs, dict) else {}

    def make_batch_queues(
        self, topic: str, log_begin: int, store_timestamp: Callable[[int], int | None], limit: int
    ) -> list[ConsumeQueue] | None:
        """Replace a topic's queues by batch consume queues, because the log has a batch of it. Returns the new queues
        that have messages, or None if there are more than ``limit`` messages to move: then call it again.

        topics.json may be older than the topic. Messages that were not sent in batches are then in ordinary queues;
        each becomes an entry with one message. Consumers read the ordinary queues until all messages are moved. The
        old files stay until the next start.

        ``log_begin``: the physical offset at which the log begins. ``store_timestamp`` is called with the messages'
        physical offsets.
        """
        made = self._moves.setdefault(topic, {})
        queues = self._by_topic[topic]
        for queue_id, old in queues.items():
            new = made.get(queue_id)
            if new is None:
                new = self._make_batch_queue(topic, queue_id)
                new.mapped_files.load()  # what an earlier run wrote here is dispatched again
                for file in new.mapped_files.all():
                    file.clear(0)
                made[queue_id] = new
            limit -= self._move(old, new, log_begin, store_timestamp, limit)
            if new.max_offset < old.max_offset:
                return None
        del self._moves[topic]
        self.batch_topics.add(topic)
        for queue_id, old in list(queues.items()):
            self._close(old)
            self.table[topic, queue_id] = queues[queue_id] = made[queue_id]
        return [queue for queue in queues.values() if queue.max_offset]

    def _move(
        self,
        old: ConsumeQueue,
        new: BatchConsumeQueue,
        log_begin: int,
        store_timestamp: Callable[[int], int | None],
        limit: int,
    ) -> int:
        """Copy up to ``limit`` messages of a queue to the end of the new one; returns how many.

        A message that the log does not have becomes a hole. If it has none of them, one hole says where the queue ends.
        """
        low = min(old.min_offset(log_begin), old.max_offset - 1)
        start = max(new.max_offset, low)
        end = min(start + limit, old.max_offset)
        for offset in range(start, end):
            place, size, code = old.unit(offset)
            stored = store_timestamp(place) if size and not is_hole(place, size) else None
            if stored is None:
                new.put_batches(offset, [0, HOLE_SIZE, 0], [(1, 0)])
            else:
                new.put_batches(offset, [place, size, self.tags_code(old, code) or 0], [(1, stored)])
        return max(0, end - start)

    def _close(self, queue: ConsumeQueue) -> None:
        """Unmap the files of a queue that is not in the table any more."""
        queue.deleted = True
        ext = self._ext.pop((queue.topic, queue.queue_id), None)
        if ext is not None:
            ext.close_files()
        for file in queue.mapped_files.all():
            queue.mapped_files.take_out(file)

    def _load_ext(self, topic: str, queue_id: int) -> None:
        folder = self._ext_folder / topic / str(queue_id)
        if self._files.names(folder):
            self._ext[topic, queue_id] = self._make_ext(folder)

    def _make_ext(self, folder: Path) -> ConsumeQueueExt:
        return ConsumeQueueExt(MappedFileQueue(self._files, self._maps, folder, self._ext_file_size))

    def find_ext(self, queue: ConsumeQueue) -> ConsumeQueueExt:
        """The extension of a queue, ready to be written. Its first file is created with its first unit."""
        key = queue.topic, queue.queue_id
        ext = self._ext.get(key)
        if ext is None:
            ext = self._ext[key] = self._make_ext(self._ext_folder / queue.topic / str(queue.queue_id))
        if not ext.is_ready:
            ext.begin(queue.last_ext_address, queue.max_offset)
        return ext

    def set_filters(self, topic: str, filters: Sequence[ConsumerFilterData]) -> None:
        """Compute a bitmap with these filters for each message of a topic that is dispatched from now on."""
        if filters:
            self._filters[topic] = filters
        else:
            self._filters.pop(topic, None)
        for queue in self._by_topic.get(topic, {}).values():
            queue.filters = () if queue.is_batch else filters

    def candidates(
        self, queue: ConsumeQueue, codes: Sequence[int], wanted: ConsumerFilterData
    ) -> tuple[Sequence[int], int]:
        """``ConsumeQueueExt.candidates``; all messages if the queue has no extension."""
        ext = self._ext.get((queue.topic, queue.queue_id))
        return (range(len(codes)), 0) if ext is None else ext.candidates(codes, wanted)

    def tags_code(self, queue: ConsumeQueue, tags_code: int) -> int | None:
        """The tagsCode of a unit; if the field points to an ext unit, that unit's, or None when it is gone."""
        if not is_ext_address(tags_code):
            return tags_code
        ext = self._ext.get((queue.topic, queue.queue_id))
        unit = ext.unit(tags_code) if ext else None
        return unit.tags_code if unit else None

    def with_tags_codes(self, queue: ConsumeQueue, units: bytes) -> bytes:
        """The units with tagsCodes in place of addresses; unchanged if the tagsCodes cannot all be read at once."""
        ext = self._ext.get((queue.topic, queue.queue_id))
        if ext is None:
            return units
        fields = list(decode_units(units))
        codes = ext.tags_codes_in_row(fields[2::3])
        if codes is None:
            return units
        fields[2::3] = codes
        return encode_units(fields)

    def drop_ext_addresses(self, physical_start: int) -> int:
        """``ConsumeQueue.drop_ext_addresses`` of all queues; returns how many units were dropped.

        Units of delayed messages stay. RocketMQ's contain delivery times, by the delay levels of that time.
        """
        queues = (queue for queue in self.table.values() if queue.topic != SCHEDULE_TOPIC)
        return sum(queue.drop_ext_addresses(physical_start) for queue in queues)

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
        roots = {self._folder, self._batch_folder} if self.batch_topics else {self._folder}
        return roots | {queue.mapped_files.folder.parent for queue in self.table.values()}

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic. Their files are removed by a ``Removal``."""
        for queue_id, queue in self._by_topic.pop(topic, {}).items():
            del self.table[topic, queue_id]
            self._close(queue)
        for queue in self._moves.pop(topic, {}).values():
            self._close(queue)
        self._replaced.discard(topic)
        self.removed_folders.take(self._folder / topic)
        self.removed_folders.take(self._batch_folder / topic)
        self.removed_folders.take(self._ext_folder / topic)

    def take_dirty(self, touched: Iterable[ConsumeQueue]) -> list[tuple[MappedFile, int, int]]:
        """Ranges of these queues, and of their extensions, that were written since the last call."""
        ranges = []
        for queue in touched:
            if self._ext and (ext := self._ext.get((queue.topic, queue.queue_id))) is not None:
                ranges += ext.take_dirty()
            ranges += queue.take_dirty()
        return ranges

    def take_expired(self, min_physical_offset: int, earliest_store_time: int | None = None) -> list[Path]:
        """Files of queues and extensions with units of expired records only. The caller removes them.

        ``earliest_store_time``: that of the log's first message, ms; None without messages.
        """
        expired = [
            path
            for queue in self.table.values()
            if len(queue.mapped_files) > 1
            for path in queue.take_expired(min_physical_offset)
        ]
        if earliest_store_time is not None:
            expired += [path for ext in self._ext.values() for path in ext.take_expired(earliest_store_time)]
        return expired
