"""Records as Arrow columns: a column is made only when a report asks for it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker_core.formats import message_properties
from spark_jobs.commit_log_due import SCHEDULE_TOPIC, UNKNOWN, DueTimes
from spark_jobs.commit_log_headers import Headers, Positions, Segment
from spark_jobs.commit_log_hosts import born_hosts
from spark_jobs.commit_log_properties import Properties
from spark_jobs.commit_log_slices import slices
from spark_jobs.commit_log_topics import QueueTopics

BATCH_BYTES = 16 * 1024 * 1024
"""Bodies and properties of one batch, bytes; a single record may have more."""

NUMBERS: dict[str, tuple[str, str]] = {
    "physical_offset": (">i8", "long"),
    "segment": (">i8", "long"),
    "queue_id": (">i4", "int"),
    "queue_offset": (">i8", "long"),
    "total_size": (">i4", "int"),
    "body_length": (">i4", "int"),
    "body_crc": (">i4", "long"),
    "sys_flag": (">i4", "int"),
    "flag": (">i4", "int"),
    "born_ts": (">i8", "long"),
    "store_ts": (">i8", "long"),
    "reconsume_times": (">i4", "int"),
    "prepared_offset": (">i8", "long"),
}
"""Columns that are numbers: their type in the log, their type in Spark."""

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

ON_DEMAND = {**{name: "string" for name in PROPERTIES if name not in TEXTS},
    "born_host": "string", "due_ts": "long", "properties": "string", "body": "binary"}
"""Columns that are only read when a schema names them: few need them, or they are most of a log.

``due_ts``: when a message that lies in SCHEDULE_TOPIC_XXXX is due, null for all others.
"""

COLUMN_TYPES: dict[str, str] = {
    **{name: kind for name, (_, kind) in list(NUMBERS.items())[:2]}, "topic": "string",
    **{name: kind for name, (_, kind) in list(NUMBERS.items())[2:]}, "tags": "string", "keys": "string", **ON_DEMAND,
}
"""Every column there is and its type in Spark's DDL."""

DEFAULT_COLUMNS = tuple(name for name in COLUMN_TYPES if name not in ON_DEMAND)
_ARROW = {"long": pa.int64(), "int": pa.int32(), "string": pa.string(), "binary": pa.binary()}


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """The schema of the batches for these columns."""
    return pa.schema([pa.field(name, _ARROW[COLUMN_TYPES[name]]) for name in columns])


class Source(NamedTuple):
    """Where records are: their segment, and what the store's consume queues know of them."""

    segment: Segment
    topics: QueueTopics
    due_times: DueTimes


def record_batches(source: Source, headers: Headers, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records as batches of these columns, in the log's order."""
    schema = arrow_schema(columns)
    for part in parts(source, headers, columns):
        yield record_batch(part, schema)


def record_batch(part: "Columns", schema: pa.Schema) -> pa.RecordBatch:
    """Records as a batch of the schema's columns."""
    return pa.RecordBatch.from_arrays([part.column(field.name).cast(field.type) for field in schema], schema=schema)


def parts(source: "Source", headers: Headers, columns: Sequence[str]) -> "Iterator[Columns]":
    """The records, as many at a time as make a batch of these columns."""
    for chosen in batch_slices(headers, columns):
        yield Columns(source, headers.part(chosen))


def batch_slices(headers: Headers, columns: Sequence[str]) -> Iterator[slice]:
    """Slices of the records whose bodies and properties, where those are asked for, take about BATCH_BYTES."""
    count = len(headers.at)
    sizes: Positions = np.zeros(count, np.int64)
    if "body" in columns:
        sizes += headers.body_length
    if not {*PROPERTIES, "properties"}.isdisjoint(columns):
        sizes += headers.properties_length
    ends = np.cumsum(sizes)
    start = 0
    while start < count:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
        stop = min(max(stop, start + 1), count)
        yield slice(start, stop)
        start = stop


class Columns:
    """The columns of some records; what several of them are made of is read once."""

    def __init__(self, source: Source, headers: Headers) -> None:
        self._source = source
        self.headers = headers
        self._properties: Properties | None = None
        self._numbers: dict[str, NDArray[Any]] = {}
        self._others: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        """One column; addresses and topics as a dictionary, since there are few different ones."""
        if name in NUMBERS:
            return pa.array(self.number(name))
        if name not in self._others:
            self._others[name] = self._read_column(name)
        return self._others[name]

    def _read_column(self, name: str) -> pa.Array:
        segment, headers = self._source.segment, self.headers
        if name == "topic":
            return self._source.topics.of(segment, headers)
        if name == "body":
            return slices(segment.octets, headers.body_at, headers.body_length)
        if name == "born_host":
            return born_hosts(segment, headers)
        if name == "due_ts":
            return self._due()
        if self._properties is None:
            self._properties = Properties(segment, headers)
        return self._properties.whole() if name == "properties" else self._properties.value(PROPERTIES[name])

    def number(self, name: str) -> NDArray[Any]:
        """A numeric column."""
        if name not in self._numbers:
            self._numbers[name] = self._read_number(name)
        return self._numbers[name]

    def _read_number(self, name: str) -> NDArray[Any]:
        segment, headers = self._source.segment, self.headers
        made: dict[str, Callable[[], NDArray[Any]]] = {
            "physical_offset": lambda: headers.at + segment.base,
            "segment": lambda: np.full(len(headers.at), segment.file_base, np.int64),
            "total_size": lambda: headers.size,
            "body_length": lambda: headers.body_length,
            "sys_flag": lambda: headers.sys_flag,
        }
        return made[name]() if name in made else headers.number(name)

    def _due(self) -> pa.Array:
        """When each record is due, null for one that is not delayed and for one whose time nothing tells."""
        source = self._source
        times: NDArray[np.int64] = np.full(len(self.headers.at), UNKNOWN, np.int64)
        topics = self.column("topic")
        names = topics.dictionary.to_pylist()
        code = names.index(SCHEDULE_TOPIC) if SCHEDULE_TOPIC in names else -1
        delayed = np.flatnonzero(topics.indices.to_numpy() == code) if code >= 0 else ()
        if len(delayed):
            part = Columns(source, self.headers.part(delayed))
            times[delayed] = source.due_times.of(part.number("queue_id"), part.number("queue_offset"),
                part.number("physical_offset"))
        return pa.array(times, mask=times == UNKNOWN)
