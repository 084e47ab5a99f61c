"""Turning commit log records, as the engine returns them, into the messages that an API shows.

Reading takes two steps. ``stored_messages`` decodes records and takes no more memory than they do. ``iter_messages``
decodes one at a time, for batches of thousands of messages.
``inflate_messages`` inflates compressed bodies within a bound for all of them: a record of 4 KiB may hold a body of
16 MiB. ``takes_long`` decides whether the two steps belong in a thread.
"""

from collections.abc import Iterator, Sequence

import msgspec

from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError
from broker_core.formats.inner_batch import INNER_BATCH, inner_messages, is_inner_batch
from broker_core.formats.message_body import COMPRESSED, BodyError, BodyTooLargeError, decompress
from broker_core.formats.message_id import encode_offset_message_id

INFLATED_BYTES_MAX = 16 * 1024 * 1024
"""Bodies of one answer together, as sent, bytes; and one body alone: the largest that maxMessageSize allows."""
INLINE_BYTES_MAX = 256 * 1024
"""Records without a compressed body are read on the event loop up to this size, bytes."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """RocketMQ's MessageExt. ``message_id`` is its UNIQ_KEY, else its offset id.

    ``body`` is as the application sent it, or as it is stored while ``compression`` is not 0. ``problem`` is a sentence
    when the record is damaged: then ``body`` is as it is stored, or only ``size`` is known.
    """

    broker: str
    message_id: str
    offset_message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    tag: str
    keys: list[str]
    properties: dict[str, str]
    body: bytes
    born_time_ms: int
    store_time_ms: int
    born_host: str
    store_host: str
    reconsume_times: int
    size: int
    problem: str = ""
    compression: int = 0
    """The record's sysFlag while ``body`` is still compressed, else 0."""


def takes_long(records: bytes) -> bool:
    """Whether reading the records would delay an event loop: many bytes, a compressed body, or a batch."""
    if len(records) > INLINE_BYTES_MAX:
        return True
    position, last = 0, len(records) - commit_log_record.RECORD_SIZE_MIN
    while position <= last:
        (size,) = commit_log_record.INT.unpack_from(records, position)
        (sys_flag,) = commit_log_record.INT.unpack_from(records, position + commit_log_record.SYS_FLAG_AT)
        if sys_flag & (COMPRESSED | INNER_BATCH):
            return True
        if size < commit_log_record.RECORD_SIZE_MIN:
            return False
        position += size
    return False


def stored_messages(records: bytes, broker: str, *, split: bool = True) -> list[Message]:
    """Whole records back to back, in their order, with bodies as stored. Nothing is raised.

    The record of a batch becomes its messages, unless ``split`` is False. A damaged record has a ``problem``. After a
    record with a damaged length the rest cannot be divided into records: it is one last message with the ``size`` of
    the rest.
    """
    return list(iter_messages(records, broker, split=split))


def iter_messages(records: bytes, broker: str, *, split: bool = True, begin: int = 0) -> Iterator[Message]:
    """The same, each decoded when it is asked for; of a batch, the messages from queue offset ``begin`` on.

    A batch may have thousands of messages.
    """
    position = 0
    while position < len(records):
        try:
            record, problem = _read(records, position)
        except (RecordError, ValueError) as error:
            yield _unreadable(len(records) - position, broker, error)
            return
        if split and not problem and is_inner_batch(record.sys_flag):
            yield from _split(record, broker, begin)
        else:
            yield _message(record, problem, broker)
        position += record.size


def _split(record: CommitLogRecord, broker: str, begin: int) -> Iterator[Message]:
    """The messages of a batch from queue offset ``begin`` on, up to one that cannot be read. Then the record follows,
    with the queue offset of that message."""
    offset = max(begin, record.queue_offset)
    try:
        for inner in inner_messages(record, begin):
            yield _message(inner, "", broker)
            offset += 1
    except RecordError as error:
        yield msgspec.structs.replace(_message(record, str(error), broker), queue_offset=offset)


def inflate_messages(
    messages: Sequence[Message], max_bytes: int = INFLATED_BYTES_MAX
) -> tuple[list[Message], Sequence[Message]]:
    """Messages with bodies as sent, ``max_bytes`` of bodies at most, and the messages after them that are left out.

    The first message is never left out. Its body may take ``INFLATED_BYTES_MAX`` bytes, whatever ``max_bytes`` is;
    if it needs more, or is damaged, it stays as it is stored and gets a ``problem``.
    """
    inflated: list[Message] = []
    left = max_bytes
    for index, message in enumerate(messages):
        if message.compression:
            try:
                message = _inflate(message, left if index else INFLATED_BYTES_MAX)
            except BodyTooLargeError as error:
                if index:
                    return inflated, messages[index:]
                message = _damaged(message, error)
            except BodyError as error:
                message = _damaged(message, error)
        elif index and len(message.body) > left:
            return inflated, messages[index:]
        left = max(0, left - len(message.body))
        inflated.append(message)
    return inflated, ()


def _inflate(message: Message, max_size: int) -> Message:
    body = decompress(message.body, message.compression, max_size)
    return msgspec.structs.replace(message, body=body, compression=0)


def _damaged(message: Message, error: BodyError) -> Message:
    return msgspec.structs.replace(message, compression=0, problem=message.problem or str(error))


def _read(records: bytes, position: int) -> tuple[CommitLogRecord, str]:
    """(the record at a position, what is wrong with it or an empty string)."""
    try:
        return commit_log_record.decode(records, position), ""
    except RecordError:
        record = commit_log_record.decode(records, position, check_crc=False)
        return record, "the body does not match its checksum"


def _message(record: CommitLogRecord, problem: str, broker: str) -> Message:
    text = record.properties
    if not text.isascii():  # bytes that are not UTF-8 are surrogates here, which no encoder accepts
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    properties = message_properties.decode(text)
    offset_id = encode_offset_message_id(record.store_host, record.store_port, record.physical_offset)
    return Message(
        broker=broker,
        message_id=properties.get(message_properties.UNIQ_KEY, offset_id),
        offset_message_id=offset_id,
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        tag=properties.get(message_properties.TAGS, ""),
        keys=message_properties.split_keys(properties.get(message_properties.KEYS, "")),
        properties=properties,
        body=record.body,
        born_time_ms=record.born_timestamp,
        store_time_ms=record.store_timestamp,
        born_host=_address(record.born_host, record.born_port),
        store_host=_address(record.store_host, record.store_port),
        reconsume_times=record.reconsume_times,
        size=record.size,
        problem=problem,
        compression=record.sys_flag if record.sys_flag & COMPRESSED else 0,
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _unreadable(size: int, broker: str, error: ValueError) -> Message:
    return Message(
        broker=broker,
        message_id="",
        offset_message_id="",
        topic="",
        queue_id=-1,
        queue_offset=-1,
        physical_offset=-1,
        tag="",
        keys=[],
        properties={},
        body=b"",
        born_time_ms=0,
        store_time_ms=0,
        born_host="",
        store_host="",
        reconsume_times=0,
        size=size,
        problem=f"{size} bytes cannot be read: {error}",
    )
