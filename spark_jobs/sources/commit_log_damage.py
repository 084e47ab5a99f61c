"""The parts of a log that reports lack: damaged bytes, missing segments, and records with implausible fields."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from spark_jobs.sources.commit_log_bounds import Bounds
from spark_jobs.sources.commit_log_records import RecordWalk
from spark_jobs.sources.commit_log_segments import LogPlan, LogRange, open_segment


class Damage(NamedTuple):
    """Bytes [start, end) of the log without a valid record.

    ``from_ms`` is the store time of the last record before them, ``to_ms`` that of the first one behind; None where
    there is none.
    """

    start: int
    end: int
    from_ms: int | None
    to_ms: int | None


class LogDamage(NamedTuple):
    """The damaged places of a log in order, and how many records were left out by each implausible field."""

    places: list[Damage]
    left_out: Counter[str]


def find_damage(plan: LogPlan, torn_segments: Iterable[int]) -> LogDamage:
    """The damage in the range of a plan.

    Reads the ``torn_segments`` (by their base) and those beside a missing one again, whole.
    """
    torn = set(torn_segments)
    spans = plan.spans
    found: list[Damage] = []
    left_out = Counter[str]()
    last_ms: int | None = None
    for index, span in enumerate(spans):
        before = spans[index - 1].stop if index else plan.start
        after = spans[index + 1].start if index + 1 < len(spans) else plan.end
        if span.base not in torn and before == span.start and after == span.stop:
            last_ms = None  # not needed behind a segment without damage
            continue
        times, inside = _gaps(span, plan.bounds, left_out)
        first_ms = times[0] if times else None
        if before < span.start:
            found.append(Damage(before, span.start, last_ms, first_ms))
        found += inside
        last_ms = times[1] if times else last_ms
        if index + 1 == len(spans) and after > span.stop:
            found.append(Damage(span.stop, after, last_ms, None))
    if not spans and plan.end > plan.start:
        found.append(Damage(plan.start, plan.end, None, None))
    return LogDamage(found, left_out)


def _gaps(span: LogRange, bounds: Bounds, left_out: Counter[str]) -> tuple[tuple[int, int] | None, list[Damage]]:
    """((first, last) store time of a segment's records, None without any; the damage between them)."""
    segment = open_segment(span)
    if segment is None:
        return None, []
    walk = RecordWalk(segment, span.start - segment.base, span.stop - segment.base)
    kept = (bounds.plausible(segment, headers, left_out) for headers in walk)
    parts = [(headers.at.copy(), headers.store_ts.copy()) for headers in kept]
    at = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, np.int64)
    times = np.concatenate([part[1] for part in parts]) if parts else np.empty(0, np.int64)
    found = []
    for gap in walk.gaps:
        behind = int(np.searchsorted(at, gap.start))
        found.append(
            Damage(
                segment.base + gap.start,
                segment.base + gap.stop,
                int(times[behind - 1]) if behind else None,
                int(times[behind]) if behind < len(times) else None,
            )
        )
    return (int(times[0]), int(times[-1])) if len(times) else None, found
