"""Properties of many records: ``name 0x01 value 0x02`` repeated, as ``formats.message_properties`` reads them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from broker_core.formats.message_properties import ENTRY_END, NAME_END
from spark_jobs.sources.commit_log_headers import Headers
from spark_jobs.sources.commit_log_loops import Ints, Longs, Octets, find_properties
from spark_jobs.sources.commit_log_slices import as_text, slices

FEW = 2
"""Names of which the first letters are looked for first: where there are none, that is quickly known."""
_ENTRY_END = ord(ENTRY_END)


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
        self._places: Ints | None = None
        used = headers.texts.octets[: headers.texts_end]
        if len(names) > FEW or any((used == ord(name[0])).any() for name in names):
            self._places = np.empty((2, len(names), len(headers.at)), np.int32)
            find_properties(
                headers.texts.octets,
                entry_ends(used),
                headers.properties_at,
                headers.properties_length,
                *Keys.of(names),
                *self._places,
            )

    def value(self, name: str) -> pa.Array:
        """One property of each record, null where it has none; of two with one name the last one counts.

        ValueError for a name that was not given.
        """
        place = self._names.index(name)
        if self._places is None:
            return pa.nulls(len(self._headers.at), pa.string())
        return as_text(slices(self._headers.texts, *self._places[:, place]))


def entry_ends(octets: Octets) -> Longs:
    """A bit for each byte, whether it is an 0x02, the lowest bit for the first; and one word more."""
    bits = np.packbits(octets == _ENTRY_END, bitorder="little")
    words = np.zeros(len(octets) // 64 + 1, np.int64)
    words.view(np.uint8)[: len(bits)] = bits
    return words
