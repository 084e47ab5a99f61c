"""What a lake has of a broker: its rows in two Delta tables, for reports over weeks, and what it lacks.

<lakes>/messages    a Delta table, partitioned by date (UTC) and broker
<lakes>/polls       the same, of the poll journal
<lakes>/gaps        a Delta table of what is missing (``gaps``)
"""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from broker_core.formats.commit_log_record import INT
from spark_jobs.errors import LakeError
from spark_jobs.lake.delta import CREATED, DIGEST, DROPPED, DROPPED_BEFORE, GAPS, LAST_RECORD, Table
from spark_jobs.lake.gaps import read_gaps
from spark_jobs.lake.storage import TABLES, Location
from spark_jobs.lake.tasks import DELETED, UNREAD, Gap, LakeFile, digest_of
from spark_jobs.sources.commit_log_files import find_segments, map_file
from spark_jobs.sources.commit_log_segments import log_begin
from spark_jobs.sources.poll_journal_files import JournalPosition

CLOSED = 1 << 31
"""The bit of a position in the poll journal that says that the file was closed; below it are its bytes that were read,
above it is its number."""


class Dropped(NamedTuple):
    """Rows that retention has removed, of days before a time; 0 if it has removed none."""

    before_ms: int = 0
    messages: int = 0
    polls: int = 0


class Lake(NamedTuple):
    """What the lake in ``folder`` has of a broker.

    ``position``: all bytes of the log below it were read, or are among the gaps; None before the first commit.
    ``journal``: how far the poll journal was read; None if nothing was. ``last_record``: (offset, digest) of the last
    record that was read, None without any.
    """

    folder: str
    broker: str
    position: int | None
    journal: JournalPosition | None
    last_record: tuple[int, int] | None
    messages: list[LakeFile]
    polls: list[LakeFile]
    gaps: list[Gap]
    dropped: Dropped
    versions: dict[str, int]
    """The version of the gaps that counts for each table."""

    @property
    def amounts(self) -> Counter[str]:
        """How much is missing, by ``Gap.what``."""
        found = Counter[str]()
        for gap in self.gaps:
            found[gap.what] += gap.amount
        return found

    @property
    def deleted_bytes(self) -> int:
        """Bytes of the log that were deleted before they were read."""
        return self.amounts[DELETED]

    @property
    def unread_files(self) -> int:
        """Files of the poll journal that were deleted or damaged before they were read to their end."""
        return self.amounts[UNREAD]

    @property
    def last_ms(self) -> int | None:
        """The store time of the last record; None if the lake has no message."""
        last = max(self.messages, key=lambda file: file.max_offset, default=None)
        return None if last is None else last.max_ms

    @property
    def written_ms(self) -> int:
        """When files were written last; 0 without any."""
        return max((file.written_ms for file in (*self.messages, *self.polls)), default=0)


def find_lake(lakes: Location, broker: str) -> Lake | None:
    """What the lake has of a broker; None if it has nothing. LakeError if it cannot be read."""
    tables = {name: Table.open(lakes, name) for name in TABLES}
    found = load(lakes, broker, {name: table for name, table in tables.items() if table is not None})
    return None if found.position is None and found.journal is None else found


def load(lakes: Location, broker: str, tables: Mapping[str, Table]) -> Lake:
    """What the tables have of a broker. LakeError."""

    def number(table: str, application: str) -> int | None:
        return tables[table].version_of(application.format(broker)) if table in tables else None

    offset, polled = number("messages", LAST_RECORD), number("polls", "{}")
    versions = {name: number(name, GAPS) or 0 for name in TABLES}
    before = [number(name, DROPPED_BEFORE) or 0 for name in TABLES]
    messages, polls = (tables[name].files(broker) if name in tables else [] for name in TABLES)
    dropped, dropped_polls = (number(name, DROPPED) or 0 for name in TABLES)
    return Lake(
        os.fspath(lakes),
        broker,
        number("messages", "{}"),
        None if polled is None else journal_position(polled, number("polls", CREATED) or 0),
        None if offset is None else (offset, number("messages", DIGEST) or 0),
        messages,
        polls,
        [gap for name in TABLES for gap in read_gaps(lakes, broker, name, versions[name])],
        Dropped(max(before), dropped, dropped_polls),
        versions,
    )


def journal_position(version: int, created_ms: int) -> JournalPosition:
    """The position that ``journal_version`` has made a number of."""
    return JournalPosition(version >> 32, created_ms, version & (CLOSED - 1), bool(version & CLOSED))


def journal_version(position: JournalPosition) -> int:
    """A position in the poll journal as the version of a transaction."""
    return position.number << 32 | (CLOSED if position.closed else 0) | position.end


def require_same(store: str | os.PathLike[str], lake: Lake) -> None:
    """LakeError if the store's log does not continue what the lake has of the broker."""
    if lake.last_record is None or log_begin(store) > lake.last_record[0]:
        return
    offset, digest = lake.last_record
    segments = find_segments(store)[0]
    holding = next((segment for segment in segments if segment.base <= offset < segment.limit), None)
    if holding is None and any(segment.base > offset for segment in segments):
        return  # that segment is missing, but the log goes on
    if holding is not None:
        try:
            data = map_file(holding.path)
        except FileNotFoundError:  # retention has deleted it this very moment
            return
        at = offset - holding.base
        size = INT.unpack_from(data, at)[0] if at + INT.size <= len(data) else 0
        if digest_of(data[at : at + max(size, 0)]) == digest:
            return
    raise LakeError(
        f"The log of {Path(store)} is not the one that the lake in {lake.folder} has of {lake.broker}: the record that "
        f"was read last, at byte {offset:,}, is not there. Use another lake (--lake, or GLASSMQ_LAKE_DIR), or give the "
        "store another name in this one (--broker NAME)."
    )
