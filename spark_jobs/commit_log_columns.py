"""Records as Arrow columns: a column is made only when a report asks for it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from broker_core.formats import message_properties
from broker_core.formats.commit_log_record import BORN_HOST_V6
from spark_jobs.commit_log_due import SCHEDULE_TOPIC, UNKNOWN, DueTimes
from spark_jobs.commit_log_headers import Headers, Positions, Segment, gather
from spark_jobs.commit_log_hosts import born_hosts

BATCH_ROWS = 32_768
BATCH_BYTES = 4 * 1024 * 1024
"""Bodies of one batch, bytes (gathering them takes 17 times as much for a moment); a single one may be larger."""

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
}
"""Columns that are one property of the message."""

ON_DEMAND = {"uniq_key": "string", "real_topic": "string", "retry_topic": "string", "producer_group": "string",
    "born_host": "string", "due_ts": "long", "properties": "string", "body": "binary"}
"""Columns that are only read when a schema names them: few need them, or they are most of a log.

``due_ts``: when a message that lies in SCHEDULE_TOPIC_XXXX is due, null for all others.
"""

_PLACES = {"body_crc": 8, "queue_id": 12, "flag": 16, "queue_offset": 20, "born_ts": 40}

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


def record_batches(segment: Segment, headers: Headers, columns: Sequence[str],
                   due_times: DueTimes | None = None) -> Iterator[pa.RecordBatch]:
    """The records as batches of these columns, in the log's order. ``due_ts`` needs ``due_times``."""
    schema = arrow_schema(columns)
    for chosen in batch_slices(headers, columns):
        part = headers.part(chosen)
        texts = properties_of(segment, part) if {*PROPERTIES, "properties"} & set(columns) else None
        yield pa.RecordBatch.from_arrays(
            [due(segment, part, due_times) if name == "due_ts"
             else column(segment, part, name, texts, schema.field(name).type) for name in columns], schema=schema)


def batch_slices(headers: Headers, columns: Sequence[str]) -> Iterator[slice]:
    """Slices of at most BATCH_ROWS records whose bodies, where those are asked for, take about BATCH_BYTES."""
    count = len(headers.at)
    if "body" not in columns:
        for start in range(0, count, BATCH_ROWS):
            yield slice(start, min(start + BATCH_ROWS, count))
        return
    ends = np.cumsum(headers.body_length)
    start = 0
    while start < count:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
        stop = min(max(stop, start + 1), start + BATCH_ROWS, count)
        yield slice(start, stop)
        start = stop


def column(segment: Segment, headers: Headers, name: str, properties: pa.Array | None, kind: pa.DataType) -> pa.Array:
    """One column of the records; ``properties`` are their property strings, where a column needs them."""
    if name in NUMBERS:
        return pa.array(number(segment, headers, name)).cast(kind)
    if name == "topic":
        return as_text(slices(segment, headers.topic_at, headers.topic_length))
    if name == "body":
        return slices(segment, headers.body_at, headers.body_length)
    if name == "born_host":
        return born_hosts(segment, headers)
    if name == "properties":
        return as_text(properties)
    return property_value(properties, PROPERTIES[name])


def number(segment: Segment, headers: Headers, name: str) -> NDArray[Any]:
    """A numeric column; the places of the later ones depend on the address sizes."""
    if name in _PLACES:
        return gather(segment, headers.at + _PLACES[name], NUMBERS[name][0])
    made: dict[str, Callable[[], NDArray[Any]]] = {
        "physical_offset": lambda: headers.at + segment.base,
        "segment": lambda: np.full(len(headers.at), segment.base, np.int64),
        "total_size": lambda: headers.size,
        "body_length": lambda: headers.body_length,
        "sys_flag": lambda: headers.sys_flag,
        "store_ts": lambda: gather(segment, headers.at + 56 + born_v6(headers), ">i8"),
        "reconsume_times": lambda: gather(segment, headers.body_at - 16, ">i4"),
        "prepared_offset": lambda: gather(segment, headers.body_at - 12, ">i8"),
    }
    return made[name]()


def due(segment: Segment, headers: Headers, due_times: DueTimes | None) -> pa.Array:
    """When each record is due, null for one that is not delayed and for one whose time nothing tells."""
    times: NDArray[np.int64] = np.full(len(headers.at), UNKNOWN, np.int64)
    topics = slices(segment, headers.topic_at, headers.topic_length)
    delayed = np.flatnonzero(pc.equal(topics, SCHEDULE_TOPIC.encode()).to_numpy(zero_copy_only=False))
    if len(delayed) and due_times is not None:
        part = headers.part(delayed)
        times[delayed] = due_times.of(number(segment, part, "queue_id"), number(segment, part, "queue_offset"),
            number(segment, part, "physical_offset"))
    return pa.array(times, mask=times == UNKNOWN)


def born_v6(headers: Headers) -> Positions:
    """The bytes by which an IPv6 born host moves the fields behind it."""
    return np.where(headers.sys_flag & BORN_HOST_V6, np.int64(12), np.int64(0))


def slices(segment: Segment, at: Positions, length: Positions) -> pa.Array:
    """Bytes [at, at + length) of each record as one Arrow column of binary."""
    offsets: NDArray[np.int32] = np.zeros(len(at) + 1, np.int32)
    np.cumsum(length, out=offsets[1:])
    total = int(offsets[-1])
    index = np.repeat(at - offsets[:-1], length) + np.arange(total, dtype=np.int64)
    octets = segment.octets[index] if total else np.empty(0, np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


def as_text(binary: pa.Array) -> pa.Array:
    """The column as text; bytes that are not UTF-8 are replaced, as a reader of a single message sees them."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if item is None else item.decode("utf-8", "replace") for item in binary.to_pylist()],
            pa.string())


def properties_of(segment: Segment, headers: Headers) -> pa.Array:
    """The property strings, as bytes."""
    return slices(segment, headers.properties_at, headers.properties_length)


def property_value(properties: pa.Array, name: str) -> pa.Array:
    """One property of each record, null where it has none; of two with one name the last one counts."""
    pattern = (rf"(?s)^(?:.*{message_properties.ENTRY_END})?{name}{message_properties.NAME_END}"
        rf"(?P<value>[^{message_properties.ENTRY_END}]+)")
    return as_text(pc.struct_field(pc.extract_regex(properties, pattern), "value"))
