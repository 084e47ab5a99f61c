"""What a log lacks: deleted and damaged bytes, and records with implausible fields."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from spark_jobs.sources.commit_log_bounds import Bounds
from spark_jobs.sources.commit_log_records import Headers, RecordWalk, Segment
from spark_jobs.sources.commit_log_segments import LogPlan, LogRange, open_segment

DELETED, DAMAGED = "deleted", "damaged"


class Gap(Struct, frozen=True):
    """What is missing of bytes [start, end) of the log.

    ``what``: DELETED for bytes that were gone before they were read, DAMAGED for those that are neither a record nor a
    filler. Then ``amount`` is in bytes. For any other ``what`` it is the number of records with an implausible value in
    this field. ``from_ms`` and ``to_ms``: the store times of records before and behind the gap; None if there is none.
    A lake has gaps of a poll journal, too: ``lake.tasks`` says what their amounts are, and both offsets are 0.
    """

    what: str
    start: int
    end: int
    amount: int
    from_ms: int | None = None
    to_ms: int | None = None


class Scanned(Struct, frozen=True):
    """A range of the log, what it lacks, and the store times of its first and last record; None without any."""

    start: int
    end: int
    gaps: list[Gap] = []
    first_ms: int | None = None
    last_ms: int | None = None


class PlausibleRecords:
    """Iterates, once, over the records of a range of the log whose fields are plausible.

    Afterwards ``scanned`` describes the range, and ``last`` is the place of its last record in the segment; empty if
    there is none.
    """

    def __init__(self, segment: Segment, part: LogRange, bounds: Bounds) -> None:
        self.scanned = Scanned(part.start, part.stop)
        self.last = slice(0)
        self._segment = segment
        self._bounds = bounds

    def __iter__(self) -> Iterator[Headers]:
        base, start, end = self._segment.base, self.scanned.start, self.scanned.end
        walk, left_out, gaps = RecordWalk(self._segment, start - base, end - base), Counter[str](), list[Gap]()
        first_ms: int | None = None
        last_ms: int | None = None

        def note_gaps(to_ms: int | None) -> None:
            for at in walk.gaps[len(gaps) :]:
                gaps.append(Gap(DAMAGED, base + at.start, base + at.stop, at.stop - at.start, last_ms, to_ms))

        for headers in walk:
            self.last = slice(int(headers.at[-1]), int(headers.at[-1] + headers.size[-1]))
            kept = self._bounds.plausible(self._segment, headers, left_out)
            if len(kept.at):
                times = int(kept.store_ts[0]), int(kept.store_ts[-1])
                note_gaps(times[0])
                first_ms, last_ms = times[0] if first_ms is None else first_ms, times[1]
            yield kept
        note_gaps(None)
        gaps += [Gap(field, start, end, count, first_ms, last_ms) for field, count in left_out.items()]
        self.scanned = Scanned(start, end, gaps, first_ms, last_ms)


def gaps_of(parts: Iterable[Scanned], start: int, end: int, last_ms: int | None = None) -> list[Gap]:
    """What [start, end) lacks if these parts of it were read. ``last_ms``: the store time of the record before it."""
    position, found = start, list[Gap]()
    for part in [*parts, Scanned(end, end)]:
        if part.start > position:
            found.append(Gap(DELETED, position, part.start, part.start - position, last_ms))
        if part.first_ms is not None:
            found = [replace(gap, to_ms=part.first_ms) if gap.to_ms is None else gap for gap in found]
        found += [replace(gap, from_ms=last_ms) if gap.from_ms is None else gap for gap in part.gaps]
        last_ms, position = last_ms if part.last_ms is None else part.last_ms, part.end
    return found


def left_out_of(gaps: Iterable[Gap]) -> Counter[str]:
    """How many records of the log were left out by each implausible field."""
    found = Counter[str]()
    for gap in gaps:
        found[gap.what] += 0 if gap.what in (DELETED, DAMAGED) else gap.amount
    return +found


def find_damage(plan: LogPlan, torn_segments: Iterable[int]) -> list[Gap]:
    """What the range of a plan lacks.

    Reads the ``torn_segments`` (by their base) and those beside a missing one again, whole.
    """
    torn, parts, spans = set(torn_segments), list[Scanned](), plan.spans
    for index, span in enumerate(spans):
        before = spans[index - 1].stop if index else plan.start
        after = spans[index + 1].start if index + 1 < len(spans) else plan.end
        is_needed = span.base in torn or before < span.start or span.stop < after
        segment = open_segment(span) if is_needed else None
        if segment is None:  # also if it was deleted after it was read
            parts.append(Scanned(span.start, span.stop))
            continue
        records = PlausibleRecords(segment, span, plan.bounds)
        deque(records, maxlen=0)
        parts.append(records.scanned)
    return gaps_of(parts, plan.start, plan.end)
