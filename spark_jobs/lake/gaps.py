"""The Delta table ``gaps``: what the lake lacks of logs and journals, for the notes of reports and for other tools.

    broker    source    version  what     start  end   amount  from_ts   to_ts
    broker-a  messages  3        damaged  4096   4500  404     10:00:00  10:00:07

No commit can change two tables. So each version has all gaps of a broker in one of the other tables, its ``source``.
It is written before the rows that belong to it, and the commit of these rows names it (``delta.GAPS``). A version that
no commit names, of a fill that was killed or overtaken, is never read.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from spark_jobs.errors import LakeError
from spark_jobs.lake.delta import commit_next, created, sync_commits, vacuum
from spark_jobs.lake.storage import Location, is_local, joined, sync_to_disk
from spark_jobs.lake.tasks import MS_TIMESTAMP, TIMESTAMP, Gap, milliseconds

NAME = "gaps"
SCHEMA = pa.schema(
    {
        "broker": pa.string(),
        "source": pa.string(),
        "version": pa.int64(),
        "what": pa.string(),
        "start": pa.int64(),
        "end": pa.int64(),
        "amount": pa.int64(),
        "from_ts": TIMESTAMP,
        "to_ts": TIMESTAMP,
    }
)
MOST = 10_000
"""Gaps of a version. Of more, neighbours become one."""


def read_gaps(lakes: Location, broker: str, source: str, version: int) -> list[Gap]:
    """The gaps of a version, in the order of the log; empty for version 0. LakeError if it is not there."""
    if not version:
        return []
    root = joined(lakes, NAME)
    try:
        rows = DeltaTable(root).to_pyarrow_table(
            filters=[("broker", "=", broker), ("source", "=", source), ("version", "=", version)]
        )
    except (DeltaError, OSError) as error:
        raise LakeError(f"{root} is not a Delta table that can be read: {error}.") from error
    if not rows.num_rows:
        raise LakeError(
            f"{root} lacks version {version} of {broker}: the lake was filled while it was read. Try again."
        )
    for name in ("from_ts", "to_ts"):
        rows = rows.set_column(rows.schema.get_field_index(name), name, milliseconds(rows.column(name)))
    names = ("what", "start", "end", "amount", "from_ts", "to_ts")
    return sorted((Gap(*(row[name] for name in names)) for row in rows.to_pylist()), key=attrgetter("start"))


def write_gaps(lakes: Location, broker: str, source: str, named: int, gaps: Sequence[Gap]) -> int:
    """Write a version with these gaps and return its number. Versions older than the ``named`` one are removed.

    LakeBusyError if another process has written that version.
    """
    root, application = joined(lakes, NAME), f"{broker}/{source}"
    delta = created(root, Schema.from_arrow(SCHEMA), ["broker"])
    on_disk = delta.version() or -1
    known = delta.transaction_version(application)
    version = max(named, known or 0) + 1
    columns = [*zip(*map(msgspec.structs.astuple, thinned(gaps)), strict=True)]
    times = [pa.array(column, MS_TIMESTAMP).cast(TIMESTAMP) for column in columns[4:]]
    same = [pa.repeat(pa.scalar(value), len(columns[0])) for value in (broker, source, version)]
    rows = pa.table([*same, *columns[:4], *times], schema=SCHEMA)
    properties = CommitProperties(app_transactions=[Transaction(application, version)])

    def commit() -> None:
        delta.delete(f"broker = '{broker}' and source = '{source}' and version < {named}")
        write_deltalake(delta, rows, mode="append", commit_properties=properties)

    commit_next(delta, broker, application, known, commit)
    vacuum(delta, full=False)
    if is_local(root):
        files = list(Path(root, f"broker={broker}").iterdir())
        for file in files:
            sync_to_disk(file)
        sync_commits(Path(root), on_disk, files)
    return version


def thinned(gaps: Sequence[Gap]) -> list[Gap]:
    """At most MOST gaps, in the order of the log: of more, neighbours of a kind become one."""
    found = sorted(gaps, key=attrgetter("what", "start"))
    while len(found) > MOST:
        kinds = [list(of_kind) for _, of_kind in groupby(found, attrgetter("what"))]
        found = [joined_gap(of_kind[at : at + 2]) for of_kind in kinds for at in range(0, len(of_kind), 2)]
    return sorted(found, key=attrgetter("start"))


def joined_gap(gaps: Sequence[Gap]) -> Gap:
    """One gap in place of some neighbours."""
    first, last = gaps[0], gaps[-1]
    return Gap(first.what, first.start, last.end, sum(gap.amount for gap in gaps), first.from_ms, last.to_ms)
