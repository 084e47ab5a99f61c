"""What a lake's tasks do, each for a range of the commit log or a file of the poll journal: write Parquet files.

pyarrow writes them where the log is read: none of the data goes through Java. The files are in the folders of a Delta
table, but belong to it only when the driver commits them (see ``sync``).
"""

import os
import socket
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from broker_core.formats.poll_journal import decode_blocks, decode_header
from spark_jobs.errors import LakeError
from spark_jobs.sources import poll_journal_columns
from spark_jobs.sources.commit_log_bounds import Bounds
from spark_jobs.sources.commit_log_columns import COLUMN_TYPES, NUMBERS, Source, arrow_schema, parts, record_batch
from spark_jobs.sources.commit_log_due import DueTimes
from spark_jobs.sources.commit_log_files import local_path
from spark_jobs.sources.commit_log_headers import Segment
from spark_jobs.sources.commit_log_segments import require_log_folder
from spark_jobs.sources.commit_log_walk import RecordWalk
from spark_jobs.sources.poll_journal_files import read_file

BODIES = ("properties", "body")
MESSAGE_COLUMNS = tuple(name for name in COLUMN_TYPES if name not in BODIES)
POLL_COLUMNS = tuple(name for name in poll_journal_columns.COLUMN_TYPES if name != "broker")
"""All but the name in the journal's header: ``broker`` is the table's partition."""
TIMES = {"messages": "store_ts", "polls": "at_ms"}
"""By which a row of a table belongs to a day."""
DELTAS = frozenset(
    (
        "physical_offset",
        "queue_offset",
        "queue_id",
        "total_size",
        "body_length",
        "born_ts",
        "store_ts",
        "due_ts",
        "prepared_offset",
        "at_ms",
        "from_offset",
        "next_offset",
        "max_offset",
        "oldest_store_ms",
        "latency_ms",
    )
)
"""Numbers that differ little from the one before: the difference is stored."""
DENSE = frozenset(("physical_offset", "queue_offset", "queue_id", "total_size", "body_length"))
"""Of those, what a compressor would only take time for."""
PREFIXES = frozenset(("origin_message_id", "properties"))
"""Texts that begin as the one before: what is different is stored."""
DICTIONARIES = ("topic", "born_host")
SPLIT = frozenset(("body_crc",))
"""Numbers that are like nothing before: their bytes are stored apart, those that are always 0 take no room."""
PLAIN = frozenset(("body", "keys", "uniq_key", "sys_flag", "flag", "reconsume_times"))
"""Values that are all different or nearly all the same: the compressor does best with them as they are."""
UNORDERED = PREFIXES | SPLIT | frozenset(("body", "keys", "uniq_key", "topic", "born_host", "tags"))
"""Columns of which it says nothing what their smallest and their largest value are."""
GROUP_ROWS = 262_144
GROUP_BYTES = 64 * 1024 * 1024
"""Rows, and bytes of them in memory, that are written as one group of rows."""
WRITTEN_ROWS = 16_384
"""Rows of a column that are encoded at a time."""
MOST_DATES = 64
"""Files that a task has open at once: a log may tell of as many days as it likes."""
DAY_MS = 86_400_000
FIRST_DAY, LAST_DAY = 0, 2_932_896
"""1970-01-01 and 9999-12-31, as days: where times go that are before and behind."""


class Target(msgspec.Struct, frozen=True):
    """The folder of the lake, the broker that files are of, and the round that writes them, which is in their names."""

    lakes: str
    broker: str
    round: str


class LogWork(msgspec.Struct, frozen=True, tag="log"):
    """Bytes [start, end) of the segment at ``path``, which begins at ``base``.

    ``target`` is where the files go, see ``Target``.
    """

    store: str
    target: Target
    path: str
    base: int
    start: int
    end: int
    with_bodies: bool
    bounds: Bounds


class JournalWork(msgspec.Struct, frozen=True, tag="journal"):
    """A file of the poll journal from byte ``start`` on."""

    target: Target
    path: str
    number: int
    created_ms: int
    start: int


class Draft(msgspec.Struct, frozen=True):
    """A file that was written: its path below its table, its day, and what is in it.

    ``min_offset``, ``max_offset``: physical offsets, 0 for polls.
    """

    path: str
    date: str
    rows: int
    size: int
    min_ms: int
    max_ms: int
    min_offset: int = 0
    max_offset: int = 0


class LogDone(msgspec.Struct, frozen=True, tag="log"):
    """What became of a LogWork. ``gone``: its segment was not there; ``last_offset`` -1: there was no record."""

    start: int
    end: int
    drafts: list[Draft]
    gone: bool = False
    torn_bytes: int = 0
    left_out: dict[str, int] = {}
    """Records with an implausible field, by the field."""
    last_offset: int = -1
    last_size: int = 0


class JournalDone(msgspec.Struct, frozen=True, tag="journal"):
    """What became of a JournalWork: it was read up to ``end``. ``closed``: nothing more will come."""

    number: int
    created_ms: int
    start: int
    end: int
    drafts: list[Draft]
    closed: bool = False
    lost: int = 0


Work = LogWork | JournalWork
Done = LogDone | JournalDone


def carry_out(work: Work) -> Done:
    """Write the files of one work."""
    return write_log(work) if isinstance(work, LogWork) else write_journal(work)


def carry_out_in_spark(bundles: Sequence[bytes], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``carry_out`` as Spark's mapInArrow calls it: numbers of bundles of works in, results out."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for work in msgspec.json.decode(bundles[number], type=list[Work]):
                done = msgspec.json.encode(carry_out(work)).decode()
                yield pa.RecordBatch.from_arrays([pa.array([done], pa.string())], names=["done"])


def write_log(work: LogWork) -> LogDone:
    """A range of the log into a file for each day (UTC) of store time. NotAStoreError where no log is to be seen."""
    columns = MESSAGE_COLUMNS + (BODIES if work.with_bodies else ())
    schema = schema_of("messages", work.with_bodies)
    try:
        segment = Segment.open(work.path, work.base, work.start, work.end)
    except FileNotFoundError:
        require_log_folder(work.path)
        return LogDone(work.start, work.end, [], gone=True)
    source = Source(segment, DueTimes(local_path(work.store)))
    walk = RecordWalk(segment, work.start - segment.base, work.end - segment.base, resume=True)
    last_offset, last_size, left_out = -1, 0, Counter[str]()
    with DayFiles(work.target, "messages", f"range={work.start:020d}-{work.end:020d}", schema) as files:
        for headers in walk:
            last_offset, last_size = segment.base + int(headers.at[-1]), int(headers.size[-1])
            for part in parts(source, work.bounds.plausible(segment, headers, left_out), columns):
                files.write(record_batch(part, schema))
        drafts = files.finish()
    return LogDone(
        work.start,
        work.end,
        drafts,
        torn_bytes=sum(gap.stop - gap.start for gap in walk.gaps),
        left_out=left_out,
        last_offset=last_offset,
        last_size=last_size,
    )


def schema_of(table: str, with_bodies: bool = False) -> pa.Schema:
    """The columns of a table's files."""
    if table == "messages":
        return as_written(arrow_schema(MESSAGE_COLUMNS + (BODIES if with_bodies else ())))
    return poll_journal_columns.arrow_schema(POLL_COLUMNS)


def as_written(schema: pa.Schema) -> pa.Schema:
    """The schema of batches for a file: topics and addresses as dictionaries, since there are few different ones, and
    these and numbers as never null, so that no row is asked."""
    fields = []
    for field in schema:
        kind = pa.dictionary(pa.int32(), pa.string()) if field.name in DICTIONARIES else field.type
        fields.append(pa.field(field.name, kind, nullable=field.name not in NUMBERS and field.name not in DICTIONARIES))
    return pa.schema(fields)


def write_journal(work: JournalWork) -> JournalDone:
    """What is new in a file of the journal, as far as it can be read now."""
    data = read_file(work.path) or b""
    header = decode_header(data)
    end, closed, lost = work.start, False, 0
    if header is None or header.created_ms != work.created_ms:
        return JournalDone(work.number, work.created_ms, end, end, [])
    for block in decode_blocks(data, header):
        lost += block.lost if block.end > work.start else 0
        end, closed = max(end, block.end), block.closes
    name = f"file={work.number:020d}-{work.created_ms:013d}-{work.start:010d}-{end:010d}"
    with DayFiles(work.target, "polls", name, schema_of("polls")) as files:
        for batch in poll_journal_columns.record_batches(data, POLL_COLUMNS, start=work.start, stop=end):
            files.write(batch)
        drafts = files.finish()
    return JournalDone(work.number, work.created_ms, work.start, end, drafts, closed, lost)


class DayFiles:
    """A Parquet file for each day; rows of days that were closed to make room go to another file of that day.

    LakeError on a machine that does not see the lake: what it writes would be nowhere.
    """

    def __init__(self, target: Target, table: str, name: str, schema: pa.Schema) -> None:
        self._broker = target.broker
        self._root = Path(target.lakes) / table
        self._name = f"{name}-{target.round}"
        self._schema = schema
        self._time = TIMES[table]
        self._open: OrderedDict[int, DayFile] = OrderedDict()
        self._done: list[Draft] = []
        if not self._root.is_dir():
            raise LakeError(
                f"{socket.gethostname()} does not see {self._root}: the machines of a cluster need the lake "
                "under the same path, on storage that they share."
            )

    def __enter__(self) -> "DayFiles":
        return self

    def __exit__(self, *_: object) -> None:
        """Remove files that were not finished."""
        for file in self._open.values():
            file.remove()

    def write(self, batch: pa.RecordBatch) -> None:
        """Rows, in their order, to the days of their times."""
        times: NDArray[np.int64] = batch.column(self._time).to_numpy()
        days = np.clip(times // DAY_MS, FIRST_DAY, LAST_DAY)
        if not len(days):
            return
        if days[0] == days[-1] and (days == days[0]).all():
            self._file(int(days[0])).write(batch, times)
            return
        for day in np.unique(days).tolist():
            mine = np.flatnonzero(days == day)
            self._file(day).write(batch.take(pa.array(mine)), times[mine])

    def finish(self) -> list[Draft]:
        """All files, on the disk."""
        while self._open:
            self._close()
        return self._done

    def _file(self, day: int) -> "DayFile":
        if day not in self._open:
            if len(self._open) == MOST_DATES:
                self._close()
            date = datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date().isoformat()
            path = f"date={date}/broker={self._broker}/{self._name}"
            again = sum(done.path.startswith(path) for done in self._done)
            path = f"{path}{f'-{again}' if again else ''}.parquet"
            self._open[day] = DayFile(self._root / path, path, date, self._schema)
        return self._open[day]

    def _close(self) -> None:
        day, file = next(iter(self._open.items()))
        self._done.append(file.finish())
        del self._open[day]


class DayFile:
    """One Parquet file while it is written."""

    def __init__(self, file: Path, path: str, date: str, schema: pa.Schema) -> None:
        self._path = path
        self._date = date
        self._on_disk = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(file, "wb")  # noqa: SIM115 - closed by finish or remove
        try:
            self._writer = parquet.ParquetWriter(self._file, schema, **settings(schema.names))
        except BaseException:
            self._discard()
            raise
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._rows = 0
        self._min_ms, self._max_ms = 1 << 62, -(1 << 62)
        self._offsets: list[int] = []
        """The first and the last physical offset, if the rows have any; they ascend."""

    def write(self, batch: pa.RecordBatch, times: NDArray[np.int64]) -> None:
        """Rows with their times."""
        self._min_ms = min(self._min_ms, int(times.min()))
        self._max_ms = max(self._max_ms, int(times.max()))
        if "physical_offset" in batch.schema.names:
            offsets = batch.column("physical_offset")
            self._offsets = [*self._offsets[:1], offsets[0].as_py(), offsets[-1].as_py()]
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._write_group()

    def finish(self) -> Draft:
        """The file is on the disk."""
        self._write_group()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        first, last = (self._offsets[0], self._offsets[-1]) if self._offsets else (0, 0)
        return Draft(self._path, self._date, self._rows, size, self._min_ms, self._max_ms, first, last)

    def remove(self) -> None:
        """Remove the file."""
        self._writer.is_open = False  # or it would write the end of its file when it is collected
        self._discard()

    def _discard(self) -> None:
        self._file.close()
        self._on_disk.unlink(missing_ok=True)

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(
                pa.Table.from_batches(self._waiting).unify_dictionaries(), row_group_size=self._waiting_rows
            )
            self._rows += self._waiting_rows
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def settings(columns: Sequence[str]) -> dict[str, Any]:
    """How pyarrow is to write these columns."""
    encodings = {name: "DELTA_BINARY_PACKED" for name in columns if name in DELTAS}
    encodings |= {name: "DELTA_BYTE_ARRAY" for name in columns if name in PREFIXES}
    encodings |= {name: "BYTE_STREAM_SPLIT" for name in columns if name in SPLIT}
    return {
        "store_schema": False,
        "data_page_version": "2.0",
        "write_batch_size": WRITTEN_ROWS,
        "column_encoding": encodings,
        "compression": {name: "none" if name in DENSE else "zstd" for name in columns},
        "compression_level": {name: 1 for name in columns if name not in DENSE},
        "use_dictionary": [name for name in columns if name not in encodings and name not in PLAIN],
        "write_statistics": [name for name in columns if name not in UNORDERED],
    }
