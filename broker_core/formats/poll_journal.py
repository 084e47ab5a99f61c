"""The poll journal: how every pull ended and every change of a consumed offset, in files beside the commit log.

The files are ``<store>/polljournal/<20 digits>.journal``, numbered in order of creation. Each has a header and blocks;
a block is written at once. All numbers are little-endian, all parts are multiples of 8 bytes long. GlassMQ's own.

    header                                              block
    offset  bytes  field                                offset  bytes  field
    ------  -----  ------------------------------       ------  -----  --------------------------------------------
         0      8  "GLASSPJ1"                                0      4  bytes of the block
         8      4  schema version, 1                         4      4  CRC-32 of the block from here on
        12      4  bytes of the header                       8      4  entries in it
        16      4  bytes of an entry                        12      4  strings in it
        20      4  bytes of the broker's name               16      4  bytes of the strings, with the zeros after them
        24      8  number of the file                       20      4  entries that were lost before this block
        32      8  wall time of creation, ms                24      8  smallest at_ms of the entries
        40      8  the broker's epoch, ms                   32      8  largest at_ms of the entries
        48      n  the broker's name, UTF-8                 40      n  strings: 2 bytes length and UTF-8 each; zeros
         …      …  zeros                                     …      …  entries
    last 4      4  CRC-32 of the header before it

    entry, 80 bytes; a number that does not apply is -1
    offset  bytes  field
    ------  -----  ------------------------------------------------------------------------------------
         0      8  at_ms            wall time at which the pull ended or the offset was committed
         8      8  from_offset      where the pull begins to read; for a commit the previous offset
        16      8  next_offset      where the next pull begins; for a commit the new offset
        24      8  max_offset       the queue's end at that time
        32      8  oldest_store_ms  store time of the first returned message
        40      4  held_us          how long the pull was held, 0 if it was answered at once
        44      4  wake_us          from the arrival that woke the pull to the answer
        48      4  granted_ms       how long it could have been held at most
        52      4  queue_id
        56      4  messages         number of returned messages
        60      4  bytes            their size, as stored
        64      4  topic            number of a string of this file
        68      4  group            number of a string of this file
        72      4  client_id        number of a string of this file
        76      1  kind             position in KINDS, counted from 1; 0: does not apply
        77      1  cause            position in CAUSES
        78      1  status           position in STATUSES
        79      1  protocol         position in PROTOCOLS

The strings of a file are numbered from 1, in order, through all its blocks; 0 is the empty string. A block without
entries and strings closes the file. The file ends at the first wrong length or checksum, as found beside a running
broker or after a crash. A later schema may add fields at the end of header and entry, which older readers skip, and
names at the end of the tables. Any other change gets another magic number.
"""

import re
import zlib
from collections.abc import Iterator
from struct import Struct, error
from typing import Any, NamedTuple

import msgspec

from broker_core.formats.commit_log_record import Buffer

FOLDER = "polljournal"
FILE_NAME = re.compile(r"(\d{20})\.journal")
MAGIC = b"GLASSPJ1"
VERSION = 1
HEADER = Struct("<8s4I3q")
BLOCK = Struct("<6I2q")
FIELDS = (
    ("at_ms", "q"),
    ("from_offset", "q"),
    ("next_offset", "q"),
    ("max_offset", "q"),
    ("oldest_store_ms", "q"),
    ("held_us", "i"),
    ("wake_us", "i"),
    ("granted_ms", "i"),
    ("queue_id", "i"),
    ("messages", "i"),
    ("bytes", "i"),
    ("topic", "i"),
    ("group", "i"),
    ("client_id", "i"),
    ("kind", "B"),
    ("cause", "B"),
    ("status", "B"),
    ("protocol", "B"),
)
"""Name and struct code of an entry's fields, in order, without gaps."""
ENTRY = Struct("<" + "".join(code for _, code in FIELDS))

KINDS = ("answered_at_once", "woken", "released", "committed")
CAUSES = (
    "arrival",
    "filter_advanced",
    "missed_arrival",
    "timeout",
    "short_poll",
    "shutdown",
    "channel_gone",
    "cancelled",
    "refused",
)
STATUSES = (
    "FOUND",
    "NO_MATCHED_MESSAGE",
    "MESSAGE_WAS_REMOVING",
    "OFFSET_FOUND_NULL",
    "OFFSET_OVERFLOW_BADLY",
    "OFFSET_OVERFLOW_ONE",
    "OFFSET_TOO_SMALL",
    "NO_MATCHED_LOGIC_QUEUE",
    "NO_MESSAGE_IN_QUEUE",
    "OFFSET_RESET",
)
PROTOCOLS = ("http", "websocket", "remoting")
OTHER = 255
"""Code for a name that is not in this schema's table."""

MAX_ENTRIES = 4096
MAX_STRING_BYTES = 64 * 1024
"""A block is full when its strings reach this size."""
MAX_STRING = 1024
"""Bytes of one string; a longer one is truncated."""
MAX_STRINGS = 65_536
"""A file is full when it has more strings than this, because the writer keeps them all in memory."""
MAX_BLOCK = BLOCK.size + MAX_STRING_BYTES + 3 * (MAX_STRING + 2) + 8 + MAX_ENTRIES * ENTRY.size
"""Largest size of a block, bytes."""

_PREFIX = Struct("<2I")
_CRC = Struct("<I")
_LENGTH = Struct("<H")
_LIMITS = {"q": (1 << 63) - 1, "i": (1 << 31) - 1, "B": 255}


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """The end of a pull, or a committed offset. Texts that do not apply are empty, numbers -1."""

    at_ms: int
    from_offset: int
    next_offset: int
    max_offset: int
    oldest_store_ms: int
    held_us: int
    wake_us: int
    granted_ms: int
    queue_id: int
    messages: int
    bytes: int
    topic: str
    group: str
    client_id: str
    kind: str
    cause: str = ""
    status: str = ""
    protocol: str = ""


class JournalHeader(NamedTuple):
    """The header of a file. ``length`` and ``entry_size`` are in bytes, times in ms."""

    version: int
    length: int
    entry_size: int
    number: int
    created_ms: int
    epoch: int
    broker: str


class JournalBlock(NamedTuple):
    """A valid block. ``entries_at`` and ``end`` are positions in the file; the next block begins at ``end``."""

    entries: int
    lost: int
    min_ms: int
    max_ms: int
    strings: tuple[str, ...]
    entries_at: int
    end: int

    @property
    def closes(self) -> bool:
        """Whether this block closes the file."""
        return not self.entries and not self.strings


def file_name(number: int) -> str:
    return f"{number:020d}.journal"


def _codes(names: tuple[str, ...]) -> dict[str, int]:
    return {"": 0} | {name: code for code, name in enumerate(names, 1)}


_KINDS, _CAUSES, _STATUSES, _PROTOCOLS = _codes(KINDS), _codes(CAUSES), _codes(STATUSES), _codes(PROTOCOLS)


# --- Writing ---


def encode_header(number: int, created_ms: int, epoch: int, broker: str) -> bytes:
    """The header of a new file."""
    name = _text(broker)
    length = -(-(HEADER.size + len(name) + _CRC.size) // 8) * 8
    data = HEADER.pack(MAGIC, VERSION, length, ENTRY.size, len(name), number, created_ms, epoch) + name
    data = data.ljust(length - _CRC.size, b"\0")
    return data + _CRC.pack(zlib.crc32(data))


def _text(text: str) -> bytes:
    """UTF-8 of the text, truncated to whole characters within MAX_STRING bytes."""
    data = text.encode("utf-8", "replace")
    return data if len(data) <= MAX_STRING else data[:MAX_STRING].decode("utf-8", "ignore").encode()


class BlockEncoder:
    """Gathers the entries of one file into blocks.

    Every block that ``take`` returns must be written, in that order, because later blocks refer to its strings.
    """

    def __init__(self) -> None:
        self._numbers = {"": 0}
        self._strings: list[bytes] = []
        self._strings_size = 0
        self._entries: list[bytes] = []
        self._min_ms = self._max_ms = 0

    def __len__(self) -> int:
        """Number of entries added since the last block."""
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether ``take`` must be called before more entries are added."""
        return len(self._entries) >= MAX_ENTRIES or self._strings_size >= MAX_STRING_BYTES

    @property
    def has_many_strings(self) -> bool:
        """Whether the next block should begin another file."""
        return len(self._numbers) > MAX_STRINGS

    def add(self, entry: JournalEntry) -> None:
        numbers, at_ms = self._numbers, entry.at_ms
        topic, group, client_id = entry.topic, entry.group, entry.client_id
        if topic not in numbers:
            self._add_string(topic)
        if group not in numbers:
            self._add_string(group)
        if client_id not in numbers:
            self._add_string(client_id)
        values = (
            at_ms,
            entry.from_offset,
            entry.next_offset,
            entry.max_offset,
            entry.oldest_store_ms,
            entry.held_us,
            entry.wake_us,
            entry.granted_ms,
            entry.queue_id,
            entry.messages,
            entry.bytes,
            numbers[topic],
            numbers[group],
            numbers[client_id],
            _KINDS.get(entry.kind, OTHER),
            _CAUSES.get(entry.cause, OTHER),
            _STATUSES.get(entry.status, OTHER),
            _PROTOCOLS.get(entry.protocol, OTHER),
        )
        try:
            packed = ENTRY.pack(*values)
        except error:  # a value does not fit into its field
            at_ms = _nearest(at_ms, FIELDS[0])
            packed = ENTRY.pack(*map(_nearest, values, FIELDS))
        if not self._entries:
            self._min_ms = self._max_ms = at_ms
        elif at_ms > self._max_ms:
            self._max_ms = at_ms
        elif at_ms < self._min_ms:
            self._min_ms = at_ms
        self._entries.append(packed)

    def _add_string(self, text: str) -> None:
        data = _text(text)
        self._numbers[text] = len(self._numbers)
        self._strings.append(_LENGTH.pack(len(data)) + data)
        self._strings_size += 2 + len(data)

    def take(self, lost: int = 0) -> bytes:
        """The block of the added entries, or a closing block if there are none.

        ``lost`` is how many entries are missing before it.
        """
        strings = b"".join(self._strings)
        strings += bytes(-len(strings) % 8)
        length = BLOCK.size + len(strings) + len(self._entries) * ENTRY.size
        head = BLOCK.pack(
            length,
            0,
            len(self._entries),
            len(self._strings),
            len(strings),
            min(lost, 0xFFFFFFFF),
            self._min_ms,
            self._max_ms,
        )
        rest = b"".join((head[_PREFIX.size :], strings, *self._entries))
        self._strings, self._strings_size, self._entries = [], 0, []
        self._min_ms = self._max_ms = 0
        return _PREFIX.pack(length, zlib.crc32(rest)) + rest


def _nearest(value: int, field: tuple[str, str]) -> int:
    """The nearest number that fits into the field."""
    limit = _LIMITS[field[1]]
    return max(min(value, limit), -limit - 1)


# --- Reading ---


def decode_header(data: Buffer) -> JournalHeader | None:
    """The header of a file; None if it is not a readable journal, or its header is incomplete."""
    if len(data) < HEADER.size:
        return None
    magic, version, length, entry_size, name_size, number, created_ms, epoch = HEADER.unpack_from(data)
    if magic != MAGIC or not HEADER.size + name_size + _CRC.size <= length <= len(data) or not entry_size:
        return None
    if zlib.crc32(data[: length - _CRC.size]) != _CRC.unpack_from(data, length - _CRC.size)[0]:
        return None
    name = bytes(data[HEADER.size : HEADER.size + name_size]).decode("utf-8", "replace")
    return JournalHeader(version, length, entry_size, number, created_ms, epoch, name)


def decode_block(data: Buffer, at: int, entry_size: int) -> JournalBlock | None:
    """The block at this position; None if no complete and undamaged block follows, so that the file ends here."""
    if len(data) - at < BLOCK.size:
        return None
    length, crc, count, string_count, strings_size, lost, min_ms, max_ms = BLOCK.unpack_from(data, at)
    entries_at = at + BLOCK.size + strings_size
    end = entries_at + count * entry_size
    if end != at + length or end > len(data) or zlib.crc32(memoryview(data)[at + _PREFIX.size : end]) != crc:
        return None
    strings = []
    octets = bytes(data[at + BLOCK.size : entries_at])
    string_at = 0
    for _ in range(string_count):
        string_end = string_at + 2 + int.from_bytes(octets[string_at : string_at + 2], "little")
        if string_end > strings_size:
            return None
        strings.append(octets[string_at + 2 : string_end].decode("utf-8", "replace"))
        string_at = string_end
    return JournalBlock(count, lost, min_ms, max_ms, tuple(strings), entries_at, end)


def decode_blocks(data: Buffer, header: JournalHeader) -> Iterator[JournalBlock]:
    """The blocks of a file, up to its end; the last one may be a closing block."""
    at = header.length
    while (block := decode_block(data, at, header.entry_size)) is not None:
        yield block
        at = block.end


def decode_entries(data: Buffer) -> Iterator[JournalEntry]:
    """The entries of a file, one by one; none if it is not a journal.

    This is for small numbers; ``spark_jobs`` has a faster reader for millions.
    """
    header = decode_header(data)
    if header is None:
        return
    strings = [""]
    for block in decode_blocks(data, header):
        strings += block.strings
        for at in range(block.entries_at, block.end, header.entry_size):
            # An entry of an older schema has fewer fields; the missing ones read as -1.
            entry = bytes(data[at : at + header.entry_size]).ljust(ENTRY.size, b"\xff")
            yield decode_entry(ENTRY.unpack_from(entry), strings)


def decode_entry(fields: tuple[Any, ...], strings: list[str]) -> JournalEntry:
    """The entry of these fields of an ENTRY, in a file with these strings so far."""
    texts = [strings[number] if 0 <= number < len(strings) else "" for number in fields[11:14]]
    tables = (KINDS, CAUSES, STATUSES, PROTOCOLS)
    names = [_name(code, table) for code, table in zip(fields[14:], tables, strict=True)]
    return JournalEntry(*fields[:11], *texts, *names)


def _name(code: int, names: tuple[str, ...]) -> str:
    if code == 0:
        return ""
    return names[code - 1] if code <= len(names) else "other"
