"""Fills a lake with what is new in its store: each message once, even if processes are killed.

A fill reads at most ROUND_BYTES of the log. Tasks write files into the folders of the Delta tables. Then one commit for
each table adds the files, with the new position as Delta's transaction identifier. The next fill begins there. So what
a fill reads of a table counts completely or not at all. Files of a fill that was killed belong to no version, and
vacuum deletes them. When nothing is left to read, days with many small files are compacted. If two fills of a broker
run at the same time, the slower one fails.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from msgspec.structs import replace

from broker_core.formats import lake_position
from spark_jobs.errors import LakeError
from spark_jobs.lake.delta import Table, first_kept
from spark_jobs.lake.lake import lake_of, require_same
from spark_jobs.lake.state import State
from spark_jobs.lake.storage import TABLES, Location, is_local, write_whole
from spark_jobs.lake.tasks import (
    CUT_OFF,
    LOST,
    OF_JOURNAL,
    UNREAD,
    Done,
    JournalDone,
    JournalPart,
    LogDone,
    Target,
    Work,
    remove_drafts,
)
from spark_jobs.sources.commit_log_damage import Gap, gaps_of
from spark_jobs.sources.commit_log_files import read_start
from spark_jobs.sources.commit_log_segments import LogRange, log_begin, plan_log, share
from spark_jobs.sources.poll_journal_files import JournalPosition, created_ms_of, files_after, find_files

logger = logging.getLogger(__name__)

ROUND_BYTES = 4 << 30
"""A fill reads the ranges that begin in so many bytes of the log."""
BROKER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
"""The names that a broker can have in a lake, where they are names of folders."""

RunTasks = Callable[[Target, Sequence[Work]], Iterable[Done]]
"""Carries out works, in any order."""
Progress = Callable[[int, str], None]


class Synced(NamedTuple):
    """The result of a fill."""

    lake: str
    broker: str
    messages: int
    polls: int
    position: int
    missing: Counter[str]
    """How much this fill has found missing, by ``Gap.what``."""
    ended_by: str
    """Why the log ends where it does, and the number of segments behind its end that are not empty."""
    segments_unread: int
    is_all: bool
    """Whether everything was read, and small files are compacted. Otherwise another fill is to follow."""
    awaited_lake: str
    """Another lake, for which the broker waits instead of this one."""
    merged_files: int
    """The number of files that were replaced by fewer, larger ones."""
    dropped_messages: int
    """Messages of days that were dropped because of ``keep_days``."""


class Filler:
    """A fill of one broker: its tables, and what the lake had when the fill began."""

    def __init__(self, store: str, broker: str, lakes: Location, now_ms: int) -> None:
        self.store = store
        self.broker = broker
        self.lakes = lakes
        self.now_ms = now_ms
        begin = log_begin(store)  # before a folder is made for what is no store
        self.tables = {name: Table.create(lakes, name, broker) for name in TABLES}
        self.lake = lake_of(lakes, broker, self.tables)
        require_same(store, self.lake)
        self.position = begin if self.lake.position is None else self.lake.position

    def drop(self, keep_days: int) -> int:
        """Remove the days that the lake does not keep; returns how many messages they had."""
        day = first_kept(self.now_ms, keep_days)
        gone = {name: table.drop_before(day) for name, table in self.tables.items()}
        return gone["messages"]

    def journal_parts(self) -> list[JournalPart]:
        """Files of the journal with what is new, if anything is. The one that was read last is among them."""
        position = self.lake.journal
        files = files_after(find_files(self.store), position)
        if not any(file.size > file.start for file in files):
            return []
        if position is not None and position.closed and files[0].start:
            files = files[1:]
        made = [(file, created_ms_of(file)) for file in files]
        return [
            JournalPart(file.path, file.number, created_ms, file.start)
            for file, created_ms in made
            if created_ms is not None
        ]

    def commit(self, done: Sequence[Done]) -> None:
        """Commit the files of works. LakeBusyError if another process has filled the lake meanwhile."""
        log = sorted((one for one in done if isinstance(one, LogDone)), key=lambda one: one.start)
        journal = sorted((one for one in done if isinstance(one, JournalDone)), key=lambda one: one.position.number)
        new_gaps = self.log_gaps(log)
        if journal:
            table = self.tables["polls"]
            position, missing = read_on(self.lake.journal, journal)
            found = self.lake.amounts + missing
            gaps = [Gap(what, 0, 0, found[what]) for what in OF_JOURNAL if found[what]]
            self._append(table, journal, replace(table.state, journal=position, gaps=gaps))
        if log:
            table = self.tables["messages"]
            self.position = log[-1].end
            last = next((one.last_record for one in reversed(log) if one.last_record), table.state.last_record)
            gaps = [*table.state.gaps, *new_gaps]
            self._append(table, log, replace(table.state, position=self.position, last_record=last, gaps=gaps))

    def _append(self, table: Table, done: Sequence[Done], state: State) -> None:
        table.append([file for one in done for file in one.files], state, self.now_ms)

    def log_gaps(self, done: Sequence[LogDone]) -> list[Gap]:
        """What these ranges lack. LakeError if a task did not find bytes that exist."""
        for one in done:
            if one.gone:
                require_deleted(self.store, one)
        end = done[-1].end if done else self.position
        return gaps_of([one for one in done if not one.gone], self.position, end, self.lake.last_ms)

    def compact(self, progress: Progress) -> int:
        """Compact days with many small files, then delete unused files. Returns the number of replaced files."""
        days = [(table, day) for table in self.tables.values() for day in table.days_to_compact()]
        count = 0
        for index, (table, day) in enumerate(days):
            progress(100 * index // len(days), f"compacting the small files of {day}")
            count += table.compact(day, self.now_ms)
        for table in self.tables.values():
            table.vacuum(self.now_ms)
        return count

    def publish(self) -> None:
        """Tell the broker what it may delete, if it waits for this lake. Stores of RocketMQ are only read."""
        if not Path(self.store, "glassmq").is_file() or awaited_lake(self.store, self.broker, self.lakes):
            return
        for table in self.tables.values():  # its last commit may be that of a process that was killed
            table.sync()
        position = lake_position.LakePosition(self.position, self.now_ms, resolved(self.lakes))
        try:
            write_whole(Path(self.store, lake_position.FILE_NAME), lake_position.encode(position))
        except OSError as error:
            logger.warning("The lake's position cannot be written for the broker of %s: %s.", self.store, error)


def sync(
    run_tasks: RunTasks,
    store: str,
    broker: str,
    lakes: Location,
    now_ms: int,
    progress: Progress,
    *,
    cores: int = 2,
    with_bodies: bool = False,
    keep_days: int = 0,
) -> Synced:
    """Fill the lake below ``lakes`` with what is new in the store of a broker, by ``cores`` tasks at a time.

    The lake keeps ``keep_days`` whole days; 0: all. NotAStoreError; LakeBusyError; LakeError; OSError.
    """
    if not BROKER.fullmatch(broker):
        raise LakeError(
            f"A lake cannot have a broker {broker!r}: its name has only letters, digits, dots, hyphens and "
            "underscores. Give it another one by --broker NAME."
        )
    filler = Filler(store, broker, lakes, now_ms)
    dropped = filler.drop(keep_days) if keep_days else 0
    # Only what is dispatched is read: a queue says when a message is due, and what is read now is not read again.
    plan = plan_log(store, start=filler.position, split_bytes=lambda size: share(size, cores), dispatched=True)
    ranges = first_ranges(plan.ranges)
    is_deleted = not ranges and (plan.start > filler.position or filler.lake.position is None)
    works: list[Work] = [*filler.journal_parts(), *ranges]
    target = Target(os.fspath(lakes), broker, uuid4().hex[:8], plan.bounds, with_bodies)
    progress(0, f"writing messages from byte {filler.position:,} on, of {plan.end:,}")
    try:
        done = list(run_tasks(target, works)) if works else []
        if is_deleted:
            done.append(LogDone(plan.start, plan.start))
        filler.commit(done)
    except BaseException:  # Ctrl-C, too; files are removed at once, because a disk may be full
        with suppress(LakeError, OSError):
            remove_uncommitted(target)
        raise
    filler.publish()
    is_all = len(ranges) == len(plan.ranges)
    merged = filler.compact(progress) if is_all else 0
    return Synced(
        os.fspath(lakes),
        broker,
        sum(file.rows for one in done if isinstance(one, LogDone) for file in one.files),
        sum(file.rows for one in done if isinstance(one, JournalDone) for file in one.files),
        filler.position,
        lake_of(lakes, broker, filler.tables).amounts - filler.lake.amounts,
        plan.ended_by,
        len(plan.segments_unread),
        is_all,
        awaited_lake(store, broker, lakes),
        merged,
        dropped,
    )


def first_ranges(ranges: Sequence[LogRange]) -> list[LogRange]:
    """The ranges of one fill: those that begin in the first ROUND_BYTES."""
    before = accumulate((part.stop - part.start for part in ranges), initial=0)
    return [part for part, size in zip(ranges, before, strict=False) if size < ROUND_BYTES]


def remove_uncommitted(target: Target) -> None:
    """Remove the files of a fill that were not committed. LakeError; OSError."""
    for name in TABLES:
        table = Table.open(target.lakes, name, target.broker)
        remove_drafts(target, name, table.files() if table else ())


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
        now = one.position
        if last is not None and now[:2] != last[:2]:
            if not last.closed:  # it was read in this fill and has no end, or was deleted before it was read again
                missing[UNREAD if is_damaged else CUT_OFF] += 1
            missing[UNREAD] += now.number - (last.number + 1 if now.number > last.number else 0)
        missing[LOST] += one.lost
        last, is_damaged = now, one.is_damaged
    assert last is not None
    return last, +missing


def awaited_lake(store: str, broker: str, lakes: Location) -> str:
    """The lake in another folder that the broker waits for; empty if it waits for this one, or for none."""
    found = lake_position.decode(read_start(Path(store, lake_position.FILE_NAME), lake_position.MOST_BYTES) or b"")
    if found is None or found.lake in ("", resolved(lakes)):
        return ""
    try:
        return found.lake if Table.open(found.lake, "messages", broker) is not None else ""
    except (LakeError, OSError):  # it may be there
        return found.lake


def resolved(lakes: Location) -> str:
    """The folder or URL of a lake as ``lakePosition`` has it."""
    return str(Path(lakes).resolve()) if is_local(lakes) else os.fspath(lakes)
