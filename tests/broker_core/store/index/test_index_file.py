from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.index_unit import file_size
from broker_core.store.index.index_file import AMPLE_ENTRIES, IndexFile
from broker_core.store.mapped_file import OpenMaps
from tests.fakes.simulated_files import SimulatedFiles

PATH = Path("/index/20260101000000000")
key = st.integers(1, 40)


def make(files: SimulatedFiles) -> IndexFile:
    file = IndexFile(files, OpenMaps(4), PATH, 8, 500)
    file.load()
    return file


@given(st.lists(st.lists(key, min_size=1, max_size=30), min_size=1, max_size=8), st.integers(0, 250), st.booleans())
def test_keys_are_found_newest_first_even_after_a_cut(batches: list[list[int]], cut_at: int, known: bool) -> None:
    files = SimulatedFiles()
    file = make(files)
    everything: list[int] = []
    for batch in batches:
        file.put([(key_hash, len(everything) + at, 1000) for at, key_hash in enumerate(batch)])
        everything += batch
    for wanted in range(41):
        assert list(file.find(wanted, 0, 1 << 40)) == [
            at for at in range(len(everything) - 1, -1, -1) if everything[at] == wanted
        ]
    again = make(files)
    assert again.header == file.header
    stays = min(cut_at, len(everything))
    assert again.cut(cut_at, stays + 1 if known else None) == len(everything) - stays
    for wanted in range(41):
        assert list(again.find(wanted, 0, 1 << 40)) == [
            at for at in range(stays - 1, -1, -1) if everything[at] == wanted
        ]
    assert again.header.index_count == stays + 1


def test_file_size_and_number_of_used_slots() -> None:
    files = SimulatedFiles()
    file = make(files)
    file.put([(1, 5, 10_000), (9, 6, 11_999), (2, 7, 13_000)])
    assert files.size(PATH) == file_size(8, 500)
    assert file.header == (10_000, 13_000, 5, 7, 2, 4)
    assert [file.entry(number) for number in (1, 2, 3)] == [(1, 5, 0, 0), (9, 6, 1, 1), (2, 7, 3, 0)]
    assert file.room == 496


def test_a_time_window_is_widened_by_a_second() -> None:
    file = make(SimulatedFiles())
    file.put([(1, number, 10_000 + 700 * number) for number in range(5)])
    assert list(file.find(1, 10_700, 11_400)) == [2, 1, 0]
    assert list(file.find(1, 12_000, 13_000)) == [4, 3]


def test_disk_space_for_a_batch_is_reserved_ahead() -> None:
    """If ``is_ample`` is checked before each batch of up to 512 keys, ``put`` never needs to reserve space."""
    files = SimulatedFiles()
    file = IndexFile(files, OpenMaps(4), PATH, 8, 200_000)
    while file.room:
        if file.header.index_count >= file.ample_until:
            file.reserve(min(1024, file.room))
        allocated = file.file.allocated
        file.put([(7, 1, 1000)] * min(AMPLE_ENTRIES, file.room))
        assert file.file.allocated == allocated
    assert file.header.index_count == file.ample_until == file.entries
