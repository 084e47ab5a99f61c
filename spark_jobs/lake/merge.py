"""Which parts of a lake are merged, so that a day has few files however often the lake was filled.

Each round of filling adds a part with files of its own to each table. When something of another day has been read,
nothing is added to those of the day before: they become one part, whose files have the same rows in the same order. So
do many of a day that is not over. What a part says of log and journal stays said; the files that it had are retired,
and removed when whoever reads them is done (``lake.READ_ON_MS``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from spark_jobs.errors import LakeError
from spark_jobs.lake.manifest import JournalPart, LakeFile, LogPart, Manifest
from spark_jobs.lake.tasks import DAY_MS, MergeWork

FEW, MANY = 4, 32
"""Parts with files that are worth merging: of a day that is over; of one that is not, of those not merged yet."""
ENOUGH_BYTES = 128 << 20
"""What is so large is not merged with what follows."""
ROUND_BYTES = 1 << 30
"""Bytes of files that are merged before that is made to count."""

Part = LogPart | JournalPart
P = TypeVar("P", LogPart, JournalPart)
T = TypeVar("T")
Files = Mapping[tuple[str, str], list[LakeFile]]
"""What was written, by table and name."""


class Merge(NamedTuple):
    """Parts of a manifest's list that become one, and the files that have to be written for that."""

    of_log: bool
    parts: range
    works: list[MergeWork]
    size: int


def due(manifest: Manifest, lake: str) -> list[Merge]:
    """What is to be merged now."""
    found = []
    for group in groups(
        manifest.messages, lambda one, other: one.end == other.start and one.with_bodies == other.with_bodies
    ):
        parts = manifest.messages[group.start : group.stop]
        name = f"range={parts[0].start:020d}-{parts[-1].end:020d}"
        works = [
            MergeWork(lake, table, name, [file.path for file in files], parts[0].with_bodies)
            for table, files in (("messages", files_of(parts)), ("sums", sums_of(parts)))
            if files
        ]
        found.append(Merge(True, group, works, sum(part.size for part in parts)))
    for group in groups(manifest.polls, lambda one, other: True):
        polls = manifest.polls[group.start : group.stop]
        first, last = polls[0], polls[-1]
        name = (
            f"file={first.number:020d}-{first.created_ms:013d}-{first.start:010d}-"
            f"{last.number:020d}-{last.created_ms:013d}-{last.end:010d}"
        )
        work = MergeWork(lake, "polls", name, [file.path for file in files_of(polls)])
        found.append(Merge(False, group, [work], sum(part.size for part in polls)))
    return found


def rounds(merges: Iterable[Merge]) -> Iterator[list[Merge]]:
    """What is merged together, ROUND_BYTES or a little more each time."""
    return cut(merges, lambda merge: merge.size, ROUND_BYTES)


def groups(parts: Sequence[P], goes_on: Callable[[P, P], bool]) -> list[range]:
    """Which parts are to become one, as their places in the list."""
    of_days = list(days(parts, goes_on))
    found = []
    for day in of_days:
        is_over = day is not of_days[-1]
        begin = day.start if is_over else max((index + 1 for index in day if parts[index].merged), default=day.start)
        found += [
            range(group[0], group[-1] + 1)
            for group in cut(range(begin, day.stop), lambda index: parts[index].size, ENOUGH_BYTES)
            if sum(bool(parts[index].files) for index in group) >= (FEW if is_over else MANY)
        ]
    return found


def days(parts: Sequence[P], goes_on: Callable[[P, P], bool]) -> Iterator[range]:
    """Parts that follow on each other and begin on the same day. One without files is of the day of those before."""
    begin, known = 0, None
    for index, part in enumerate(parts):
        day = min((file.min_ms // DAY_MS for file in part.files), default=None)
        is_other = None not in (day, known) and day != known
        if index > begin and (is_other or not goes_on(parts[index - 1], part)):
            yield range(begin, index)
            begin, known = index, None
        known = day if known is None else known
    if parts:
        yield range(begin, len(parts))


def cut(pieces: Iterable[T], size: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """The pieces in their order, cut behind each with which there is enough."""
    together: list[T] = []
    total = 0
    for piece in pieces:
        together.append(piece)
        total += size(piece)
        if total >= enough:
            yield together
            together, total = [], 0
    if together:
        yield together


def put_together(manifest: Manifest, merges: Iterable[Merge], written: Files, now_ms: int) -> int:
    """Have the merged parts take the place of those that they were made of; returns how many files these had.

    LakeError where not all rows are there.
    """
    count = 0
    for merge in sorted(merges, key=lambda merge: -merge.parts.start):  # so that the places of others stay right
        place = slice(merge.parts.start, merge.parts.stop)
        made = [written[work.table, work.name] for work in merge.works]
        if merge.of_log:
            log = manifest.messages[place]
            retired = [*files_of(log), *sums_of(log)]
            manifest.messages[place] = [merged_log(log, *made)]
        else:
            journal = manifest.polls[place]
            retired = files_of(journal)
            manifest.polls[place] = merged_journal(journal, made[0])
        manifest.retire(retired, now_ms)
        count += len(retired)
    return count


def merged_log(parts: Sequence[LogPart], files: list[LakeFile], sums: Sequence[LakeFile] = ()) -> LogPart:
    """Parts that follow on each other, as one with these files. LakeError where these lack rows."""
    require_all_rows(parts, files)
    return LogPart(
        parts[0].start,
        parts[-1].end,
        files,
        sum(part.torn_places for part in parts),
        sum(part.torn_bytes for part in parts),
        parts[0].with_bodies,
        [*sums],
        merged=True,
    )


def merged_journal(parts: Sequence[JournalPart], files: list[LakeFile]) -> list[JournalPart]:
    """Parts of the journal, one for each of its files; the first one has all rows. LakeError where some are missing."""
    require_all_rows(parts, files)
    found: dict[tuple[int, int], JournalPart] = {}
    for part in parts:
        known = found.get((part.number, part.created_ms))
        found[part.number, part.created_ms] = msgspec.structs.replace(
            part,
            files=[],
            merged=True,
            start=known.start if known else part.start,
            lost=part.lost + (known.lost if known else 0),
        )
    first, *others = found.values()
    return [msgspec.structs.replace(first, files=files), *others]


def require_all_rows(parts: Sequence[Part], files: Iterable[LakeFile]) -> None:
    """LakeError unless as many rows were written as there were."""
    before, now = sum(file.rows for file in files_of(parts)), sum(file.rows for file in files)
    if now != before:
        raise LakeError(f"Of {before:,} rows that were to be merged {now:,} were written; what was there stays.")


def files_of(parts: Sequence[Part]) -> list[LakeFile]:
    """The files of parts."""
    return [file for part in parts for file in part.files]


def sums_of(parts: Sequence[LogPart]) -> list[LakeFile]:
    """The files in which their messages are counted."""
    return [file for part in parts for file in part.sums]
