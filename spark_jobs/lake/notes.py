"""Notes on a lake's data of one broker: what is missing, and counts for pages. Does not import packages of Spark.

Only the Delta tables decide which rows exist and how far the log was read. The notes add what no row can contain: bytes
that were deleted before they were read, torn bytes, entries that a broker could not write. They are written before
their commit. ``as_of`` leaves out the notes of a commit that never happened.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from spark_jobs.errors import LakeError
from spark_jobs.lake.folders import notes_path
from spark_jobs.lake.storage import Location, read_at_most, write_whole

MOST_BYTES = 256 << 20
"""Of a file of notes."""
LAST_RECORDS = 3
"""The number of records by which a store is recognized."""
DELETED, TORN, LOST = "deleted", "torn", "lost"
"""Why something is missing: bytes of the log that were deleted before they were read; bytes of it that are neither a
record nor a filler; entries that the broker could not write into its journal."""
CUT_SHORT = {"invalid record": "the bytes there are not a valid record"}
"""In words, the ends of a log behind which there may be more, by their names."""


class Rows(msgspec.Struct, frozen=True):
    """Rows of the broker in a table, the files that hold them, and the files' bytes."""

    rows: int = 0
    files: int = 0
    size: int = 0


class Missing(msgspec.Struct, frozen=True):
    """What the lake lacks of bytes [start, end) of the log, or of a file of the poll journal.

    ``what``: ``DELETED`` or ``TORN``, and ``amount`` is in bytes; ``LOST``, in entries; otherwise the implausible field
    of so many records.
    """

    start: int
    end: int
    what: str
    amount: int
    file: str = ""
    """The file of the journal, by its ``name_of``; empty for the log."""


class JournalFile(msgspec.Struct, frozen=True):
    """A file of the poll journal that was read. ``closed``: nothing will be added to it."""

    number: int
    created_ms: int
    closed: bool = False


class LastRecord(msgspec.Struct, frozen=True):
    """The last record of a range that was read: its bytes identify the store."""

    physical_offset: int
    size: int
    digest: str


class Dropped(msgspec.Struct, frozen=True):
    """Rows that retention has removed: of days before a time."""

    before_ms: int = 0
    messages: int = 0
    polls: int = 0


class Notes(msgspec.Struct):
    """Everything noted about a broker."""

    store: str
    host: str = ""
    """The machine that filled it last; empty before the first fill."""
    missing: list[Missing] = []
    journal: list[JournalFile] = []
    missing_journal_files: list[int] = []
    """Numbers of journal files that were deleted before they were read."""
    last: list[LastRecord] = []
    """The last records of the last ranges, newest last: should one be damaged, the others still identify the store."""
    dropped: Dropped = Dropped()
    synced_ms: int = 0
    ended_by: str = ""
    """Why the log ended where it did when the lake was last filled, as ``commit_log_segments.LogPlan`` has it."""
    segments_unread: list[str] = []
    """Segments behind that end that held something."""
    position: int = 0
    """For pages: up to which byte the log was read; the table of messages has the true one."""
    messages: Rows = Rows()
    polls: Rows = Rows()
    retired_bytes: int = 0
    """For pages: bytes of files that no table uses any more, until vacuum removes them."""

    def as_of(self, position: int, journal: Mapping[str, int]) -> "Notes":
        """The notes without those of commits that never came: behind ``position`` of the log, and behind the ends of
        the files of the ``journal``."""
        ends = {**journal, "": position}
        return msgspec.structs.replace(self, missing=[one for one in self.missing if one.end <= ends.get(one.file, 0)])

    @property
    def amounts(self) -> Counter[str]:
        """How much is missing, by ``Missing.what``."""
        found = Counter[str]()
        for one in self.missing:
            found[one.what] += one.amount
        return found


def read_notes(lakes: Location, broker: str) -> Notes | None:
    """The notes on a broker; None where there are none. LakeError for a file that cannot be read."""
    path = notes_path(lakes, broker)
    try:
        data = read_at_most(path, MOST_BYTES)
    except (OSError, ImportError) as error:  # pyarrow reads URLs, and comes with Spark's packages
        raise LakeError(f"{path} cannot be read: {error}.") from error
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Notes)
    except msgspec.MsgspecError as error:
        raise LakeError(
            f"{path} is damaged ({error}). Put a copy of it in its place, or delete the lake and fill it anew."
        ) from error


def write_notes(lakes: Location, broker: str, notes: Notes) -> None:
    """Replace the notes on a broker, for good. OSError when the disk refuses."""
    write_whole(notes_path(lakes, broker), msgspec.json.encode(notes) + b"\n")
