"""Damage inside the log: recovery passes over it, so that only the damaged records are lost.

    valid records | damaged bytes | the next whole record ...
                  ^ start         ^ end

The damaged bytes are copied to a file in ``quarantine``. Then placeholders are written over them, so that every reader
of the log, RocketMQ included, can walk from record to record. The file is on the disk before the log is changed. A
power cut in between leaves either damage or placeholders, and the next recovery continues from there.

If no whole record follows, the damage is not inside the log: it is a torn end, which recovery cuts off.

When the disk is full, copy and placeholders wait until there is space, and recovery goes on at the next whole record.
"""

import errno
from functools import partial
from pathlib import Path

from broker_core.formats.commit_log_record import (
    BLANK_SIZE,
    MAGIC_BYTES,
    RECORD_SIZE_MIN,
    SIZE_AND_MAGIC,
    blank,
    fields_at,
    is_blank,
    measure,
    placeholders,
    store_timestamp_at,
)
from broker_core.store.commit_log import CommitLog
from broker_core.store.files import QUARANTINE, Files
from broker_core.store.mapped_file import MappedFile
from broker_core.store.postponed_steps import PostponedSteps

SUFFIX = ".damaged"
COPY_MAX = 64 << 20
"""Bytes of one damaged range, or of an invalid tail, that are copied to a file. The rest is lost and reported."""
FILES_MAX = 1000
"""Damaged ranges that one recovery copies to files. Further ones are lost and reported."""
SENTENCES_MAX = 20
"""Damaged ranges that are reported one by one. Of further ones, the number is reported."""
SECTOR = 512


def has_lost_sector(data: memoryview, start: int, length: int) -> bool:
    """Whether a power cut destroyed a part of a record's properties, which no checksum covers.

    If so, all property bytes in some sector are zero: either up to the record's end, or 16 bytes or more, which is
    longer than any property value that consists of zeros.
    """
    properties_start = fields_at(data, start)[2] + 2
    end = start + length
    text = bytes(data[properties_start:end])
    if b"\0" not in text:
        return False
    for sector in range(properties_start - properties_start % SECTOR, end, SECTOR):
        share = text[max(sector - properties_start, 0) : sector + SECTOR - properties_start]
        if not share.strip(b"\0") and (sector + SECTOR >= end or len(share) >= 16):
            return True
    return False


def damaged_files(files: Files, root: Path) -> tuple[int, int]:
    """(number, bytes) of the damaged ranges whose copies are in the store's quarantine."""
    names = [name for name in files.names(root / QUARANTINE) if name.endswith(SUFFIX)]
    return len(names), sum(files.size(root / QUARANTINE / name) for name in names)


class LogRepair:
    """Passes over damage in the log of one recovery.

    ``clean``: the shutdown was clean, so no power cut destroyed properties. ``foreign``: another broker wrote the log.
    RocketMQ leaves old records behind the end of its log; they are older than the last valid record.
    """

    def __init__(
        self,
        files: Files,
        root: Path,
        log: CommitLog,
        postponed: PostponedSteps,
        wall_ms: int,
        *,
        clean: bool,
        foreign: bool,
        read_only: bool,
    ) -> None:
        self._files = files
        self.folder = root / QUARANTINE
        self._log = log
        self._postponed = postponed
        self.wall_ms = wall_ms
        self._clean = clean
        self._foreign = foreign
        self._read_only = read_only
        self._copies = 0
        self._data_ends: dict[int, int] = {}
        """Where a segment's data ends, by the segment's base. To look for it is to read the rest of the segment."""
        self.uncovered: dict[int, int] = {}
        """Damaged ranges (start: end) that wait for disk space before placeholders cover them."""
        self._sentences: list[str] = []
        self._unreported_ranges = self._uncopied_bytes = 0

    def pass_over(self, start: int, last_store_timestamp: int) -> int | None:
        """Cover the damage at physical offset ``start``; returns where the next whole record begins.

        None if no whole record follows. Missing segments are passed over, too.
        """
        oldest_ms = last_store_timestamp if self._foreign else 0
        end = self._next_record(start, oldest_ms)
        if end is None:
            return None
        file = self._log.mapped_files.find(end)
        assert file is not None
        at = end - file.base
        stored_ms = last_store_timestamp if is_blank(file.buffer, at) else store_timestamp_at(file.buffer, at)
        for segment, low, high in self._log.mapped_files.ranges(start, end):
            if not self._postponed.run(partial(self._repair, segment, low, high, stored_ms)):
                self.uncovered[start] = end
        return end

    def require_space(self, size: int) -> None:
        """OSError (ENOSPC) if a copy of ``size`` bytes does not fit, so that no useless part of it is written."""
        free = self._files.free_space(self.folder.parent)
        if free < size:
            raise OSError(errno.ENOSPC, f"No space left on device for a copy of {size} bytes; {free} are free")

    def _repair(self, segment: MappedFile, low: int, high: int, stored_ms: int) -> None:
        if self._log.mapped_files.find(segment.base) is not segment:
            return  # retention has removed it while this waited for disk space
        if self._copies < FILES_MAX:
            self.require_space(min(high - low, COPY_MAX))
        # A lost page may have no disk space, and a mapped write without it kills the process.
        self._files.allocate(segment.path, low, high)
        self._quarantine(segment, low, high)
        self._cover(segment, low, high, stored_ms)

    def take_sentences(self) -> list[str]:
        """Sentences about the damage since the last call: one for each of the first ranges, then sums."""
        sentences, self._sentences = self._sentences, []
        if self._unreported_ranges:
            sentences.append(
                f"{self._unreported_ranges} more ranges of the log are damaged; copies are in {QUARANTINE}"
            )
        if self._uncopied_bytes:
            sentences.append(
                f"{self._uncopied_bytes} damaged bytes were not copied and are lost, because a recovery copies "
                f"{FILES_MAX} ranges at most, and of each {COPY_MAX} bytes"
            )
        self._unreported_ranges = self._uncopied_bytes = 0
        return sentences

    def keep(self, start: int, data: bytes, suffix: str) -> str:
        """Copy bytes of the log, which begin at physical offset ``start``, to a file; returns its name.

        The file is on the disk afterwards. A recovery that ends early, and so is repeated, makes one copy only.
        OSError when the disk is full: then there is no file.
        """
        path = self.folder / f"{start:020d}-{self.wall_ms}{suffix}"
        for copy in [
            self.folder / name for name in self._files.names(self.folder) if name.startswith(f"{start:020d}-")
        ]:
            if self._files.size(copy) == len(data) and self._files.read(copy) == data:
                path = copy  # written again, because it may not be on the disk
        self._files.make_folders(self.folder)
        try:
            self._files.write(path, data)
        except OSError:
            self._files.remove(path)
            raise
        self._files.sync_folder(self.folder)
        self._files.sync_folder(self.folder.parent)
        return path.name

    # --- the next whole record --------------------------------------------------------------------------------------

    def _next_record(self, start: int, oldest_ms: int) -> int | None:
        mapped_files = self._log.mapped_files
        position = start
        while (file := mapped_files.find(position) or mapped_files.next_after(position)) is not None:
            at = self._next_in_segment(file, max(position - file.base, 0), start, oldest_ms)
            if at is not None:
                return file.base + at
            position = file.base + file.size
            if 0 < position - start < BLANK_SIZE:  # too small for a filler, so no broker wrote this
                return None
        return None

    def _next_in_segment(self, file: MappedFile, at: int, damage: int, oldest_ms: int) -> int | None:
        """Where the next whole record of a segment begins, at or after ``at``.

        If the damaged record's size is plausible, the record after it is tried first: a message body may contain a
        record. A placeholder must fit in front of the result.
        """
        base = file.base
        end = self._data_ends.get(base)
        if end is None:
            end = self._data_ends[base] = file.data_end(at)
        if end <= at:
            return None
        if at == 0 and base > damage and self._is_whole(file, 0, oldest_ms):
            return 0
        if end - at >= RECORD_SIZE_MIN:
            size = int(SIZE_AND_MAGIC.unpack_from(file.buffer, at)[0])
            after = at + size
            if RECORD_SIZE_MIN <= size <= file.size - BLANK_SIZE - at and (
                self._is_whole(file, after, oldest_ms) or self._is_filler(file, after)
            ):
                return after
        magic_at = file.buffer.find(MAGIC_BYTES, at + RECORD_SIZE_MIN, end)
        while magic_at >= 0:
            if magic_at - 4 - at >= RECORD_SIZE_MIN and self._is_whole(file, magic_at - 4, oldest_ms):
                return magic_at - 4
            magic_at = file.buffer.find(MAGIC_BYTES, magic_at + 1, end)
        return None

    def _is_whole(self, file: MappedFile, at: int, oldest_ms: int) -> bool:
        size = measure(file.buffer, at, file.size, file.base + at)
        if not size or store_timestamp_at(file.buffer, at) < oldest_ms:
            return False
        with memoryview(file.buffer) as buffer:
            return self._clean or not has_lost_sector(buffer, at, size)

    @staticmethod
    def _is_filler(file: MappedFile, at: int) -> bool:
        return is_blank(file.buffer, at) and SIZE_AND_MAGIC.unpack_from(file.buffer, at)[0] == file.size - at

    # --- covering ---------------------------------------------------------------------------------------------------

    def _quarantine(self, file: MappedFile, low: int, high: int) -> None:
        """Copy a damaged range of a segment to a file, and report it."""
        start, size = file.base + low, high - low
        what = f"{size} bytes at {start} in the middle of the log are damaged; recovery continued after them"
        if self._read_only:
            self._report(f"{what}. Nothing was changed on the disk")
        elif self._copies >= FILES_MAX:
            self._uncopied_bytes += size
            self._report(f"{what}. They were not copied")
        else:
            name = self.keep(start, bytes(file.buffer[low : min(high, low + COPY_MAX)]), SUFFIX)
            self._copies += 1
            self._uncopied_bytes += max(size - COPY_MAX, 0)
            self._report(f"{what}. They are kept in {QUARANTINE}/{name}")

    def _report(self, sentence: str) -> None:
        if len(self._sentences) < SENTENCES_MAX:
            self._sentences.append(sentence)
        else:
            self._unreported_ranges += 1

    def _cover(self, file: MappedFile, low: int, high: int, stored_ms: int) -> None:
        """Write placeholders over a range of a segment. A range at the segment's end ends with a filler."""
        covered = high
        if high == file.size:
            covered = high - BLANK_SIZE if high - BLANK_SIZE - low >= RECORD_SIZE_MIN else low
        at = low
        for record in placeholders(file.base + low, file.base + covered, stored_ms):
            file.write(at, record)
            at += len(record)
        if covered < high:
            file.write(covered, blank(high - covered))
        if high == file.size:
            self._data_ends.pop(file.base, None)
        file.flush(low, high)
