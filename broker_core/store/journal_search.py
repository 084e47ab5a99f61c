"""What the poll journal knows about some messages: the pulls that returned them, and the commits that passed them.

Also how the pulls of one topic ended.

The journal keeps entries for days, where the ring of recent events may be seconds long. It is read in pieces, while its
thread appends to it.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import NamedTuple

from broker_core.formats.poll_journal import (
    ENTRY,
    FILE_NAME,
    FOLDER,
    KINDS,
    JournalEntry,
    decode_block,
    decode_entry,
    decode_header,
)
from broker_core.store.files import Files
from broker_core.walk import Steps

MAX_SEARCHED = 32 << 20
"""Bytes of the journal that one question looks through; some 400,000 entries."""
MAX_FOUND = 200
MAX_PULLS = 10_000
"""Pulls of one answer."""
ENTRIES_LOOKED_AT = 1000
"""Entries of a piece that are only looked at."""
ENTRIES_PACKED = 250
"""Entries of a piece that are packed anew, 2 us each."""

_QUEUE_ID, _TOPIC, _KIND = 8, 11, 14
_WOKEN, _AT_ONCE, _COMMITTED = (KINDS.index(kind) + 1 for kind in ("woken", "answered_at_once", "committed"))
_DELIVERIES = frozenset((_WOKEN, _AT_ONCE))

Places = Mapping[tuple[str, int], Set[int]]
"""(topic, queue id) -> offsets."""


def search_journal(files: Files, root: Path, places: Places, since_ms: int) -> Steps[list[JournalEntry]]:
    """The first MAX_FOUND entries from ``since_ms`` on about the messages at ``places``, in order.

    Ends after MAX_SEARCHED bytes. A file that is removed meanwhile is left out.
    """
    folder, found = root / FOLDER, []
    searched = 0
    for name in sorted(name for name in files.names(folder) if FILE_NAME.fullmatch(name)):
        for entries, size in _file_entries(files, folder / name, places, since_ms):
            found += entries
            searched += size
            if searched >= MAX_SEARCHED or len(found) >= MAX_FOUND:
                return found[:MAX_FOUND]
            yield
    return found


def _file_entries(files: Files, path: Path, places: Places, since_ms: int) -> Iterator[tuple[list[JournalEntry], int]]:
    """For each piece of a file: the entries about the messages, and the bytes that were searched."""
    topics = {topic for topic, _ in places}
    numbers: dict[str, int] = {}
    wanted: dict[tuple[int, int], Set[int]] = {}
    known = 0
    for strings, piece in _file_pieces(files, path, since_ms):
        new = [(strings[number], number) for number in range(known, len(strings)) if strings[number] in topics]
        known = len(strings)
        if new:
            numbers = dict(new) | numbers
            wanted = {(numbers[key[0]], key[1]): offsets for key, offsets in places.items() if key[0] in numbers}
        about = [decode_entry(fields, strings) for fields in ENTRY.iter_unpack(piece) if _is_about(fields, wanted)]
        yield [entry for entry in about if entry.at_ms >= since_ms], len(piece)


def _file_pieces(files: Files, path: Path, since_ms: int) -> Iterator[tuple[list[str], memoryview]]:
    """The pieces of a file that may have entries from ``since_ms`` on: the file's strings so far, and some entries.

    A block that is older is an empty piece.
    """
    try:
        if files.modified_ms(path) < since_ms:
            return
        mapping = files.map(path, files.size(path), create=False)
    except (OSError, ValueError):  # it was removed, or is empty yet
        return
    data = mapping.buffer if mapping is not None else b""
    header = decode_header(data)
    if header is None or header.entry_size != ENTRY.size:
        return
    strings = [""]
    at = header.length
    while (block := decode_block(data, at, header.entry_size)) is not None:
        strings += block.strings
        at = block.end
        if block.max_ms < since_ms:
            yield strings, memoryview(b"")
            continue
        for start in range(block.entries_at, block.end, ENTRIES_LOOKED_AT * ENTRY.size):
            yield strings, memoryview(data)[start : min(start + ENTRIES_LOOKED_AT * ENTRY.size, block.end)]


class FoundPulls(NamedTuple):
    """Packed entries of ends of pulls, in order. Their texts are numbers of ``strings``.

    ``complete`` is False if there were more than MAX_PULLS, of which these are the newest, or more than MAX_SEARCHED
    bytes to look through.
    """

    strings: list[str]
    entries: bytes
    complete: bool


def search_pulls(files: Files, root: Path, topic: str, group: str, since_ms: int) -> Steps[FoundPulls]:
    """How the pulls of a topic ended from ``since_ms`` on: those of one group, or with an empty ``group`` of all."""
    folder, found = root / FOLDER, deque[bytes](maxlen=MAX_PULLS)
    numbers: dict[str, int] = {"": 0}
    searched = total = 0
    for name in sorted(name for name in files.names(folder) if FILE_NAME.fullmatch(name)):
        wanted, known = 0, 1
        for strings, piece in _file_pieces(files, folder / name, since_ms):
            if not wanted and topic in strings[known:]:
                wanted = strings.index(topic)
            known = len(strings)
            for fields in ENTRY.iter_unpack(piece) if wanted else ():
                if fields[_TOPIC] != wanted or fields[_KIND] == _COMMITTED or fields[0] < since_ms:
                    continue
                texts = [_text(strings, number) for number in fields[_TOPIC:_KIND]]
                if group in ("", texts[1]):
                    packed = [numbers.setdefault(text, len(numbers)) for text in texts]
                    found.append(ENTRY.pack(*fields[:_TOPIC], *packed, *fields[_KIND:]))
                    total += 1
                    if total % ENTRIES_PACKED == 0:
                        yield
            searched += len(piece)
            yield
            if searched >= MAX_SEARCHED:
                return FoundPulls(list(numbers), b"".join(found), complete=False)
    return FoundPulls(list(numbers), b"".join(found), complete=total <= MAX_PULLS)


def _text(strings: list[str], number: int) -> str:
    return strings[number] if 0 <= number < len(strings) else ""


def _is_about(fields: tuple[int, ...], wanted: Mapping[tuple[int, int], Set[int]]) -> bool:
    """Whether the pull returned one of the messages, or the commit passed it."""
    offsets = wanted.get((fields[_TOPIC], fields[_QUEUE_ID]))
    if offsets is None:
        return False
    kind, first, end = fields[_KIND], fields[1], fields[2]
    if kind == _COMMITTED or (kind in _DELIVERIES and fields[9] > 0):
        return any(first <= offset < end for offset in offsets)
    return False
