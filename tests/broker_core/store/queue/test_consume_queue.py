from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.consume_queue_unit import HOLE, iter_units
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.queue.consume_queue import ConsumeQueue
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/q")


def make(files: SimulatedFiles) -> ConsumeQueue:
    return ConsumeQueue(files, OpenMaps(8), FOLDER, "T", 0, 1990)


def fields(start: int, count: int) -> list[int]:
    return [field for number in range(start, start + count) for field in (number * 100, 100, number)]


def test_a_file_size_is_rounded_up_to_whole_units() -> None:
    assert make(SimulatedFiles()).mapped_files.file_size == 2000


@given(st.lists(st.integers(1, 250), min_size=1, max_size=6), st.booleans())
def test_units_are_read_back_however_they_were_divided(counts: list[int], clean: bool) -> None:
    files = SimulatedFiles()
    queue = make(files)
    for count in counts:
        queue.put(queue.max_offset, fields(queue.max_offset, count))
    total = sum(counts)
    again = make(files)
    again.recover(clean=clean)
    for one in (queue, again):
        assert (one.max_offset, one.next_offset, one.max_physical_offset) == (total, total, total * 100)
        found, offset = [], 0
        while offset < total:
            found += list(iter_units(one.read(offset, 70)))
            offset = len(found)
        assert found == [(number * 100, 100, number) for number in range(total)]


def test_a_gap_before_the_first_unit_is_filled_as_rocketmq_does() -> None:
    files = SimulatedFiles()
    queue = make(files)
    queue.put(130, fields(130, 3))
    assert files.names(FOLDER) == ["00000000000000002000"]
    content = files.read(FOLDER / "00000000000000002000") or b""
    assert content[:600] == HOLE * 30
    assert list(iter_units(content[600:660])) == [(13_000, 100, 130), (13_100, 100, 131), (13_200, 100, 132)]
    again = make(files)
    again.recover(clean=False)
    assert (again.min_offset(0), again.max_offset) == (130, 133)
    assert (queue.min_offset(0), queue.min_offset(13_100)) == (130, 131)


def test_a_queue_may_begin_exactly_at_the_start_of_a_file() -> None:
    files = SimulatedFiles()
    make(files).put(200, fields(200, 1))
    assert files.names(FOLDER) == ["00000000000000004000"]
    again = make(files)
    again.recover(clean=True)
    assert (again.min_offset(0), again.max_offset) == (200, 201)


def test_recovery_stops_at_the_first_invalid_unit() -> None:
    files = SimulatedFiles()
    queue = make(files)
    queue.put(0, fields(0, 150))
    file = queue.mapped_files.all()[1]
    file.write(20 * 20, bytes(20))
    again = make(files)
    again.recover(clean=False)
    assert again.max_offset == 120
    again.truncate(1 << 40)
    assert bytes(file.buffer[400:]) == bytes(1600)


def test_truncated_units_do_not_come_back() -> None:
    files = SimulatedFiles()
    queue = make(files)
    queue.put(0, fields(0, 250))
    assert queue.truncate(15_050) == 100
    assert (queue.max_offset, queue.next_offset) == (150, 150)
    assert queue.truncate(15_050) == 0
    again = make(files)
    again.recover(clean=False)
    assert again.max_offset == 150
    queue.put(150, fields(150, 100))
    assert list(iter_units(queue.read(249, 5))) == [(24_900, 100, 249)]


def test_min_offset_and_files_follow_the_log() -> None:
    queue = make(SimulatedFiles())
    queue.put(0, fields(0, 250))
    assert queue.min_offset(0) == 0
    assert queue.min_offset(15_000) == 150
    assert [path.name for path in queue.take_expired(15_000)] == ["00000000000000000000"]
    assert queue.unit(0) == (0, 0, 0)
    assert queue.read(0, 5) == b""
    assert queue.next_file_offset(0) == 100
    assert queue.min_offset(99_999) == 250
    assert [path.name for path in queue.take_expired(99_999)] == ["00000000000000002000"]


def test_dirty_ranges_are_returned_once() -> None:
    queue = make(SimulatedFiles())
    queue.put(0, fields(0, 150))
    assert [(file.base, start, end) for file, start, end in queue.take_dirty()] == [(0, 0, 2000), (2000, 0, 1000)]
    assert queue.take_dirty() == []
    queue.put(150, fields(150, 1))
    assert [(start, end) for _, start, end in queue.take_dirty()] == [(1000, 1020)]


def test_the_last_message_before_holes() -> None:
    queue = make(SimulatedFiles())
    queue.put(0, fields(0, 30))
    queue.put(230, fields(230, 3))  # the holes between them lie in three files
    assert [queue.before_holes(offset, 5) for offset in (232, 230, 229, 100, 30, 29)] == [232, 230, 29, 29, 29, 29]
    assert queue.before_holes(229, 40) == 39
