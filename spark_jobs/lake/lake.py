"""What a lake has of a broker: its rows in two Delta tables, for reports over weeks, and what it lacks.

<lakes>/messages    a Delta table, partitioned by date (UTC) and broker
<lakes>/polls       the same, of the poll journal
<lakes>/state       positions, and what is missing (``state``)
"""

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from spark_jobs.errors import LakeError
from spark_jobs.lake.delta import Table
from spark_jobs.lake.state import State
from spark_jobs.lake.storage import TABLES, Location
from spark_jobs.lake.tasks import UNREAD, LakeFile, digest_of
from spark_jobs.sources.commit_log_damage import DELETED, Gap
from spark_jobs.sources.commit_log_files import find_segments, map_file
from spark_jobs.sources.commit_log_segments import log_begin
from spark_jobs.sources.poll_journal_files import JournalPosition


class Dropped(NamedTuple):
    """Rows that retention has removed, of days before a time; 0 if it has removed none."""

    before_ms: int = 0
    messages: int = 0
    polls: int = 0


class Lake(NamedTuple):
    """What the lake in ``folder`` has of a broker; the fields of ``State`` are explained there."""

    folder: str
    broker: str
    position: int | None
    journal: JournalPosition | None
    last_record: tuple[int, int, int] | None
    messages: list[LakeFile]
    polls: list[LakeFile]
    gaps: list[Gap]
    dropped: Dropped

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
    tables = {name: Table.open(lakes, name, broker) for name in TABLES}
    found = lake_of(lakes, broker, {name: table for name, table in tables.items() if table is not None})
    return None if found.position is None and found.journal is None else found


def lake_of(lakes: Location, broker: str, tables: Mapping[str, Table]) -> Lake:
    """What the tables have of a broker."""
    messages, polls = (tables[name].files() if name in tables else [] for name in TABLES)
    log, journal = (tables[name].state if name in tables else State() for name in TABLES)
    return Lake(
        os.fspath(lakes),
        broker,
        log.position,
        journal.journal,
        log.last_record,
        messages,
        polls,
        [*log.gaps, *journal.gaps],
        Dropped(max(log.dropped_before_ms, journal.dropped_before_ms), log.dropped, journal.dropped),
    )


def require_same(store: str | os.PathLike[str], lake: Lake) -> None:
    """LakeError if the store's log does not continue what the lake has of the broker.

    There is no error if the log begins after the last record of the lake, because then nobody can know.
    """
    if lake.last_record is None or log_begin(store) > lake.last_record[0]:
        return
    offset, size, digest = lake.last_record
    segments = find_segments(store)[0]
    holding = next((segment for segment in segments if segment.base <= offset < segment.limit), None)
    if holding is None and any(segment.base > offset for segment in segments):
        return  # that segment is missing, but the log goes on
    if holding is not None:
        try:
            data = map_file(holding.path)
        except FileNotFoundError:  # retention has deleted it this very moment
            return
        if digest_of(data[offset - holding.base : offset - holding.base + size]) == digest:
            return
    raise LakeError(
        f"The log of {Path(store)} is not the one that the lake in {lake.folder} has of {lake.broker}: the record that "
        f"was read last, at byte {offset:,}, is not there. Use another lake (--lake, or GLASSMQ_LAKE_DIR), or give the "
        "store another name in this one (--broker NAME)."
    )
