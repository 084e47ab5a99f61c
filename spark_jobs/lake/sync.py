"""Fills a lake with what is new in its store, each message once, whatever is killed meanwhile.

A round at a time: tasks write what is new into files whose names do not count; when all are there they get their names;
then the manifest that names them takes the place of the one before. Whoever comes next begins where the manifest ends,
and removes what it does not name. So a round counts wholly or not at all. When everything is read, small files are
merged (``lake_merge``), in rounds of the same kind.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from broker_core.formats import lake_position
from broker_core.formats.poll_journal import decode_header
from spark_jobs.errors import LakeError
from spark_jobs.lake import merge as lake_merge
from spark_jobs.lake.folders import lake_name
from spark_jobs.lake.lake import Lake, find_lake, keep_files, locked, next_generation, still_read, sweep, witness_at
from spark_jobs.lake.manifest import (
    FILE_NAME,
    JournalPart,
    LakeFile,
    LogGap,
    LogPart,
    Manifest,
    write_manifest,
    write_whole,
)
from spark_jobs.lake.retention import drop_before, first_kept_ms
from spark_jobs.lake.tasks import Done, Draft, JournalDone, JournalWork, LogDone, LogWork, MergeDone, Work
from spark_jobs.sources.commit_log_files import is_file, is_local, joined, local_path, read_start
from spark_jobs.sources.commit_log_segments import LogPlan, log_begin, plan_log, share
from spark_jobs.sources.poll_journal_files import HEAD, find_files

logger = logging.getLogger(__name__)

ROUND_BYTES = 4 << 30
"""Bytes of the log that are read before they are made to count."""
WITNESSES = 3
"""Records by which the store is known again."""

RunTasks = Callable[[Sequence[Work]], Iterable[Done]]
"""Carries works out, in any order, somewhere."""
Progress = Callable[[int, str], None]


class Wanted(NamedTuple):
    """What to fill: the lake of ``store`` below ``lakes``, with bodies or without, by ``cores`` tasks at a time.

    Of so many ``rounds`` at most; None: until everything is read. The lake keeps ``keep_days`` whole days; 0: all.
    """

    store: str
    lakes: Path
    with_bodies: bool = False
    cores: int = 2
    rounds: int | None = None
    keep_days: int = 0


class Synced(NamedTuple):
    """What became of it."""

    lake: Path
    messages: int
    polls: int
    position: int
    torn_bytes: int
    gap_bytes: int
    """Bytes of the log that were gone before they could be read."""
    missing_journal_files: int
    ended_by: str
    """Why the log ended at ``position``, and how many segments behind that hold something."""
    segments_unread: int
    awaited_lake: str = ""
    """Another lake, whose position the broker knows in place of this one's."""
    is_all: bool = True
    """Whether everything that there was to read has been read, and what was to be merged is merged."""
    merged_files: int = 0
    """Files in whose place fewer ones are now."""
    dropped_messages: int = 0
    """Messages of days that the lake was not to keep any longer."""


def sync(wanted: Wanted, run_tasks: RunTasks, now_ms: Callable[[], int], progress: Progress) -> Synced:
    """Fill the lake. NotAStoreError; LakeBusyError; LakeError; OSError when a disk refuses."""
    with locked(wanted.lakes, wanted.store):
        lake = opened(wanted)
        begun_ms = now_ms()
        sweep(lake.folder, begun_ms)
        manifest = lake.manifest
        manifest.retired = still_read(manifest, begun_ms)
        had = manifest.dropped.messages
        if wanted.keep_days and drop_before(manifest, first_kept_ms(begun_ms, wanted.keep_days), begun_ms):
            write_manifest(lake.folder, manifest)
        before = msgspec.structs.replace(manifest, messages=[*manifest.messages], polls=[*manifest.polls])
        plan = plan_log(
            wanted.store, start=manifest.position, split_bytes=lambda size: share(size, wanted.cores), dispatched=True
        )  # a queue says when a message is due, and what is read now is not read again
        manifest.ended_by, manifest.segments_unread = plan.ended_by, list(plan.segments_unread)
        todo = list(rounds([*journal_works(wanted, lake), *log_works(wanted, lake, plan)]))
        for works in todo[: wanted.rounds]:
            progress(
                percent(before.position, manifest.position, plan.end),
                f"writing messages from byte {manifest.position:,} on, of {plan.end:,}",
            )
            with swept_up(lake):
                make_round(wanted, lake, list(run_tasks(works)), now_ms())
        is_gap = plan.start > manifest.position  # what was to be read is gone, and nothing came behind it
        if is_gap:
            add_log(wanted, manifest, [LogDone(plan.start, plan.start, [])], now_ms())
        if is_gap or not todo:
            manifest.synced_ms = now_ms()
            write_manifest(lake.folder, manifest)
        publish(wanted.store, lake, now_ms())
        synced = told(lake, before)._replace(
            awaited_lake=awaited_lake(wanted.store, lake), dropped_messages=manifest.dropped.messages - had
        )
        if wanted.rounds is not None and wanted.rounds < len(todo):
            return synced._replace(is_all=False)
        left = None if wanted.rounds is None else wanted.rounds - len(todo)
        return merge(lake, left, run_tasks, now_ms, progress, synced)


def merge(
    lake: Lake, most: int | None, run_tasks: RunTasks, now_ms: Callable[[], int], progress: Progress, synced: Synced
) -> Synced:
    """Merge small files, in so many rounds at most."""
    todo = list(lake_merge.rounds(lake_merge.due(lake.manifest, str(lake.folder))))
    for index, merges in enumerate(todo[:most]):
        works = [work for one in merges for work in one.works]
        progress(percent(0, index, len(todo)), f"merging {sum(len(work.paths) for work in works):,} small files")
        with swept_up(lake):
            done = [one for one in run_tasks(works) if isinstance(one, MergeDone)]
            keep_files(lake.folder, {Path(draft.draft): draft.path for one in done for draft in one.files})
            written = {(one.table, one.name): kept(one.drafts) for one in done}
            count = lake_merge.put_together(lake.manifest, merges, written, now_ms())
            write_manifest(lake.folder, lake.manifest)
        synced = synced._replace(merged_files=synced.merged_files + count)
    return synced._replace(is_all=len(todo[:most]) == len(todo))


@contextmanager
def swept_up(lake: Lake) -> Iterator[None]:
    """What is written meanwhile goes where it comes to nothing: a full disk needs the room at once."""
    try:
        yield
    except BaseException:  # Ctrl-C, too
        with suppress(OSError):
            sweep(lake.folder)
        raise


def opened(wanted: Wanted) -> Lake:
    """The lake to be filled: the one that was filled from this store, or a new one."""
    begin = log_begin(wanted.store)
    lake = find_lake(wanted.lakes, wanted.store)
    if lake is not None:
        return lake
    folder = next_generation(wanted.lakes, wanted.store)
    if folder.name != lake_name(wanted.store):
        logger.warning("%s is another store than those that were there; its lake is %s.", wanted.store, folder)
    folder.mkdir(parents=True, exist_ok=True)
    return Lake(folder, Manifest(wanted.store, position=begin))


def log_works(wanted: Wanted, lake: Lake, plan: LogPlan) -> list[LogWork]:
    """What there is to read of the log."""
    return [
        LogWork(wanted.store, str(lake.folder), found.path, found.base, found.start, found.stop, wanted.with_bodies)
        for found in plan.ranges
    ]


def journal_works(wanted: Wanted, lake: Lake) -> list[JournalWork]:
    """Files of the journal that may have something new."""
    if not is_local(wanted.store):
        return []
    ends, works = lake.manifest.journal_ends(), []
    for file in find_files(local_path(wanted.store))[0]:
        header = decode_header(read_start(file.path, HEAD) or b"")
        if header is None:
            continue
        known = ends.get((file.number, header.created_ms))
        if known is None or (not known.closed and file.size > known.end):
            works.append(
                JournalWork(str(lake.folder), file.path, file.number, header.created_ms, known.end if known else 0)
            )
    return works


def rounds(works: Sequence[Work]) -> Iterator[list[Work]]:
    """The works in their order, cut where ROUND_BYTES of the log are reached."""
    return lake_merge.cut(works, lambda work: work.end - work.start if isinstance(work, LogWork) else 0, ROUND_BYTES)


def make_round(wanted: Wanted, lake: Lake, done: Sequence[Done], now_ms: int) -> None:
    """Make what was written count."""
    keep_files(lake.folder, {Path(draft.draft): draft.path for one in done for draft in one.files})
    manifest = lake.manifest
    add_log(wanted, manifest, [one for one in done if isinstance(one, LogDone)], now_ms)
    add_journal(manifest, [one for one in done if isinstance(one, JournalDone)])
    manifest.synced_ms = now_ms
    write_manifest(lake.folder, manifest)
    publish(wanted.store, lake, now_ms)


def add_log(wanted: Wanted, manifest: Manifest, done: Sequence[LogDone], now_ms: int) -> None:
    """Note what was read of the log, and what is missing between. LakeError for what is said to be gone and is not."""
    for one in sorted(done, key=lambda one: one.start):
        if one.start > manifest.position:
            add_gap(manifest, manifest.position, one.start, now_ms)
        if one.gone:
            require_deleted(wanted.store, one)
            add_gap(manifest, one.start, one.end, now_ms)
        elif one.end > one.start:
            manifest.messages.append(
                LogPart(
                    one.start,
                    one.end,
                    kept(one.drafts),
                    one.torn_places,
                    one.torn_bytes,
                    wanted.with_bodies,
                    kept(one.sums),
                )
            )
        if one.last_offset >= 0:
            seen = witness_at(wanted.store, one.last_offset, one.last_size)
            manifest.witnesses = [*manifest.witnesses, *([seen] if seen else [])][-WITNESSES:]
        manifest.position = one.end


def require_deleted(store: str, one: LogDone) -> None:
    """LakeError where what a task did not find is still in the log: the lake would lack it for ever."""
    if log_begin(store) < one.end:
        raise LakeError(
            f"Bytes {one.start:,} to {one.end:,} of the log of {store} are there, but the machine that was "
            "to read them did not find them: the machines of a cluster need the store under the same path, on storage "
            "that they share."
        )


def add_gap(manifest: Manifest, start: int, end: int, now_ms: int) -> None:
    """Note bytes of the log that are gone; those that follow on the last ones are one gap with them."""
    gaps = manifest.gaps
    manifest.gaps = (
        [*gaps[:-1], LogGap(gaps[-1].start, end, now_ms)]
        if gaps and gaps[-1].end == start
        else [*gaps, LogGap(start, end, now_ms)]
    )


def add_journal(manifest: Manifest, done: Sequence[JournalDone]) -> None:
    """Note what was read of the journal, and files that have been deleted unread.

    Files are numbered from 0 on again where all of them were deleted while the broker did not run.
    """
    for one in sorted(done, key=lambda one: (one.created_ms, one.number)):
        if one.end == one.start:
            continue
        last = max(manifest.polls, key=lambda part: (part.created_ms, part.number), default=None)
        if last is not None and (one.number, one.created_ms) not in manifest.journal_ends():
            missing = range(last.number + 1 if one.number > last.number else 0, one.number)
            manifest.missing_journal_files = [*manifest.missing_journal_files, *missing]
        manifest.polls.append(
            JournalPart(one.number, one.created_ms, one.start, one.end, one.closed, kept(one.drafts), one.lost)
        )


def kept(drafts: Sequence[Draft]) -> list[LakeFile]:
    """The files that drafts have become."""
    return [LakeFile(draft.path, draft.rows, draft.size, draft.min_ms, draft.max_ms) for draft in drafts]


def publish(store: str, lake: Lake, now_ms: int) -> None:
    """Tell the broker what it may delete, where it waits for this lake; a store that is not GlassMQ's is only read."""
    if not is_local(store) or not is_file(joined(store, "glassmq")) or awaited_lake(store, lake):
        return
    position = lake_position.LakePosition(lake.manifest.position, now_ms, str(lake.folder))
    try:
        write_whole(local_path(store) / lake_position.FILE_NAME, lake_position.encode(position))
    except OSError as error:
        logger.warning("The broker of %s is not told how far its lake is: %s.", store, error)


def awaited_lake(store: str, lake: Lake) -> str:
    """The lake in another folder of lakes that the broker waits for; empty where it waits for this one, or for none."""
    if not is_local(store):
        return ""
    found = lake_position.decode(read_start(joined(store, lake_position.FILE_NAME), lake_position.MOST_BYTES) or b"")
    if found is None or Path(found.lake).resolve().parent == lake.folder.resolve().parent:
        return ""
    return found.lake if is_file(str(Path(found.lake) / FILE_NAME)) else ""


def percent(first: int, now: int, end: int) -> int:
    """How much of [first, end) is done."""
    return 100 * (now - first) // max(1, end - first)


def told(lake: Lake, before: Manifest) -> Synced:
    """What is new since then."""
    now = lake.manifest
    parts, polls = now.messages[len(before.messages) :], now.polls[len(before.polls) :]
    return Synced(
        lake.folder,
        sum(file.rows for part in parts for file in part.files),
        sum(file.rows for part in polls for file in part.files),
        now.position,
        sum(part.torn_bytes for part in parts),
        sum(gap.end - gap.start for gap in now.gaps) - sum(gap.end - gap.start for gap in before.gaps),
        len(now.missing_journal_files) - len(before.missing_journal_files),
        now.ended_by,
        len(now.segments_unread),
    )
