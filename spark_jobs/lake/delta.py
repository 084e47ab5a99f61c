"""A broker's part of the lake's Delta tables, with delta-rs: appends, compaction, retention, vacuum.

An append carries Delta's transaction identifier: the application is the broker, and the version is the position in its
log or poll journal. A second application names the broker's new state (``state``). So position, state and rows become
visible in one commit, a repeated append is recognised, and if two processes append the same range, one fails.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from msgspec.structs import replace
from pyarrow import dataset

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake.state import State, read_state, remove_states, write_state
from spark_jobs.lake.storage import Location, filesystem_of, is_local, joined, sync_files
from spark_jobs.lake.tasks import (
    TIMES,
    LakeFile,
    Target,
    milliseconds,
    remove_drafts,
    schema_of,
    write_one_file,
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
"""How often a commit is tried at which other commits are in the way."""


class Table:
    """What one of the tables has of a broker, at its newest version, or at that of its own last commit."""

    state: State

    def __init__(self, lakes: Location, name: str, broker: str, delta: DeltaTable) -> None:
        self._lakes = lakes
        self._root = joined(lakes, name)
        self._name = name
        self._broker = broker
        self._delta = delta
        self._on_disk = delta.version() - 1
        """Commits up to this version are on the disk. The newest one may be that of a killed process."""
        self._number = self._version_of(f"{broker}/state")
        self.state = read_state(lakes, broker, name, self._number)

    @classmethod
    def open(cls, lakes: Location, name: str, broker: str) -> "Table | None":
        """The table; None if there is none. LakeError if it cannot be read."""
        root = joined(lakes, name)
        try:
            found = cls(lakes, name, broker, DeltaTable(root))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise LakeError(f"{root} is not a Delta table that can be read: {error}.") from error
        if not found._is_of_this_version():
            raise LakeError(
                f"{root} was written by another version of GlassMQ. Delete the lake, or give another folder, and "
                "fill it anew."
            )
        return found

    @classmethod
    def create(cls, lakes: Location, name: str, broker: str) -> "Table":
        """The table, which is created if there is none."""
        found = cls.open(lakes, name, broker)
        if found is None:
            root = joined(lakes, name)
            with suppress(CommitFailedError):  # another process has created it meanwhile
                DeltaTable.create(root, delta_schema(name), partition_by=PARTITIONS, mode="ignore")
            found = cls(lakes, name, broker, DeltaTable(root))
        return found

    def _is_of_this_version(self) -> bool:
        is_empty = self._version_of(self._broker) is None
        return self._delta.schema() == delta_schema(self._name) and (is_empty or self._number is not None)

    def _version_of(self, application: str) -> int | None:
        """The version of an application's last transaction; None before the first."""
        version: int | None = self._delta.transaction_version(application)
        return version

    def files(self) -> list[LakeFile]:
        """The active files, oldest day first."""
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
            if row["partition.broker"] == self._broker
        ]
        return sorted(found, key=lambda file: (file.day, file.min_offset, file.path))

    def append(self, drafts: Sequence[LakeFile], state: State, now_ms: int) -> None:
        """Add files that were written, and set the state, in one commit.

        LakeBusyError if another process has changed the state meanwhile.
        """
        place = state.journal
        position = place.number << 32 | place.end if place else state.position or 0
        actions = [self._add(draft, now_ms) for draft in drafts]
        self._change(state, {self._broker: position}, lambda properties: self._write(actions, properties))

    def drop_before(self, day: date) -> int:
        """Remove the rows of the days before that one, and count them in the same commit. Returns their number.

        LakeBusyError if another process has changed the state meanwhile.
        """
        rows = sum(file.rows for file in self.files() if file.day < day)
        if rows:
            old = f"broker = '{self._broker}' and date < '{day.isoformat()}'"
            state = replace(self.state, dropped=self.state.dropped + rows, dropped_before_ms=begin_of(day))
            self._change(
                state, self._rewritten(), lambda properties: self._delta.delete(old, commit_properties=properties)
            )
        return rows

    def _change(self, state: State, versions: dict[str, int], commit: Callable[[CommitProperties], Any]) -> None:
        """Have ``commit`` make a commit that sets the state, unless another process has changed the known state.

        delta-rs refuses even a commit that only adds files if another process has removed files of any broker
        meanwhile. Then it is tried again.
        """
        number, failure = write_state(self._lakes, self._broker, self._name, state), None
        application = f"{self._broker}/state"
        properties = properties_of(versions | {application: number})
        for _ in range(TRIES):
            if self._version_of(application) != self._number:
                break
            try:
                commit(properties)
                failure = None
            except CommitFailedError as error:
                failure = error
            self._committed()
            if failure is None or self._version_of(application) == number:  # S3's answer may be lost
                self.state, self._number = state, number
                return
        raise LakeBusyError(
            f"Another process has filled the lake of {self._broker} meanwhile. What this fill had committed before is "
            "in the lake; its other files are removed. The next fill goes on behind the last commit."
        ) from failure

    def days_to_compact(self) -> list[date]:
        """Days with enough small files for a compaction."""
        files = self.files()
        newest = max((file.day for file in files), default=None)
        small: dict[date, int] = {}
        for file in files:
            small[file.day] = small.get(file.day, 0) + (file.size < FILE_BYTES // 2)
        return [day for day, count in sorted(small.items()) if count >= (MANY if day == newest else FEW)]

    def compact(self, day: date, now_ms: int) -> int:
        """Replace the small files of a day by larger ones with the same rows. Returns the number of replaced files.

        0 if another process has replaced or removed files of the broker meanwhile. delta-rs's own compaction does not
        notice that, and the rows would be there twice. Vacuum deletes replaced files READ_ON_HOURS after ``now_ms``.
        """
        target = Target(str(self._lakes), self._broker, uuid4().hex[:8])
        count = 0
        for old in in_groups(file for file in self.files() if file.day == day and file.size < FILE_BYTES // 2):
            if not {file.path for file in old} <= {file.path for file in self.files()}:
                break  # another process has replaced them since the files were listed
            try:
                self._replace(target, old, now_ms)
            except BaseException as error:
                self._delta.update_incremental()  # the commit may have been made nevertheless
                remove_drafts(target, self._name, self.files())
                if isinstance(error, CommitFailedError):
                    break
                raise
            count += len(old)
        return count

    def _replace(self, target: Target, old: Sequence[LakeFile], now_ms: int) -> None:
        schema, paths = plain_schema(self._name), [file.path.removeprefix(f"{self._root}/") for file in old]
        name = f"compacted={old[0].min_offset:020d}-{old[-1].max_offset:020d}-{target.fill}-0.parquet"
        below = f"{paths[0].rpartition('/')[0]}/{name}"
        new = write_one_file(target, self._name, below, schema, rows_of([file.path for file in old], schema))
        actions: list[AddAction | RemoveAction] = [self._add(new, now_ms, False)]
        for file, path in zip(old, paths, strict=True):
            actions.append(RemoveAction(path, False, now_ms, file.size, self._partition(file)))
        self._write(actions, properties_of(self._rewritten()))
        self._committed()

    def _rewritten(self) -> dict[str, int]:
        """The next version of the application ``rewrites``. Of two commits with the same version, one fails."""
        application = f"{self._broker}/rewrites"
        return {application: (self._version_of(application) or 0) + 1}

    def vacuum(self, now_ms: int) -> None:
        """Delete files and states that no version of the last READ_ON_HOURS uses, including those of killed writers."""
        with suppress(CommitFailedError):  # another process commits meanwhile; the next fill deletes them
            self._delta.vacuum(READ_ON_HOURS, dry_run=False, enforce_retention_duration=False, full=True)
            self._committed()
        number = self._version_of(f"{self._broker}/state")
        remove_states(self._lakes, self._broker, self._name, number, now_ms - READ_ON_HOURS * 3_600_000)

    def _write(self, actions: Sequence[AddAction | RemoveAction], properties: CommitProperties) -> None:
        schema = delta_schema(self._name)
        self._delta.create_write_transaction([*actions], "append", schema, PARTITIONS, commit_properties=properties)

    def _committed(self) -> None:
        """Read the commit that was made, and write it to the disk."""
        self._delta.update_incremental()
        self.sync()

    def sync(self) -> None:
        """Write the known commits to the disk. delta-rs leaves that to the operating system."""
        if is_local(self._root):
            for path in Path(self._root, "_delta_log").iterdir():
                if path.name > f"{self._on_disk + 1:020d}":  # also checkpoints and the name of the last one
                    with suppress(FileNotFoundError):  # another process has removed it
                        sync_files([path])
            self._on_disk = self._delta.version()

    def _partition(self, file: LakeFile) -> dict[str, str | None]:
        return {"date": file.day.isoformat(), "broker": self._broker}

    def _add(self, draft: LakeFile, now_ms: int, is_new: bool = True) -> AddAction:
        column = TIMES[self._name]
        low: dict[str, Any] = {column: f"{np.datetime64(draft.min_ms, 'ms')}Z"}
        high: dict[str, Any] = {column: f"{np.datetime64(draft.max_ms, 'ms')}Z"}
        if self._name == "messages":
            low["physical_offset"], high["physical_offset"] = draft.min_offset, draft.max_offset
        stats = {"numRecords": draft.rows, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
        return AddAction(draft.path, draft.size, self._partition(draft), now_ms, is_new, json.dumps(stats))


def properties_of(versions: dict[str, int]) -> CommitProperties:
    """Properties with which a commit advances applications, and fails if another one has done so meanwhile."""
    return CommitProperties(app_transactions=[Transaction(name, version) for name, version in versions.items()])


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


def rows_of(paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of Parquet files in this schema, one row group after the other. Columns that a file lacks are null."""
    for path in paths:
        filesystem, inside = filesystem_of(path)
        for group in dataset.ParquetFileFormat().make_fragment(inside, filesystem=filesystem).split_by_row_group():
            yield from group.to_batches(schema)


def plain_schema(table: str) -> pa.Schema:
    """The columns of a table but for its partitions: also bodies and property strings, null if they were left out."""
    kinds = {field.name: field.type for field in schema_of(table, with_bodies=True)}
    return pa.schema({name: getattr(kind, "value_type", kind) for name, kind in kinds.items()})


def delta_schema(table: str) -> Schema:
    """The schema of a table."""
    return Schema.from_arrow(pa.schema([*plain_schema(table), ("date", pa.date32()), ("broker", pa.string())]))


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
