"""Properties of many records: ``name 0x01 value 0x02`` repeated, as ``formats.message_properties`` reads them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker_core.formats.message_properties import ENTRY_END, NAME_END
from spark_jobs.commit_log_headers import Headers, Longs, Octets
from spark_jobs.commit_log_slices import NONE, as_text, slices
from spark_jobs.compiled import compiled, inlined

_ENTRY_END = ord(ENTRY_END)
_EVERY_BYTE = 0x0101010101010101


class Keys(NamedTuple):
    """Names that are looked for, each with its 0x01: their bytes one behind the other, where each ends, and for each
    byte which of them begin with it, a bit for each."""

    octets: Octets
    ends: Longs
    beginning_with: Longs

    @classmethod
    def of(cls, names: Sequence[str]) -> "Keys":
        """For these names."""
        keys = [(name + NAME_END).encode() for name in names]
        beginning_with = np.zeros(256, np.int64)
        for place, key in enumerate(keys):
            beginning_with[key[0]] |= 1 << place
        return cls(np.frombuffer(b"".join(keys), np.uint8), np.cumsum([len(key) for key in keys]), beginning_with)


class Properties:
    """Some properties of some records."""

    def __init__(self, headers: Headers, names: Sequence[str]) -> None:
        self._headers = headers
        self._names = tuple(names)
        self._places: NDArray[np.int32] | None = None
        used = headers.texts.octets[:headers.texts_end]
        if any((used == ord(name[0])).any() for name in names):  # first letters alone often tell that none is there
            self._places = np.empty((2, len(names), len(headers.at)), np.int32)
            find_properties(headers.texts.octets, entry_ends(used), headers.properties_at, headers.properties_length,
                *Keys.of(names), *self._places)

    def value(self, name: str) -> pa.Array:
        """One property of each record, null where it has none; of two with one name the last one counts."""
        if self._places is None:
            return pa.nulls(len(self._headers.at), pa.string())
        return as_text(slices(self._headers.texts, *self._places[:, self._names.index(name)]))


def entry_ends(octets: Octets) -> Longs:
    """A bit for each byte, whether it is an 0x02, the lowest bit for the first; and one word more."""
    bits = np.packbits(octets == _ENTRY_END, bitorder="little")
    words = np.zeros(len(octets) // 64 + 1, np.int64)
    words.view(np.uint8)[:len(bits)] = bits
    return words


@compiled
def find_properties(octets: Octets, entry_ends: Longs, at: Longs, length: Longs, keys: Octets, key_ends: Longs,
                    beginning_with: Longs, value_at: NDArray[np.int32], value_length: NDArray[np.int32]) -> None:
    """Where each record's value of each key is and how long, NONE where it has none. The strings are at ``at``."""
    value_length[:] = NONE
    for row in range(len(at)):
        begin, stop = at[row], at[row] + length[row]
        word = begin >> 6
        bits = entry_ends[word] & np.int64(-1) << (begin & 63)
        while begin < stop:
            while not bits and word < stop >> 6:
                word += 1
                bits = entry_ends[word]
            end = min((word << 6) + lowest(bits), stop) if bits else stop
            bits &= bits - 1
            may_be = beginning_with[octets[begin]]
            while may_be:
                key = lowest(may_be)
                may_be &= may_be - 1
                first = key_ends[key - 1] if key else 0
                size = key_ends[key] - first
                same = 0
                while same < size < end - begin and octets[begin + same] == keys[first + same]:
                    same += 1
                if same == size:
                    value_at[key, row], value_length[key, row] = begin + size, end - begin - size
            begin = end + 1


@inlined
def lowest(bits: np.int64) -> np.int64:
    """The place of the lowest bit that is set."""
    below = np.uint64(~bits & bits - np.int64(1))
    below -= below >> np.uint64(1) & np.uint64(0x5555555555555555)
    below = (below & np.uint64(0x3333333333333333)) + (below >> np.uint64(2) & np.uint64(0x3333333333333333))
    below = below + (below >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64(below * np.uint64(_EVERY_BYTE) >> np.uint64(56))
