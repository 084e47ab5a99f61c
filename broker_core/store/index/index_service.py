"""All index files of a store, and the keys under which a message is indexed."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from broker_core.formats.index_unit import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, TAG_KEY, absolute
from broker_core.formats.message_properties import IDEMPOTENCY_KEY, KEYS, UNIQ_KEY, find, split_keys
from broker_core.formats.tags_code import hash_behind, unsigned_hash
from broker_core.store.commit_log import DispatchRequest
from broker_core.store.files import QUARANTINE, Files
from broker_core.store.index.index_file import IndexFile
from broker_core.store.mapped_file import MappedFile, OpenMaps

NAME_DIGITS = 17
RESERVE_ENTRIES = 1024
SIGN_BIT = 1 << 31
SET_ASIDE = "index-"
"""Names of index files in the quarantine begin with this."""
UNFINISHED = ".unfinished"
"""They end with this until the messages of the file are indexed again."""


def index_words(properties: str) -> list[str]:
    """The keys of a message, without its tag: UNIQ_KEY, each word of KEYS, and ``IDEMPOTENCY_KEY:<value>``.

    After these keys, RocketMQ 5.4 indexes every message under ``T#<tag>`` too.
    """
    unique_key = find(properties, UNIQ_KEY)
    words = [unique_key] if unique_key else []
    keys = find(properties, KEYS)
    if keys:
        words += split_keys(keys)
    repeat_key = find(properties, IDEMPOTENCY_KEY)
    if repeat_key:
        words.append(f"{IDEMPOTENCY_KEY}:{repeat_key}")
    return words


class IndexService:
    """RocketMQ's IndexService."""

    def __init__(self, files: Files, maps: OpenMaps, folder: Path, slots: int, entries: int) -> None:
        self._files = files
        self._maps = maps
        self._folder = folder
        self._slots = slots
        self._entries = entries
        self._topic_hashes: dict[str, int] = {}
        self.index_files: list[IndexFile] = []
        self.dirty = False
        self.is_cut = False
        """Whether ``load`` removed files, so that messages after ``max_physical_offset`` are to be indexed again."""
        self.has_room = False
        """Whether the disk space that ``reserve`` provides is already there."""
        self._full: list[IndexFile] = []

    # --- writing ------------------------------------------------------------------------------------------------

    @property
    def max_physical_offset(self) -> int:
        """Of the newest indexed message; -1 before the first. Messages up to here are not indexed again."""
        for file in reversed(self.index_files):
            if file.header.index_count > 1:
                return file.header.end_phy_offset
        return -1

    @property
    def last_indexed(self) -> tuple[int, int]:
        """Store time (ms) and physical offset of the newest indexed message; zeros before the first."""
        for file in reversed(self.index_files):
            if file.header.index_count > 1:
                return file.header.end_timestamp, file.header.end_phy_offset
        return 0, 0

    def reserve(self, store_timestamp: int) -> None:
        """Reserve disk space for the keys of a batch, as far as their number is known. OSError: disk full."""
        file = self._file_with_room(store_timestamp)
        file.reserve(min(RESERVE_ENTRIES, file.room))
        self.has_room = True

    def put(self, requests: Iterable[DispatchRequest]) -> None:
        """Index messages, in log order."""
        keys: list[tuple[int, int, int]] = []
        hashes = self._topic_hashes
        for request in requests:
            if request.indexed and request.properties:
                physical_offset, store_timestamp = request.physical_offset, request.store_timestamp
                front = hashes.get(request.topic) or self._topic_hash(request.topic)
                words = index_words(request.properties)
                if request.tag:
                    words.append(TAG_KEY + request.tag)
                for word in words:
                    value = hash_behind(front, word)
                    keys.append((value if value < SIGN_BIT else absolute(value), physical_offset, store_timestamp))
        start = 0
        while start < len(keys):
            file = self._file_with_room(keys[start][2])
            count = min(file.room, len(keys) - start)
            file.put(keys[start : start + count])
            start += count
            self.dirty = True
            self.has_room = file.is_ample

    def _topic_hash(self, topic: str) -> int:
        if len(self._topic_hashes) > 10_000:
            self._topic_hashes.clear()
        front = self._topic_hashes[topic] = unsigned_hash(topic + "#")
        return front

    def _file_with_room(self, store_timestamp: int) -> IndexFile:
        last = self.index_files[-1] if self.index_files else None
        if last is not None and last.room > 0:
            return last
        moment = datetime.fromtimestamp(store_timestamp / 1000)
        name = f"{moment:%Y%m%d%H%M%S}{store_timestamp % 1000:03d}"
        if last is not None and name <= last.path.name:
            name = f"{int(last.path.name) + 1:0{NAME_DIGITS}d}"
        file = IndexFile(self._files, self._maps, self._folder / name, self._slots, self._entries)
        try:
            file.reserve(min(RESERVE_ENTRIES, file.room))
        except OSError:
            file.file.unmap()
            self._files.remove(file.path)  # otherwise each try would leave a file
            raise
        if last is not None:
            self._full.append(last)
        self.index_files.append(file)
        self._maps.new_folders.add(self._folder)
        return file

    def take_dirty(self) -> list[tuple[MappedFile, int, int]]:
        """Ranges written since the last call, for the flush thread."""
        if not self.dirty:
            return []
        self.dirty = False
        files, self._full = [*self._full, self.index_files[-1]], []
        return [(file.file, 0, min(file.used_size, file.file.size)) for file in files]

    # --- reading ------------------------------------------------------------------------------------------------

    def find(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Physical offsets of messages with this hash, newest first. Other keys may share the hash.

        PAUSE is no offset: here the caller may let other work be done. Files that expire meanwhile are left out.
        """
        for file in self.index_files[::-1]:
            header = file.header
            if file not in self.index_files:
                return
            if header.index_count <= 1:
                continue
            if header.begin_timestamp <= end_ms and header.end_timestamp + 1000 > begin_ms:
                for physical_offset in file.find(key_hash, begin_ms, end_ms):
                    yield physical_offset
                    if file not in self.index_files:
                        return
            if header.begin_timestamp < begin_ms:
                return

    # --- recovery and retention ---------------------------------------------------------------------------------

    def load(self, *, mend: bool) -> list[str]:
        """Find the existing files. Returns sentences about files that are not used, because they were cut short.

        With ``mend``, these files are moved to the quarantine, and later files are removed: the messages of all of them
        are to be indexed again, in the order of the log. If a start is interrupted before ``note_indexed``, the next
        start removes the new files and indexes the messages again.
        """
        names = [name for name in self._files.names(self._folder) if len(name) == NAME_DIGITS and name.isdigit()]
        files = {name: self._open(name) for name in names}
        cut = [name for name, file in files.items() if file is None]
        steps = [
            f"index file {name} is not used: it was cut short to {self._files.size(self._folder / name)} bytes, or "
            "maxHashSlotNum or maxIndexNum changed"
            for name in cut
        ]
        begun = [name.removeprefix(SET_ASIDE).removesuffix(UNFINISHED) for name in self._unfinished()]
        if mend and (cut or begun):
            first = min(cut + begun)
            steps.append(f"the messages of index file {first} and those after them are indexed again")
            self.is_cut = True
            for name in reversed([name for name in names if name >= first]):
                self._set_aside(name, is_cut=files.pop(name) is None)
            self._files.sync_folder(self._folder)
        self.index_files = [file for file in files.values() if file is not None]
        if self.index_files:
            self._slots, self._entries = self.index_files[-1].slots, self.index_files[-1].entries
        return steps

    def _open(self, name: str) -> IndexFile | None:
        """The index file with this name; None if it was cut short."""
        sizes = self._sizes_of(self._files.size(self._folder / name))
        if sizes is None:
            return None
        file = IndexFile(self._files, self._maps, self._folder / name, *sizes)
        file.load()
        return file if file.room >= 0 else None

    def _set_aside(self, name: str, *, is_cut: bool) -> None:
        """Remove a file whose messages are to be indexed again. One that was cut goes to the quarantine."""
        quarantine = self._folder.parent / QUARANTINE
        to = quarantine / f"{SET_ASIDE}{name}{UNFINISHED}"
        if is_cut and not self._files.exists(to):
            self._files.make_folders(quarantine)
            self._files.rename(self._folder / name, to)
            self._files.sync_folder(quarantine)
        else:
            self._files.remove(self._folder / name)

    def _unfinished(self) -> list[str]:
        """Names of the files in the quarantine whose messages are not indexed again yet."""
        names = self._files.names(self._folder.parent / QUARANTINE)
        return [name for name in names if name.startswith(SET_ASIDE) and name.endswith(UNFINISHED)]

    def note_indexed(self) -> None:
        """Note that all messages are indexed and the index is on the disk. Renames the files in the quarantine.

        If the disk refuses that, the next call tries it again. Without it the next start indexes the messages again.
        """
        if not self.is_cut:
            return
        quarantine = self._folder.parent / QUARANTINE
        with suppress(OSError):
            for name in self._unfinished():
                self._files.rename(quarantine / name, quarantine / name.removesuffix(UNFINISHED))
            self._files.sync_folder(quarantine)
            self.is_cut = False

    def _sizes_of(self, size: int) -> tuple[int, int] | None:
        """(slots, entries) of a file: those of the options, or else RocketMQ's ratio of 1 to 4."""
        if size == HEADER_SIZE + SLOT_SIZE * self._slots + ENTRY_SIZE * self._entries:
            return self._slots, self._entries
        slots, rest = divmod(size - HEADER_SIZE, SLOT_SIZE + 4 * ENTRY_SIZE)
        return (slots, 4 * slots) if slots > 0 and rest == 0 else None

    def cut(self, physical_end: int, count: int | None) -> int:
        """Drop the entries of records at or after ``physical_end``, and flush; returns how many were dropped.

        ``count`` is the value of ``last_count`` when everything before ``physical_end`` was flushed, None if unknown.
        """
        dropped = 0
        self.has_room = False
        while self.index_files and (
            self.index_files[-1].header.index_count <= 1 or self.index_files[-1].header.begin_phy_offset >= physical_end
        ):
            file = self.index_files.pop()
            dropped += file.header.index_count - 1
            self._files.remove(file.path)
        if self.index_files:
            last = self.index_files[-1]
            dropped += last.cut(physical_end, count)
            last.file.flush(0, last.file.size)
        return dropped

    @property
    def last_count(self) -> int:
        """Number of the next entry in the newest file that has entries; 0 if no file has."""
        counts = [file.header.index_count for file in self.index_files[-2:] if file.header.index_count > 1]
        return counts[-1] if counts else 0

    def take_expired(self, min_physical_offset: int) -> list[Path]:
        """Files with entries of expired records only; the last file stays. The caller removes them."""
        expired = []
        while len(self.index_files) > 1 and self.index_files[0].header.end_phy_offset < min_physical_offset:
            expired.append(self.index_files.pop(0).path)
        return expired
