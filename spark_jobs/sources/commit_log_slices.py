"""Variable parts of many records, as Arrow columns: topics, properties, bodies."""

import numpy as np
import pyarrow as pa

from spark_jobs.sources.commit_log_headers import Segment, Texts
from spark_jobs.sources.commit_log_loops import NONE, Longs, copy_slices

_NO_ASCII = 0x80


def slices(source: Segment | Texts, at: Longs, length: Longs) -> pa.Array:
    """Bytes [at, at + length) of each record as one Arrow column of binary; null where ``length`` is NONE."""
    if not len(at) or length.max() == NONE:
        return pa.nulls(len(at), pa.binary())
    nulls = pa.py_buffer(np.packbits(length != NONE, bitorder="little")) if length.min() == NONE else None
    offsets = np.zeros(len(at) + 1, np.int32)
    np.cumsum(np.maximum(length, 0), out=offsets[1:])
    size = int(offsets[-1])
    values = Texts.room(size)
    copy_slices(source.longs, at, length, offsets, values.longs)
    return pa.Array.from_buffers(
        pa.binary(), len(at), [nulls, pa.py_buffer(offsets), pa.py_buffer(values.octets[:size])]
    )


def as_text(binary: pa.Array) -> pa.Array:
    """The column as text; bytes that are not UTF-8 are replaced, as a reader of a single message sees them."""
    values = binary.buffers()[2]
    if values is None or np.frombuffer(values, np.uint8).max(initial=0) < _NO_ASCII:  # all at once, not one by one
        return binary.view(pa.string())
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if item is None else item.decode("utf-8", "replace") for item in binary.to_pylist()], pa.string()
        )
