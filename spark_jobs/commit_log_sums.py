"""Messages counted where they are read: a row for each group of records instead of one for each record.

    topic string, minute_ts long, messages long, sum_total_size long, max_store_ts long

A schema says everything: what is no key is ``messages``, how many there are, or the ``sum_``, ``min_`` or ``max_`` of
a number. The rows are sums of parts of the log; those with the same keys are to be added up.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.commit_log_columns import COLUMN_TYPES, NUMBERS, Columns, Source
from spark_jobs.commit_log_headers import Headers

MINUTE_MS = 60_000
COUNT = "messages"
KINDS = ("sum", "min", "max")

Longs = NDArray[np.int64]

MADE: dict[str, Callable[[Columns], Longs]] = {
    "minute_ts": lambda columns: columns.number("store_ts") // MINUTE_MS * MINUTE_MS,
    "size_class": lambda columns: size_classes(columns.headers.body_length),
    "end": lambda columns: columns.number("physical_offset") + columns.headers.size,
}
"""Numbers that no column holds: the minute of the store time (ms), the power of two (bytes) that a body is not larger
than, and where the record ends in the log."""
TEXT_KEYS = tuple(name for name, kind in COLUMN_TYPES.items() if kind == "string" and name != "properties")


class Wanted(NamedTuple):
    """What a schema asks for: its keys, and of each other column the kind of sum and of what number."""

    keys: tuple[str, ...]
    sums: tuple[tuple[str, str], ...]


def sums_schema(keys: Sequence[str], sums: Sequence[str]) -> str:
    """The schema, as DDL. ValueError for a key or a sum that there is not."""
    types = []
    for name in keys:
        if name not in TEXT_KEYS and name not in NUMBERS and name not in MADE:
            raise ValueError(f"messages cannot be counted by {name}")
        types.append(f"{name} {COLUMN_TYPES.get(name, 'long')}")
    for name in sums:
        if name != COUNT and _parted(name) is None:
            raise ValueError(f"messages have no sum {name}")
        types.append(f"{name} long")
    return ", ".join(types)


def wanted(columns: Iterable[str]) -> Wanted:
    """What these columns ask for."""
    keys, sums = [], []
    for name in columns:
        parted = _parted(name)
        if name == COUNT:
            sums.append((COUNT, ""))
        elif parted is not None:
            sums.append(parted)
        else:
            keys.append(name)
    return Wanted(tuple(keys), tuple(sums))


def _parted(name: str) -> tuple[str, str] | None:
    kind, _, number = name.partition("_")
    return (kind, number) if kind in KINDS and (number in NUMBERS or number in MADE) else None


def sums(source: Source, headers: Headers, columns: Sequence[str]) -> pa.RecordBatch:
    """These records, summed up; columns in the order asked for."""
    keys, measures = wanted(columns)
    part = Columns(source, headers)
    table: dict[str, pa.Array] = {}
    for name in keys:
        table[name] = pa.array(MADE[name](part)) if name in MADE else part.column(name)
    names = {name: table[name].dictionary for name in keys if pa.types.is_dictionary(table[name].type)}
    for name in names:
        table[name] = table[name].indices
    for _, number in measures:
        if number and number not in table:
            table[number] = pa.array(MADE[number](part) if number in MADE else part.number(number))
    asked = [([], "count_all") if kind == COUNT else (number, kind) for kind, number in measures]
    found = pa.table(table).group_by(list(keys), use_threads=False).aggregate(asked)
    made = {name: found.column(name) for name in keys}
    for name, dictionary in names.items():
        made[name] = pc.take(dictionary, made[name])
    for kind, number in measures:
        made[COUNT if kind == COUNT else f"{kind}_{number}"] = found.column(
            "count_all" if kind == COUNT else f"{number}_{kind}")
    schema = pa.schema([(name, pa.string() if name in TEXT_KEYS else
        pa.int32() if COLUMN_TYPES.get(name) == "int" else pa.int64()) for name in columns])
    return pa.table([made[name].cast(schema.field(name).type) for name in columns],
        schema=schema).combine_chunks().to_batches()[0]


def size_classes(lengths: Longs) -> Longs:
    """The power of two that each is not larger than; 1 for 0."""
    exponents: NDArray[np.int32] = np.frexp(np.maximum(lengths, 1) - 0.5)[1]
    return np.left_shift(np.int64(1), np.maximum(exponents, 0).astype(np.int64))
