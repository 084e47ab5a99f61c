from pathlib import Path

import pytest

from broker_core.store.mapped_file import OpenMaps
from broker_core.store.mapped_file_queue import MappedFileQueue, file_name
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/row")


def test_names_are_twenty_digits() -> None:
    assert file_name(1_048_576) == "00000000000001048576"


def make(files: SimulatedFiles, size: int = 1000) -> MappedFileQueue:
    return MappedFileQueue(files, OpenMaps(8), FOLDER, size)


def test_files_are_found_by_offset() -> None:
    row = make(SimulatedFiles())
    assert row.find(0) is row.first is row.last is None
    for offset in (0, 1500, 2000):
        row.create(offset)
    assert [file.base for file in row.all()] == [0, 1000, 2000]
    found = row.find(1999)
    assert found is not None
    assert found.base == 1000
    assert [(file.base, start, end) for file, start, end in row.ranges(900, 2100)] == [
        (0, 900, 1000),
        (1000, 0, 1000),
        (2000, 0, 100),
    ]
    row.take_out(found)
    assert [(file.base, start, end) for file, start, end in row.ranges(900, 2100)] == [(0, 900, 1000), (2000, 0, 100)]
    assert len(row) == 2
    row.take_out(row.all()[0])
    assert row.first is row.last is row.find(2000)


@pytest.mark.parametrize(
    ("sizes", "size", "complaints"),
    [
        ({0: 700}, 700, 0),
        ({0: 700, 700: 0}, 700, 1),
        ({0: 0}, 1000, 1),
        ({1400: 700, 2100: 700}, 700, 0),
        ({0: 700, 700: 300}, 700, 1),
    ],
)
def test_the_file_size_comes_from_the_files(sizes: dict[int, int], size: int, complaints: int) -> None:
    files = SimulatedFiles()
    for base, length in sizes.items():
        files.write(FOLDER / file_name(base), bytes(length))
    files.write(FOLDER / "notes.txt", b"not a segment")
    row = make(files)
    assert len(row.load()) == complaints
    assert row.file_size == size
    assert [file.base for file in row.all()] == list(sizes)
    for file in row.all():
        assert len(file.buffer) == size


def test_a_file_that_cannot_be_created_leaves_no_trace() -> None:
    files = SimulatedFiles()
    row = make(files)
    files.fail("create", 1, 28)
    with pytest.raises(OSError, match="simulated"):
        row.create(0)
    assert len(row) == 0 and row.first is None
    assert row.create(0) is row.first
