"""Records as Arrow columns. A column is built only if a report requests it."""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import BORN_HOST_V6, host_text
from spark_jobs.sources.commit_log_records import WORD, Headers, Longs, Segment, items, joined
from spark_jobs.sources.consume_queues import SCHEDULE_TOPIC, UNKNOWN, due_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH_BYTES = 16 * 1024 * 1024
"""Bodies of one batch, bytes; a single record may have more."""

NUMBERS = {
    "physical_offset": "long",
    "segment": "long",
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
}
"""Columns that are numbers, and their types in Spark."""

NONE = -1
"""The length of a property that a record does not have."""
BORN_HOST_AT = 48
"""Where in a record the producer's address is."""
TEXTS = ("topic", "tags", "keys")
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

ON_DEMAND = {
    **{name: "string" for name in PROPERTIES if name not in TEXTS},
    "born_host": "string",
    "due_ts": "long",
    "properties": "string",
    "body": "binary",
}
"""Columns that are only read when a schema names them: few need them, or they are most of a log.

``due_ts``: when a message that lies in SCHEDULE_TOPIC_XXXX is due, null for all others.
"""

COLUMN_TYPES: dict[str, str] = {
    **dict(list(NUMBERS.items())[:2]),
    "topic": "string",
    **dict(list(NUMBERS.items())[2:]),
    "tags": "string",
    "keys": "string",
    **ON_DEMAND,
}
"""Every column there is and its type in Spark's DDL."""

DEFAULT_COLUMNS = tuple(name for name in COLUMN_TYPES if name not in ON_DEMAND)
_ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string(), "binary": pa.binary()}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of the batches for these columns."""
    return pa.schema([pa.field(name, _ARROW[COLUMN_TYPES[name]]) for name in columns])


class Source(NamedTuple):
    """Where records are: their segment, and its store, whose consume queues say when delayed messages are due."""

    segment: Segment
    store: Path


def record_batches(source: Source, headers: Headers, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records as batches of these columns, in the log's order."""
    schema = arrow_schema(columns)
    for part in parts(source, headers, columns):
        yield record_batch(part, schema)


def record_batch(part: "Columns", schema: pa.Schema) -> pa.RecordBatch:
    """Records as a batch of the schema's columns."""
    columns = [part.column(field.name) for field in schema]
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def parts(source: "Source", headers: Headers, columns: Sequence[str]) -> "Iterator[Columns]":
    """The records, as many at a time as make a batch of these columns."""
    for chosen in batch_slices(headers.body_length) if "body" in columns else (slice(None),):
        yield Columns(source, headers.part(chosen), columns)


def batch_slices(lengths: Longs) -> Iterator[slice]:
    """Slices of records whose bodies, of these lengths, take about BATCH_BYTES."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
        stop = min(max(stop, start + 1), len(ends))
        yield slice(start, stop)
        start = stop


class Columns:
    """The columns of some records. Data that several columns need is read once.

    Only the properties of the ``wanted`` columns are available.
    """

    def __init__(self, source: Source, headers: Headers, wanted: Sequence[str]) -> None:
        self._source = source
        self._wanted = tuple(PROPERTIES[name] for name in PROPERTIES if name in wanted)
        self.headers = headers
        self._properties: Properties | None = None
        self._texts: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        """One column; addresses and topics as a dictionary, since there are few different ones."""
        if name in NUMBERS:
            number = self.number(name)
            return pa.array(number if NUMBERS[name] == "long" else number.astype(np.int32))  # four bytes in the log
        if name not in self._texts:
            self._texts[name] = self._read_column(name)
        return self._texts[name]

    def _read_column(self, name: str) -> pa.Array:
        segment, headers = self._source.segment, self.headers
        if name == "topic":
            return self._topics()
        if name == "properties":
            return as_text(slices(segment.buffer, headers.properties_at, headers.properties_length))
        if name == "body":
            return slices(segment.buffer, headers.body_at, headers.body_length)
        if name == "born_host":
            return born_hosts(segment, headers)
        if name == "due_ts":
            return self._due()
        if self._properties is None:
            self._properties = Properties(segment, headers, self._wanted)
        return self._properties.value(PROPERTIES[name])

    def _topics(self) -> pa.DictionaryArray:
        headers = self.headers
        names = slices(self._source.segment.buffer, headers.topic_at, headers.topic_length).dictionary_encode()
        texts = as_text(names.dictionary).dictionary_encode()  # fewer, where two names differ only in invalid bytes
        return pa.DictionaryArray.from_arrays(texts.indices.take(names.indices), texts.dictionary)

    def number(self, name: str) -> Longs:
        """A numeric column."""
        segment, headers = self._source.segment, self.headers
        if name == "physical_offset":
            return headers.at + segment.base
        if name == "segment":
            return np.full(len(headers.at), segment.base, np.int64)
        found: Longs = headers.size if name == "total_size" else getattr(headers, name)
        return found

    def _due(self) -> pa.Array:
        """When each record is due, null for one that is not delayed and for one whose time nothing tells."""
        source = self._source
        times: Longs = np.full(len(self.headers.at), UNKNOWN, np.int64)
        topics = self.column("topic")
        names = topics.dictionary.to_pylist()
        code = names.index(SCHEDULE_TOPIC) if SCHEDULE_TOPIC in names else -1
        delayed = np.flatnonzero(topics.indices.to_numpy() == code) if code >= 0 else ()
        if len(delayed):
            part = Columns(source, self.headers.part(delayed), ())
            times[delayed] = due_times(source.store, *map(part.number, ("queue_id", "queue_offset", "physical_offset")))
        return pa.array(times, mask=times == UNKNOWN)


class Properties:
    """Some properties of some records, read as ``formats.message_properties`` reads each."""

    def __init__(self, segment: Segment, headers: Headers, names: Sequence[str]) -> None:
        end = message_properties.ENTRY_END.encode()
        self._names = tuple(names)
        self._places = np.full((2, len(names), len(headers.at)), NONE)
        octets = joined(segment.buffer, headers.properties_at, headers.properties_length, len(end))
        record_ends = np.cumsum(headers.properties_length + len(end))
        octets[record_ends - 1] = end[0]
        self._text = octets.tobytes() + bytes(WORD)
        keys = {name: (name + message_properties.NAME_END).encode() for name in names}
        if not any(key in self._text for key in keys.values()):
            return
        ends = np.flatnonzero(octets == end[0])
        begins = np.concatenate(([0], ends[:-1] + 1))
        words: NDArray[np.uint64] = items(self._text, "<u8")
        first_words = words[begins]
        for number, key in enumerate(keys.values()):
            found = np.flatnonzero(is_word(first_words, key[:WORD]))
            for at in range(WORD, len(key), WORD):
                found = found[is_word(words[begins[found] + at], key[at : at + WORD])]
            found = found[ends[found] - begins[found] > len(key)]  # no value is no property
            begin = begins[found] + len(key)
            records = np.searchsorted(record_ends, begin, "right")
            self._places[:, number, records] = begin, ends[found] - begin  # the last one of a name counts

    def value(self, name: str) -> pa.Array:
        """One property of each record, null where it has none; of two with one name the last one counts.

        ValueError for a name that was not given.
        """
        return as_text(slices(self._text, *self._places[:, self._names.index(name)]))


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


def slices(buffer: mmap.mmap | bytes, at: Longs, length: Longs) -> pa.Array:
    """Bytes [at, at + length) of each record as one Arrow column of binary; null where ``length`` is NONE."""
    if not len(at) or length.max() == NONE:
        return pa.nulls(len(at), pa.binary())
    nulls = pa.py_buffer(np.packbits(length != NONE, bitorder="little")) if length.min() == NONE else None
    length = np.maximum(length, 0)
    offsets = np.concatenate(([0], np.cumsum(length))).astype(np.int32)
    some = length > 0
    values = joined(buffer, at[some], length[some])
    return pa.Array.from_buffers(pa.binary(), len(at), [nulls, pa.py_buffer(offsets), pa.py_buffer(values)])


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
