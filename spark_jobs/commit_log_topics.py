"""The topics of many records. The queue that names a record knows its topic, so it need not be read letter by letter.

That the queue is right is checked by the record itself: by the length of its topic and the last eight bytes.
"""

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_jobs.commit_log_headers import UNNAMED, Headers, Segment
from spark_jobs.commit_log_slices import as_text, slices

_TAIL = 8


class QueueTopics:
    """The topics of a store's consume queues."""

    def __init__(self, queues: Sequence[tuple[str, int]]) -> None:
        names: dict[str, int] = {}
        topics = [names.setdefault(topic, len(names)) for topic, _ in queues]
        encoded = [os.fsencode(topic) for topic in names]
        self.names = [name.decode("utf-8", "replace") for name in encoded]
        self._topic_of_queue = np.array(topics, np.intp)
        self._lengths = np.array([len(name) for name in encoded], np.int64)
        self._tails = np.array([int.from_bytes(name[-_TAIL:].rjust(_TAIL, b"\0"), "little") for name in encoded],
            np.uint64)
        self._masks = np.array([int.from_bytes((b"\xff" * len(name))[-_TAIL:].rjust(_TAIL, b"\0"), "little")
            for name in encoded], np.uint64)

    def of(self, segment: Segment, headers: Headers) -> pa.DictionaryArray:
        """The topic of each record."""
        codes = self._named(segment, headers)
        names = self.names
        others = np.flatnonzero(codes < 0)
        if len(others):
            part = headers.part(others)
            read = as_text(slices(segment.octets, part.topic_at, part.topic_length)).dictionary_encode()
            told = read.dictionary.to_pylist()
            known = {*self.names}
            names = [*self.names, *(name for name in told if name not in known)]
            places = {name: index for index, name in enumerate(names)}  # fewer, where two names are no text
            codes[others] = np.array([places[name] for name in told], np.int32)[read.indices.to_numpy()]
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))

    def _named(self, segment: Segment, headers: Headers) -> NDArray[np.int32]:
        """What the queues say, as places in ``names``; UNNAMED where they say nothing, or nothing right."""
        if not self.names:
            return np.full(len(headers.at), UNNAMED, np.int32)
        codes = self._topic_of_queue.take(headers.queue)  # UNNAMED takes the last one, and is put right
        anywhere: NDArray[np.uint64] = np.ndarray((segment.size - _TAIL + 1,), "<u8", segment.buffer, strides=(1,))
        tails = anywhere[headers.topic_at + headers.topic_length - _TAIL] & self._masks.take(codes)
        right = (tails == self._tails.take(codes)) & (headers.topic_length == self._lengths.take(codes))
        right &= headers.queue != UNNAMED
        return codes.astype(np.int32) if right.all() else np.where(right, codes, UNNAMED).astype(np.int32)
