"""Messages counted where they are read: a row for each group of records instead of one for each record.

    topic string, minute_ts long, messages long, sum_total_size long, max_store_ts long

A schema says everything: what is no key is ``messages``, how many there are, or the ``sum_``, ``min_`` or ``max_`` of
a number. The rows are sums of parts of the log; those with the same keys are to be added up.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.commit_log_columns import COLUMN_TYPES, NUMBERS, Columns

MINUTE_MS = 60_000
_STEPS = {"minute_ts": ("store_ts", MINUTE_MS)}
"""Numbers that are another one, rounded down to a multiple of something."""
_SHORT = 1 << 16
"""Below it, numbers are sorted by their digits."""
_MOST_COUNTED = 1 << 18
"""Numbers below it are told apart by a table rather than by sorting them."""
_FEW = 64
"""So many different numbers need not all be there."""
_LARGEST = 1 << 62
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
_ADDED: dict[str, Callable[[Longs, Longs], Longs]] = {
    "sum": np.add.reduceat, "min": np.minimum.reduceat, "max": np.maximum.reduceat}
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
    count = len(part.headers.at)
    coded = [_coded(part, name) for name in keys]
    codes, most = _joined(coded, count)
    order = np.argsort(codes.astype(np.uint16) if most <= _SHORT else codes, kind="stable")
    ordered = codes[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    made = {key.name: key.values.take(pa.array(key.codes[order[begins]])) for key in coded}
    for kind, number in measures:
        if kind == COUNT:
            made[COUNT] = pa.array(np.diff(np.append(begins, count)))
        else:
            made[f"{kind}_{number}"] = pa.array(_ADDED[kind](_number(part, number)[order], begins))
    schema = arrow_sums_schema(columns)
    return pa.RecordBatch.from_arrays([made[name].cast(schema.field(name).type) for name in columns], schema=schema)


def arrow_sums_schema(columns: Iterable[str]) -> pa.Schema:
    """The schema of sums with these columns."""
    return pa.schema([(name, pa.string() if name in TEXT_KEYS else
        pa.int32() if COLUMN_TYPES.get(name) == "int" else pa.int64()) for name in columns])


def added_up(batches: Sequence[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Sums of the same columns, those with the same keys as one row."""
    if not batches:
        return ()
    table = pa.Table.from_batches(batches)
    keys, measures = wanted(table.schema.names)
    names = [(COUNT, "sum") if kind == COUNT else (f"{kind}_{number}", kind) for kind, number in measures]
    found = table.group_by(list(keys), use_threads=False).aggregate(names)
    found = found.select([*keys, *(f"{name}_{kind}" for name, kind in names)]).rename_columns(
        [*keys, *(name for name, _ in names)])
    summed: Iterable[pa.RecordBatch] = found.select(table.schema.names).cast(table.schema).to_batches()
    return summed


def _number(part: Columns, name: str) -> Longs:
    values = MADE[name](part) if name in MADE else part.number(name)
    return values.astype(np.int64, copy=False)


class Coded(NamedTuple):
    """A key of some records as places in its different values."""

    name: str
    codes: Longs
    values: pa.Array


def _coded(part: Columns, name: str) -> Coded:
    if name in TEXT_KEYS:
        column = part.column(name)
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values, codes = column.dictionary, column.indices
        if codes.null_count:
            values, codes = pa.concat_arrays([values, pa.nulls(1, values.type)]), codes.fill_null(len(values))
        return Coded(name, codes.to_numpy().astype(np.int64, copy=False), values)
    of, step = _STEPS.get(name, (name, 1))
    numbers = _number(part, of)
    if step > 1:
        numbers = numbers // step
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _FEW:
        codes, different = numbers - low, low + np.arange(high - low + 1)
    else:
        codes, different = _ranked(numbers - low, high - low + 1)
        different += low
    return Coded(name, codes, pa.array(different * step))


def _joined(coded: Sequence[Coded], count: int) -> tuple[Longs, int]:
    """(all keys of each record as one number, which it is below)."""
    codes, most = np.zeros(count, np.int64), 1
    for key in coded:
        width = len(key.values)
        if most * width > _LARGEST:
            codes, different = _ranked(codes, most)
            most = len(different)
        if width > 1:
            codes = codes * width + key.codes
            most *= width
    if _SHORT < most <= _MOST_COUNTED:
        codes, different = _ranked(codes, most)
        most = len(different)
    return codes, most


def _ranked(numbers: Longs, most: int) -> tuple[Longs, Longs]:
    """(each number's place among the different ones, these in their order); all are from 0 on and below ``most``."""
    if most > _MOST_COUNTED:
        different, codes = np.unique(numbers, return_inverse=True)
        return codes, different
    is_there = np.zeros(most, np.bool_)
    is_there[numbers] = True
    places = np.cumsum(is_there) - 1
    return places.take(numbers), np.flatnonzero(is_there)


def size_classes(lengths: Longs) -> Longs:
    """The power of two that each is not larger than; 1 for 0."""
    exponents: NDArray[np.int32] = np.frexp(np.maximum(lengths, 1) - 0.5)[1]
    return np.left_shift(np.int64(1), np.maximum(exponents, 0).astype(np.int64))
