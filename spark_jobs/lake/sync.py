"""Fills a lake with what is new in its store: each message once, even if processes are killed.

A fill has rounds. Tasks write files into the folders of the Delta tables. Then one commit for each table adds the
files, with the new position as Delta's transaction identifier. The next round begins there. So a round counts
completely or not at all. Files of a round that was killed belong to no version, and vacuum deletes them. At the end
days with many small files are compacted. Of two fills of a broker at the same time, the slower one fails.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from msgspec.structs import replace

from broker_core.formats import lake_position
from spark_jobs.errors import LakeError
from spark_jobs.lake.delta import CREATED, DIGEST, GAPS, LAST_RECORD, Table, first_kept
from spark_jobs.lake.gaps import write_gaps
from spark_jobs.lake.lake import journal_version, load, require_same
from spark_jobs.lake.storage import TABLES, Location, is_local, write_whole
from spark_jobs.lake.tasks import (
    CUT_OFF,
    DAMAGED,
    DELETED,
    LOST,
    OF_JOURNAL,
    UNREAD,
    Done,
    Gap,
    JournalDone,
    JournalWork,
    LogDone,
    LogWork,
    Target,
    Work,
    remove_drafts,
)
from spark_jobs.sources.commit_log_files import read_start
from spark_jobs.sources.commit_log_segments import LogPlan, log_begin, plan_log, share
from spark_jobs.sources.poll_journal_files import JournalPosition, created_ms_of, files_after, find_files

logger = logging.getLogger(__name__)

ROUND_BYTES = 4 << 30
"""Bytes of the log that are read before they are committed."""
BROKER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
"""The names that a broker can have in a lake, where they are names of folders."""

RunTasks = Callable[[Sequence[Work]], Iterable[Done]]
"""Carries out works, in any order."""
Progress = Callable[[int, str], None]


class Wanted(NamedTuple):
    """What to fill: the lake below ``lakes`` from ``store``, the store of ``broker``, by ``cores`` tasks at a time.

    Of so many ``rounds`` at most; None: until everything is read. The lake keeps ``keep_days`` whole days; 0: all.
    """

    store: str
    broker: str
    lakes: Location
    with_bodies: bool = False
    cores: int = 2
    rounds: int | None = None
    keep_days: int = 0


class Synced(NamedTuple):
    """The result of a fill."""

    lake: str
    broker: str
    messages: int
    polls: int
    position: int
    torn_bytes: int
    gap_bytes: int
    """Bytes of the log that were deleted before they were read."""
    missing_journal_files: int
    ended_by: str
    """Why the log ended at ``position``, and the number of segments behind it that are not empty."""
    segments_unread: int
    awaited_lake: str = ""
    """Another lake, for which the broker waits instead of this one."""
    is_all: bool = True
    """Whether everything was read, and small files are compacted."""
    merged_files: int = 0
    """The number of files that were replaced by fewer, larger ones."""
    dropped_messages: int = 0
    """Messages of days that were dropped because of ``keep_days``."""


class Filler:
    """A fill of one broker: its tables, and what the lake has."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.broker = wanted.broker
        self.begin = log_begin(wanted.store)
        self.tables = {name: Table.create(wanted.lakes, name) for name in TABLES}
        self.lake = load(wanted.lakes, wanted.broker, self.tables)
        require_same(wanted.store, self.lake)
        self.target = Target(os.fspath(wanted.lakes), self.broker, uuid4().hex[:8])
        self.last_ms = self.lake.last_ms
        """The store time of the last record that was read."""

    @property
    def position(self) -> int:
        """Where the fill goes on in the log."""
        return self.begin if self.lake.position is None else self.lake.position

    def commit(self, done: Sequence[Done], now_ms: int) -> None:
        """Commit the files of a round. LakeBusyError if another process has committed some of it meanwhile."""
        log = sorted((one for one in done if isinstance(one, LogDone)), key=lambda one: one.start)
        journal = sorted((one for one in done if isinstance(one, JournalDone)), key=lambda one: one.number)
        new_gaps = self.log_gaps(log)
        if journal:
            before = self.lake.journal
            position, missing = read_on(before, journal)
            found = self.lake.amounts + missing if missing else Counter[str]()
            gaps = [Gap(what, 0, 0, found[what]) for what in OF_JOURNAL if found[what]]
            versions = {"{}": journal_version(position), CREATED: position.created_ms}
            known = None if before is None else journal_version(before)
            self._append("polls", journal, known, versions, gaps, now_ms)
            self.lake = self.lake._replace(journal=position)
        if log:
            versions = {"{}": log[-1].end}
            if last := next((one for one in reversed(log) if one.last_offset >= 0), None):
                versions |= {LAST_RECORD: last.last_offset, DIGEST: last.digest}
            gaps = [gap for gap in self.lake.gaps if new_gaps and gap.what not in OF_JOURNAL]
            self._append("messages", log, self.lake.position, versions, [*gaps, *new_gaps], now_ms)
            self.lake = self.lake._replace(position=log[-1].end)
        self.publish(now_ms)

    def _append(
        self,
        name: str,
        done: Sequence[LogDone] | Sequence[JournalDone],
        known: int | None,
        versions: dict[str, int],
        gaps: list[Gap],
        now_ms: int,
    ) -> None:
        """Commit the files of one table, with ``gaps`` as its only ones; they stay as they are if there are none."""
        lake = self.lake
        if gaps:
            version = write_gaps(self.wanted.lakes, self.broker, name, lake.versions[name], gaps)
            versions = versions | {GAPS: version}
            others = [gap for gap in lake.gaps if (gap.what in OF_JOURNAL) != (name == "polls")]
            self.lake = lake._replace(gaps=[*others, *gaps], versions=lake.versions | {name: version})
        files = [file for one in done for file in one.files]
        self.tables[name].append(self.broker, files, known, versions, now_ms)

    def log_gaps(self, done: Sequence[LogDone]) -> list[Gap]:
        """What the ranges of a round lack, with the times of the records around it, where there are any.

        LakeError if a task did not find bytes that exist.
        """
        position, found = self.position, list[Gap]()
        for one in done:
            if one.gone:
                require_deleted(self.wanted.store, one)
            deleted_to = one.end if one.gone else one.start
            if deleted_to > position:
                found.append(Gap(DELETED, position, deleted_to, deleted_to - position, self.last_ms, one.first_ms))
            if one.first_ms is not None:
                found = [replace(gap, to_ms=one.first_ms) if gap.to_ms is None else gap for gap in found]
            found += [replace(gap, from_ms=self.last_ms) if gap.from_ms is None else gap for gap in one.gaps]
            self.last_ms = self.last_ms if one.last_ms is None else one.last_ms
            position = one.end
        return found

    def drop(self, now_ms: int) -> int:
        """Remove days that the lake does not keep; returns how many messages they had."""
        day = first_kept(now_ms, self.wanted.keep_days)
        gone = {name: table.drop_before(self.broker, day) for name, table in self.tables.items()}
        return gone["messages"]

    def compact(self, progress: Progress, now_ms: int) -> int:
        """Compact days with many small files, then delete unused files. Returns the number of replaced files."""
        days = [(table, day) for table in self.tables.values() for day in table.days_to_compact(self.broker)]
        count = 0
        for index, (table, day) in enumerate(days):
            progress(percent(0, index, len(days)), f"compacting the small files of {day}")
            count += table.compact(self.broker, day, now_ms)
        for table in self.tables.values():
            table.vacuum()
        return count

    def publish(self, now_ms: int) -> None:
        """Tell the broker what it may delete, if it waits for this lake. Stores of RocketMQ are only read."""
        store = self.wanted.store
        if not Path(store, "glassmq").is_file() or awaited_lake(store, self.wanted.lakes):
            return
        position = lake_position.LakePosition(self.position, now_ms, resolved(self.wanted.lakes))
        try:
            write_whole(Path(store, lake_position.FILE_NAME), lake_position.encode(position))
        except OSError as error:
            logger.warning("The lake's position cannot be written for the broker of %s: %s.", store, error)

    def log_works(self, plan: LogPlan) -> list[LogWork]:
        """The ranges of the log that the lake does not have yet."""
        return [LogWork(self.target, part, self.wanted.with_bodies, plan.bounds) for part in plan.ranges]

    def journal_works(self) -> list[JournalWork]:
        """Files of the journal with what is new, if anything is. The one that was read last is among them."""
        position = self.lake.journal
        files = files_after(find_files(self.wanted.store)[0], position)
        if not any(file.size > file.start for file in files):
            return []
        if position is not None and position.closed and files[0].start:
            files = files[1:]
        made = [(file, created_ms_of(file)) for file in files]
        return [
            JournalWork(self.target, file.path, file.number, created_ms, file.start)
            for file, created_ms in made
            if created_ms is not None
        ]

    @contextmanager
    def round(self) -> Iterator[None]:
        """A context in which tasks write files. If it fails, they are removed at once, because a disk may be full."""
        self.target = replace(self.target, round=uuid4().hex[:8])
        try:
            yield
        except BaseException:  # Ctrl-C, too
            with suppress(LakeError, OSError):
                remove_round(self.target)
            raise


def sync(wanted: Wanted, run_tasks: RunTasks, now_ms: Callable[[], int], progress: Progress) -> Synced:
    """Write what is new round by round, then compact. NotAStoreError; LakeBusyError; LakeError; OSError."""
    if not BROKER.fullmatch(wanted.broker):
        raise LakeError(
            f"A lake cannot have a broker {wanted.broker!r}: its name has only letters, digits, dots, hyphens and "
            "underscores. Give it another one by --broker NAME."
        )
    log_begin(wanted.store)  # before a folder is made for what is no store
    filler = Filler(wanted)
    before, rows = filler.lake.amounts, dict.fromkeys(TABLES, 0)
    dropped = filler.drop(now_ms()) if wanted.keep_days else 0
    plan = plan_log(
        wanted.store, start=filler.position, split_bytes=lambda size: share(size, wanted.cores), dispatched=True
    )  # a queue says when a message is due, and what is read now is not read again
    begin = filler.position
    todo = list(rounds([*filler.journal_works(), *filler.log_works(plan)]))
    for works in todo[: wanted.rounds]:
        progress(
            percent(begin, filler.position, plan.end),
            f"writing messages from byte {filler.position:,} on, of {plan.end:,}",
        )
        with filler.round():
            done = list(run_tasks([replace(work, target=filler.target) for work in works]))
            filler.commit(done, now_ms())
        for one in done:
            name = "messages" if isinstance(one, LogDone) else "polls"
            rows[name] += sum(file.rows for file in one.files)
    is_all = wanted.rounds is None or wanted.rounds >= len(todo)
    if is_all and (
        plan.start > filler.position or filler.lake.position is None
    ):  # nothing came behind what was deleted
        with filler.round():
            filler.commit([LogDone(plan.start, plan.start, [])], now_ms())
    merged = filler.compact(progress, now_ms()) if is_all else 0
    filler.publish(now_ms())
    new = filler.lake.amounts - before
    return Synced(
        os.fspath(wanted.lakes),
        filler.broker,
        rows["messages"],
        rows["polls"],
        filler.position,
        new[DAMAGED],
        new[DELETED],
        new[UNREAD],
        plan.ended_by,
        len(plan.segments_unread),
        awaited_lake(wanted.store, wanted.lakes),
        is_all,
        merged,
        dropped,
    )


def rounds(works: Sequence[Work]) -> Iterator[list[Work]]:
    """The works in their order, up to ROUND_BYTES of the log."""
    together: list[Work] = []
    size = 0
    for work in works:
        together.append(work)
        size += work.range.stop - work.range.start if isinstance(work, LogWork) else 0
        if size >= ROUND_BYTES:
            yield together
            together, size = [], 0
    if together:
        yield together


def remove_round(target: Target) -> None:
    """Remove the files of a round that were not committed. LakeError; OSError."""
    for name in TABLES:
        table = Table.open(target.lakes, name)
        active = {file.path for file in table.files(target.broker)} if table else set()
        remove_drafts(target, name, f"-{target.round}-", active)


def require_deleted(store: str, one: LogDone) -> None:
    """LakeError if a task did not find bytes that are still in the log. The lake would never get them."""
    if log_begin(store) < one.end:
        raise LakeError(
            f"Bytes {one.start:,} to {one.end:,} of the log of {store} are there, but the machine that was "
            "to read them did not find them: the machines of a cluster need the store under the same path, on storage "
            "that they share."
        )


def read_on(before: JournalPosition | None, done: Sequence[JournalDone]) -> tuple[JournalPosition, Counter[str]]:
    """The position behind these files, in the order of their numbers, and what is missing of the journal up to there.

    Files are numbered from 0 on again where all of them were deleted while the broker did not run.
    """
    missing, last, is_damaged = Counter[str](), before, True
    for one in done:
        if last is not None and (one.number, one.created_ms) != (last.number, last.created_ms):
            if not last.closed:  # it was read in this round and has no end, or was deleted before it was read again
                missing[UNREAD if is_damaged else CUT_OFF] += 1
            missing[UNREAD] += one.number - (last.number + 1 if one.number > last.number else 0)
        missing[LOST] += one.lost
        last, is_damaged = JournalPosition(one.number, one.created_ms, one.end, one.closed), one.gone or one.behind > 0
    assert last is not None
    return last, +missing


def awaited_lake(store: str, lakes: Location) -> str:
    """The lake in another folder that the broker waits for; empty if it waits for this one, or for none."""
    found = lake_position.decode(read_start(Path(store, lake_position.FILE_NAME), lake_position.MOST_BYTES) or b"")
    if found is None or found.lake in ("", resolved(lakes)):
        return ""
    try:
        return found.lake if Table.open(found.lake, "messages") is not None else ""
    except (LakeError, OSError):  # it may be there
        return found.lake


def resolved(lakes: Location) -> str:
    """The folder or URL of a lake as ``lakePosition`` has it."""
    return str(Path(lakes).resolve()) if is_local(lakes) else os.fspath(lakes)


def percent(first: int, now: int, end: int) -> int:
    """How much of [first, end) is done."""
    return 100 * (now - first) // max(1, end - first)
