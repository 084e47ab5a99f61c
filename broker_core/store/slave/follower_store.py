"""A store that is a copy of another broker's log: its records come from there, and it accepts none of its own."""

from collections.abc import Mapping, Sequence
from heapq import nlargest
from itertools import islice
from typing import Any

from broker_core.clock import Now
from broker_core.codes import ResponseCode
from broker_core.errors import RequestError, StoreReadOnlyError, UnavailableError
from broker_core.store.message_store import Batch, MessageStore, PendingMessage

MESSAGES_MOVED_MAX = 1000
"""Messages of a topic that are moved to batch consume queues in one turn, which takes some milliseconds. Until all of
them are moved, no later record of the copy is dispatched."""

QUEUES_AT_START = 1000
"""Queues whose last message is read at the start, to know again which topics have light message queues."""


class FollowerStore(MessageStore):
    """The DefaultMessageStore of a slave. It delivers no delayed message, and its log begins where the copy began."""

    follows = True

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._ends: dict[str, Mapping[int, int]] = {}

    def _recover(self, now: Now, *, foreign: bool) -> None:
        super()._recover(now, foreign=foreign)
        self._reput.messages_moved_max = MESSAGES_MOVED_MAX
        for topic, queue_id in islice(self.queues(), QUEUES_AT_START):
            end = super().max_offset(topic, queue_id)
            for _, properties in self.reader.recent_properties(topic, queue_id, end - 1, end):
                self._reput.note_lmq(topic, properties.decode("utf-8", "surrogateescape"))

    def delete_topic(self, topic: str) -> None:
        """Remove the topic's queues. Its messages stay in the log until retention deletes them."""
        super().delete_topic(topic)
        self._reput.lmq_topics.pop(topic, None)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Offset after the last message of a queue. The copy of a log may have none of a queue's messages."""
        return super().max_offset(topic, queue_id) or self._end(topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First offset of a queue that is in the copy; its end if none is."""
        if super().max_offset(topic, queue_id):
            return super().min_offset(topic, queue_id)
        return self._end(topic, queue_id)

    def _end(self, topic: str, queue_id: int) -> int:
        return self._ends.get(topic, {}).get(queue_id, 0)

    def set_ends(self, topic: str, ends: Mapping[int, int]) -> None:
        """The followed broker's max offsets by queue id, which hold while the copy has no message of these queues."""
        if ends:
            self._ends[topic] = ends
        else:
            self._ends.pop(topic, None)

    def append(self, messages: Sequence[PendingMessage], now: Now) -> Batch:
        """Always StoreReadOnlyError."""
        raise StoreReadOnlyError("the store is a copy of another broker's log and accepts no messages of its own")

    def append_data(self, offset: int, data: bytes, store_timestamp: int, now: Now) -> None:
        """RocketMQ's appendToCommitLog: append whole records of the followed log at its end.

        Raises UnavailableError (SERVICE_NOT_AVAILABLE) when the disk is full or has failed; RequestError if the bytes
        do not belong at the end.
        """
        if self.problem or self.unfinished_recovery is not None:
            raise UnavailableError(
                self.problem or "recovery is being finished", code=ResponseCode.SERVICE_NOT_AVAILABLE
            )
        self._dispatch_failed = False
        is_first = self.is_empty
        try:
            if self._index is not None and not self._index.has_room:
                self._index.reserve(now.wall_ms)
            self._log.append_data(offset, data, store_timestamp)
        except ValueError as error:
            raise RequestError(str(error)) from error
        except OSError as error:
            self._note_no_room(error, now)
            raise UnavailableError(self._no_room, code=ResponseCode.SERVICE_NOT_AVAILABLE) from error
        if is_first:
            self._reput.position = self.flushed_offset = offset

    @property
    def is_empty(self) -> bool:
        """Whether the copy has no byte, so that it may begin at any segment."""
        return not self._log.mapped_files

    @property
    def segment_size(self) -> int:
        """Bytes of a segment: those of the followed log."""
        return self._log.mapped_files.file_size

    @property
    def first_store_timestamp(self) -> int:
        """When the first record was stored at the master, ms; 0 without a record."""
        return 0 if self.is_empty else self._log.store_timestamp(self.min_physical_offset) or 0

    @property
    def last_store_timestamp(self) -> int:
        """When the last record was stored at the master, ms; 0 if that is not known."""
        if not self._log.last_store_timestamp:  # after a clean stop recovery reads no record
            for offset, _ in self.last_records(1):
                self._log.last_store_timestamp = self._log.store_timestamp(offset) or 0
        return self._log.last_store_timestamp

    @property
    def unindexed_records(self) -> int:
        """Records that are in no queue of the copy, because their queue offset does not follow the one before it."""
        return self._reput.unreadable

    @property
    def lmq_topics(self) -> list[str]:
        """Topics whose messages are in light message queues (LMQ) of the followed broker too, as far as is known.

        The copy does not build these queues.
        """
        return list(self._reput.lmq_topics)

    def last_records(self, count: int) -> list[tuple[int, bytes]]:
        """(physical offset, bytes) of ``count`` messages near the end of the log, the newest first.

        They are the last messages of the queues with the newest messages.
        """
        units = [queue.unit(queue.max_offset - 1) for queue in self._queues.table.values() if queue.max_offset]
        offsets = nlargest(count, (offset for offset, _, _ in units if offset >= self._log.min_offset))
        found = ((offset, self._log.record(offset)) for offset in offsets)
        return [(offset, record) for offset, record in found if record is not None]
