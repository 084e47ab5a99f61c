"""Messages counted where they are read: a row for each group of records instead of one for each record.

    topic string, minute_ts long, messages long, sum_total_size long, max_store_ts long

A schema says everything: what is no key is ``messages``, how many there are, or the ``sum_``, ``min_`` or ``max_`` of
a number. The rows are sums of parts of the log; those with the same keys are to be added up.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.sources.commit_log_columns import COLUMN_TYPES, NUMBERS, Columns
from spark_jobs.sources.commit_log_groups import same_numbers
from spark_jobs.sources.commit_log_loops import Longs, add_numbers, find_largest, find_smallest

MINUTE_MS = 60_000
WAITING_SUMS = 500_000
"""Rows of sums of one task that wait in memory to be added up."""
COUNT = "messages"
KINDS = ("sum", "min", "max")
NULL = -1
"""What stands for a text that is not there."""

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


def sums(part: Columns, columns: Sequence[str]) -> pa.RecordBatch:
    """These records, summed up; columns in the order asked for."""
    keys, measures = wanted(columns)
    coded = [_coded(part, name) for name in keys]
    groups = same_numbers(np.stack([key.codes for key in coded] or [np.zeros(len(part.headers.at), np.int64)]))
    made = {key.name: key.values(key.codes[groups.first]) for key in coded}
    for kind, number in measures:
        if kind == COUNT:
            made[COUNT] = pa.array(np.bincount(groups.of, minlength=len(groups.first)))
        else:
            values = _number(part, number)
            found = values[groups.first]
            if kind == "sum":
                found[:] = 0
            _ADDED[kind](values, groups.of, found)
            made[f"{kind}_{number}"] = pa.array(found)
    schema = arrow_sums_schema(columns)
    return pa.RecordBatch.from_arrays([made[name].cast(schema.field(name).type) for name in columns], schema=schema)


_ADDED: dict[str, Callable[[Longs, Longs, Longs], None]] = {
    "sum": add_numbers,
    "min": find_smallest,
    "max": find_largest,
}


def arrow_sums_schema(columns: Iterable[str]) -> pa.Schema:
    """The schema of sums with these columns."""
    return pa.schema(
        [
            (name, pa.string() if name in TEXT_KEYS else pa.int32() if COLUMN_TYPES.get(name) == "int" else pa.int64())
            for name in columns
        ]
    )


def added_up(batches: Sequence[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Sums of the same columns, those with the same keys as one row."""
    if not batches:
        return ()
    table = pa.Table.from_batches(batches)
    keys, measures = wanted(table.schema.names)
    names = [(COUNT, "sum") if kind == COUNT else (f"{kind}_{number}", kind) for kind, number in measures]
    found = table.group_by(list(keys), use_threads=False).aggregate(names)
    found = found.select([*keys, *(f"{name}_{kind}" for name, kind in names)]).rename_columns(
        [*keys, *(name for name, _ in names)]
    )
    summed: Iterable[pa.RecordBatch] = found.select(table.schema.names).cast(table.schema).to_batches()
    return summed


class WaitingSums:
    """Sums of one task until they are added up: at its end, or when there are too many to wait for."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Have these wait too; given is what then has waited long enough."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        return self.rest() if self._rows > WAITING_SUMS else ()

    def rest(self) -> Iterable[pa.RecordBatch]:
        """All that waits, added up."""
        batches, self._batches, self._rows = self._batches, [], 0
        return added_up(batches)


def _number(part: Columns, name: str) -> Longs:
    return MADE[name](part) if name in MADE else part.number(name)


class Coded(NamedTuple):
    """A key as a number of each record, and what makes the column of some of these."""

    name: str
    codes: Longs
    values: Callable[[Longs], pa.Array]


def _coded(part: Columns, name: str) -> Coded:
    if name not in TEXT_KEYS:
        return Coded(name, _number(part, name), pa.array)
    column = part.column(name)
    if column.null_count == len(column):
        return Coded(name, np.full(len(column), NULL), lambda some: pa.nulls(len(some), pa.string()))
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    codes = (column.indices.fill_null(NULL) if column.null_count else column.indices).to_numpy().astype(np.int64)
    return Coded(name, codes, lambda some: column.dictionary.take(pa.array(some, mask=some == NULL)))


def size_classes(lengths: Longs) -> Longs:
    """The power of two that each is not larger than; 1 for 0."""
    exponents = np.frexp(np.maximum(lengths, 1) - 0.5)[1]
    return np.left_shift(np.int64(1), np.maximum(exponents, 0).astype(np.int64))
