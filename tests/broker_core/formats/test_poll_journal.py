"""The poll journal's bytes: compared with bytes written by hand, torn and damaged at every position, round trips."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.commands import base
from broker_core.formats.poll_journal import (
    BLOCK,
    CAUSES,
    ENTRY,
    MAX_BLOCK,
    MAX_ENTRIES,
    MAX_STRING,
    MAX_STRING_BYTES,
    MAX_STRINGS,
    PROTOCOLS,
    BlockEncoder,
    JournalEntry,
    JournalHeader,
    decode_block,
    decode_blocks,
    decode_entries,
    decode_header,
    encode_header,
    file_name,
)

WOKEN = JournalEntry(
    at_ms=1_700_000_000_123,
    from_offset=811,
    next_offset=812,
    max_offset=812,
    oldest_store_ms=1_700_000_000_120,
    held_us=4_200_000,
    wake_us=31,
    granted_ms=15_000,
    queue_id=3,
    messages=1,
    bytes=640,
    topic="orders",
    group="größe",
    client_id="10.0.0.7@1#2",
    kind="woken",
    cause="arrival",
    status="FOUND",
    protocol="remoting",
)
COMMITTED = JournalEntry(
    at_ms=1_700_000_000_200,
    from_offset=-1,
    next_offset=812,
    max_offset=900,
    oldest_store_ms=-1,
    held_us=-1,
    wake_us=-1,
    granted_ms=-1,
    queue_id=3,
    messages=-1,
    bytes=-1,
    topic="orders",
    group="größe",
    client_id="",
    kind="committed",
)


def block_of(*entries: JournalEntry, encoder: BlockEncoder | None = None, lost: int = 0) -> bytes:
    encoder = BlockEncoder() if encoder is None else encoder
    for entry in entries:
        encoder.add(entry)
    return encoder.take(lost)


def journal_of(*blocks: bytes) -> bytes:
    return encode_header(7, 1_700_000_000_000, 42, "broker-a") + b"".join(blocks)


def test_a_header_byte_by_byte() -> None:
    data = b"GLASSPJ1" + struct.pack("<4I3q", 1, 64, 80, 8, 7, 1_700_000_000_000, 42) + b"broker-a" + bytes(4)
    data += struct.pack("<I", zlib.crc32(data))
    assert encode_header(7, 1_700_000_000_000, 42, "broker-a") == data
    assert decode_header(data + b"what follows") == JournalHeader(1, 64, 80, 7, 1_700_000_000_000, 42, "broker-a")


def test_a_block_byte_by_byte() -> None:
    strings = b"\x06\0orders\x07\0gr\xc3\xb6\xc3\x9fe\x0c\x0010.0.0.7@1#2"
    strings += bytes(-len(strings) % 8)
    woken = struct.pack(
        "<5q9i4B",
        1_700_000_000_123,
        811,
        812,
        812,
        1_700_000_000_120,
        4_200_000,
        31,
        15_000,
        3,
        1,
        640,
        1,
        2,
        3,
        2,
        1,
        1,
        3,
    )
    committed = struct.pack("<5q9i4B", 1_700_000_000_200, -1, 812, 900, -1, -1, -1, -1, 3, -1, -1, 1, 2, 0, 4, 0, 0, 0)
    assert len(woken) == len(committed) == 80
    rest = struct.pack("<4I2q", 2, 3, len(strings), 5, 1_700_000_000_123, 1_700_000_000_200)
    rest += strings + woken + committed
    data = struct.pack("<2I", 8 + len(rest), zlib.crc32(rest)) + rest
    assert block_of(WOKEN, COMMITTED, lost=5) == data
    block = decode_block(b"before" + data + b"behind", 6, 80)
    assert block is not None and block.strings == ("orders", "größe", "10.0.0.7@1#2")
    assert (block.entries, block.lost, block.min_ms, block.max_ms, block.entries_at, block.end) == (
        2,
        5,
        1_700_000_000_123,
        1_700_000_000_200,
        6 + 40 + len(strings),
        6 + len(data),
    )


def test_headers_and_blocks_are_aligned_to_8_bytes() -> None:
    for name in ("", "b", "broker-abc", "größe" * 7):
        assert len(encode_header(1, 2, 3, name)) % 8 == 0
        assert len(block_of(WOKEN, JournalEntry(*([0] * 11), name, name + "x", "", "woken"))) % 8 == 0


def test_strings_are_written_once_in_a_file() -> None:
    encoder = BlockEncoder()
    first, second = block_of(WOKEN, encoder=encoder), block_of(WOKEN, COMMITTED, encoder=encoder)
    assert len(second) == BLOCK.size + 2 * ENTRY.size
    assert list(decode_entries(journal_of(first, second))) == [WOKEN, WOKEN, COMMITTED]


def test_an_empty_block_closes_the_file() -> None:
    data = journal_of(block_of(WOKEN), BlockEncoder().take(3))
    header = decode_header(data)
    assert header is not None
    blocks = list(decode_blocks(data, header))
    assert [(block.closes, block.lost) for block in blocks] == [(False, 0), (True, 3)]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("kind", ("answered_at_once", "woken", "released", "committed")),
        ("protocol", base.Protocol.__args__),
        ("cause", (*base.WakeCause.__args__, *base.ReleaseCause.__args__)),
        (
            "status",
            (
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
            ),
        ),
    ],
)
def test_every_name_of_an_event_is_in_the_tables(name: str, known: tuple[str, ...]) -> None:
    fields = {field: getattr(WOKEN, field) for field in WOKEN.__struct_fields__}
    entries = [JournalEntry(**(fields | {name: text})) for text in ("", *known)]
    assert list(decode_entries(journal_of(block_of(*entries)))) == entries


def test_a_name_that_is_not_in_the_tables_becomes_other() -> None:
    entry = JournalEntry(*([0] * 11), "t", "g", "c", "mended", "boredom", "GREAT", "pigeon")
    (found,) = decode_entries(journal_of(block_of(entry)))
    assert (found.kind, found.cause, found.status, found.protocol) == ("other",) * 4


def test_a_number_that_does_not_fit_becomes_the_nearest() -> None:
    entry = JournalEntry(1 << 70, -(1 << 70), 1, 2, 3, 1 << 31, -(1 << 40), 4, 5, 6, 7, "t", "g", "c", "woken")
    (found,) = decode_entries(journal_of(block_of(entry)))
    assert (found.at_ms, found.from_offset, found.held_us, found.wake_us, found.bytes) == (
        (1 << 63) - 1,
        -(1 << 63),
        (1 << 31) - 1,
        -(1 << 31),
        7,
    )


def test_a_long_text_is_truncated_between_characters() -> None:
    entry = JournalEntry(*([0] * 11), "t", "ö" * MAX_STRING, "c\ud800", "woken")
    (found,) = decode_entries(journal_of(block_of(entry)))
    assert found.group == "ö" * (MAX_STRING // 2) and found.client_id == "c?"


def test_a_block_is_full_by_entries_and_by_strings() -> None:
    encoder = BlockEncoder()
    while not encoder.is_full:
        encoder.add(WOKEN)
    assert len(encoder) == MAX_ENTRIES
    encoder.take()
    assert not encoder.is_full
    while not encoder.is_full:
        name = f"{len(encoder)}".ljust(MAX_STRING, "x")
        encoder.add(JournalEntry(*([0] * 11), name, "g" + name[1:], "c" + name[1:], "woken"))
    assert len(encoder) < MAX_ENTRIES
    assert MAX_STRING_BYTES < len(encoder.take()) < MAX_BLOCK


def test_the_number_of_strings_in_a_file_is_limited() -> None:
    encoder = BlockEncoder()
    for number in range(MAX_STRINGS - 2):
        encoder.add(JournalEntry(*([0] * 11), "t", "", f"c{number}", "woken"))
    assert not encoder.has_many_strings
    encoder.add(JournalEntry(*([0] * 11), "t", "", "one more", "woken"))
    assert encoder.has_many_strings


def test_a_block_has_the_smallest_and_largest_time_even_if_the_clock_goes_back() -> None:
    entries = [JournalEntry(at, *([0] * 10), "t", "g", "c", "woken") for at in (50, 70, 20, 60)]
    block = decode_block(block_of(*entries), 0, ENTRY.size)
    assert block is not None and (block.min_ms, block.max_ms) == (20, 70)


# --- torn and damaged ---


def test_a_torn_block_ends_the_file() -> None:
    encoder = BlockEncoder()
    parts = [block_of(WOKEN, encoder=encoder), block_of(COMMITTED, WOKEN, encoder=encoder)]
    data = journal_of(*parts)
    first_end = len(data) - len(parts[1])
    for length in range(len(data)):
        whole = 0 if length < first_end else 1
        assert len(list(decode_entries(data[:length]))) == whole, length
    assert len(list(decode_entries(data))) == 3


def test_a_block_of_zeros_ends_the_file() -> None:
    data = journal_of(block_of(WOKEN))
    assert list(decode_entries(data + bytes(4096))) == [WOKEN]


def test_any_changed_byte_ends_the_file_there() -> None:
    encoder = BlockEncoder()
    parts = [block_of(WOKEN, encoder=encoder), block_of(COMMITTED, encoder=encoder)]
    data = journal_of(*parts)
    header_end, first_end = len(journal_of()), len(data) - len(parts[1])
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        expected = [] if at < first_end else [WOKEN]
        assert list(decode_entries(damaged)) == expected, at
        assert (decode_header(damaged) is None) == (at < header_end)


@pytest.mark.parametrize("strings", [b"\xff\xff" + b"x" * 6, b"\x08\0" + b"x" * 6])
def test_a_string_that_exceeds_its_block_ends_the_file(strings: bytes) -> None:
    rest = struct.pack("<4I2q", 0, 1, len(strings), 0, 0, 0) + strings
    data = struct.pack("<2I", 8 + len(rest), zlib.crc32(rest)) + rest
    assert decode_block(data, 0, ENTRY.size) is None


@pytest.mark.parametrize("data", [b"", b"GLASSPJ1", b"GLASSPJ2" + journal_of()[8:], bytes(100)])
def test_a_file_that_is_not_a_journal_has_no_entries(data: bytes) -> None:
    assert decode_header(data) is None and list(decode_entries(data)) == []


# --- other schemas ---


def with_schema(version: int, entry_size: int, more_header: bytes = b"") -> bytes:
    """WOKEN and COMMITTED in another schema, with shorter entries or entries that end in ``0xEE`` bytes."""
    name = b"broker-a"
    length = 48 + len(name) + len(more_header) + 8
    data = b"GLASSPJ1" + struct.pack("<4I3q", version, length, entry_size, len(name), 7, 1, 42) + name + more_header
    data += bytes(4)
    data += struct.pack("<I", zlib.crc32(data))
    strings = b"\x01\0t\x01\0g\x01\0c".ljust(16, b"\0")
    entries = b""
    for at in (100, 200):
        entry = struct.pack("<5q9i4B", at, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 2, 1, 1, 9)
        entries += entry.ljust(entry_size, b"\xee")[:entry_size]
    rest = struct.pack("<4I2q", 2, 3, len(strings), 0, 100, 200) + strings + entries
    return data + struct.pack("<2I", 8 + len(rest), zlib.crc32(rest)) + rest


def test_known_fields_of_a_later_schema_are_read() -> None:
    first, second = decode_entries(with_schema(2, 96, b"more of the header, and more"))
    assert (first.at_ms, second.at_ms, first.topic, first.client_id, first.kind) == (100, 200, "t", "c", "woken")
    assert first.protocol == "other"


def test_missing_fields_of_an_earlier_schema_have_no_value() -> None:
    first, _ = decode_entries(with_schema(0, 44))
    assert (first.at_ms, first.held_us, first.wake_us, first.topic) == (100, 5, -1, "")


# --- round trips ---

numbers = st.integers(-(1 << 31), (1 << 31) - 1)
entries_of_any_kind = st.builds(
    JournalEntry,
    *[st.integers(-(1 << 63), (1 << 63) - 1)] * 5,
    *[numbers] * 6,
    *[st.text(st.characters(exclude_categories=["Cs"]), max_size=40)] * 3,
    st.sampled_from(["answered_at_once", "woken", "released", "committed"]),
    st.sampled_from(["", *CAUSES]),
    st.sampled_from(["", "FOUND", "OFFSET_RESET"]),
    st.sampled_from(["", *PROTOCOLS]),
)


@given(st.lists(st.lists(entries_of_any_kind, max_size=5), max_size=4))
def test_entries_round_trip(blocks: list[list[JournalEntry]]) -> None:
    encoder = BlockEncoder()
    data = journal_of(*(block_of(*entries, encoder=encoder) for entries in blocks))
    assert list(decode_entries(data)) == [entry for entries in blocks for entry in entries]


def test_files_are_named_by_number() -> None:
    assert file_name(7) == "00000000000000000007.journal"
