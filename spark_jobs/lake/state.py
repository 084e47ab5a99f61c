"""What a table of a lake has of a broker besides its rows: positions, what is missing, what was dropped.

    <lakes>/state/broker-a/messages-4611686018427387904.json

A state is a JSON file. Each commit of the broker's rows has a new state, which is written first. The commit names its
number by Delta's transaction identifier: the application is ``broker-a/state``, and the version is the number. So rows
and state become visible together. A state that no commit names, of a fill that was killed or overtaken, is never read.
"""

import secrets
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec

from spark_jobs.errors import LakeError
from spark_jobs.lake.storage import Location, filesystem_of, is_local, joined, sync_files
from spark_jobs.sources.commit_log_damage import Gap
from spark_jobs.sources.poll_journal_files import JournalPosition

FOLDER = "state"
MOST = 10_000
"""The largest number of gaps in a state. If there are more, neighbours become one."""
SMALLEST = 1024
"""The size of the smallest file, bytes; spaces fill it up. If a call for a file fails, and the error message of S3 is
longer than the file, pyarrow does not repeat the call."""


class State(msgspec.Struct, frozen=True):
    """What the table ``messages`` or ``polls`` has of a broker. ``position`` and ``last_record`` are of ``messages``.

    ``position``: all bytes of the log below it were read, or are among the gaps; None before the first commit.
    ``last_record``: offset, size and digest of the last record that was read, by which another store in the broker's
    place is noticed; None without any. ``journal``: how far the poll journal was read; None if nothing was.
    ``dropped``: rows that retention has removed, of days before ``dropped_before_ms``.
    """

    position: int | None = None
    last_record: tuple[int, int, int] | None = None
    journal: JournalPosition | None = None
    gaps: list[Gap] = []
    dropped: int = 0
    dropped_before_ms: int = 0


def read_state(lakes: Location, broker: str, table: str, number: int | None) -> State:
    """The state of that number; an empty one without a number. LakeError if it is not there. OSError."""
    if number is None:
        return State()
    path = path_of(lakes, broker, table, number)
    filesystem, inside = filesystem_of(path)
    try:
        with filesystem.open_input_stream(inside) as file:
            return msgspec.json.decode(file.read(), type=State)
    except FileNotFoundError as error:
        raise LakeError(
            f"{path} is missing: the lake was filled while it was read, or copied without this file. Try again; if "
            "that does not help, delete the lake and fill it anew."
        ) from error
    except msgspec.DecodeError as error:
        raise LakeError(f"{path} is not the state of a lake: {error}.") from error


def write_state(lakes: Location, broker: str, table: str, state: State) -> int:
    """Write a state, wait for the disk, and return its number."""
    number = secrets.randbelow(1 << 62) + 1
    path = path_of(lakes, broker, table, number)
    if is_local(lakes):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    filesystem, inside = filesystem_of(path)
    with filesystem.open_output_stream(inside) as file:
        file.write(msgspec.json.encode(msgspec.structs.replace(state, gaps=thinned(state.gaps))).ljust(SMALLEST))
    if is_local(lakes):
        sync_files([path])
    return number


def remove_states(lakes: Location, broker: str, table: str, kept: int | None, before_ms: int) -> None:
    """Remove states that were written before that time, except the one of the number ``kept``.

    The newest of them stays as well, because somebody may have found its number a moment ago.
    """
    from pyarrow.fs import FileSelector

    filesystem, inside = filesystem_of(joined(lakes, FOLDER, broker))
    listed = filesystem.get_file_info(FileSelector(inside, allow_not_found=True))
    states = sorted((info.mtime_ns, info.base_name) for info in listed if info.base_name.startswith(f"{table}-"))
    old = [name for written_ns, name in states if written_ns < before_ms * 1_000_000]
    for name in old[:-1]:
        if name != f"{table}-{kept}.json":
            filesystem.delete_file(f"{inside}/{name}")


def path_of(lakes: Location, broker: str, table: str, number: int) -> str:
    """The path or URL of a state."""
    return joined(lakes, FOLDER, broker, f"{table}-{number}.json")


def thinned(gaps: Sequence[Gap]) -> list[Gap]:
    """At most MOST gaps, in the order of the log. If there are more, neighbours of a kind become one."""
    found = sorted(gaps, key=attrgetter("what", "start"))
    while len(found) > MOST:
        kinds = [list(of_kind) for _, of_kind in groupby(found, attrgetter("what"))]
        found = [joined_gap(of_kind[at : at + 2]) for of_kind in kinds for at in range(0, len(of_kind), 2)]
    return sorted(found, key=attrgetter("start"))


def joined_gap(gaps: Sequence[Gap]) -> Gap:
    """One gap in place of some neighbours."""
    first, last = gaps[0], gaps[-1]
    return Gap(first.what, first.start, last.end, sum(gap.amount for gap in gaps), first.from_ms, last.to_ms)
