"""What a lake has of a store: the rows of its broker in two Delta tables, for reports over weeks (see ``folders``)."""

import hashlib
import os
from collections.abc import Mapping
from enum import Enum
from socket import gethostname
from typing import NamedTuple

import msgspec

from spark_jobs.errors import LakeError
from spark_jobs.lake.delta import Table
from spark_jobs.lake.folders import TABLES, brokers
from spark_jobs.lake.notes import LastRecord, Notes, read_notes
from spark_jobs.lake.storage import Location
from spark_jobs.lake.tasks import LakeFile
from spark_jobs.sources.commit_log_files import find_segments, map_file, read_start
from spark_jobs.sources.commit_log_segments import log_begin
from spark_jobs.sources.poll_journal_files import HEAD, find_files, name_in, name_of


class Lake(NamedTuple):
    """What the lake in ``folder`` has of a broker.

    ``position``: all bytes of the log below it were read, or are missing and noted so; None before the first commit.
    ``journal``: up to which byte each file of the poll journal was read, by ``poll_journal_files.name_of``.
    """

    folder: str
    broker: str
    notes: Notes
    position: int | None
    journal: dict[str, int]
    messages: list[LakeFile]
    polls: list[LakeFile]


class Fit(Enum):
    """Whether a store is the one that a lake was filled from."""

    SAME = "same"
    UNKNOWN = "unknown"
    """Nothing that the lake has read last is left in the store."""
    OTHER = "other"


def find_lake(lakes: Location, store: str | os.PathLike[str]) -> Lake | None:
    """What the lake has of the store that is there now; None where it has nothing.

    Of several brokers the newest that fits. LakeError where notes or tables cannot be read and no broker surely fits;
    NotAStoreError.
    """
    best, problem = None, None
    known = brokers(lakes, store)
    tables = {name: Table.open(lakes, name) for name in TABLES} if known else {}
    for broker in reversed(known):
        try:
            notes = read_notes(lakes, broker)
            found = Fit.OTHER if notes is None else fit(os.fspath(store), notes)
            if notes is None or found is Fit.OTHER:
                continue
            lake = load(lakes, broker, store, notes, tables)
        except LakeError as error:
            problem = problem or error
            continue
        if found is Fit.SAME:
            return lake
        best = best or lake
    if best is None and problem is not None:
        raise problem
    return best


def load(
    lakes: Location, broker: str, store: str | os.PathLike[str], notes: Notes, tables: Mapping[str, Table | None]
) -> Lake:
    """What the tables have of a broker. Read the notes after the tables were opened.

    Notes are written before their commit. So notes that were read later have everything that the tables refer to.
    NotAStoreError.
    """
    messages, polls = tables.get("messages"), tables.get("polls")
    position = messages.version_of(broker) if messages else None
    journal = {}
    noted = {name_of(file.number, file.created_ms) for file in notes.journal}
    for name in noted | journal_names(store) if polls else ():
        end = polls.version_of(journal_application(broker, name)) if polls else None
        if end is not None:
            journal[name] = end
    noticed = notes.as_of(position or 0, journal)
    noticed.dropped = msgspec.structs.replace(
        notes.dropped,
        messages=messages.dropped_rows(broker) if messages else 0,
        polls=polls.dropped_rows(broker) if polls else 0,
    )
    return Lake(
        os.fspath(lakes),
        broker,
        noticed,
        position,
        journal,
        messages.files(broker) if messages else [],
        polls.files(broker) if polls else [],
    )


def journal_names(store: str | os.PathLike[str]) -> set[str]:
    """The journal files of a store, by ``name_of``. The notes may lack one that two fills have read."""
    return {name_in(read_start(file.path, HEAD) or b"") for file in find_files(store)[0]} - {""}


def journal_application(broker: str, file: str) -> str:
    """Delta's application identifier for a file of a broker's poll journal, by its ``name_of``."""
    return f"{broker}/{file}"


def fit(store: str, notes: Notes) -> Fit:
    """Whether the store is the one that the lake was filled from: one of the last records that were read is there.

    If the store has none of them any more, another machine's store of the same path is another one.
    """
    known = notes.last
    if any(record_at(store, last.physical_offset, last.size) == last for last in known):
        return Fit.SAME
    is_behind = known and log_begin(store) <= known[-1].physical_offset
    return Fit.OTHER if is_behind or notes.host not in ("", gethostname()) else Fit.UNKNOWN


def record_at(store: str, physical_offset: int, size: int) -> LastRecord | None:
    """The record there as it is now; None when its segment is not there."""
    for segment in find_segments(store)[0]:
        if segment.base <= physical_offset < segment.limit:
            start = physical_offset - segment.base
            try:
                data = map_file(segment.path)[start : start + size]
            except FileNotFoundError:
                return None
            return LastRecord(physical_offset, size, hashlib.blake2b(data, digest_size=16).hexdigest())
    return None
