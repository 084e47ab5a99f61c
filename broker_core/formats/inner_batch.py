"""Records of a batch consume queue: what marks them, and the messages in the record of a batch."""

from collections.abc import Iterator, Sequence

import msgspec

from broker_core.formats import message_properties
from broker_core.formats.batch_consume_queue_unit import NUMBER_MAX
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError, body_crc
from broker_core.formats.message_batch import BatchEntry, MessageBatchError, encode_batch, entries_with, iter_batch

NEED_UNWRAP = 1 << 6
INNER_BATCH = 1 << 7
INNER_FLAGS = NEED_UNWRAP | INNER_BATCH
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"


def is_inner_batch(sys_flag: int) -> bool:
    """Whether the body of a record has several messages, which clients split."""
    return sys_flag & INNER_FLAGS == INNER_FLAGS


def inner_number(properties: str) -> int:
    """How many messages a record of a batch consume queue with these properties has: its INNER_NUM, else 1."""
    text = message_properties.find(properties, INNER_NUM)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) > 0 else 1


def number_batch(properties: str, base: int) -> tuple[str, int]:
    """(properties, number of messages) of the record of a batch that is stored at queue offset ``base``."""
    return message_properties.put(properties, {INNER_BASE: str(base)}), inner_number(properties)


def encode_inner_batch(entries: Sequence[BatchEntry], properties: str) -> tuple[bytes, str]:
    """(body, properties) of the record of a batch, whose own property string is ``properties``.

    MessageBatchError for more messages than a record can have.
    """
    if len(entries) > NUMBER_MAX:
        raise MessageBatchError(f"it has {len(entries)} messages; the limit is {NUMBER_MAX}")
    return encode_batch(entries), message_properties.put(properties, {INNER_NUM: str(len(entries))})


def split_record(record: CommitLogRecord) -> list[CommitLogRecord]:
    """The messages of a record, as RocketMQ's clients see them; the record itself if it has no inner batch.

    RecordError if the body is no batch. All messages have the physical offset of the record; their sizes are those of
    their bodies and properties.
    """
    if not is_inner_batch(record.sys_flag):
        return [record]
    return list(inner_messages(record))


def inner_messages(record: CommitLogRecord, begin: int = 0) -> Iterator[CommitLogRecord]:
    """The messages of an inner batch from queue offset ``begin`` on, each decoded when it is asked for.

    RecordError at the first that cannot be read.
    """
    first = max(0, begin - record.queue_offset)
    try:
        if not record.body:
            raise MessageBatchError("it has no message")
        for number, entry in enumerate(iter_batch(record.body, first), first):
            yield _inner_message(record, number, entry)
    except MessageBatchError as error:
        raise _damaged(record, error) from error


def inner_messages_with(record: CommitLogRecord, unique_key: str) -> list[CommitLogRecord]:
    """The messages of an inner batch with this UNIQ_KEY, as ``split_record`` returns them; two at most.

    The other messages are not decoded, because there may be thousands of them. RecordError if the body is no batch.
    """
    found = []
    try:
        for number, entry in entries_with(record.body, unique_key.encode("utf-8", "surrogatepass")):
            if message_properties.find(entry.properties, message_properties.UNIQ_KEY) == unique_key:
                found.append(_inner_message(record, number, entry))
                if len(found) == 2:
                    break
    except MessageBatchError as error:
        raise _damaged(record, error) from error
    return found


def _inner_message(record: CommitLogRecord, number: int, entry: BatchEntry) -> CommitLogRecord:
    """The message with this number in the batch of a record."""
    return msgspec.structs.replace(
        record,
        size=len(entry.body) + len(entry.properties.encode()),
        body_crc=body_crc(entry.body),
        flag=entry.flag,
        queue_offset=record.queue_offset + number,
        sys_flag=record.sys_flag & ~INNER_FLAGS,
        body=entry.body,
        properties=entry.properties,
    )


def _damaged(record: CommitLogRecord, error: MessageBatchError) -> RecordError:
    return RecordError(f"the batch at physical offset {record.physical_offset} is damaged: {error}")
