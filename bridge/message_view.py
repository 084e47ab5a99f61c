"""Raw commit log records, as the engine hands them out, turned into what an API shows of a message."""

import msgspec

from broker_core.formats import commit_log_record, message_properties
from broker_core.formats.commit_log_record import CommitLogRecord, RecordError
from broker_core.formats.message_body import BodyError, decompress
from broker_core.formats.message_id import encode_offset_message_id

INFLATED_BYTES_MAX = 16 * 1024 * 1024
"""A compressed body may not become larger: the largest that maxMessageSize allows."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """RocketMQ's MessageExt. ``message_id`` is its UNIQ_KEY, else its offset id.

    ``body`` is as the application sent it. ``problem`` is a sentence when the record is damaged: then ``body`` may be
    as it is stored, or what can be shown of it is nothing but its position in the answer.
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


def read_messages(records: bytes, broker: str) -> list[Message]:
    """Whole records back to back, in their order. Damaged ones come with a ``problem``; nothing is raised.

    Where not even the length of a record can be trusted, the rest cannot be told apart either: it is one last
    message with the rest's ``size``.
    """
    messages: list[Message] = []
    position = 0
    while position < len(records):
        try:
            message = _read(records, position, broker)
        except (RecordError, ValueError) as error:
            messages.append(_unreadable(len(records) - position, broker, error))
            break
        messages.append(message)
        position += message.size
    return messages


def _read(records: bytes, position: int, broker: str) -> Message:
    problem = ""
    try:
        record = commit_log_record.decode(records, position)
    except RecordError:
        record = commit_log_record.decode(records, position, check_crc=False)
        problem = "the body does not match its checksum"
    body = record.body
    try:
        body = decompress(body, record.sys_flag, INFLATED_BYTES_MAX)
    except BodyError as error:
        problem = problem or str(error)
    return _message(record, body, problem, broker)


def _message(record: CommitLogRecord, body: bytes, problem: str, broker: str) -> Message:
    text = record.properties
    if not text.isascii():  # bytes that are not UTF-8 are kept as surrogates there, which no encoder takes
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
        keys=properties.get(message_properties.KEYS, "").split(),
        properties=properties,
        body=body,
        born_time_ms=record.born_timestamp,
        store_time_ms=record.store_timestamp,
        born_host=_address(record.born_host, record.born_port),
        store_host=_address(record.store_host, record.store_port),
        reconsume_times=record.reconsume_times,
        size=record.size,
        problem=problem,
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
