"""The lake's Delta tables, with delta-rs: what they hold of a broker, appends, compaction, retention, vacuum.

An append carries Delta's transaction identifier: the application is the broker, and the version is the position in its
log or poll journal. So position and rows become visible in one commit, a repeated append is recognised, and of two
processes that append the same range one fails. Further numbers of a broker are versions of applications of their own.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import dataset

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake.storage import Location, filesystem_of, is_local, joined, sync_to_disk
from spark_jobs.lake.tasks import (
    GROUP_ROWS,
    TIMES,
    LakeFile,
    Target,
    milliseconds,
    remove_drafts,
    schema_of,
    write_files,
)

PARTITIONS = ["date", "broker"]
DAY_MS = 86_400_000
FILE_BYTES = 128 << 20
"""Bytes of a file that compaction aims at; files of half as many are left alone."""
FEW, MANY = 4, 32
"""Small files of a day that are worth compacting: of a day that is over; of the newest one."""
READ_ON_HOURS = 6
"""How long files that no version uses any more are left to readers of an earlier version: a run of the report worker
ends within an hour, people's own queries may take longer."""
TRIES = 10
"""How often a commit is tried at which other brokers' fills are in the way."""

LAST_RECORD, DIGEST = "{}/last-record", "{}/digest"
"""Applications of a broker: the offset and a digest of the last record that was read of its log."""
CREATED = "{}/created"
"""Application of a broker: when the file of the poll journal was made that was read last, ms."""
GAPS = "{}/gaps"
"""Application of a broker: the version of its gaps that counts (``gaps``)."""
REWRITES = "{}/rewrites"
"""Application of a broker: how many commits have replaced or removed files. Of two at the same time one fails."""
DROPPED, DROPPED_BEFORE = "{}/dropped", "{}/dropped-before"
"""Applications of a broker: how many rows retention has removed in all, and from before which time, ms."""

OVERTAKEN = (
    "Another process has filled the lake of {} meanwhile. What this fill had committed before is in the lake; its "
    "other files are removed. The next fill goes on behind the last commit."
)


class Table:
    """One of the tables, at its newest version, or at that of its own last commit."""

    def __init__(self, lakes: Location, name: str, delta: DeltaTable) -> None:
        self._lakes = lakes
        self._root = joined(lakes, name)
        self._name = name
        self._delta = delta
        self._on_disk = delta.version() or -1
        """Commits up to this version are on the disk. A table of version 0 was created a moment ago."""

    @classmethod
    def open(cls, lakes: Location, name: str) -> "Table | None":
        """The table; None if there is none. LakeError if it cannot be read."""
        root = joined(lakes, name)
        try:
            found = DeltaTable(root) if DeltaTable.is_deltatable(root) else None
        except (DeltaError, OSError) as error:
            raise LakeError(f"{root} is not a Delta table that can be read: {error}.") from error
        if found is not None and found.schema() != delta_schema(name):
            raise LakeError(
                f"{root} has the columns of another version of GlassMQ. Delete the lake, or give another folder, and "
                "fill it anew."
            )
        return None if found is None else cls(lakes, name, found)

    @classmethod
    def create(cls, lakes: Location, name: str) -> "Table":
        """The table, which is created if there is none."""
        found = cls.open(lakes, name)
        return found or cls(lakes, name, created(joined(lakes, name), delta_schema(name), PARTITIONS))

    def version_of(self, application: str) -> int | None:
        """The version of an application's last transaction; None before the first."""
        version: int | None = self._delta.transaction_version(application)
        return version

    def files(self, broker: str) -> list[LakeFile]:
        """The active files of a broker, oldest day first."""
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        if not actions.num_rows:
            return []
        column = TIMES[self._name]
        first, last = (milliseconds(actions.column(f"{end}.{column}")).to_pylist() for end in ("min", "max"))
        found = [
            LakeFile(
                joined(self._root, row["path"]),
                row["partition.date"],
                row["num_records"],
                row["size_bytes"],
                from_ms,
                to_ms,
                row.get("min.physical_offset") or 0,
                row.get("max.physical_offset") or 0,
                row["modification_time"],
            )
            for row, from_ms, to_ms in zip(actions.to_pylist(), first, last, strict=True)
            if row["partition.broker"] == broker
        ]
        return sorted(found, key=lambda file: (file.day, file.min_offset, file.path))

    def append(
        self, broker: str, drafts: Sequence[LakeFile], known: int | None, versions: Mapping[str, int], now_ms: int
    ) -> None:
        """Add files that were written, and set versions of the broker's applications, in one commit.

        ``known``: the version of the application ``broker`` behind which the files go on. LakeBusyError if another
        process has advanced it meanwhile.
        """
        actions: list[AddAction | RemoveAction] = [self._action(broker, draft, now_ms) for draft in drafts]
        advanced = [Transaction(name.format(broker), version) for name, version in versions.items()]
        properties = CommitProperties(app_transactions=advanced)
        commit_next(self._delta, broker, broker, known, lambda: self._commit(actions, properties, drafts))

    def days_to_compact(self, broker: str) -> list[date]:
        """Days of a broker with enough small files for a compaction."""
        files = self.files(broker)
        newest = max((file.day for file in files), default=None)
        small: dict[date, int] = {}
        for file in files:
            small[file.day] = small.get(file.day, 0) + (file.size < FILE_BYTES // 2)
        return [day for day, count in sorted(small.items()) if count >= (MANY if day == newest else FEW)]

    def compact(self, broker: str, day: date, now_ms: int) -> int:
        """Replace the small files of a day by larger ones with the same rows. Returns the number of replaced files.

        0 if another process has replaced or removed files of the broker meanwhile. delta-rs's own compaction does not
        notice that, and the rows would be there twice. Vacuum deletes replaced files READ_ON_HOURS after ``now_ms``.
        """
        target = Target(os.fspath(self._lakes), broker, uuid4().hex[:8])
        count = 0
        for old in in_groups(file for file in self.files(broker) if file.day == day and file.size < FILE_BYTES // 2):
            try:
                self._replace(target, old, now_ms)
            except CommitFailedError:
                remove_drafts(target, self._name, f"-{target.round}-", {file.path for file in self.files(broker)})
                self._delta.update_incremental()
                break
            count += len(old)
        return count

    def _replace(self, target: Target, old: Sequence[LakeFile], now_ms: int) -> None:
        filesystem, _ = filesystem_of(self._root)
        schema = plain_schema(self._name)
        rows = dataset.dataset([filesystem_of(file.path)[1] for file in old], schema, "parquet", filesystem=filesystem)
        name = f"compacted={old[0].min_offset:020d}-{old[-1].max_offset:020d}"
        new = write_files(target, self._name, name, schema, rows.to_batches(batch_readahead=1), GROUP_ROWS)
        actions: list[AddAction | RemoveAction] = [self._action(target.broker, file, now_ms, False) for file in new]
        for file in old:
            partition = partition_of(target.broker, file)
            below = file.path.removeprefix(f"{self._root}/")
            actions.append(RemoveAction(below, False, now_ms, file.size, partition))
        self._commit(actions, self._rewriting(target.broker, {}), new)

    def drop_before(self, broker: str, day: date) -> int:
        """Remove a broker's rows of the days before that one, and count them in the same commit. Returns their number.

        LakeBusyError if another process changes these days at the same time.
        """
        rows = sum(file.rows for file in self.files(broker) if file.day < day)
        if not rows:
            return 0
        total = (self.version_of(DROPPED.format(broker)) or 0) + rows
        versions = {DROPPED: total, DROPPED_BEFORE: begin_of(day)}
        try:
            self._delta.delete(
                f"broker = '{broker}' and date < '{day.isoformat()}'",
                commit_properties=self._rewriting(broker, versions),
            )
        except CommitFailedError as error:
            raise LakeBusyError(OVERTAKEN.format(broker)) from error
        self._delta.update_incremental()
        return rows

    def _rewriting(self, broker: str, versions: Mapping[str, int]) -> CommitProperties:
        """Has a commit fail if another one has replaced or removed files of the broker since the table was opened."""
        found = {**versions, REWRITES: (self.version_of(REWRITES.format(broker)) or 0) + 1}
        return CommitProperties(app_transactions=[Transaction(name.format(broker), n) for name, n in found.items()])

    def vacuum(self) -> None:
        """Delete files that no version of the last READ_ON_HOURS uses, including those of killed writers."""
        vacuum(self._delta, full=True)
        self._sync([])

    def _commit(
        self, actions: list[AddAction | RemoveAction], properties: CommitProperties, added: Sequence[LakeFile]
    ) -> None:
        schema = delta_schema(self._name)
        self._delta.create_write_transaction(actions, "append", schema, PARTITIONS, commit_properties=properties)
        self._delta.update_incremental()
        self._sync(added)

    def _sync(self, added: Sequence[LakeFile]) -> None:
        if is_local(self._root):
            sync_commits(Path(self._root), self._on_disk, [Path(self._root, file.path) for file in added])
            self._on_disk = self._delta.version()

    def _action(self, broker: str, draft: LakeFile, now_ms: int, is_new: bool = True) -> AddAction:
        column = TIMES[self._name]
        low: dict[str, Any] = {column: text_of(draft.min_ms)}
        high: dict[str, Any] = {column: text_of(draft.max_ms)}
        if self._name == "messages":
            low["physical_offset"], high["physical_offset"] = draft.min_offset, draft.max_offset
        stats = {"numRecords": draft.rows, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
        return AddAction(draft.path, draft.size, partition_of(broker, draft), now_ms, is_new, json.dumps(stats))


def created(root: str, schema: Schema, partitions: list[str]) -> DeltaTable:
    """The Delta table in a folder, which is created if there is none."""
    with suppress(CommitFailedError):  # another process has created it meanwhile
        DeltaTable.create(root, schema, partition_by=partitions, mode="ignore")
    return DeltaTable(root)


def commit_next(
    delta: DeltaTable, broker: str, application: str, known: int | None, commit: Callable[[], object]
) -> None:
    """Have ``commit`` commit what follows the version ``known`` of an application.

    delta-rs refuses even a commit that only adds files if another process has removed files of any broker meanwhile.
    Then it is tried again. LakeBusyError if another process has advanced the application.
    """
    failure: CommitFailedError | None = None
    for _ in range(TRIES):
        if delta.transaction_version(application) != known:
            break
        try:
            commit()
            return
        except CommitFailedError as error:
            failure = error
            delta.update_incremental()
    raise LakeBusyError(OVERTAKEN.format(broker)) from failure


def vacuum(delta: DeltaTable, *, full: bool) -> None:
    """Delete files that no version of the last READ_ON_HOURS uses; with ``full`` also those that no version ever used.

    Where another process commits meanwhile, the next call deletes them.
    """
    with suppress(CommitFailedError):
        delta.vacuum(READ_ON_HOURS, dry_run=False, enforce_retention_duration=False, full=full)


def partition_of(broker: str, file: LakeFile) -> dict[str, str | None]:
    """The values of a file's partition, as Delta's log has them."""
    return {"date": file.day.isoformat(), "broker": broker}


def in_groups(files: Iterable[LakeFile]) -> Iterator[list[LakeFile]]:
    """The files in their order, together as many as have at most FILE_BYTES; none alone."""
    group: list[LakeFile] = []
    for file in files:
        if sum(other.size for other in group) + file.size > FILE_BYTES:
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group


def sync_commits(root: Path, since: int, files: Sequence[Path]) -> None:
    """Have the commits behind the version ``since``, and the folders of ``files``, on the disk.

    delta-rs leaves that to the system. The broker may then delete its log.
    """
    log = root / "_delta_log"
    for path in log.iterdir():
        if path.name > f"{since + 1:020d}":  # of these versions, also checkpoints and the name of the last one
            with suppress(FileNotFoundError):  # another process has removed it
                sync_to_disk(path)
    for folder in {log, root, *(path.parent for path in files), *(path.parent.parent for path in files)}:
        sync_to_disk(folder)


def plain_schema(table: str) -> pa.Schema:
    """The columns of a table but for its partitions: also bodies and property strings, null if they were left out."""
    kinds = {field.name: field.type for field in schema_of(table, with_bodies=True)}
    return pa.schema({name: getattr(kind, "value_type", kind) for name, kind in kinds.items()})


def delta_schema(table: str) -> Schema:
    """The schema of a table."""
    return Schema.from_arrow(pa.schema([*plain_schema(table), ("date", pa.date32()), ("broker", pa.string())]))


def text_of(time_ms: int) -> str:
    """A time as Delta's statistics have it, such as 2026-01-31T10:30:00.125Z."""
    when = datetime.fromtimestamp(time_ms // 1000, UTC) + timedelta(milliseconds=time_ms % 1000)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def files_in(files: Iterable[LakeFile], from_ms: int | None, to_ms: int | None) -> list[LakeFile]:
    """The files that may have rows of the times in [from_ms, to_ms); None leaves that side open."""
    return [
        file for file in files if (from_ms is None or file.max_ms >= from_ms) and (to_ms is None or file.min_ms < to_ms)
    ]


def first_kept(now_ms: int, keep_days: int) -> date:
    """The first day (UTC) that is kept: ``keep_days`` whole days before the current one."""
    return datetime.fromtimestamp((now_ms // DAY_MS - keep_days) * DAY_MS / 1000, UTC).date()


def begin_of(day: date) -> int:
    """The beginning (UTC) of a day, ms."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
