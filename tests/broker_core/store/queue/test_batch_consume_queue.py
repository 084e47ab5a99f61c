"""A batch consume queue alone: units of 46 bytes that are found by the offsets of their messages."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.formats.batch_consume_queue_unit import UNIT_SIZE, BatchUnit
from broker_core.formats.consume_queue_unit import HOLE_SIZE, iter_units
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.queue.batch_consume_queue import BatchConsumeQueue
from tests.fakes.simulated_files import SimulatedFiles

FOLDER = Path("/q")
UNITS_OF_A_FILE = 5
RECORD = 1000
"""Bytes of each record."""


def make(files: SimulatedFiles) -> BatchConsumeQueue:
    return BatchConsumeQueue(files, OpenMaps(8), FOLDER, "T", 0, UNITS_OF_A_FILE * UNIT_SIZE)


def put(queue: BatchConsumeQueue, *numbers: int, offset: int | None = None) -> None:
    """Add a record for each number of messages; its tagsCode is that number."""
    begin = queue.max_physical_offset
    fields = [field for index, number in enumerate(numbers) for field in (begin + index * RECORD, RECORD, number)]
    offset = queue.max_offset if offset is None else offset
    queue.put_batches(offset, fields, [(number, 7) for number in numbers])


def again(files: SimulatedFiles, *, clean: bool = False) -> BatchConsumeQueue:
    queue = make(files)
    queue.recover(clean=clean)
    return queue


@given(st.lists(st.integers(1, 40), min_size=1, max_size=23), st.booleans())
def test_each_message_leads_to_its_record(numbers: list[int], clean: bool) -> None:
    files = SimulatedFiles()
    queue = make(files)
    put(queue, *numbers[:3])
    for number in numbers[3:]:
        put(queue, number)
    wanted = [index for index, number in enumerate(numbers) for _ in range(number)]
    for one in (queue, again(files, clean=clean)):
        assert (one.max_offset, one.next_offset) == (len(wanted), len(wanted))
        assert one.max_physical_offset == len(numbers) * RECORD
        assert [one.unit(offset)[0] // RECORD for offset in range(len(wanted))] == wanted
        assert [row[0] // RECORD for row in iter_units(one.read(0, 1 << 20))] == wanted
        assert [unit.number for unit in one.batches(0)] == numbers
        assert [one.base_of(offset) for offset in range(len(wanted))] == [sum(numbers[:index]) for index in wanted]


def test_a_read_begins_and_ends_in_the_middle_of_a_batch() -> None:
    queue = make(SimulatedFiles())
    put(queue, 3, 4, 2)
    assert [row[2] for row in iter_units(queue.read(2, 4))] == [3, 4, 4, 4]
    assert [unit.base for unit in queue.batches(4)] == [3, 7]
    assert queue.read(9, 4) == b"" and queue.unit(9) == (0, 0, 0)


def test_records_that_are_gone_leave_a_gap_which_is_passed_over() -> None:
    files = SimulatedFiles()
    queue = make(files)
    put(queue, 3, offset=10)
    put(queue, 2, offset=20)
    for one in (queue, again(files)):
        assert (one.min_offset(0), one.max_offset) == (10, 22)
        assert [one.unit(offset)[1] for offset in (12, 13, 19, 20)] == [RECORD, HOLE_SIZE, HOLE_SIZE, RECORD]
        assert one.first_offset_where(10, lambda offset: offset > 12) == 20
        assert (one.before_holes(19, 10), one.before_holes(19, 13), one.before_holes(21, 10)) == (12, 12, 21)
        assert [row[1] for row in iter_units(one.read(12, 9))] == [RECORD, *[HOLE_SIZE] * 7, RECORD]


def test_min_offset_is_the_first_message_of_the_first_record_that_is_left() -> None:
    queue = make(SimulatedFiles())
    put(queue, 3, 4, 2)
    assert [queue.min_offset(position) for position in (0, 1, RECORD, RECORD + 1)] == [0, 3, 3, 7]


@pytest.mark.parametrize("clean", [False, True])
def test_recovery_of_a_queue_that_is_cut_at_each_byte(clean: bool) -> None:
    whole = SimulatedFiles()
    numbers = [3, 300, 1, 2, 4]
    put(make(whole), *numbers)
    name = FOLDER / f"{0:020d}"
    content = whole.read(name) or b""
    reserved = 4
    for cut in range(len(content) + 1):
        files = SimulatedFiles()
        files.make_folders(FOLDER)
        files.write(name, content[:cut].ljust(len(content), b"\0"))
        units = (cut + reserved) // UNIT_SIZE
        queue = again(files, clean=clean)
        assert (queue.unit_end, queue.max_offset) == (units, sum(numbers[:units])), cut
        queue.truncate(1 << 40)
        put(queue, 5, 6)
        assert [unit.number for unit in again(files).batches(0)] == [*numbers[:units], 5, 6], cut


def test_units_of_records_after_the_logs_end_are_dropped_for_good() -> None:
    files = SimulatedFiles()
    queue = make(files)
    put(queue, *range(1, 9))
    assert queue.truncate(3 * RECORD) == sum(range(4, 9))
    assert (queue.max_offset, queue.unit_end, queue.max_physical_offset) == (6, 3, 3 * RECORD)
    put(queue, 9)
    assert [unit.number for unit in again(files).batches(0)] == [1, 2, 3, 9]


def test_offsets_do_not_begin_at_0_again_when_all_units_are_dropped() -> None:
    files = SimulatedFiles()
    queue = make(files)
    put(queue, 3, 2, offset=10)
    assert queue.truncate(0) == 5
    for one in (queue, again(files), again(files, clean=True)):
        assert (one.max_offset, one.unit_end, one.max_physical_offset) == (10, 1, 0)
    assert queue.truncate(0) == 0
    put(queue, 4)
    for one in (queue, again(files)):
        assert [unit[0] for unit in iter_units(one.read(10, 9))] == [0] * 4 and one.max_offset == 14


@pytest.mark.parametrize("clean", [False, True])
def test_a_queue_whose_units_are_lost_ends_after_the_messages_of_expired_units(clean: bool) -> None:
    files = SimulatedFiles()
    queue = make(files)
    put(queue, *[1] * (UNITS_OF_A_FILE + 2))
    assert [int(path.name) for path in queue.take_expired(1 << 40)] == [0]
    files.remove(FOLDER / f"{0:020d}")
    last = queue.mapped_files.all()[0]
    last.write(0, bytes(last.size))
    left = again(files, clean=clean)
    assert left.max_offset == UNITS_OF_A_FILE and left.truncate(1 << 40) == 0
    put(left, 3)
    assert [unit.base for unit in again(files).batches(0)] == [UNITS_OF_A_FILE]


def test_damaged_records_leave_holes_with_the_offsets_of_their_messages() -> None:
    files = SimulatedFiles()
    queue = make(files)
    put(queue, 2, 3, 4)
    assert queue.make_holes(RECORD, lambda place: place == RECORD) == 3
    for one in (queue, again(files)):
        assert [one.unit(offset)[1] for offset in (1, 2, 4, 5)] == [RECORD, HOLE_SIZE, HOLE_SIZE, RECORD]
        assert one.first_offset_where(2, lambda offset: True) == 5
        assert one.before_holes(4, 0) == 1
        assert one.max_offset == 9 and one.truncate(1 << 40) == 0


def test_the_file_with_the_last_unit_does_not_expire() -> None:
    files = SimulatedFiles()
    queue = make(files)
    put(queue, *[2] * UNITS_OF_A_FILE)
    put(queue, *[3] * UNITS_OF_A_FILE)
    queue.reserve(queue.max_offset + 1)  # which makes the third file
    assert len(files.names(FOLDER)) == 3
    assert [path.name for path in queue.take_expired(4 * RECORD)] == []
    assert [int(path.name) for path in queue.take_expired(1 << 40)] == [0]
    files.remove(FOLDER / f"{0:020d}")
    left = again(files)
    assert (left.first_file_offset, left.max_offset) == (10, 25)


def test_what_was_written_since_the_last_flush_is_flushed() -> None:
    queue = make(SimulatedFiles())
    put(queue, 1, 2, 3)
    assert [(start, end) for _, start, end in queue.take_dirty()] == [(0, 3 * UNIT_SIZE)]
    put(queue, *[1] * 3)
    assert [(file.base, start, end) for file, start, end in queue.take_dirty()] == [
        (0, 3 * UNIT_SIZE, 5 * UNIT_SIZE),
        (5 * UNIT_SIZE, 0, UNIT_SIZE),
    ]
    assert queue.take_dirty() == []


def test_space_is_reserved_for_as_many_units_as_there_may_be() -> None:
    files = SimulatedFiles(random.Random(1))
    queue = make(files)
    queue.reserve(7)
    assert queue.reserved >= 7 and len(files.names(FOLDER)) == 2
    put(queue, 7)
    assert (queue.max_offset, queue.unit_end) == (7, 1)
    unit = queue.batch_unit(0)
    assert unit == BatchUnit(0, RECORD, 7, 7, 0, 7)
