"""Entries of the poll journal as Arrow columns: views of the file, never a step per entry."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker_core.formats.poll_journal import (
    CAUSES,
    FIELDS,
    KINDS,
    OTHER,
    PROTOCOLS,
    STATUSES,
    JournalHeader,
    decode_blocks,
    decode_header,
)
from spark_jobs.sources.source_options import SourceTable

BATCH_ROWS = 32_768

COLUMN_TYPES: dict[str, str] = {
    "at_ms": "long",
    "kind": "string",
    "cause": "string",
    "status": "string",
    "protocol": "string",
    "topic": "string",
    "queue_id": "int",
    "group": "string",
    "client_id": "string",
    "from_offset": "long",
    "next_offset": "long",
    "max_offset": "long",
    "messages": "int",
    "bytes": "int",
    "held_us": "int",
    "wake_us": "int",
    "granted_ms": "int",
    "oldest_store_ms": "long",
    "latency_ms": "long",
    "broker": "string",
    "epoch": "long",
    "file": "long",
}
"""Every column there is and its type in Spark's DDL. What does not apply to an entry is null.

``latency_ms`` is the age of the first message given; ``broker``, ``epoch`` and ``file`` are those of the file.
"""

TABLE = SourceTable("poll journal", COLUMN_TYPES)
_NUMPY = {"q": "<i8", "i": "<i4", "B": "u1"}
_NAMES = {"kind": KINDS, "cause": CAUSES, "status": STATUSES, "protocol": PROTOCOLS}
_TEXTS = ("topic", "group", "client_id")
_MADE_OF = {"latency_ms": ("at_ms", "oldest_store_ms")}


def record_batches(
    data: bytes,
    columns: Sequence[str],
    *,
    from_ms: int | None = None,
    to_ms: int | None = None,
    start: int = 0,
) -> Iterator[pa.RecordBatch]:
    """The entries of a file whose time is in [from_ms, to_ms), in blocks that end behind ``start``.

    Nothing for what is no journal. Blocks that are wholly outside are passed over.
    """
    header = decode_header(data)
    if header is None:
        return
    strings, parts, rows = [""], [], 0
    for block in decode_blocks(data, header):
        strings += block.strings
        if (
            block.end <= start
            or (from_ms is not None and block.max_ms < from_ms)
            or (to_ms is not None and block.min_ms >= to_ms)
        ):
            continue
        parts.append(memoryview(data)[block.entries_at : block.end])
        rows += block.entries
        if rows >= BATCH_ROWS:
            yield _batch(header, b"".join(parts), strings, columns, from_ms, to_ms)
            parts, rows = [], 0
    if rows:
        yield _batch(header, b"".join(parts), strings, columns, from_ms, to_ms)


def entry_type(entry_size: int) -> np.dtype[np.void]:
    """The fields that entries of so many bytes have."""
    names, formats, offsets, end = [], [], [], 0
    for name, code in FIELDS:
        kind = np.dtype(_NUMPY[code])
        if end + kind.itemsize <= entry_size:
            names.append(name)
            formats.append(kind)
            offsets.append(end)
        end += kind.itemsize
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": entry_size})


def _batch(
    header: JournalHeader,
    raw: bytes,
    strings: Sequence[str],
    columns: Sequence[str],
    from_ms: int | None,
    to_ms: int | None,
) -> pa.RecordBatch:
    entries = np.frombuffer(raw, entry_type(header.entry_size))
    if from_ms is not None:
        entries = entries[entries["at_ms"] >= from_ms]
    if to_ms is not None:
        entries = entries[entries["at_ms"] < to_ms]
    schema, texts = TABLE.arrow(columns), pa.array(strings) if {*_TEXTS} & {*columns} else None
    return pa.RecordBatch.from_arrays(
        [_column(header, entries, name, texts, schema.field(name).type) for name in columns], schema=schema
    )


def _column(
    header: JournalHeader, entries: NDArray[np.void], name: str, texts: pa.Array | None, kind: pa.DataType
) -> pa.Array:
    constants: dict[str, Any] = {"broker": header.broker, "epoch": header.epoch, "file": header.number}
    if name in constants:
        return pa.repeat(pa.scalar(constants[name], kind), len(entries))
    if not {*_MADE_OF.get(name, (name,))} <= {*(entries.dtype.names or ())}:
        return pa.nulls(len(entries), kind)  # an older schema
    if name in _NAMES:
        return _table(name).take(pa.array(entries[name]))
    if name in _TEXTS:
        numbers = entries[name]
        assert texts is not None
        return texts.take(pa.array(numbers, mask=(numbers < 0) | (numbers >= len(texts))))
    if name == "latency_ms":
        oldest = entries["oldest_store_ms"]
        return pa.array(np.maximum(entries["at_ms"] - oldest, 0), kind, mask=oldest == -1)
    values = entries[name]
    return pa.array(values, kind, mask=None if name == "at_ms" else values == -1)


def _table(name: str) -> pa.Array:
    """The texts of all 256 codes: null for 0, ``other`` for those that this schema does not know."""
    names = _NAMES[name]
    return pa.array([None, *names, *["other"] * (OTHER - len(names))], pa.string())
