"""Variable parts of many records, as Arrow columns: topics, properties, bodies."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.commit_log_headers import Longs, Segment, Texts, copy
from spark_jobs.compiled import compiled

NONE = -1
"""The length of what is not there."""


def slices(source: Segment | Texts, at: Longs, length: Longs) -> pa.Array:
    """Bytes [at, at + length) of each record as one Arrow column of binary; null where ``length`` is NONE."""
    if not len(at) or length.max() == NONE:
        return pa.nulls(len(at), pa.binary())
    nulls = pa.py_buffer(np.packbits(length != NONE, bitorder="little")) if length.min() == NONE else None
    offsets = np.zeros(len(at) + 1, np.int32)
    np.cumsum(np.maximum(length, 0), out=offsets[1:])
    values = Texts.room(int(offsets[-1]))
    copy_slices(source.longs, at, length, offsets, values.longs)
    return pa.Array.from_buffers(pa.binary(), len(at), [nulls, pa.py_buffer(offsets), pa.py_buffer(values.octets)])


@compiled
def copy_slices(longs: Longs, at: Longs, length: Longs, offsets: NDArray[np.int32], values: Longs) -> None:
    """Copy each slice to where ``offsets`` say."""
    for row in range(len(at)):
        if length[row] > 0:
            copy(longs, at[row], length[row], values, offsets[row])


def as_text(binary: pa.Array) -> pa.Array:
    """The column as text; bytes that are not UTF-8 are replaced, as a reader of a single message sees them."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if item is None else item.decode("utf-8", "replace") for item in binary.to_pylist()],
            pa.string())
