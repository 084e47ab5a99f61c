"""Variable parts of many records, as Arrow columns: topics, properties, bodies."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]
NONE = -1


def slices(octets: NDArray[np.uint8], at: Positions, length: Positions, rows: NDArray[np.int32] | None = None,
           ) -> pa.Array:
    """Bytes [at, at + length) of each record as one Arrow column of binary.

    With ``rows`` the column has a row for each of these: the slice of that place, null for NONE. Slices must ascend and
    not overlap. Arrow copies them: it is shown the octets as one column in which wanted values
    and what lies between them take turns, and takes every second one.
    """
    count = len(at)
    if not count:
        return pa.array([], pa.binary())
    low = int(at[0])
    offsets = np.empty(2 * count, np.int32)
    np.subtract(at, low, out=offsets[0::2], casting="unsafe")
    np.add(offsets[0::2], length, out=offsets[1::2], casting="unsafe")
    shown: Any = octets[low:low + int(offsets[-1])]
    turns = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(shown)])
    if rows is None:
        return turns.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    return turns.take(pa.array(2 * rows, mask=rows == NONE))


def as_text(binary: pa.Array) -> pa.Array:
    """The column as text; bytes that are not UTF-8 are replaced, as a reader of a single message sees them."""
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if item is None else item.decode("utf-8", "replace") for item in binary.to_pylist()],
            pa.string())
