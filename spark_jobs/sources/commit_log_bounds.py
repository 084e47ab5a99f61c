"""Which values a record's fields can have. No checksum covers the header, so a flipped bit in it goes unnoticed.

A queue id of four million, or a time in the year 10,000, would make millions of rows or nonsense of every sum. A record
with such a field is left out and counted.
"""

import os
from collections.abc import Mapping, Sequence
from string import ascii_letters, digits
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_jobs.sources.commit_log_files import SegmentFile
from spark_jobs.sources.commit_log_records import Bools, Headers, Longs, RecordWalk, Segment, joined
from spark_jobs.sources.consume_queues import configured_queues

if TYPE_CHECKING:
    from collections import Counter

DAY_MS = 86_400_000
LONGEST_BORN_BEFORE_MS = 366 * DAY_MS
"""How long before the log's first record a message may have been born: it may have been delayed or sent again."""
QUEUES = 1024
"""Queues that a topic can have unless ``config/topics.json`` says more."""
MOST_QUEUES = 65_536
MOST_RECONSUME_TIMES = 10_000
LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""
SAMPLE, SAMPLE_BYTES = 5, 1024 * 1024
"""Records at the beginning of the log whose store times say when it begins, and the bytes in which they are looked for:
several, since one of them may be the damaged one."""

_LEGAL = f"{ascii_letters}{digits}%|-_".encode()
"""The characters of topics."""


class Bounds(NamedTuple):
    """The values that fields of one store's records can have: store times in [from_ms, to_ms], queue ids below
    ``queues``. None: unknown."""

    from_ms: int | None = None
    to_ms: int | None = None
    queues: int = QUEUES

    @classmethod
    def of_store(cls, store: str | os.PathLike[str], segments: Sequence[SegmentFile]) -> "Bounds":
        """From a day before the first records of these segments to a day after the last change of their files."""
        begins = (first_store_ms(segment.path, segment.base) for segment in segments)
        first_ms = next((ms for ms in begins if ms is not None), None)
        changed_ms = max((segment.modified_ms for segment in segments), default=0)
        is_copy = first_ms is None or changed_ms < first_ms - DAY_MS  # whose files have no time of their own
        from_ms = None if first_ms is None else first_ms - DAY_MS
        to_ms = None if is_copy else changed_ms + DAY_MS
        return cls(from_ms, to_ms, min(max([QUEUES, *configured_queues(store).values()]), MOST_QUEUES))

    def field_problems(self, segment: Segment, headers: Headers) -> dict[str, Bools]:
        """For each field that is checked, which of the records have an implausible value in it."""
        from_ms = 0 if self.from_ms is None else self.from_ms
        to_ms = LAST_MS if self.to_ms is None else self.to_ms
        return {
            "topic": ~legal_topics(segment, headers),
            "queue id": _outside(headers.queue_id, 0, self.queues - 1),
            "queue offset": (headers.queue_offset < 0) | (headers.queue_offset > headers.at + segment.base),
            "store time": _outside(headers.store_ts, from_ms, to_ms),
            "born time": _outside(headers.born_ts, from_ms - LONGEST_BORN_BEFORE_MS, to_ms),
            "reconsume times": _outside(headers.reconsume_times, 0, MOST_RECONSUME_TIMES),
        }

    def plausible(self, segment: Segment, headers: Headers, left_out: "Counter[str]") -> Headers:
        """The records whose fields are all plausible. The others are counted in ``left_out``, by their first field."""
        keep = np.ones(len(headers.at), np.bool_)
        for field, wrong in self.field_problems(segment, headers).items():
            count = int(np.count_nonzero(wrong & keep))
            if count:
                left_out[field] += count
                keep &= ~wrong
        return headers if keep.all() else headers.part(keep)


def implausible_note(left_out: Mapping[str, int]) -> str:
    """A sentence on the records that were left out, by field; empty without any."""
    count = sum(left_out.values())
    if not count:
        return ""
    fields = ", ".join(f"{field} ({number:,})" for field, number in sorted(left_out.items()))
    records = "record with an implausible field was" if count == 1 else "records with implausible fields were"
    return f"{count:,} {records} left out: {fields}."


def _outside(values: Longs, low: int, high: int) -> Bools:
    return (values < low) | (values > high)


def legal_topics(segment: Segment, headers: Headers) -> Bools:
    """Which topics are legal: at least one character, and only letters, digits, ``%``, ``|``, ``-`` and ``_``."""
    legal: Bools = headers.topic_length > 0
    topics = joined(segment.buffer, headers.topic_at, headers.topic_length)
    if topics.to_pybytes().translate(None, _LEGAL):
        octets = np.frombuffer(topics, np.uint8)
        wrong = np.flatnonzero(~np.isin(octets, list(_LEGAL)))
        legal[np.searchsorted(np.cumsum(headers.topic_length), wrong, "right")] = False
    return legal


def first_store_ms(path: str, base: int) -> int | None:
    """The store time with which a segment begins: the median of its first records'. None without any record."""
    try:
        segment = Segment.open(path, base)
    except FileNotFoundError:
        return None
    times: list[int] = []
    for headers in RecordWalk(segment, 0, SAMPLE_BYTES):
        times += headers.store_ts[:SAMPLE].tolist()
        if len(times) >= SAMPLE:
            break
    sample = sorted(times[:SAMPLE])
    return sample[(len(sample) - 1) // 2] if sample else None
