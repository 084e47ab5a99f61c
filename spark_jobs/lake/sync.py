"""Fills a lake with what is new in its store: each message once, even if processes are killed.

A fill has rounds. Tasks write files into the folders of the Delta tables. Then one commit for each table adds the
files, with the new position as Delta's transaction identifier. The next round begins there. So a round counts
completely or not at all. Files of a round that was killed belong to no version, and vacuum deletes them. At the end
days with many small files are compacted.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from socket import gethostname
from typing import NamedTuple
from uuid import uuid4

import msgspec

from broker_core.formats import lake_position
from broker_core.formats.poll_journal import decode_header
from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake.delta import OVERTAKEN, Table, begin_of, counted, first_kept
from spark_jobs.lake.folders import TABLES, lake_name, next_broker, notes_path
from spark_jobs.lake.lake import find_lake, journal_application, load, record_at
from spark_jobs.lake.notes import (
    DELETED,
    LAST_RECORDS,
    LOST,
    TORN,
    Dropped,
    JournalFile,
    Missing,
    Notes,
    read_notes,
    write_notes,
)
from spark_jobs.lake.storage import Location, is_local, locked, read_at_most, write_whole
from spark_jobs.lake.tasks import Done, JournalDone, JournalWork, LogDone, LogWork, Target, Work, remove_drafts
from spark_jobs.sources.commit_log_files import read_start
from spark_jobs.sources.commit_log_segments import LogPlan, log_begin, plan_log, share
from spark_jobs.sources.poll_journal_files import HEAD, find_files, name_of

logger = logging.getLogger(__name__)

ROUND_BYTES = 4 << 30
"""Bytes of the log that are read before they are committed."""

RunTasks = Callable[[Sequence[Work]], Iterable[Done]]
"""Carries out works, in any order."""
Progress = Callable[[int, str], None]


class Wanted(NamedTuple):
    """What to fill: the lake of ``store`` below ``lakes``, with bodies or without, by ``cores`` tasks at a time.

    Of so many ``rounds`` at most; None: until everything is read. The lake keeps ``keep_days`` whole days; 0: all.
    """

    store: str
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
    """A fill of one broker: its tables and notes as they change. The fill has the broker's lock.

    LakeBusyError if the broker ``is_new``, and another process has taken its name.
    """

    def __init__(self, wanted: Wanted, broker: str, *, is_new: bool) -> None:
        self.wanted = wanted
        self.broker = broker
        self.begin = log_begin(wanted.store)
        self.tables = {name: Table.create(wanted.lakes, name) for name in TABLES}
        noted = read_notes(wanted.lakes, broker)
        if is_new and noted is not None:
            raise LakeBusyError(OVERTAKEN.format(broker))
        if noted is None:
            noted = Notes(wanted.store, host=gethostname())
            write_notes(wanted.lakes, broker, noted)
        self.noted = noted
        """The notes as they were last read or written here."""
        self.lake = load(wanted.lakes, broker, wanted.store, noted, self.tables)
        self.notes = self.lake.notes
        self.notes.host = gethostname()
        self.committed = self.lake.position
        """The position of the last commit; None before the first one."""
        self.target = Target(os.fspath(wanted.lakes), broker, uuid4().hex[:8])

    @property
    def position(self) -> int:
        """Where the fill goes on in the log."""
        return self.begin if self.committed is None else self.committed

    def commit(self, done: Sequence[Done], now_ms: int) -> None:
        """Commit the files of a round. LakeBusyError if another process has committed some of it meanwhile."""
        log = sorted((one for one in done if isinstance(one, LogDone)), key=lambda one: one.start)
        journal = [one for one in done if isinstance(one, JournalDone) and one.end > one.start]
        self._note_log(log)
        note_journal(self.notes, journal)
        self.notes.synced_ms = now_ms
        self._write_notes()
        if journal:
            known, ends = self.lake.journal, {name_of(one.number, one.created_ms): one.end for one in journal}
            advanced = {journal_application(self.broker, name): (known.get(name), end) for name, end in ends.items()}
            self.tables["polls"].append(self.broker, [file for one in journal for file in one.files], advanced, now_ms)
            known.update(ends)
        if log:
            advanced = {self.broker: (self.committed, log[-1].end)}
            self.tables["messages"].append(self.broker, [file for one in log for file in one.files], advanced, now_ms)
            self.committed = log[-1].end
        self.publish(now_ms)

    def _write_notes(self) -> None:
        """Write the notes. LakeBusyError if another process has written them: an S3 has no lock that keeps it away."""
        if read_notes(self.wanted.lakes, self.broker) != self.noted:
            raise LakeBusyError(OVERTAKEN.format(self.broker))
        write_notes(self.wanted.lakes, self.broker, self.notes)
        self.noted = msgspec.structs.replace(self.notes)

    def _note_log(self, done: Sequence[LogDone]) -> None:
        """Note what is missing. LakeError if a task did not find bytes that exist."""
        notes, position, missing = self.notes, self.position, list[Missing]()
        for one in done:
            if one.gone:
                require_deleted(self.wanted.store, one)
            deleted = (one.end if one.gone else one.start) - position
            amounts = {DELETED: deleted, TORN: one.torn_bytes, **one.left_out}
            missing += [Missing(position, one.end, what, amount) for what, amount in amounts.items() if amount]
            if one.last_offset >= 0:
                seen = record_at(self.wanted.store, one.last_offset, one.last_size)
                notes.last = [*notes.last, *([seen] if seen else [])][-LAST_RECORDS:]
            position = one.end
        notes.missing = [*notes.missing, *missing]

    def drop(self, now_ms: int) -> int:
        """Remove days that the lake does not keep; returns how many messages they had."""
        day = first_kept(now_ms, self.wanted.keep_days)
        gone = {
            name: sum(file.rows for file in table.files(self.broker) if file.day < day)
            for name, table in self.tables.items()
        }
        if any(gone.values()):
            self.notes.dropped = msgspec.structs.replace(self.notes.dropped, before_ms=begin_of(day))
            self._write_notes()  # before the rows are gone, so that no report lacks them without a note
            for name, table in self.tables.items():
                if gone[name]:
                    table.drop_before(self.broker, day, gone[name])
            counts = (table.dropped_rows(self.broker) for table in self.tables.values())
            self.notes.dropped = Dropped(begin_of(day), *counts)
        return gone["messages"]

    def compact(self, progress: Progress) -> int:
        """Compact days with many small files, then delete unused files. Returns the number of replaced files."""
        days = [(table, day) for table in self.tables.values() for day in table.days_to_compact(self.broker)]
        count = 0
        for index, (table, day) in enumerate(days):
            progress(percent(0, index, len(days)), f"compacting the small files of {day}")
            count += table.compact(self.broker, day)
        for table in self.tables.values():
            table.vacuum()
        return count

    def note_counts(self) -> None:
        """Write counts of the tables into the notes, for pages."""
        self.notes.position = self.position
        self.notes.messages = counted(self.tables["messages"].files(self.broker))
        self.notes.polls = counted(self.tables["polls"].files(self.broker))
        self.notes.retired_bytes = sum(table.retired_bytes(self.broker) for table in self.tables.values())
        self._write_notes()

    def publish(self, now_ms: int) -> None:
        """Tell the broker what it may delete, if it waits for this lake. Stores of RocketMQ are only read."""
        store = self.wanted.store
        if not Path(store, "glassmq").is_file() or awaited_lake(store, self.wanted.lakes):
            return
        path = notes_path(self.wanted.lakes, self.broker)
        position = lake_position.LakePosition(self.position, now_ms, path)
        try:
            write_whole(Path(store, lake_position.FILE_NAME), lake_position.encode(position))
        except OSError as error:
            logger.warning("The lake's position cannot be written for the broker of %s: %s.", store, error)

    def log_works(self, plan: LogPlan) -> list[LogWork]:
        """The ranges of the log that the lake does not have yet."""
        return [LogWork(self.target, part, self.wanted.with_bodies, plan.bounds) for part in plan.ranges]

    def journal_works(self) -> list[JournalWork]:
        """Files of the journal that may have new entries."""
        works = []
        for file in find_files(self.wanted.store)[0]:
            header = decode_header(read_start(file.path, HEAD) or b"")
            if header is None:
                continue
            end = self.lake.journal.get(name_of(file.number, header.created_ms), 0)
            if file.size > end:
                works.append(JournalWork(self.target, file.path, file.number, header.created_ms, end))
        return works

    @contextmanager
    def round(self) -> Iterator[None]:
        """A context in which tasks write files. If it fails, they are removed at once, because a disk may be full."""
        self.target = msgspec.structs.replace(self.target, round=uuid4().hex[:8])
        try:
            yield
        except BaseException:  # Ctrl-C, too
            with suppress(LakeError, OSError):
                remove_round(self.target)
            raise


def sync(wanted: Wanted, run_tasks: RunTasks, now_ms: Callable[[], int], progress: Progress) -> Synced:
    """Fill the lake. NotAStoreError; LakeBusyError; LakeError; OSError if a disk refuses."""
    log_begin(wanted.store)  # before a folder is made for what is no store
    lake = find_lake(wanted.lakes, wanted.store)
    broker = lake.broker if lake else next_broker(wanted.lakes, wanted.store)
    if lake is None and broker != lake_name(wanted.store):
        logger.warning("%s is another store than those that were there; its broker is %s.", wanted.store, broker)
    with locked(wanted.lakes, broker):
        return fill(Filler(wanted, broker, is_new=lake is None), run_tasks, now_ms, progress)


def fill(filler: Filler, run_tasks: RunTasks, now_ms: Callable[[], int], progress: Progress) -> Synced:
    """Write what is new round by round, then compact and count."""
    wanted, before = filler.wanted, filler.notes.amounts
    files_before = len(filler.notes.missing_journal_files)
    dropped = filler.drop(now_ms()) if wanted.keep_days else 0
    plan = plan_log(
        wanted.store, start=filler.position, split_bytes=lambda size: share(size, wanted.cores), dispatched=True
    )  # a queue says when a message is due, and what is read now is not read again
    filler.notes.ended_by, filler.notes.segments_unread = plan.ended_by, list(plan.segments_unread)
    begin, rows = filler.position, dict.fromkeys(TABLES, 0)
    todo = list(rounds([*filler.journal_works(), *filler.log_works(plan)]))
    for works in todo[: wanted.rounds]:
        progress(
            percent(begin, filler.position, plan.end),
            f"writing messages from byte {filler.position:,} on, of {plan.end:,}",
        )
        with filler.round():
            done = list(run_tasks([msgspec.structs.replace(work, target=filler.target) for work in works]))
            filler.commit(done, now_ms())
        for one in done:
            name = "messages" if isinstance(one, LogDone) else "polls"
            rows[name] += sum(file.rows for file in one.files)
    is_all = wanted.rounds is None or wanted.rounds >= len(todo)
    if plan.start > filler.position and is_all:  # the rest was deleted, and nothing came behind it
        with filler.round():
            filler.commit([LogDone(plan.start, plan.start, [])], now_ms())
    filler.notes.synced_ms = now_ms()
    merged = filler.compact(progress) if is_all else 0
    filler.note_counts()
    filler.publish(now_ms())
    notes = filler.notes
    return Synced(
        os.fspath(wanted.lakes),
        filler.broker,
        rows["messages"],
        rows["polls"],
        filler.position,
        notes.amounts[TORN] - before[TORN],
        notes.amounts[DELETED] - before[DELETED],
        len(notes.missing_journal_files) - files_before,
        notes.ended_by,
        len(notes.segments_unread),
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


def note_journal(notes: Notes, done: Sequence[JournalDone]) -> None:
    """Note which files of the journal were read, entries that they lack, and files that have been deleted unread.

    Files are numbered from 0 on again where all of them were deleted while the broker did not run.
    """
    for one in sorted(done, key=lambda one: (one.created_ms, one.number)):
        last = max(notes.journal, key=lambda file: (file.created_ms, file.number), default=None)
        others = [file for file in notes.journal if (file.number, file.created_ms) != (one.number, one.created_ms)]
        if last is not None and len(others) == len(notes.journal):
            missing = range(last.number + 1 if one.number > last.number else 0, one.number)
            notes.missing_journal_files = [*notes.missing_journal_files, *missing]
        notes.journal = [*others, JournalFile(one.number, one.created_ms, one.closed)]
        if one.lost:
            lost = Missing(one.start, one.end, LOST, one.lost, name_of(one.number, one.created_ms))
            notes.missing = [*notes.missing, lost]


def awaited_lake(store: str, lakes: Location) -> str:
    """The lake in another folder that the broker waits for; empty if it waits for this one, or for none."""
    found = lake_position.decode(read_start(Path(store, lake_position.FILE_NAME), lake_position.MOST_BYTES) or b"")
    if found is None or lake_of_notes(found.lake) == lake_of_notes(notes_path(lakes, "")):
        return ""
    return found.lake if read_at_most(found.lake, 1) is not None else ""


def lake_of_notes(path: str) -> str:
    """The folder or URL of the lake that has these notes."""
    return str(Path(path).resolve().parent) if is_local(path) else path.rpartition("/")[0]


def percent(first: int, now: int, end: int) -> int:
    """How much of [first, end) is done."""
    return 100 * (now - first) // max(1, end - first)
