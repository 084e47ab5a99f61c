"""What Spark's tasks do for a lake: fill it, and read it behind a URL.

A task that fills writes Parquet files from a range of the commit log or a file of the poll journal. pyarrow writes them
where the log is read: none of the data goes through Java. The files are in the folders of a Delta table, but belong to
it only when the driver commits them (see ``sync``).
"""

import hashlib
import socket
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet
from pyarrow.fs import FileType

from broker_core.formats.poll_journal import decode_blocks, decode_header
from spark_jobs.errors import LakeError
from spark_jobs.lake.storage import filesystem_of, is_local, joined, remove_files, sync_files
from spark_jobs.sources import commit_log_columns, poll_journal_columns
from spark_jobs.sources.commit_log_bounds import LAST_MS, Bounds
from spark_jobs.sources.commit_log_columns import COLUMN_TYPES, NUMBERS, record_batch
from spark_jobs.sources.commit_log_damage import PlausibleRecords, Scanned
from spark_jobs.sources.commit_log_segments import LogRange, open_segment
from spark_jobs.sources.poll_journal_files import JournalPosition, read_file

BODIES = ("properties", "body")
MESSAGE_COLUMNS = tuple(name for name in COLUMN_TYPES if name not in BODIES)
POLL_COLUMNS = tuple(name for name in poll_journal_columns.COLUMN_TYPES if name != "broker")
"""All but the name in the journal's header: ``broker`` is the table's partition."""
TIMES = {"messages": "store_ts", "polls": "at_ts"}
"""The column of a table that decides to which day a row belongs."""
TIMESTAMP, MS_TIMESTAMP = pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="UTC")
TIMESTAMPS = {
    "born_ts": "born_ts",
    "store_ts": "store_ts",
    "due_ts": "due_ts",
    "at_ms": "at_ts",
    "oldest_store_ms": "oldest_store_ts",
}
"""Columns of log and journal that are numbers of ms there and timestamps in the lake, and their names in the lake."""
DICTIONARIES = ("topic", "born_host")
WRITTEN: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "store_schema": False}
"""How Parquet files are written."""
GROUP_ROWS = 262_144
"""Rows of a row group. With bodies each batch is a row group, so that few bodies wait in memory."""
GROUP_BYTES = 64 << 20
"""Bytes in memory of a row group that a compaction writes, about, if its rows are large."""
MOST_DATES = 64
"""Files that a task has open at once, because a log may have any number of days."""
OF_JOURNAL = LOST, UNREAD, CUT_OFF = "lost", "unread", "cut off"
"""What may be missing of the poll journal: entries that the broker could not write; files that were deleted or damaged
before they were read to their end; files whose last entries a crash may have taken."""
SMALL_FILE = 8 << 20
"""Files in an S3 of at most so many bytes are fetched as a whole."""
ROWS = 65_536
"""Rows of a batch that a task reads from behind a URL."""


class Target(NamedTuple):
    """Where tasks write: the folder of the lake, the broker that files are of, and the fill, which is in their names.

    ``bounds``: records outside of them are left out. ``with_bodies``: bodies and property strings are written, too.
    """

    lakes: str
    broker: str
    fill: str
    bounds: Bounds = Bounds()
    with_bodies: bool = False


class JournalPart(NamedTuple):
    """A file of the poll journal from byte ``start`` on."""

    path: str
    number: int
    created_ms: int
    start: int


class LakeFile(msgspec.Struct, frozen=True):
    """A Parquet file of a table: its path, day (UTC), rows, bytes, the smallest and largest time of its rows (ms).

    The path of a file that is not committed yet is below its table. Physical offsets are 0 for polls.
    ``written_ms``: when it was committed.
    """

    path: str
    day: date
    rows: int
    size: int
    min_ms: int
    max_ms: int
    min_offset: int = 0
    max_offset: int = 0
    written_ms: int = 0


class LogDone(Scanned, frozen=True, tag="log"):
    """The result of writing a range of the log. ``gone``: its segment did not exist."""

    files: Sequence[LakeFile] = ()
    gone: bool = False
    last_record: tuple[int, int, int] | None = None
    """Offset, size and digest of the last record; None if there was none."""


class JournalDone(msgspec.Struct, frozen=True, tag="journal"):
    """The result of writing a part of the journal, which was read up to ``position``.

    ``lost``: entries that the broker could not write. ``is_damaged``: the file is gone, or does not end with a valid
    block.
    """

    position: JournalPosition
    files: list[LakeFile] = []
    lost: int = 0
    is_damaged: bool = False


Work = LogRange | JournalPart
Done = LogDone | JournalDone


def carry_out(target: Target, work: Work) -> Done:
    """Write the files of one work."""
    return write_log(target, work) if isinstance(work, LogRange) else write_journal(target, work)


def carry_out_in_spark(
    target: Target, bundles: Sequence[Sequence[Work]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """``carry_out`` as Spark's mapInArrow calls it: numbers of bundles of works in, results out."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            done = [msgspec.json.encode(carry_out(target, work)) for work in bundles[number]]
            yield pa.RecordBatch.from_arrays([pa.array(done, pa.binary())], names=["done"])


def write_log(target: Target, part: LogRange) -> LogDone:
    """Write a range of the log into a file for each day (UTC) of store time. NotAStoreError if it sees no log."""
    of_log, schema = source_schema("messages", target.with_bodies), schema_of("messages", target.with_bodies)
    segment, (_, base, start, end, _) = open_segment(part), part
    if segment is None:
        return LogDone(start, end, gone=True)
    records = PlausibleRecords(segment, part, target.bounds)
    batches = (in_lake(record_batch(segment, kept, of_log), schema) for kept in records)
    name = f"range={start:020d}-{end:020d}"
    drafts = write_files(target, "messages", name, schema, batches, 0 if target.with_bodies else GROUP_ROWS)
    record = segment.buffer[records.last]
    last_record = (base + records.last.start, len(record), digest_of(record)) if record else None
    found = records.scanned
    return LogDone(start, end, found.gaps, found.first_ms, found.last_ms, drafts, last_record=last_record)


def digest_of(record: bytes) -> int:
    """63 bits that identify the bytes of a record."""
    return int.from_bytes(hashlib.blake2b(record, digest_size=8).digest(), "big") >> 1


def schema_of(table: str, with_bodies: bool = False) -> pa.Schema:
    """The columns of a table's files: those of the source, with timestamps."""
    return pa.schema([in_lake_field(field) for field in source_schema(table, with_bodies)])


def in_lake_field(field: pa.Field) -> pa.Field:
    """A column of log or journal as the lake has it."""
    return field.with_name(TIMESTAMPS[field.name]).with_type(TIMESTAMP) if field.name in TIMESTAMPS else field


def in_lake(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of log or journal with the schema of the lake. Times behind the year 9999 are null."""
    columns = [
        pc.if_else(pc.less_equal(column, LAST_MS), column, None).view(MS_TIMESTAMP).cast(TIMESTAMP)
        if name in TIMESTAMPS
        else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def milliseconds(times: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Timestamps as numbers of ms."""
    return times.cast(MS_TIMESTAMP).cast(pa.int64())


def source_schema(table: str, with_bodies: bool = False) -> pa.Schema:
    """The columns that are read for a table. What every message has is never null, and a dictionary if few differ."""
    if table == "polls":
        return poll_journal_columns.TABLE.arrow(POLL_COLUMNS)
    fields = []
    for field in commit_log_columns.TABLE.arrow(MESSAGE_COLUMNS + (BODIES if with_bodies else ())):
        kind = pa.dictionary(pa.int32(), pa.string()) if field.name in DICTIONARIES else field.type
        fields.append(pa.field(field.name, kind, nullable=field.name not in (*NUMBERS, *DICTIONARIES)))
    return pa.schema(fields)


def write_journal(target: Target, part: JournalPart) -> JournalDone:
    """Write the new entries of a file of the journal, as far as it can be read now."""
    data = read_file(part.path) or b""
    header = decode_header(data)
    end, closed, lost = part.start, False, 0
    if header is None or header.created_ms != part.created_ms:
        return JournalDone(JournalPosition(part.number, part.created_ms, end), is_damaged=True)
    for block in decode_blocks(data, header):
        lost += block.lost if block.end > part.start else 0
        end, closed = max(end, block.end), block.closes
    name = f"file={part.number:020d}-{part.created_ms:013d}-{part.start:010d}-{end:010d}"
    schema, read = schema_of("polls"), poll_journal_columns.record_batches
    batches = (in_lake(batch, schema) for batch in read(data, POLL_COLUMNS, start=part.start))
    drafts = write_files(target, "polls", name, schema, batches, GROUP_ROWS)
    return JournalDone(JournalPosition(part.number, part.created_ms, end, closed), drafts, lost, len(data) > end)


def write_files(
    target: Target, table: str, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], group_rows: int
) -> list[LakeFile]:
    """Write rows, in their order, into a Parquet file for each day (UTC) of their times, and wait for the disk.

    Days that were closed to make room for others go on in another file. Row groups have at least ``group_rows`` rows,
    but for the last one of a file. LakeError on a machine that does not see the lake: its files would be nowhere.
    """
    root = joined(target.lakes, table)
    filesystem, inside = filesystem_of(root)
    if filesystem.get_file_info(inside).type != FileType.Directory:
        raise LakeError(
            f"{socket.gethostname()} does not see {root}: the machines of a cluster need the lake under the same path, "
            "on storage that they share."
        )
    days = pa.schema([("date", pa.date32()), ("broker", pa.string())])
    whole = pa.unify_schemas([schema, days])
    time, form = TIMES[table], dataset.ParquetFileFormat()
    written: list[Any] = []

    def with_day(batch: pa.RecordBatch) -> pa.RecordBatch:
        date = batch.column(time).cast(pa.date32())
        broker = pa.repeat(target.broker, batch.num_rows)
        return pa.RecordBatch.from_arrays([*batch.columns, date, broker], schema=whole)

    dataset.write_dataset(
        (with_day(batch) for batch in batches),
        inside,
        filesystem=filesystem,
        create_dir=is_local(root),
        schema=whole,
        format=form,
        file_options=form.make_write_options(**WRITTEN),
        partitioning=dataset.partitioning(days, flavor="hive"),
        basename_template=f"{name}-{target.fill}-{{i}}.parquet",
        existing_data_behavior="overwrite_or_ignore",  # of this range by an attempt that failed
        use_threads=False,
        min_rows_per_group=group_rows,
        max_rows_per_group=GROUP_ROWS,
        max_open_files=MOST_DATES,
        file_visitor=written.append,
    )
    if is_local(root):
        sync_files([file.path for file in written])
    drafts = (draft_of(file.path.removeprefix(inside).lstrip("/"), file.metadata, file.size, time) for file in written)
    return sorted(drafts, key=lambda draft: draft.path)


def write_one_file(
    target: Target, table: str, below: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> LakeFile:
    """Write rows of one day into the file ``below`` the table, and wait for the disk.

    A row group is written before the rows of the next one are read. ``write_files`` would have all rows in memory:
    pyarrow's datasets read 64 million rows ahead of what is written.
    """
    path, about = joined(target.lakes, table, below), list[Any]()
    filesystem, inside = filesystem_of(path)
    with filesystem.open_output_stream(inside) as file:
        with parquet.ParquetWriter(file, schema, metadata_collector=about, **WRITTEN) as writer:
            for rows in in_row_groups(batches):
                writer.write_table(rows, GROUP_ROWS)
        size = file.tell()
    if is_local(target.lakes):
        sync_files([path])
    return draft_of(below, about[0], size, TIMES[table])


def in_row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of batches, each time about as many as a row group has."""
    waiting, rows, size = list[pa.RecordBatch](), 0, 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def remove_drafts(target: Target, table: str, kept: Iterable[LakeFile]) -> None:
    """Remove the files of a table that this fill has written, except those to keep. OSError."""
    names = {file.path.rpartition("/")[2] for file in kept}
    remove_files(
        joined(target.lakes, table), lambda info: f"-{target.fill}-" in info.base_name and info.base_name not in names
    )


def draft_of(below: str, metadata: parquet.FileMetaData, size: int, time: str) -> LakeFile:
    """A file that pyarrow has written, by its path below the table, with the bounds from its statistics."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    names = metadata.schema.names

    def smallest_and_largest(name: str) -> tuple[Any, Any]:
        if name not in names:
            return 0, 0
        found = [group.column(names.index(name)).statistics for group in groups]
        return min(each.min for each in found), max(each.max for each in found)

    day = date.fromisoformat(below.partition("/")[0].removeprefix("date="))
    min_ms, max_ms = milliseconds(pa.array(smallest_and_largest(time), TIMESTAMP)).to_pylist()
    rows, offsets = metadata.num_rows, smallest_and_largest("physical_offset")
    return LakeFile(below, day, rows, size, min_ms, max_ms, *offsets)


def read_remote(
    paths: Sequence[str],
    schema: pa.Schema,
    window: tuple[str, int | None, int | None],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The rows of some Parquet files, as Spark's mapInArrow calls it: numbers of paths in, batches of ``schema`` out.

    ``schema`` is that of a log or a journal, so times are numbers of ms. Bodies and properties that were left out are
    null. Row groups without a row of the ``window`` (column, from, to) are not fetched.
    """
    time, wanted = TIMESTAMPS[window[0]], pc.scalar(True)
    from_time, to_time = pa.array(window[1:], MS_TIMESTAMP).cast(TIMESTAMP)
    if from_time.is_valid:
        wanted &= dataset.field(time) >= from_time
    if to_time.is_valid:
        wanted &= dataset.field(time) < to_time
    stored = pa.schema({field.name: field.type for field in [*map(in_lake_field, schema), pa.field(time, TIMESTAMP)]})
    names = stored.names[: len(schema)]
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            file = _open_remote(paths[number])
            for found in file.to_batches(stored, names, wanted, batch_size=ROWS, batch_readahead=1):
                columns = [milliseconds(each) if each.type == TIMESTAMP else each for each in found.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _open_remote(path: str) -> dataset.Fragment:
    """A Parquet file. A small one is fetched by one call.

    That takes less time than a call for each column. The S3 client also tries it again when the S3 is busy; it does
    not repeat a call for fewer bytes than the S3's error message has.
    """
    filesystem, inside = filesystem_of(path)
    form = dataset.ParquetFileFormat()
    with filesystem.open_input_file(inside) as file:
        if file.size() <= SMALL_FILE:
            return form.make_fragment(pa.BufferReader(file.read()))
    return form.make_fragment(inside, filesystem=filesystem)
