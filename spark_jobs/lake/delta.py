"""The lake's Delta tables, with delta-rs: what they hold of a broker, appends, compaction, retention, vacuum.

An append carries Delta's transaction identifier. For messages the application is the broker and the version is the
position in its log; for polls there is an application for each file of the poll journal. So position and rows become
visible in one commit, a repeated append is recognised, and of two processes that append the same range one fails.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from spark_jobs.errors import LakeBusyError, LakeError
from spark_jobs.lake.notes import Rows
from spark_jobs.lake.storage import Location, files_of, is_local, joined, sync_to_disk
from spark_jobs.lake.tasks import TIMES, LakeFile, milliseconds, schema_of

PARTITIONS = ["date", "broker"]
DAY_MS = 86_400_000
FILE_BYTES = 128 << 20
"""Bytes of a file that compaction aims at; files of half as many are left alone."""
FEW, MANY = 4, 32
"""Small files of a day that are worth compacting: of a day that is over; of the newest one."""
READ_ON_HOURS = 6
"""How long files that no version uses any more are left to readers of an earlier version: a run of the report worker
ends within an hour, people's own queries may take longer."""

OVERTAKEN = (
    "Another process has filled the lake of {} meanwhile. What this fill had committed before is in the lake; its "
    "other files are removed. The next fill goes on behind the last commit."
)


class Table:
    """One of the tables, at its newest version, or at that of its own last commit."""

    def __init__(self, lakes: Location, name: str, delta: DeltaTable) -> None:
        self._root = joined(lakes, name)
        self._name = name
        self._delta = delta

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
        if found is None:
            root = joined(lakes, name)
            DeltaTable.create(root, delta_schema(name), partition_by=PARTITIONS, mode="ignore")
            found = cls(lakes, name, DeltaTable(root))
        return found

    def version_of(self, application: str) -> int | None:
        """The version of an application's last transaction; None before the first."""
        version: int | None = self._delta.transaction_version(application)
        return version

    def files(self, broker: str) -> list[LakeFile]:
        """The active files of a broker, oldest day first."""
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        if not actions.num_rows:
            return []
        time = TIMES[self._name]
        first, last = (milliseconds(actions.column(f"{end}.{time}")).to_pylist() for end in ("min", "max"))
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
            )
            for row, from_ms, to_ms in zip(actions.to_pylist(), first, last, strict=True)
            if row["partition.broker"] == broker
        ]
        return sorted(found, key=lambda file: (file.day, file.min_offset, file.path))

    def append(
        self, broker: str, drafts: Sequence[LakeFile], transactions: Mapping[str, tuple[int | None, int]], now_ms: int
    ) -> None:
        """Add files that were written, and advance each application from one version to another, in one commit.

        LakeBusyError if another process has advanced one of them meanwhile.
        """
        actions: list[AddAction | RemoveAction] = [self._action(broker, draft, now_ms) for draft in drafts]
        advanced = [Transaction(name, version) for name, (_, version) in transactions.items()]
        if any(self.version_of(name) != known for name, (known, _) in transactions.items()):
            raise LakeBusyError(OVERTAKEN.format(broker))
        try:
            self._delta.create_write_transaction(
                actions,
                "append",
                delta_schema(self._name),
                PARTITIONS,
                commit_properties=CommitProperties(app_transactions=advanced),
            )
        except CommitFailedError as error:
            raise LakeBusyError(OVERTAKEN.format(broker)) from error
        self._delta.update_incremental()
        if is_local(self._root):
            self._sync(Path(self._root), [draft.path for draft in drafts])

    def days_to_compact(self, broker: str) -> list[date]:
        """Days of a broker with enough small files for a compaction."""
        files = self.files(broker)
        newest = max((file.day for file in files), default=None)
        small: dict[date, int] = {}
        for file in files:
            small[file.day] = small.get(file.day, 0) + (file.size < FILE_BYTES // 2)
        return [day for day, count in sorted(small.items()) if count >= (MANY if day == newest else FEW)]

    def compact(self, broker: str, day: date) -> int:
        """Rewrite the small files of a day into larger ones. Returns the number of replaced files."""
        done = self._delta.optimize.compact(
            partition_filters=[("broker", "=", broker), ("date", "=", day.isoformat())],
            target_size=FILE_BYTES,
            writer_properties=WriterProperties(compression="ZSTD", compression_level=1),
        )
        self._delta.update_incremental()
        return int(done["numFilesRemoved"])

    def drop_before(self, broker: str, day: date, rows: int) -> None:
        """Remove a broker's rows of the days before that one. The commit counts them: so many are dropped once."""
        total = Transaction(dropped_application(broker), self.dropped_rows(broker) + rows)
        self._delta.delete(
            f"broker = '{broker}' and date < '{day.isoformat()}'",
            commit_properties=CommitProperties(app_transactions=[total]),
        )
        self._delta.update_incremental()

    def dropped_rows(self, broker: str) -> int:
        """How many rows of a broker were dropped in all."""
        return self.version_of(dropped_application(broker)) or 0

    def vacuum(self) -> None:
        """Delete files that no version of the last READ_ON_HOURS uses, including those of killed writers."""
        self._delta.vacuum(READ_ON_HOURS, dry_run=False, enforce_retention_duration=False, full=True)

    def retired_bytes(self, broker: str) -> int:
        """Bytes of the broker's files on the disk that are not active."""
        active = {file.path for file in self.files(broker)}
        return sum(size for path, size in files_of(self._root, broker).items() if path not in active)

    def _action(self, broker: str, draft: LakeFile, now_ms: int) -> AddAction:
        time = TIMES[self._name]
        low: dict[str, Any] = {time: text_of(draft.min_ms)}
        high: dict[str, Any] = {time: text_of(draft.max_ms)}
        if self._name == "messages":
            low["physical_offset"], high["physical_offset"] = draft.min_offset, draft.max_offset
        stats = {"numRecords": draft.rows, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
        partition: dict[str, str | None] = {"date": draft.day.isoformat(), "broker": broker}
        return AddAction(draft.path, draft.size, partition, now_ms, True, json.dumps(stats))

    def _sync(self, root: Path, paths: Sequence[str]) -> None:
        """Have the last commit on the disk, which delta-rs leaves to the system: the broker may then delete its log."""
        log = root / "_delta_log"
        commit = log / f"{self._delta.version():020d}.json"
        if commit.exists():  # else a checkpoint has taken its place
            sync_to_disk(commit)
        files = [root / path for path in paths]
        for folder in {log, root, *(path.parent for path in files), *(path.parent.parent for path in files)}:
            sync_to_disk(folder)


def dropped_application(broker: str) -> str:
    """Delta's application identifier whose version is the number of a broker's dropped rows."""
    return f"{broker}/dropped"


def delta_schema(table: str) -> Schema:
    """The schema of a table. It includes bodies and property strings, which are null if they were left out."""
    plain = [
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in schema_of(table, with_bodies=True)
    ]
    return Schema.from_arrow(pa.schema([*plain, ("date", pa.date32()), ("broker", pa.string())]))


def text_of(time_ms: int) -> str:
    """A time as Delta's statistics have it, such as 2026-01-31T10:30:00.125Z."""
    when = datetime.fromtimestamp(time_ms // 1000, UTC) + timedelta(milliseconds=time_ms % 1000)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def files_in(files: Iterable[LakeFile], from_ms: int | None, to_ms: int | None) -> list[LakeFile]:
    """The files that may have rows of the times in [from_ms, to_ms); None leaves that side open."""
    return [
        file for file in files if (from_ms is None or file.max_ms >= from_ms) and (to_ms is None or file.min_ms < to_ms)
    ]


def counted(files: Sequence[LakeFile]) -> Rows:
    """The numbers of rows, files and bytes of these files."""
    return Rows(sum(file.rows for file in files), len(files), sum(file.size for file in files))


def first_kept(now_ms: int, keep_days: int) -> date:
    """The first day (UTC) that is kept: ``keep_days`` whole days before the current one."""
    return datetime.fromtimestamp((now_ms // DAY_MS - keep_days) * DAY_MS / 1000, UTC).date()


def begin_of(day: date) -> int:
    """The beginning (UTC) of a day, ms."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)
