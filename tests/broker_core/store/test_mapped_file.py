from pathlib import Path

import pytest

from broker_core.store.mapped_file import MappedFile, OpenMaps
from tests.fakes.simulated_files import SimulatedFiles, SimulatedMapping

SIZE = 200_000


def make(count: int, limit: int, *, keep_changed: bool = False) -> list[MappedFile]:
    files, maps = SimulatedFiles(), OpenMaps(limit, keep_changed=keep_changed)
    return [MappedFile(files, maps, Path(f"/f/{number}"), number * SIZE, SIZE) for number in range(count)]


def test_the_number_of_mapped_files_is_limited() -> None:
    mapped = make(20, 4)
    for file in mapped:
        file.write(0, file.path.name.encode())
    assert sum(file.is_mapped for file in mapped) <= 4
    assert mapped[-1].is_mapped
    assert [bytes(file.buffer[:2]).rstrip(b"\0") for file in mapped] == [file.path.name.encode() for file in mapped]


def test_an_unused_file_is_unmapped_before_a_used_one() -> None:
    mapped = make(10, 3)
    for file in mapped:
        _ = file.buffer
        _ = mapped[0].buffer
    assert mapped[0].is_mapped


def test_changed_private_maps_stay_in_memory() -> None:
    mapped = make(10, 3, keep_changed=True)
    for file in mapped:
        file.write(0, b"x")
    assert all(file.is_mapped for file in mapped)


def test_the_end_of_the_data_is_found_and_cleared() -> None:
    file = make(1, 4)[0]
    assert file.data_end(7) == 7
    file.write(150_000, b"abc")
    file.write(10, b"z")
    assert file.data_end(0) == file.data_end(140_000) == 150_003
    assert file.clear(100) == 149_903
    assert file.data_end(0) == 11
    assert file.data_end(100) == 100


def test_space_is_reserved_ahead_and_a_full_disk_is_reported_before_a_write() -> None:
    files = SimulatedFiles()
    file = MappedFile(files, OpenMaps(4), Path("/f/0"), 0, SIZE)
    file.allocate(10, 1000)
    assert file.allocated == 1010
    file.allocate(1000, 1000)
    assert file.allocated == 1010
    files.fail("allocate", 1, 28)
    with pytest.raises(OSError, match="simulated"):
        file.allocate(2000, 1000)
    assert file.allocated == 1010
    file.allocate(SIZE, 1000)
    assert file.allocated == SIZE


def test_what_is_written_next_is_brought_into_memory_64_kib_at_a_time() -> None:
    files, block = SimulatedFiles(), 65_536
    file = MappedFile(files, OpenMaps(4), Path("/f/0"), 0, 10 * block)
    file.allocate(1, 10 * block)
    for position in range(0, 3 * block, 1000):
        file.write(position, bytes(1000))
    mapping = file._mapping
    assert isinstance(mapping, SimulatedMapping)
    assert mapping.prefetched == [(block, 2 * block), (2 * block, 3 * block), (3 * block, 4 * block)]
    mapping.prefetched.clear()
    file.write(4 * block - 1, bytes(2 * block))
    assert mapping.prefetched == [(4 * block, 6 * block)]


@pytest.mark.parametrize("size", [1, 700, 1000])
def test_the_kernel_reads_ahead_in_no_part_of_a_block_that_is_written(size: int) -> None:
    """Also in the part of the block for which space was reserved with the block before."""
    file = MappedFile(SimulatedFiles(), OpenMaps(4), Path("/f/0"), 0, SIZE)
    for position in range(0, 50_000, size):
        file.allocate(position + size, 1000)
        file.write(position, bytes(size))
        assert isinstance(file._mapping, SimulatedMapping)
        start, end = file._mapping.expected
        assert start <= position and position + size <= end


def test_an_unmapped_file_can_be_flushed_and_a_deleted_one_needs_no_flush() -> None:
    files = SimulatedFiles()
    file = MappedFile(files, OpenMaps(4), Path("/f/0"), 0, SIZE)
    file.write(0, b"abc")
    file.unmap()
    file.flush(0, 3)
    files.sync_folder(Path("/f"))
    files.crash()
    assert (files.read(Path("/f/0")) or b"")[:3] == b"abc"
    file.unmap()
    files.remove(Path("/f/0"))
    file.flush(0, 3)
    assert not files.exists(Path("/f/0"))
