import random
from pathlib import Path

import pytest

from broker_core.filters.bloom_filter import BloomFilter
from broker_core.filters.consumer_filter_data import ConsumerFilterData
from broker_core.filters.sql92.sql_filter import parse_sql
from broker_core.formats.consume_queue_ext_unit import ADDRESS_BASE, END_BLANK, encode
from broker_core.store.consume_queue_ext import ConsumeQueueExt
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue, file_name
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/ext")
BLOOM = BloomFilter(20, 32)
WANTED = ConsumerFilterData("T", "g", parse_sql("a = 1"), BLOOM.data("g", "T"), 1, 0)
HIT, MISS = WANTED.bits | 1, WANTED.bits & (WANTED.bits - 1)


def make(files: SimulatedFiles, size: int = 4096) -> ConsumeQueueExt:
    return ConsumeQueueExt(MappedFileQueue(files, OpenMaps(4), FOLDER, size))


def unit(bitmap: int, stored: int = 1) -> bytes:
    return encode(5, stored, bitmap.to_bytes(14, "little"))


def candidates(ext: ConsumeQueueExt, codes: list[int], wanted: ConsumerFilterData) -> list[int]:
    return ext.candidates(codes, wanted)[0]


def test_units_are_found_by_address_in_any_file() -> None:
    files = SimulatedFiles()
    first, second = encode(11, 1, b"abc"), encode(22, 2)
    files.write(FOLDER / file_name(0), (first + second + b"\xff\xff").ljust(100, b"\0"))
    files.write(FOLDER / file_name(100), second.ljust(100, b"\0"))
    ext = make(files)
    codes = [
        unit.tags_code if unit else None
        for unit in (ext.unit(ADDRESS_BASE + offset) for offset in (0, len(first), len(first + second), 100, 200))
    ]
    assert codes == [11, 22, None, 22, None]


@pytest.mark.parametrize("together", [1, 3, 40])
def test_units_never_span_files_and_writing_goes_on_after_the_last_one(together: int) -> None:
    """RocketMQ ends a file when fewer than a unit and four bytes are left in it."""
    files = SimulatedFiles()
    ext = make(files, 100)
    units = [unit(HIT, number) for number in range(40)]
    addresses: list[int] = []
    ext.begin(0, 0)
    for start in range(0, 20, together):
        addresses += ext.put(units[start : min(start + together, 20)])
    again = make(files, 100)
    again.begin(addresses[-1], 20)
    addresses += again.put(units[20:])
    assert [address - ADDRESS_BASE for address in addresses] == [n // 2 * 100 + n % 2 * 34 for n in range(40)]
    found = [again.unit(address) for address in addresses]
    assert [each.store_timestamp for each in found if each] == list(range(40))
    data = files.read(FOLDER / file_name(100))
    assert data is not None and data == (units[2] + units[3] + b"\xff\xff").ljust(100, b"\0")


def test_writing_begins_in_a_new_file_if_the_last_unit_is_gone() -> None:
    files = SimulatedFiles()
    files.write(FOLDER / file_name(0), unit(HIT).ljust(100, b"\0"))
    for last, length, expected in (
        (0, 0, 100),
        (ADDRESS_BASE + 34, 9, 200),
        (ADDRESS_BASE + 900, 9, 1000),
        (0, 1, 2100),
        (ADDRESS_BASE, 1, 34),
    ):
        ext = make(files, 100)
        ext.begin(last, length)
        assert ext.put([unit(MISS)]) == [ADDRESS_BASE + expected]


def test_a_unit_that_no_file_has_room_for_is_refused() -> None:
    ext = make(SimulatedFiles(), 34 + END_BLANK - 1)
    ext.begin(0, 0)
    with pytest.raises(OSError, match="34 bytes does not fit into a file of 37"):
        ext.put([unit(HIT)])


def test_a_full_disk_changes_nothing() -> None:
    files = SimulatedFiles()
    ext = make(files, 100)
    ext.begin(0, 0)
    (address,) = ext.put([unit(HIT)])
    files.full = True
    with pytest.raises(OSError, match="space"):
        ext.put([unit(MISS)] * 9)
    files.full = False
    assert ext.put([unit(MISS)]) == [address + 34]


def test_only_messages_whose_bitmap_has_all_bits_of_the_filter_are_candidates() -> None:
    """Units side by side are tested together, others one by one: both agree with the bits."""
    generator = random.Random(5)
    ext = make(SimulatedFiles())
    ext.begin(0, 0)
    bitmaps = [generator.choice((HIT, MISS, 0, generator.getrandbits(112))) for _ in range(110)]
    row = ext.put([unit(bitmap) for bitmap in bitmaps])
    expected = [place for place, bitmap in enumerate(bitmaps) if bitmap & WANTED.bits == WANTED.bits]
    assert 20 < len(expected) < 90
    assert candidates(ext, row, WANTED) == expected
    mixed = generator.sample(range(110), 110)
    assert candidates(ext, [row[place] for place in mixed], WANTED) == [
        at for at, place in enumerate(mixed) if place in expected
    ]
    assert candidates(ext, row[:7], WANTED) == [place for place in expected if place < 7]
    assert candidates(ext, [], WANTED) == []


@pytest.mark.parametrize(
    "other",
    [encode(5, 1), encode(5, 1, bytes(13)), encode(5, 1, bytes(15)), bytes(34), b"\xff" * 34],
    ids=["no bitmap", "short", "long", "zeros", "ones"],
)
def test_a_message_without_a_bitmap_of_our_length_is_a_candidate(other: bytes) -> None:
    ext = make(SimulatedFiles())
    ext.begin(0, 0)
    codes = ext.put([unit(MISS), unit(HIT), other, unit(MISS)])
    assert candidates(ext, codes, WANTED) == [1, 2]
    assert candidates(ext, codes[2:3], WANTED) == [0]
    assert candidates(ext, [codes[0], -7, codes[3]], WANTED) == [1], "a plain tagsCode"
    assert candidates(ext, [codes[0], ADDRESS_BASE + 4000, ADDRESS_BASE + 9000], WANTED) == [1, 2], (
        "units that are gone"
    )


def test_tags_codes_of_units_side_by_side_are_read_at_once() -> None:
    ext = make(SimulatedFiles())
    ext.begin(0, 0)
    codes = ext.put([encode(code, 1, bytes(14)) for code in (5, -7, 1 << 31)] + [encode(9, 1)])
    assert ext.tags_codes_in_row(codes[:3]) == [5, -7, 1 << 31]
    assert ext.tags_codes_in_row(codes[3:]) == [9]
    for other in (
        codes,
        [5, *codes],
        [codes[0], codes[2]],
        [*codes[1:], ADDRESS_BASE + 4090],
        [ADDRESS_BASE + 4090],
        [],
    ):
        assert ext.tags_codes_in_row(other) is None


def test_a_file_cut_short_at_any_byte_rules_no_match_out() -> None:
    whole = b"".join([unit(MISS), unit(HIT), unit(HIT)])
    codes = [ADDRESS_BASE + offset for offset in (0, 34, 68)]
    for length in range(len(whole)):
        files = SimulatedFiles()
        files.write(FOLDER / file_name(0), whole[:length])
        found = candidates(make(files), codes, WANTED)
        assert set(found) >= {1, 2} or not set(range(1, 3)) - set(found), length


def test_files_of_expired_messages_are_taken_out() -> None:
    files = SimulatedFiles()
    ext = make(files, 100)
    ext.begin(0, 0)
    codes = ext.put([unit(HIT, 1000 + number) for number in range(7)])
    assert ext.take_expired(1001) == []
    assert ext.take_expired(1004) == [FOLDER / file_name(0), FOLDER / file_name(100)]
    assert [ext.unit(code) is None for code in codes] == [True] * 4 + [False] * 3
    assert ext.take_expired(1 << 60) == [FOLDER / file_name(200)], "the last file stays"
    assert candidates(ext, codes, WANTED) == list(range(7))


def test_what_was_written_is_flushed_once() -> None:
    ext = make(SimulatedFiles(), 100)
    assert ext.take_dirty() == []
    ext.begin(0, 0)
    ext.put([unit(HIT)] * 3)
    assert [(file.base, start, end) for file, start, end in ext.take_dirty()] == [(0, 0, 100), (100, 0, 34)]
    assert ext.take_dirty() == []
