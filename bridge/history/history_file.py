"""The history of one broker in an SQLite file.

Each row is a *piece*: one step of one tier for 512 topics or groups. Its key is a number, so one step of all groups is
a few rows, and one group over an hour is one range of keys:

    | tier 2 bits | kind 2 bits | shard 12 bits | beginning of the step, s since 1970, 34 bits |

A piece has 16 bits for each number (``rollup.code_of``), metric by metric: the difference to the step before, modulo
65536, compressed. A piece of which nothing changed is not written. The first step of a *block* is the difference to
"unknown", so a reader begins at a block. A piece of kind 3 marks each step that exists; it is ``K`` at a block's
beginning. The oldest block of a tier is deleted when the rest has the tier's number of steps, or when the tier has too
many bytes. The number of steps counts, not their age, so a clock that jumps ahead deletes nothing.
"""

import fcntl
import os
import sqlite3
import sys
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from bridge.history.rollup import EXACT, KINDS, TIERS, Kind, Step, Tier, code_of, value_of

SHARD = 512
BLOCK = 60
MARKS = 3
BLOCK_BEGINS = b"K"
LATEST_S = (1 << 34) - 1
VERSION = 2
CREATE = """
PRAGMA page_size = 16384;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 128;
PRAGMA journal_size_limit = 2097152;
CREATE TABLE IF NOT EXISTS names (kind INTEGER, row INTEGER, name TEXT, since_s INTEGER, PRIMARY KEY (kind, row));
CREATE INDEX IF NOT EXISTS names_by_name ON names (kind, name);
CREATE TABLE IF NOT EXISTS pieces (key INTEGER PRIMARY KEY, data BLOB NOT NULL);
"""


class NotReadable(Exception):
    """The file is no history, or one of another version."""


class Block(NamedTuple):
    """``steps`` consecutive steps from ``at_s`` on, which have ``size`` bytes."""

    at_s: int
    steps: int
    size: int


class Series(NamedTuple):
    """The numbers of one topic or group by metric, one for each step; None is unknown.

    ``since_s`` is the beginning of its first step in the file, None if there is none.
    """

    columns: list[list[int | None]]
    since_s: int | None


def key_of(tier: int, kind: int, shard: int, at_s: int) -> int:
    return ((tier << 2 | kind) << 12 | shard) << 34 | at_s


def pack(codes: Iterable[int]) -> bytes:
    """16-bit numbers, little-endian, compressed."""
    numbers = array("H", codes)
    if sys.byteorder == "big":
        numbers.byteswap()
    return zlib.compress(numbers.tobytes(), 3)


def unpack(data: bytes) -> "array[int]":
    numbers = array("H", zlib.decompress(data))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def code_column(column: Sequence[int]) -> list[int]:
    """The codes of a column; most numbers are small."""
    return [value + 1 if value < EXACT else code_of(value) for value in column]


class HistoryFile:
    """Writes one file. Only one process does, the one that has its lock; every process may read."""

    def __init__(self, path: Path, tiers: Sequence[Tier] = TIERS) -> None:
        """Open or create the file. Raises OSError, sqlite3.Error, NotReadable, and BlockingIOError if it is locked."""
        self.path = path
        self._tiers = tiers
        self._lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._database = self._open(path)
        except BaseException:
            os.close(self._lock)
            raise
        self._blocks: list[deque[Block]] = [deque() for _ in tiers]
        self._find_blocks()
        self._codes: list[list[list[list[int]]] | None] = [None] * len(tiers)
        """By tier: the codes of the last step, [kind][metric][row]; None: the next step begins a block."""

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        database = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise NotReadable(f"it has the version {version}, not {VERSION}")
            database.executescript(CREATE)
            database.execute(f"PRAGMA user_version = {VERSION}")
        except sqlite3.OperationalError:
            database.close()
            raise
        except (sqlite3.DatabaseError, NotReadable) as error:
            database.close()
            raise NotReadable(str(error)) from error
        return database

    def _find_blocks(self) -> None:
        """Read which steps and how many bytes each tier has."""
        for tier, blocks in enumerate(self._blocks):
            marks = key_of(tier, MARKS, 0, 0)
            sizes = self._database.execute(
                "SELECT key & ?1, TOTAL(LENGTH(data)), MAX(key >= ?3 AND data = ?4) FROM pieces"
                " WHERE key BETWEEN ?2 AND ?3 + ?1 GROUP BY key & ?1 ORDER BY 1",
                (LATEST_S, key_of(tier, 0, 0, 0), marks, BLOCK_BEGINS),
            )
            for at_s, size, begins in sizes:
                if begins or not blocks:
                    blocks.append(Block(at_s, 0, 0))
                blocks[-1] = Block(blocks[-1].at_s, blocks[-1].steps + 1, blocks[-1].size + int(size))

    def _ranges(self, tier: int) -> Iterator[tuple[int, int]]:
        """The first and the last key of each shard of a tier, and of its marks."""
        for kind, shards in [*((kind, -(-KINDS[kind].most // SHARD)) for kind in range(len(KINDS))), (MARKS, 1)]:
            for shard in range(shards):
                yield key_of(tier, kind, shard, 0), key_of(tier, kind, shard, LATEST_S)

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.close()
        os.close(self._lock)

    # --- Names ---

    def names(self, kind: int) -> dict[str, int]:
        """The row of each name."""
        return dict(
            self._database.execute(
                "SELECT name, row FROM names WHERE kind = ? AND row >= 0 AND row < ?", (kind, KINDS[kind].most)
            )
        )

    # --- Writing ---

    def write(self, steps: Sequence[tuple[int, Step]], names: Sequence[tuple[int, int, str, int]]) -> None:
        """Write finished steps as (tier, step), and new names as (kind, row, name, since), as one transaction.

        Raises sqlite3.Error; then nothing was written, and the next steps begin blocks.
        """
        database, blocks_before = self._database, [deque(blocks) for blocks in self._blocks]
        try:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("REPLACE INTO names (kind, row, name, since_s) VALUES (?, ?, ?, ?)", names)
            for tier, step in steps:
                self._write_step(tier, step)
            database.execute("COMMIT")
        except BaseException:
            self._codes = [None] * len(self._tiers)
            self._blocks = blocks_before
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    def _write_step(self, tier: int, step: Step) -> None:
        blocks, before = self._blocks[tier], self._codes[tier]
        begins = before is None or not blocks or blocks[-1].steps >= BLOCK
        if begins:
            blocks.append(Block(step.at_s, 0, 0))
        codes = [[code_column(column) for column in columns] for columns in step.table]
        empty: list[list[list[int]]] = [[[] for _ in columns] for columns in codes]
        pieces = [(key_of(tier, MARKS, 0, step.at_s), BLOCK_BEGINS if begins else b"")]
        for kind, (new, old) in enumerate(zip(codes, empty if begins or before is None else before, strict=True)):
            for shard, differences in _differences(new, old):
                pieces.append((key_of(tier, kind, shard, step.at_s), pack(differences)))
        self._database.executemany("REPLACE INTO pieces (key, data) VALUES (?, ?)", pieces)
        size = sum(len(data) for _, data in pieces)
        blocks[-1] = Block(blocks[-1].at_s, blocks[-1].steps + 1, blocks[-1].size + size)
        self._codes[tier] = codes
        self._delete_old_blocks(tier)

    def _delete_old_blocks(self, tier: int) -> None:
        blocks, (_, slots, max_bytes) = self._blocks[tier], self._tiers[tier]
        while len(blocks) > 1 and (
            sum(block.steps for block in blocks) - blocks[0].steps >= slots
            or sum(block.size for block in blocks) > max_bytes
        ):
            blocks.popleft()
            self._delete(tier, 0, blocks[0].at_s)

    def delete_from(self, at_s: int) -> None:
        """Delete all steps that end after ``at_s``, since the clock was ahead then. Raises sqlite3.Error."""
        self._codes = [None] * len(self._tiers)
        self._database.execute("BEGIN IMMEDIATE")
        for tier, (step_s, _, _) in enumerate(self._tiers):
            self._delete(tier, max(0, at_s - step_s + 1), LATEST_S + 1)
        self._database.execute("UPDATE names SET since_s = ? WHERE since_s > ?", (at_s, at_s))
        self._database.execute("COMMIT")
        for blocks in self._blocks:
            blocks.clear()
        self._find_blocks()

    def _delete(self, tier: int, from_s: int, to_s: int) -> None:
        for low, _ in self._ranges(tier):
            self._database.execute("DELETE FROM pieces WHERE key BETWEEN ? AND ?", (low + from_s, low + to_s - 1))

    def last_step(self) -> int | None:
        """The beginning of the newest step of the shortest tier."""
        low, high = key_of(0, MARKS, 0, 0), key_of(0, MARKS, 0, LATEST_S)
        (key,) = self._database.execute("SELECT MAX(key) FROM pieces WHERE key BETWEEN ? AND ?", (low, high)).fetchone()
        return None if key is None else key & LATEST_S


def _differences(new: list[list[int]], old: list[list[int]]) -> Iterator[tuple[int, list[int]]]:
    """(shard, differences of its codes, metric by metric) of the shards that changed."""
    for shard in range(-(-len(new[0]) // SHARD)):
        rows = slice(shard * SHARD, (shard + 1) * SHARD)
        columns = [(column[rows], before[rows]) for column, before in zip(new, old, strict=True)]
        if all(column == before for column, before in columns):
            continue
        yield (
            shard,
            [
                (code - last) & 0xFFFF
                for column, before in columns
                for code, last in zip(column, [*before, *[0] * (len(column) - len(before))], strict=True)
            ],
        )


def read_series(path: Path, kind: Kind, names: Sequence[str], tier: int, from_s: int, to_s: int) -> dict[str, Series]:
    """By name: the steps of a tier that begin from ``from_s`` on and before ``to_s``, multiples of a step's length.

    Names without a row, and all if there is no file, have no step that is known. Raises sqlite3.Error.
    """
    step_s, number = TIERS[tier].step_s, KINDS.index(kind)
    series = {name: unknown_series(kind, tier, from_s, to_s) for name in names}
    if not path.exists():
        return series
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as database:
        marks = key_of(tier, MARKS, 0, 0)
        block = database.execute(
            "SELECT key FROM pieces WHERE key BETWEEN ? AND ? AND data = ? ORDER BY key DESC LIMIT 1",
            (marks, marks + from_s, BLOCK_BEGINS),
        ).fetchone()
        begin = from_s if block is None else block[0] & LATEST_S
        (oldest,) = database.execute(
            "SELECT MIN(key) FROM pieces WHERE key BETWEEN ? AND ?", (marks, marks + LATEST_S)
        ).fetchone()
        steps = list(_rows(database, marks, begin, to_s))
        for shard, rows in _by_shard(database, number, series).items():
            pieces = dict(_rows(database, key_of(tier, number, shard, 0), begin, to_s))
            codes = {name: [0] * len(kind.metrics) for name, _, _ in rows}
            for at_s, mark in steps:
                if mark == BLOCK_BEGINS:
                    codes = {name: [0] * len(kind.metrics) for name in codes}
                differences = unpack(pieces[at_s]) if at_s in pieces else None
                for name, row, since_s in rows:
                    if differences is not None:
                        _apply(codes[name], differences, row % SHARD)
                    if at_s >= from_s and at_s + step_s > since_s:
                        for column, code in zip(series[name].columns, codes[name], strict=True):
                            column[(at_s - from_s) // step_s] = value_of(code)
            for name, _, since_s in rows:
                first = None if oldest is None else max(oldest & LATEST_S, since_s - since_s % step_s)
                series[name] = series[name]._replace(since_s=first)
    return series


def unknown_series(kind: Kind, tier: int, from_s: int, to_s: int) -> Series:
    return Series([[None] * ((to_s - from_s) // TIERS[tier].step_s) for _ in kind.metrics], None)


def _by_shard(database: sqlite3.Connection, kind: int, names: Iterable[str]) -> dict[int, list[tuple[str, int, int]]]:
    """By shard: (name, row, first step) of those names that have a row."""
    found: dict[int, list[tuple[str, int, int]]] = {}
    for name in names:
        line = database.execute("SELECT row, since_s FROM names WHERE kind = ? AND name = ?", (kind, name)).fetchone()
        if line is not None:
            found.setdefault(line[0] // SHARD, []).append((name, *line))
    return found


def _rows(database: sqlite3.Connection, low: int, from_s: int, to_s: int) -> Iterator[tuple[int, bytes]]:
    for key, data in database.execute(
        "SELECT key, data FROM pieces WHERE key BETWEEN ? AND ? ORDER BY key", (low + from_s, low + to_s - 1)
    ):
        yield key & LATEST_S, data


def _apply(codes: list[int], differences: Sequence[int], row: int) -> None:
    width = len(differences) // len(codes)
    if row < width:
        for metric in range(len(codes)):
            codes[metric] = codes[metric] + differences[metric * width + row] & 0xFFFF
