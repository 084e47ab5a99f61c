"""One hash index file: key -> physical offsets, newest first."""

import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from struct import Struct

from broker_core.formats.index_unit import (
    ENTRY,
    ENTRY_SIZE,
    HEADER,
    HEADER_SIZE,
    SLOT,
    SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    decode_header,
    file_size,
    time_diff,
)
from broker_core.store.files import Files
from broker_core.store.mapped_file import MappedFile, OpenMaps

ALLOCATE_CHUNK = 1 << 20
PAUSE = -1
LOOKED_AT = 500
"""Entries of other keys or other times that are looked at in one piece: under a millisecond."""

AMPLE_ENTRIES = 512
"""Entries that the keys of a batch are expected to need at most."""


@lru_cache(1024)
def _entries(count: int) -> Struct:
    return Struct(">" + "iqii" * count)


class IndexFile:
    """RocketMQ's IndexFile, with room for ``slots`` hash slots and ``entries`` entries."""

    def __init__(self, files: Files, maps: OpenMaps, path: Path, slots: int, entries: int) -> None:
        self.path = path
        self.slots = slots
        self.entries = entries
        self.file = MappedFile(files, maps, path, 0, file_size(slots, entries))
        self.file.scattered = True
        self.header = IndexHeader()
        self.ample_until = 0
        """Once the file has this many entries, ``reserve`` must be called before a message is accepted."""
        self._entries_at = HEADER_SIZE + SLOT_SIZE * slots

    def load(self) -> None:
        """Read the header."""
        self.header = decode_header(self.file.buffer)
        self.file.allocated = self.used_size

    @property
    def used_size(self) -> int:
        """Bytes from the beginning to the end of the last entry."""
        return self._entries_at + ENTRY_SIZE * self.header.index_count

    @property
    def room(self) -> int:
        """Entries that still fit."""
        return self.entries - self.header.index_count

    @property
    def is_ample(self) -> bool:
        """Whether disk space is reserved for AMPLE_ENTRIES more entries, or for all that still fit."""
        return self.header.index_count < self.ample_until

    def reserve(self, count: int) -> None:
        """Reserve disk space for ``count`` more entries. OSError when the disk is full."""
        self.file.allocate(min(self.used_size + ENTRY_SIZE * count, self.file.size), ALLOCATE_CHUNK)
        whole = self.file.allocated == self.file.size
        reserved = (self.file.allocated - self._entries_at) // ENTRY_SIZE
        self.ample_until = self.entries if whole else reserved - AMPLE_ENTRIES

    def put(self, keys: Sequence[tuple[int, int, int]]) -> None:
        """Add (key hash, physical offset, store time ms) of at most ``room`` keys.

        A slot is treated as empty if it points at an entry number that the header does not count.
        """
        self.reserve(len(keys))
        buffer, slots, header = self.file.buffer, self.slots, self.header
        number, used_slots = header.index_count, header.hash_slot_count
        begin_timestamp, begin_phy_offset = header.begin_timestamp, header.begin_phy_offset
        if number <= 1:
            begin_timestamp, begin_phy_offset = keys[0][2], keys[0][1]
        fields: list[int] = []
        stored, seconds = begin_timestamp, 0
        unpack, pack = SLOT.unpack_from, SLOT.pack_into
        for key_hash, physical_offset, store_timestamp in keys:
            if store_timestamp != stored:
                stored, seconds = store_timestamp, time_diff(store_timestamp, begin_timestamp)
            slot_at = HEADER_SIZE + key_hash % slots * SLOT_SIZE
            previous = unpack(buffer, slot_at)[0]
            if previous <= 0 or previous >= number:
                previous = 0
                used_slots += 1
            fields += (key_hash, physical_offset, seconds, previous)
            pack(buffer, slot_at, number)
            number += 1
        self.file.write(self._entries_at + header.index_count * ENTRY_SIZE, _entries(len(keys)).pack(*fields))
        self.header = IndexHeader(begin_timestamp, keys[-1][2], begin_phy_offset, keys[-1][1], used_slots, number)
        HEADER.pack_into(buffer, 0, *self.header)

    def entry(self, number: int) -> IndexEntry:
        """Entry ``number``; the first is 1."""
        return IndexEntry(*ENTRY.unpack_from(self.file.buffer, self._entries_at + number * ENTRY_SIZE))

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Physical offsets of entries with this hash in a time window, newest first; PAUSE after LOOKED_AT others.

        Entries record whole seconds, so up to a second more on each side is included.
        """
        number = SLOT.unpack_from(self.file.buffer, HEADER_SIZE + key_hash % self.slots * SLOT_SIZE)[0]
        limit = self.header.index_count  # each entry points to an older one; a damaged chain must not loop
        others = 0
        while 0 < number < limit:
            entry = self.entry(number)
            stored_ms = self.header.begin_timestamp + entry.time_diff * 1000
            if entry.key_hash == key_hash and begin_ms < stored_ms + 1000 and stored_ms <= end_ms:
                yield entry.physical_offset
            else:
                others += 1
                if others % LOOKED_AT == 0:
                    yield PAUSE
            limit, number = number, entry.previous

    def cut(self, physical_end: int, known_count: int | None) -> int:
        """Drop the entries of records at or after ``physical_end``; returns how many were dropped.

        After an unclean stop the disk may have a slot but not its entry. So each slot that points at a dropped entry
        is set to the newest entry of that slot that stays; one pass over all entries finds them.
        """
        count = self.header.index_count if not known_count else min(self.header.index_count, known_count)
        while not known_count and count > 1 and not self._stays(self.entry(count - 1), physical_end):
            count -= 1
        # After the next unclean stop, an entry left here could be mistaken for a good one.
        self.file.clear(self._entries_at + ENTRY_SIZE * count)
        heads = self._newest_of_cut_slots(count)
        for slot, number in heads.items():
            SLOT.pack_into(self.file.buffer, HEADER_SIZE + slot * SLOT_SIZE, number)
        cut = self.header.index_count - count
        if cut or heads:
            last = self.entry(count - 1) if count > 1 else IndexEntry(0, 0, 0, 0)
            freed = sum(1 for number in heads.values() if not number)
            self.header = self.header._replace(
                index_count=count,
                end_phy_offset=last.physical_offset,
                end_timestamp=self.header.begin_timestamp + last.time_diff * 1000,
                hash_slot_count=max(self.header.hash_slot_count - freed, 0),
            )
            HEADER.pack_into(self.file.buffer, 0, *self.header)
            self.file.changed = True
        return cut

    def _stays(self, entry: IndexEntry, physical_end: int) -> bool:
        written = entry.physical_offset or entry.key_hash or entry.previous
        return bool(written) and self.header.begin_phy_offset <= entry.physical_offset < physical_end

    def _newest_of_cut_slots(self, count: int) -> dict[int, int]:
        numbers = array("i", bytes(self.file.buffer[HEADER_SIZE : self._entries_at]))
        if sys.byteorder == "little":
            numbers.byteswap()
        heads = {slot: 0 for slot, number in enumerate(numbers) if number >= count}
        if heads:
            with (
                memoryview(self.file.buffer) as view,
                view[self._entries_at : self._entries_at + count * ENTRY_SIZE] as entries,
            ):
                for number, (key_hash, _, _, _) in enumerate(ENTRY.iter_unpack(entries)):
                    if key_hash % self.slots in heads:
                        heads[key_hash % self.slots] = number
        return heads
