"""The files of a store's poll journal: entries are gathered into blocks, and old files are removed.

A file ends at pollJournalFileSize or after a part of pollJournalMaxHours. Each start of the broker begins a new file.
The oldest file is removed before all files together would exceed pollJournalMaxBytes, and when its first entry may be
as old as pollJournalMaxHours. One thread calls everything in this module.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from broker_core.clock import Now
from broker_core.formats.poll_journal import (
    BLOCK,
    FILE_NAME,
    MAX_BLOCK,
    BlockEncoder,
    JournalEntry,
    encode_header,
    file_name,
)
from broker_core.options import Options
from broker_core.store.files import Files

HOUR_MS = 3_600_000
SPANS = 24
"""A file spans 1/24 of the time that entries are kept. It is removed as a whole, so some entries are removed too early
by up to that."""


class Block(NamedTuple):
    """A block to be written to file ``number`` at position ``at``. ``lost`` counts the entries lost before it."""

    number: int
    at: int
    data: bytes
    entries: int
    lost: int


class JournalFiles:
    """Gathers entries into blocks, and appends those to the newest file."""

    def __init__(self, files: Files, folder: Path, options: Callable[[], Options], epoch: int) -> None:
        self.written = 0
        """Entries written to files."""
        self.failed = 0
        """Entries that could not be written and are given up."""
        self.dropped = 0
        """Entries dropped before they reached this object; set by its caller."""
        self._files = files
        self._folder = folder
        self._options = options
        self._epoch = epoch
        self._sizes_and_times: dict[int, tuple[int, int]] | None = None
        """File number -> (bytes, wall ms of the last change), oldest first; None before the first look."""
        self._encoder = BlockEncoder()
        self._number = -1  # the file of the encoder's next block; -1: a new one
        self._size = 0  # bytes of that file, including blocks that wait
        self._began_ns = 0
        self._waiting: deque[Block] = deque()
        self._recorded_lost = 0  # lost entries that blocks have recorded
        self._has_failed = False

    def _existing_files(self) -> dict[int, tuple[int, int]]:
        if self._sizes_and_times is None:
            known = {}
            for name in self._files.names(self._folder):
                match = FILE_NAME.fullmatch(name)
                if match is not None:
                    path = self._folder / name
                    known[int(match[1])] = (self._files.size(path), self._files.modified_ms(path))
            self._sizes_and_times = known
        return self._sizes_and_times

    # --- entries into blocks ---

    def add(self, entry: JournalEntry) -> bool:
        """Add an entry. Returns whether ``cut`` must be called."""
        self._encoder.add(entry)
        return self._encoder.is_full

    def cut(self, now: Now) -> None:
        """Make a block of the entries added since the last one."""
        entries = len(self._encoder)
        if not entries:
            return
        data = b""
        if self._number < 0:
            self._number = max(self._existing_files(), default=-1) + 1
            self._existing_files()[self._number] = (0, now.wall_ms)
            self._size, self._began_ns = 0, now.mono_ns
            data = encode_header(self._number, now.wall_ms, self._epoch, self._options().broker_name)
        lost = self._take_lost()
        is_last = self._encoder.has_many_strings or self._is_old(now)
        data += self._encoder.take(lost)
        if is_last or self._size + len(data) + MAX_BLOCK + BLOCK.size > self._file_size():
            data += self._encoder.take()  # the closing block
            is_last = True
        self._waiting.append(Block(self._number, self._size, data, entries, lost))
        self._size += len(data)
        if is_last:
            self._begin_new_file()

    def _take_lost(self) -> int:
        """How many lost entries no block has recorded yet; the caller records them in the next one."""
        lost = self.dropped + self.failed - self._recorded_lost
        self._recorded_lost += lost
        return lost

    def _begin_new_file(self) -> None:
        """Begin a new file with the next entry."""
        self._encoder, self._number = BlockEncoder(), -1

    def _file_size(self) -> int:
        options = self._options()
        return min(options.poll_journal_file_size, options.poll_journal_max_bytes // 2)

    def _span_ms(self) -> int:
        return self._options().poll_journal_max_hours * HOUR_MS // SPANS

    def _is_old(self, now: Now) -> bool:
        return now.mono_ns - self._began_ns >= self._span_ms() * 1_000_000

    # --- blocks into files ---

    def append(self, now: Now) -> None:
        """Write the waiting blocks. After an OSError, the failed block and those after it continue to wait."""
        while self._waiting:
            block = self._waiting[0]
            if self._has_failed and not self._continues_file(block):
                self._give_up(block.number)
                continue
            self._has_failed = True
            self._write(block.number, block.data, now)
            self._has_failed = False
            self._waiting.popleft()
            self.written += block.entries

    def _write(self, number: int, data: bytes, now: Now) -> None:
        known = self._existing_files()
        self._make_room(len(data), number)
        if known[number][0] == 0:
            self._files.make_folders(self._folder)
        self._files.append(self._folder / file_name(number), data)
        known[number] = (known[number][0] + len(data), now.wall_ms)

    def _make_room(self, size: int, number: int) -> None:
        """Remove the oldest files before ``number``, until ``size`` more bytes are allowed."""
        known, allowed = self._existing_files(), self._options().poll_journal_max_bytes - size
        total = sum(size for size, _ in known.values())
        for oldest in list(known):
            if total <= allowed or oldest == number:
                return
            total -= known[oldest][0]
            self._remove(oldest)

    def _remove(self, number: int) -> None:
        self._files.remove(self._folder / file_name(number))
        del self._existing_files()[number]

    def _continues_file(self, block: Block) -> bool:
        """Whether the block's file ends where the block begins. A failed write may have left a part of the block."""
        path = self._folder / file_name(block.number)
        return (self._files.size(path) if self._files.exists(path) else 0) == block.at

    def _give_up(self, number: int) -> None:
        """Give up a file that ends in a part of a block, because readers stop there. Its waiting entries are lost."""
        for block in [block for block in self._waiting if block.number == number]:
            self._waiting.remove(block)
            self.failed += block.entries
            self._recorded_lost -= block.lost
        if self._number == number:
            self.failed += len(self._encoder)
            self._begin_new_file()

    # --- removing and closing ---

    def remove_expired(self, now: Now) -> None:
        """Remove files whose entries have been kept long enough, and close one that is old without being full."""
        if self._number >= 0 and not self._waiting and not len(self._encoder) and self._is_old(now):
            self.close(now)
        limit_ms = now.wall_ms - self._options().poll_journal_max_hours * HOUR_MS + self._span_ms()
        busy = {self._number, *(block.number for block in self._waiting)}
        for number, (_, modified_ms) in list(self._existing_files().items()):
            if number in busy or modified_ms > limit_ms:
                return
            self._remove(number)

    def close(self, now: Now) -> None:
        """Mark the newest file as complete. All added entries must have been written."""
        if self._number >= 0:
            number, data = self._number, self._encoder.take(self._take_lost())
            self._begin_new_file()
            self._write(number, data, now)

    def give_up(self) -> None:
        """Count the unwritten entries as lost."""
        self.failed += sum(block.entries for block in self._waiting) + len(self._encoder)
        self._waiting.clear()
        self._begin_new_file()
