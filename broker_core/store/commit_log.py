"""The commit log: every message of every queue, in the order in which they were stored."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import msgspec

from broker_core.codes import ResponseCode
from broker_core.errors import RequestError, TooLargeError
from broker_core.formats.commit_log_record import (
    BLANK_SIZE,
    BORN_HOST_V6,
    CRC_MASK,
    HEADS,
    LENGTH,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_LENGTH_MAX,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    TOPIC_LENGTH_MAX,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
    blank,
    head_kind,
    host_flags,
    is_rolled_back,
    measure,
    packed_host,
    prepared_offset_at,
    store_timestamp_at,
    topic_field,
)
from broker_core.formats.inner_batch import INNER_BATCH, number_batch
from broker_core.formats.message_properties import TAGS, find
from broker_core.formats.tags_code import tags_code
from broker_core.store.delay_level import SCHEDULE_TOPIC, DelayLevels
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue
from broker_core.store.queue.consume_queue import ConsumeQueue

ALLOCATE_CHUNK = 4 << 20
NOTHING_LOST = 1 << 62
"""A physical offset after that of every record."""
NO_HOST_FLAGS = ~(BORN_HOST_V6 | STORE_HOST_V6)
FindQueue = Callable[[str, int], ConsumeQueue]
Block = tuple[MappedFile, int, bytes]
"""A file, a position in it, and the bytes to write there."""


class PendingMessage(msgspec.Struct, gc=False):
    """RocketMQ's MessageExtBrokerInner: a message to append. ``properties`` is the final property string.

    With the flag INNER_BATCH it is a batch. The append sets its INNER_BASE and ``number``, its number of messages.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: str
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: str
    born_port: int
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    number: int = 1


class DispatchRequest(msgspec.Struct, frozen=True, gc=False):
    """RocketMQ's DispatchRequest: where a message was stored, and what the index needs.

    ``queue_offset`` counts messages of the queue, ``physical_offset`` bytes of the log; the time is in ms.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    store_timestamp: int
    properties: str
    tag: str
    indexed: bool


class Arrival(msgspec.Struct, gc=False):
    """Consecutive messages of a queue, from ``from_offset`` up to, but not including, ``to_offset``.

    It is created once, by the append. Dispatch, event and wake-up all use the same object. ``fields`` contains what
    the queue's units contain: physical offset, size and tagsCode of each message. ``store_timestamp`` is that of the
    first message, ``size`` the bytes of all their records. ``bitmaps`` is None unless groups filter the topic by SQL92;
    then it has an integer for each message. ``batches`` is None unless the queue is a BatchConsumeQueue; then
    ``fields`` has an entry for each record, and ``batches`` its number of messages and its store time, ms.
    """

    queue: ConsumeQueue
    topic: str
    queue_id: int
    from_offset: int
    to_offset: int
    store_timestamp: int
    size: int
    fields: list[int]
    bitmaps: list[int] | None = None
    batches: list[tuple[int, int]] | None = None

    def add_batch(self, number: int, store_timestamp: int) -> None:
        """Note the number of messages and the store time of one more record of a batch consume queue."""
        if self.batches is None:
            self.batches = []
        self.batches.append((number, store_timestamp))

    @property
    def tags_codes(self) -> list[int]:
        return self.fields[2::3]

    @property
    def physical_offsets(self) -> list[int]:
        return self.fields[0::3]


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The messages in the log from ``start`` to ``end``, in log order and by queue."""

    start: int
    end: int
    requests: list[DispatchRequest]
    arrivals: list[Arrival]


class _Front(msgspec.Struct, frozen=True, gc=False):
    """What records of one topic, client address and broker address share. ``size`` excludes body and properties."""

    magic: int
    topic: bytes
    born_host: bytes
    host_flags: int
    head: struct.Struct
    size: int


@lru_cache(8192)
def _front(topic: str, born_host: str, store_host: bytes) -> _Front:
    """Raises RequestError if topic or address do not fit into a record."""
    try:
        magic, name = topic_field(topic)
    except ValueError:
        raise RequestError(f"the topic name is longer than {TOPIC_LENGTH_MAX} bytes") from None
    try:
        born = packed_host(born_host)
    except ValueError:
        raise RequestError(f"born host {born_host!r} is not an IP address") from None
    flags = host_flags(0, born, store_host)
    head = HEADS[head_kind(flags)]
    return _Front(magic, name, born, flags, head, head.size + len(name) + LENGTH.size)


def _number_batch(message: PendingMessage, arrivals: Mapping[ConsumeQueue, Arrival], find_queue: FindQueue) -> None:
    """Set the queue offset and the number of messages of a batch that is stored as one record after these arrivals."""
    queue = find_queue(message.topic, message.queue_id)
    if not queue.is_batch:
        raise _illegal(f"topic {message.topic} has no batch consume queues, so it can have no inner batch")
    arrival = arrivals.get(queue)
    base = queue.next_offset if arrival is None else arrival.to_offset
    message.properties, message.number = number_batch(message.properties, base)


def _filler(left: int, size: int, segment_size: int) -> bytes:
    """The end of a segment with ``left`` bytes, before a record that does not fit. TooLargeError if none fits it."""
    if size + BLANK_SIZE > segment_size:
        raise TooLargeError(f"the message needs {size} bytes in the log; a segment of this log has {segment_size}")
    return blank(left)


def _illegal(remark: str) -> RequestError:
    return RequestError(remark, code=ResponseCode.MESSAGE_ILLEGAL)


class CommitLog:
    """RocketMQ's CommitLog. Offsets are physical: bytes from the beginning of the first segment ever written."""

    def __init__(
        self,
        files: Files,
        maps: OpenMaps,
        folder: Path,
        segment_size: int,
        store_host: str,
        store_port: int,
        delay_levels: DelayLevels,
    ) -> None:
        self.mapped_files = MappedFileQueue(files, maps, folder, segment_size)
        self._store_host = packed_host(store_host)
        self._store_port = store_port
        self._delay_levels = delay_levels
        self.max_offset = 0
        self.last_store_timestamp = 0
        self.recovered_timestamp = 0
        """No record that recovery read was stored later, and no delivered timer message was due later. Wall ms."""
        self.lost_from = NOTHING_LOST
        """Where the first records begin that recovery after an unclean stop lacks. Behind it any may be lost."""
        self._refused: Sequence[Arrival] = ()
        """Messages that were refused because a queue could not reserve disk space for them."""

    @property
    def min_offset(self) -> int:
        first = self.mapped_files.first
        return first.base if first else self.max_offset

    # --- writing ------------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[PendingMessage], store_timestamp: int, find_queue: FindQueue) -> Batch:
        """Store messages in this order, as one block per segment. An error means that none of them was stored.

        Raises RequestError for a message that does not fit into a record, OSError when the disk is full.
        """
        start = self.max_offset
        try:
            blocks, end, requests, arrivals = self._encode(messages, store_timestamp, find_queue)
        except UnicodeEncodeError:
            raise _illegal("the properties are not valid Unicode text") from None
        except struct.error as error:
            raise _illegal("a number in the message is too large for its field in a record") from error
        try:
            for arrival in arrivals:
                if arrival.to_offset > arrival.queue.reserved:
                    arrival.queue.reserve(arrival.to_offset)
        except OSError:
            self._refused = arrivals
            raise
        # From here on nothing can fail.
        for file, position, block in blocks:
            file.write(position, block)
        for arrival in arrivals:
            arrival.queue.next_offset = arrival.to_offset
        self.max_offset = end
        self.last_store_timestamp = store_timestamp
        return Batch(start, end, requests, arrivals)

    def append_data(self, offset: int, data: bytes, store_timestamp: int) -> None:
        """Append whole records of another broker's log, as they are. An empty log begins at ``offset``.

        They belong to one segment. ValueError if they do not belong at the end of this log, OSError when the disk is
        full.
        """
        size = self.mapped_files.file_size
        is_first = not self.mapped_files and offset % size == 0
        if (offset != self.max_offset and not is_first) or offset % size + len(data) > size:
            raise ValueError(f"{len(data)} bytes at {offset} do not continue a log that ends at {self.max_offset}")
        file, position, block = self._place(offset, data)
        file.write(position, block)
        self.max_offset = offset + len(data)
        self.last_store_timestamp = store_timestamp or self.last_store_timestamp

    def prepare(self, size: int = 1) -> None:
        """Map the file for the next message, touch its page, and reserve ``size`` bytes. OSError: disk full.

        If a queue had no space for its units in the last ``append``, they are reserved, too.
        """
        for arrival in self._refused:
            if not arrival.queue.deleted:
                arrival.queue.reserve(arrival.to_offset)
        self._refused = ()
        file, position, block = self._place(self.max_offset, b"\0")
        file.write(position, block)  # the first write to a mapped file takes a millisecond
        end = min(position + size, file.size)
        if end > file.allocated:
            file.allocate(end, ALLOCATE_CHUNK)
        if position + size + BLANK_SIZE > file.size:
            self._place(file.base + file.size, bytes(min(size, file.size)))

    def _place(self, offset: int, block: bytes) -> Block:
        """Reserve disk space for a block and return where to write it."""
        file = self.mapped_files.find(offset) or self.mapped_files.create(offset)
        position = offset - file.base
        if position + len(block) > file.allocated:
            file.allocate(position + len(block), ALLOCATE_CHUNK)
        return file, position, block

    def _encode(
        self, messages: Sequence[PendingMessage], store_timestamp: int, find_queue: FindQueue
    ) -> tuple[list[Block], int, list[DispatchRequest], list[Arrival]]:
        """(blocks, end of the log after them, messages in log order, messages by queue).

        This is the hot path: it makes no call that can be avoided.
        """
        position = block_start = self.max_offset
        segment_size, store_host = self.mapped_files.file_size, self._store_host
        segment_end = position - position % segment_size + segment_size
        room_end = segment_end - BLANK_SIZE
        blocks: list[Block] = []
        parts: list[bytes] = []
        requests: list[DispatchRequest] = []
        arrivals: dict[ConsumeQueue, Arrival] = {}
        for message in messages:
            if message.sys_flag & INNER_BATCH:
                _number_batch(message, arrivals, find_queue)
            topic, queue_id, body, properties = message.topic, message.queue_id, message.body, message.properties
            front = _front(topic, message.born_host, store_host)
            text = properties.encode("utf-8", "surrogateescape")
            text_length = len(text)
            if text_length > PROPERTIES_LENGTH_MAX:
                raise TooLargeError(
                    f"the properties are {text_length} bytes long; the limit is {PROPERTIES_LENGTH_MAX}"
                )
            sys_flag = message.sys_flag & NO_HOST_FLAGS | front.host_flags
            size = front.size + len(body) + text_length
            if position + size > room_end:
                parts.append(_filler(segment_end - position, size, segment_size))
                blocks.append(self._place(block_start, b"".join(parts)))
                parts = []
                position = block_start = segment_end
                segment_end += segment_size
                room_end += segment_size
            tag = find(properties, TAGS)
            queue_offset = 0
            if not sys_flag & TRANSACTION_PREPARED:  # TRANSACTION_ROLLBACK also has this bit
                queue = find_queue(topic, queue_id)
                arrival = arrivals.get(queue)
                if arrival is None:
                    arrival = arrivals[queue] = Arrival(
                        queue, topic, queue_id, queue.next_offset, queue.next_offset, store_timestamp, 0, []
                    )
                code = tags_code(tag) if tag else 0
                if topic == SCHEDULE_TOPIC:
                    code = self._delay_levels.tags_code(properties, store_timestamp, code)
                queue_offset = arrival.to_offset
                arrival.to_offset = queue_offset + message.number
                arrival.size += size
                if queue.is_batch:
                    arrival.add_batch(message.number, store_timestamp)
                arrival.fields += (position, size, code)
            parts += (
                self._head(front, message, size, queue_offset, position, sys_flag, store_timestamp),
                body,
                front.topic,
                LENGTH.pack(text_length),
                text,
            )
            indexed = sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK
            requests.append(
                DispatchRequest(
                    topic, queue_id, queue_offset, position, size, store_timestamp, properties, tag, indexed
                )
            )
            position += size
        if parts:
            blocks.append(self._place(block_start, b"".join(parts)))
        return blocks, position, requests, [*arrivals.values()]

    def _head(
        self,
        front: _Front,
        message: PendingMessage,
        size: int,
        queue_offset: int,
        position: int,
        sys_flag: int,
        store_timestamp: int,
    ) -> bytes:
        """A record up to its body."""
        body = message.body
        return front.head.pack(
            size,
            front.magic,
            crc32(body) & CRC_MASK,
            message.queue_id,
            message.flag,
            queue_offset,
            position,
            sys_flag,
            message.born_timestamp,
            front.born_host,
            message.born_port,
            store_timestamp,
            self._store_host,
            self._store_port,
            message.reconsume_times,
            message.prepared_transaction_offset,
            len(body),
        )

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes | None:
        """Bytes of one segment; None when the segment is gone or the range reaches beyond the log's end."""
        file = self.mapped_files.find(position)
        if file is None or position + size > self.max_offset:
            return None
        start = position - file.base
        return bytes(file.buffer[start : start + size])

    def record(self, position: int) -> bytes | None:
        """The message that begins at ``position``; None if none begins there."""
        file = self.mapped_files.find(position) if position >= 0 else None
        if file is None:
            return None
        start, buffer = position - file.base, file.buffer
        size = measure(buffer, start, min(file.size, self.max_offset - file.base), position, check_crc=False)
        if not size or is_rolled_back(buffer, start):
            return None
        return bytes(buffer[start : start + size])

    def prepared_offsets(self, position: int) -> Iterator[tuple[int, int, int]]:
        """(start, end, PREPAREDTRANSACTIONOFFSET) of every record from ``position`` on that may end a transaction.

        It has a PREPAREDTRANSACTIONOFFSET, or the flag of a commit if that is 0. ``position`` is where a record begins.
        What cannot be read is passed over, up to the next segment.
        """
        while position < self.max_offset:
            file = self.mapped_files.find(position)
            if file is None:
                file = self.mapped_files.next_after(position)
                if file is None:
                    return
                position = file.base
            buffer, at, end = file.buffer, position - file.base, min(file.size, self.max_offset - file.base)
            while end - at >= RECORD_SIZE_MIN:
                size, magic = SIZE_AND_MAGIC.unpack_from(buffer, at)
                if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_SIZE_MIN <= size <= end - at:
                    break
                prepared_offset = prepared_offset_at(buffer, at)
                if prepared_offset or buffer[at + SYS_FLAG_AT + 3] & TRANSACTION_MASK == TRANSACTION_COMMIT:
                    yield file.base + at, file.base + at + size, prepared_offset
                at += size
            position = file.base + file.size

    def store_timestamp(self, position: int) -> int | None:
        """When the record that begins at ``position`` was stored, ms; None when its segment is gone."""
        file = self.mapped_files.find(position)
        if file is None or position >= self.max_offset:
            return None
        return store_timestamp_at(file.buffer, position - file.base)
