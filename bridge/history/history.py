"""The history of one broker: records a sample every 10 s, and returns past values.

A sample that is missing leaves a gap, never a 0. Counts are known only if the previous sample is about 10 s
older and of the same start of the engine. If the clock goes back by more than a minute, all steps later than its new
time are deleted. If it goes back by less, samples are left out until it has caught up. A failure of the disk stops the
history and nothing else.
"""

import logging
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from bridge.history.boards import Boards
from bridge.history.history_file import LATEST_S, HistoryFile, NotReadable, Series, read_series, unknown_series
from bridge.history.rollup import (
    KINDS,
    SAMPLE_S,
    TIERS,
    UNKNOWN,
    Column,
    Kind,
    Rollup,
    Table,
    Tier,
    difference,
)
from broker_core.clock import Now
from broker_core.commands import HistorySample

log = logging.getLogger(__name__)
SECOND = 1_000_000_000
LONGEST_SAMPLE_S = 15
SMALL_JUMP_S = 60
RETRY_S = 60


class Rows:
    """Which row of the table each name of one kind has. When all are taken, a new name gets the row of the name that
    has been absent for the longest time."""

    def __init__(self, kind: Kind, rows: dict[str, int]) -> None:
        self._kind = kind
        self._rows = rows
        self._seen = dict.fromkeys(rows, 0)
        self._samples = 0
        self.width = max(rows.values(), default=-1) + 1

    def assign(self, names: Sequence[str]) -> tuple[list[int], list[tuple[str, int]]]:
        """(the row of each name, UNKNOWN without one; the names that are new in their row, with it)."""
        self._samples += 1
        for name in names:
            if name in self._rows:
                self._seen[name] = self._samples
        absent: list[str] | None = None
        new: list[tuple[str, int]] = []
        for name in names:
            if name in self._rows:
                continue
            row = self.width
            if row == self._kind.most:
                if absent is None:
                    seen = self._seen
                    absent = sorted((other for other in seen if seen[other] < self._samples), key=seen.__getitem__)
                    absent.reverse()
                if not absent:
                    break
                gone = absent.pop()
                row = self._rows.pop(gone)
                del self._seen[gone]
            else:
                self.width += 1
            self._rows[name] = row
            self._seen[name] = self._samples
            new.append((name, row))
        return [self._rows.get(name, UNKNOWN) for name in names], new


class PreviousSample(NamedTuple):
    """The previous sample: its totals, and whether it had every topic and group."""

    epoch: int
    mono_ns: int
    totals: Table
    is_complete: bool


class History:
    """``problem`` is a sentence about why nothing is recorded, or empty. ``left_out`` topics and groups are beyond the
    limits. ``boards`` are snapshots of the last minutes.

    ``record`` may be called in one thread and ``read`` in others.
    """

    def __init__(self, path: Path, tiers: Sequence[Tier] = TIERS) -> None:
        self.path = path
        self.problem = ""
        self.left_out = 0
        self.boards = Boards()
        self._lock = Lock()
        self._tiers = tiers
        self._file: HistoryFile | None = None
        self._retry_ns = 0
        self._previous: PreviousSample | None = None
        self._forget()

    def _forget(self) -> None:
        self._rollups = [Rollup(tier) for tier in self._tiers]
        self._rows: list[Rows] = []
        self._last_s: int | None = None

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, kind: Kind, names: Sequence[str], tier: int, from_s: int, to_s: int) -> dict[str, Series]:
        """As ``read_series``, also without a file, and if the file cannot be read: then nothing is known."""
        try:
            return read_series(self.path, kind, names, tier, from_s, to_s)
        except sqlite3.Error as error:
            self.problem = self.problem or f"The history cannot be read from {self.path}: {error}."
            return {name: unknown_series(kind, tier, from_s, to_s) for name in names}

    # --- Recording ---

    def record(self, sample: HistorySample, now: Now) -> None:
        """Add one sample. A failure becomes the ``problem``, and is tried again a minute later."""
        with self._lock:
            if now.mono_ns < self._retry_ns:
                return
            try:
                if self._file is None and not self._open():
                    return
                self._record(sample, now)
                self.problem = ""
            except (OSError, sqlite3.Error) as error:
                problem = f"The history cannot be written to {self.path}: {error}. It is tried again every minute."
                if problem != self.problem:
                    log.warning("%s", problem)
                self.problem = problem
                self._retry_ns = now.mono_ns + RETRY_S * SECOND
                self._close()
                self._forget()

    def _open(self) -> bool:
        """Open the file. False if another process records into it."""
        try:
            self._file = HistoryFile(self.path, self._tiers)
        except BlockingIOError:
            return False
        except NotReadable as error:
            aside = self.path.with_suffix(".unreadable")
            log.warning(
                "%s is no history that can be read (%s): it is now %s, and a new one begins", self.path, error, aside
            )
            self.path.replace(aside)
            for rest in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + rest).unlink()
            self._file = HistoryFile(self.path, self._tiers)
        self._rows = [Rows(kind, self._file.names(number)) for number, kind in enumerate(KINDS)]
        self._last_s = self._file.last_step()
        return True

    def _record(self, sample: HistorySample, now: Now) -> None:
        assert self._file is not None
        at_s = TIERS[0].start(now.wall_ms // 1000 - SAMPLE_S // 2)
        if not 0 <= at_s < LATEST_S:
            return
        if self._last_s is not None and at_s <= self._last_s:
            if self._last_s - at_s < SMALL_JUMP_S:
                return
            self._file.delete_from(at_s)
            for rollup in self._rollups:
                rollup.forget()
        self._last_s = at_s
        rows, names = self._assign_rows(sample, at_s)
        table, counted = self._table(sample, rows, now)
        steps = [
            (tier, step)
            for tier, rollup in enumerate(self._rollups)
            if (step := rollup.add(at_s, table, counted=counted)) is not None
        ]
        self._file.write(steps, names)

    def _assign_rows(self, sample: HistorySample, at_s: int) -> tuple[list[list[int]], list[tuple[int, int, str, int]]]:
        """(by kind: the row of each name of the sample; new names as the file takes them)."""
        names: list[tuple[int, int, str, int]] = []
        rows: list[list[int]] = []
        self.left_out = sample.groups_left_out + sample.topics_left_out
        for kind, listed in enumerate(([sample.broker], sample.topics, sample.groups)):
            assigned, new = self._rows[kind].assign(listed)
            for name, row in new:
                names.append((kind, row, name, at_s))
                for rollup in self._rollups:
                    rollup.clear_row(kind, row)
                for column in self._previous.totals[kind] if self._previous is not None else ():
                    if row < len(column):
                        column[row] = UNKNOWN
            rows.append(assigned)
            self.left_out += assigned.count(UNKNOWN)
        return rows, names

    def _table(self, sample: HistorySample, rows: list[list[int]], now: Now) -> tuple[Table, bool]:
        """(the sample as a table, whether what it counts is known)."""
        of_broker = [
            [value]
            for value in (
                sample.stored,
                sample.delivered,
                sample.woken,
                sample.holds,
                sample.wake_p99_us,
                sample.lag,
            )
        ]
        values: Table = [
            [_column(self._rows[kind].width, rows[kind], column) for column in columns]
            for kind, columns in enumerate((of_broker, sample.topic_columns, sample.group_columns))
        ]
        before = self._previous
        self._previous = PreviousSample(sample.epoch, now.mono_ns, values, self.left_out == 0)
        counted = (
            before is not None
            and before.epoch == sample.epoch
            and now.mono_ns - before.mono_ns <= LONGEST_SAMPLE_S * SECOND
        )
        table = [
            [
                column
                if not metric.is_count
                else difference(column, before.totals[kind][number], is_complete=before.is_complete)
                if counted and before is not None
                else [UNKNOWN] * len(column)
                for number, (metric, column) in enumerate(zip(KINDS[kind].metrics, columns, strict=True))
            ]
            for kind, columns in enumerate(values)
        ]
        return table, counted


def _column(width: int, rows: Sequence[int], values: Sequence[int | None]) -> Column:
    """The values by row."""
    column = [UNKNOWN] * width
    for row, value in zip(rows, values, strict=True):
        if row >= 0 and value is not None:
            column[row] = value
    return column
