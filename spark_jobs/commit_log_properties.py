"""Properties of many records at once: ``name 0x01 value 0x02`` repeated, as ``formats.message_properties`` reads them.

The property strings lie back to back in memory, each with the byte before it, which is made to count as an 0x02. So
every entry lies between two of those, whether its string ends with one or not, and is known by its first eight bytes.
"""

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker_core.formats.message_properties import ENTRY_END, NAME_END
from spark_jobs.commit_log_headers import Headers, Segment
from spark_jobs.commit_log_slices import NONE, as_text, slices

_WORD = 8
_ENTRY_END = ord(ENTRY_END)


class Properties:
    """The property strings of some records."""

    def __init__(self, segment: Segment, headers: Headers) -> None:
        self._text = slices(segment.octets, headers.properties_at - 1, headers.properties_length + 1)
        self._begins: NDArray[np.int32] = np.frombuffer(self._text.buffers()[1], np.int32)
        self._entries: Entries | None = None

    def whole(self) -> pa.Array:
        """The strings themselves."""
        return as_text(slices(self._octets(), self._begins[:-1].astype(np.int64) + 1,
            np.diff(self._begins).astype(np.int64) - 1))

    def value(self, name: str) -> pa.Array:
        """One property of each record, null where it has none; of two with one name the last one counts."""
        count, key = len(self._text), (name + NAME_END).encode()
        if self._entries is None and not self._holds(key):
            return pa.nulls(count, pa.string())
        self._entries = entries = self._entries or Entries(self._octets(), self._begins)
        hits = entries.named(key)
        if not len(hits):
            return pa.nulls(count, pa.string())
        at = entries.begin[hits]
        if len(hits) == count and (at > self._begins[:-1]).all() and (at < self._begins[1:]).all():
            at += len(key)  # as a rule: each record has it once
            return as_text(slices(self._octets(), at, entries.begin[hits + 1] - 1 - at))
        record = np.searchsorted(self._begins, at) - 1
        is_last = np.append(record[1:] != record[:-1], True)
        hits, record, at = hits[is_last], record[is_last], at[is_last] + len(key)
        length = entries.begin[hits + 1] - 1 - at
        rows = np.full(count, NONE, np.int32)
        rows[record] = np.arange(len(hits))
        return as_text(slices(self._octets(), at, length, rows))

    def _holds(self, key: bytes) -> bool:
        """Whether the name is anywhere in them; where it is not, its first letter alone often tells that."""
        octets = self._octets()
        return bool((octets == key[0]).any()) and re.search(re.escape(key), octets.data) is not None

    def _octets(self) -> NDArray[np.uint8]:
        data = self._text.buffers()[2]
        return np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8, int(self._begins[-1]))


class Entries:
    """The entries of many property strings, found by their first eight bytes; by four of them for a first look.

    ``begin`` is where each entry begins, and one more: behind the last one's 0x02.
    """

    def __init__(self, octets: NDArray[np.uint8], begins: NDArray[np.int32]) -> None:
        is_end = octets == _ENTRY_END
        is_end[begins[:-1]] = True
        ends = np.flatnonzero(is_end)
        self.begin = np.append(ends + 1, len(octets) + 1)
        self._octets = octets if len(octets) >= _WORD else np.append(octets, np.zeros(_WORD, np.uint8))
        self._heads = self._words(self.begin[:-1])
        self._beginnings = self._heads.astype(np.uint32)

    def _words(self, at: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The eight bytes from each position on, with zeros behind the last string; the positions ascend."""
        last = len(self._octets) - _WORD
        anywhere: NDArray[np.uint64] = np.ndarray((last + 1,), "<u8", self._octets, strides=(1,))
        near = int(np.searchsorted(at, last, "right"))
        if near == len(at):
            return anywhere[at]
        beyond = np.minimum(at[near:] - last, _WORD).astype(np.uint64)
        return np.concatenate((anywhere[at[:near]], anywhere[last] >> (np.uint64(8) * beyond)))

    def named(self, key: bytes) -> NDArray[np.int64]:
        """The entries that begin with this name and its 0x01, and have a value."""
        hits = np.flatnonzero(_begins_with(self._beginnings, key[:_WORD // 2]))
        hits = _chosen(hits, _begins_with(self._heads[hits], key[:_WORD]))
        for start in range(_WORD, len(key), _WORD):
            hits = _chosen(hits, _begins_with(self._words(self.begin[hits] + start), key[start:start + _WORD]))
        return _chosen(hits, self.begin[hits + 1] - self.begin[hits] > len(key) + 1)


def _chosen(hits: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """As a rule all of them."""
    return hits if chosen.all() else hits[chosen]


def _begins_with(words: NDArray[Any], head: bytes) -> NDArray[np.bool_]:
    """Which of the words, of no fewer bytes than ``head``, begin with it."""
    word = words.dtype.type
    if len(head) < word().itemsize:
        words = words & word((1 << 8 * len(head)) - 1)
    begins: NDArray[np.bool_] = words == word(int.from_bytes(head, "little"))
    return begins
