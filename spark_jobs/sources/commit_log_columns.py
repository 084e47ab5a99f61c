"""Records as Arrow columns. A column is built only if a report requests it."""

import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import compute

from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import BORN_HOST_V6, host_text
from spark_jobs.sources.commit_log_records import WORD, Headers, Longs, Segment, items, joined
from spark_jobs.sources.consume_queues import SCHEDULE_TOPIC, UNKNOWN, due_times
from spark_jobs.sources.source_options import SourceTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLUMN_TYPES = {
    "physical_offset": "long",
    "segment": "long",
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "long",
    "total_size": "int",
    "body_length": "int",
    "body_crc": "long",
    "sys_flag": "int",
    "flag": "int",
    "born_ts": "long",
    "store_ts": "long",
    "reconsume_times": "int",
    "prepared_offset": "long",
    "tags": "string",
    "keys": "string",
    "uniq_key": "string",
    "real_topic": "string",
    "retry_topic": "string",
    "producer_group": "string",
    "real_queue_id": "string",
    "delay_level": "string",
    "origin_message_id": "string",
    "born_host": "string",
    "due_ts": "long",
    "properties": "string",
    "body": "binary",
}
"""Every column there is and its type in Spark's DDL.

``due_ts``: when a message that lies in SCHEDULE_TOPIC_XXXX is due, null for all others.
"""
DEFAULT_COLUMNS = tuple(COLUMN_TYPES)[: list(COLUMN_TYPES).index("uniq_key")]
"""The others are only read when a schema names them: few need them, or they are most of a log."""
NUMBERS = {name: kind for name, kind in COLUMN_TYPES.items() if kind in ("int", "long") and name != "due_ts"}
"""Columns that every record has as numbers, and their types in Spark."""
PROPERTIES = {
    "tags": message_properties.TAGS,
    "keys": message_properties.KEYS,
    "uniq_key": message_properties.UNIQ_KEY,
    "real_topic": message_properties.REAL_TOPIC,
    "retry_topic": message_properties.RETRY_TOPIC,
    "producer_group": "PGROUP",
    "real_queue_id": message_properties.REAL_QID,
    "delay_level": message_properties.DELAY,
    "origin_message_id": message_properties.ORIGIN_MESSAGE_ID,
}
"""Columns that are one property of the message, as text."""
TABLE = SourceTable("commit log", COLUMN_TYPES)
NONE = -1
"""The length of a property that a record does not have."""
BORN_HOST_AT = 48
"""Where in a record the producer's address is."""


def record_batch(segment: Segment, headers: Headers, schema: pa.Schema) -> pa.RecordBatch:
    """The records as a batch of the schema's columns, in the log's order."""
    columns = read_columns(segment, headers, schema.names).values()
    casted = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(casted, schema=schema)


def read_columns(segment: Segment, headers: Headers, names: Sequence[str]) -> dict[str, pa.Array]:
    """These columns of the records."""
    buffer = segment.buffer
    topics = slices(buffer, headers.topic_at, headers.topic_length) if "topic" in names or "due_ts" in names else None
    properties = [PROPERTIES[name] for name in names if name in PROPERTIES]
    values = read_properties(segment, headers, properties) if properties else {}

    def read(name: str) -> pa.Array:
        if name in NUMBERS:
            number = read_number(segment, headers, name)
            return pa.array(number if NUMBERS[name] == "long" else number.astype(np.int32))  # four bytes in the log
        if name in PROPERTIES:
            return values[PROPERTIES[name]]
        if name == "properties":
            return as_text(slices(buffer, headers.properties_at, headers.properties_length))
        if name == "body":
            return slices(buffer, headers.body_at, headers.body_length)
        if name == "born_host":
            return born_hosts(segment, headers)
        return read_due_times(segment, headers, topics) if name == "due_ts" else as_text(topics)

    return {name: read(name) for name in names}


def read_number(segment: Segment, headers: Headers, name: str) -> Longs:
    """A numeric column."""
    if name == "physical_offset":
        return headers.at + segment.base
    if name == "segment":
        return np.full(len(headers.at), segment.base, np.int64)
    found: Longs = headers.size if name == "total_size" else getattr(headers, name)
    return found


def read_due_times(segment: Segment, headers: Headers, topics: pa.Array) -> pa.Array:
    """When each record is due, null for one that is not delayed and for one whose time nothing tells."""
    times: Longs = np.full(len(headers.at), UNKNOWN, np.int64)
    delayed = np.flatnonzero(compute.equal(topics, SCHEDULE_TOPIC.encode()))
    if len(delayed):
        part = headers.part(delayed)
        times[delayed] = due_times(segment.store, part.queue_id, part.queue_offset, part.at + segment.base)
    return pa.array(times, mask=times == UNKNOWN)


def read_properties(segment: Segment, headers: Headers, names: Sequence[str]) -> dict[str, pa.Array]:
    """These properties of each record, null where it has none, as ``formats.message_properties`` reads them.

    Of two properties with one name the last one counts.
    """
    end = message_properties.ENTRY_END.encode()
    keys = [(name + message_properties.NAME_END).encode() for name in names]
    lengths = headers.properties_length + 1  # with the byte before them, which becomes a separator
    record_ends = np.cumsum(lengths)
    text = bytearray(joined(segment.buffer, headers.properties_at - 1, lengths))
    text += end + bytes(WORD)
    octets = np.frombuffer(text, np.uint8)
    octets[record_ends - lengths] = end[0]
    if not any(key[:1] in text and key in text for key in keys):  # a single byte is found ten times faster
        return dict.fromkeys(names, pa.nulls(len(lengths), pa.string()))
    separators = np.flatnonzero(octets == end[0])
    begins, ends = separators[:-1] + 1, separators[1:]
    words: NDArray[np.uint64] = items(text, "<u8")
    first_words = words[begins]
    columns = {}
    for name, key in zip(names, keys, strict=True):
        found = np.flatnonzero(is_word(first_words, key[:WORD]))
        for at in range(WORD, len(key), WORD):
            found = found[is_word(words[begins[found] + at], key[at : at + WORD])]
        found = found[ends[found] - begins[found] > len(key)]  # no value is no property
        begin = begins[found] + len(key)
        places = np.full((2, len(lengths)), NONE)
        places[:, np.searchsorted(record_ends, begin)] = begin, ends[found] - begin  # the last one of a name counts
        columns[name] = as_text(slices(text, *places))
    return columns


def is_word(words: "NDArray[np.uint64]", text: bytes) -> "NDArray[np.bool_]":
    """Which words begin with a text of at most eight bytes."""
    mask = np.uint64((1 << 8 * len(text)) - 1)
    found: NDArray[np.bool_] = words & mask == np.uint64(int.from_bytes(text, "little"))
    return found


def born_hosts(segment: Segment, headers: Headers) -> pa.DictionaryArray:
    """The address of each record's producer, without its port. There are few, so each is converted to text once."""
    is_v6, at = headers.sys_flag & BORN_HOST_V6 != 0, headers.at + BORN_HOST_AT
    if is_v6.any():
        addresses = slices(segment.buffer, at, np.where(is_v6, 16, 4))
    else:
        four_bytes = segment.numbers("<u4", at).astype("<u4")
        addresses = pa.Array.from_buffers(pa.binary(4), len(at), [None, pa.py_buffer(four_bytes)])
    found = addresses.dictionary_encode()
    texts = [host_text(address) for address in found.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(found.indices, pa.array(texts, pa.string()))


def slices(buffer: mmap.mmap | bytes | bytearray, at: Longs, length: Longs) -> pa.Array:
    """Bytes [at, at + length) of each record as one Arrow column of binary; null where ``length`` is NONE.

    The places are in the buffer's order.
    """
    some = length != NONE
    if not some.any():
        return pa.nulls(len(at), pa.binary())
    nulls = None if some.all() else pa.py_buffer(np.packbits(some, bitorder="little"))
    offsets = np.concatenate(([0], np.cumsum(np.maximum(length, 0)))).astype(np.int32)
    values = joined(buffer, at[some], length[some])
    return pa.Array.from_buffers(pa.binary(), len(at), [nulls, pa.py_buffer(offsets), values])


def as_text(binary: pa.Array) -> pa.Array:
    """The column as text; bytes that are not UTF-8 are replaced, as a reader of a single message sees them."""
    values = binary.buffers()[2]
    if values is None or np.frombuffer(values, np.uint8).max(initial=0) < 0x80:  # all at once, not one by one
        return binary.view(pa.string())
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if item is None else item.decode("utf-8", "replace") for item in binary.to_pylist()], pa.string()
        )
