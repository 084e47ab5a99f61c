"""The timer log: entries over several files, and its end after damage."""

from broker_core.formats.timer_log_unit import NONE, TimerLogUnit
from broker_core.store.mapped_file import OpenMaps
from broker_core.store.timer.timer_log import TimerLog
from tests.fakes.engine import ROOT
from tests.fakes.simulated_files import SimulatedFiles

UNIT = TimerLogUnit(NONE, 1, 1000, 1000, 0, 100, 7, 2500)
FILE = 4096
A_FILE = (FILE - 16) // 52
"""Entries of a file; the filler takes 16 bytes."""


def opened(files: SimulatedFiles) -> TimerLog:
    return TimerLog(files, OpenMaps(100), ROOT, FILE)


def filled(files: SimulatedFiles, count: int) -> TimerLog:
    timer_log = opened(files)
    for number in range(count):
        timer_log.append(UNIT._replace(physical_offset=100 * number))
    return timer_log


def test_entries_never_cross_the_end_of_a_file() -> None:
    timer_log = filled(SimulatedFiles(), A_FILE + 1)
    assert timer_log.end == FILE + 52
    last = timer_log.unit(FILE)
    assert last is not None and last.physical_offset == 100 * A_FILE
    assert timer_log.unit(A_FILE * 52) is None
    assert timer_log.position_after((A_FILE - 1) * 52) == FILE and timer_log.position_after(0) == 52


def test_the_end_is_found_after_the_check_point() -> None:
    files = SimulatedFiles()
    timer_log = filled(files, A_FILE + 3)
    again = opened(files)
    assert again.load(520, lambda unit: unit.physical_offset < 100 * (A_FILE + 2))
    assert again.end == timer_log.end - 52
    assert opened(files).unit(again.end) is None  # what was after the end is gone


def test_a_check_point_at_the_end_of_a_file() -> None:
    files = SimulatedFiles()
    filled(files, A_FILE + 1)
    again = opened(files)
    assert again.load(FILE, lambda unit: True) and again.end == FILE + 52
    last = again.unit_before(FILE)
    assert last is not None and last.physical_offset == 100 * (A_FILE - 1)


def test_files_that_do_not_reach_the_check_point_are_refused() -> None:
    files = SimulatedFiles()
    filled(files, 3)
    assert not opened(files).load(208, lambda unit: True)
    assert opened(files).load(156, lambda unit: True)


def test_files_of_deleted_messages_expire() -> None:
    files = SimulatedFiles()
    timer_log = filled(files, 3 * A_FILE)
    assert timer_log.take_expired(100 * A_FILE) == []
    assert [path.name for path in timer_log.take_expired(100 * A_FILE + 1)] == [f"{0:020d}"]
    assert timer_log.begin == FILE
    assert len(timer_log.take_expired(1 << 40)) == 1  # the last file stays


def test_moved_entries_lead_from_the_last_to_the_first_over_files() -> None:
    timer_log = filled(SimulatedFiles(), 3 * A_FILE - 5)
    positions = [position for start in (0, FILE) for position in range(start, start + A_FILE * 52, 52)]
    end = timer_log.end
    first, cursor = timer_log.move(positions, 9000, 52)
    assert first == end and timer_log.end == cursor + 52
    found = []
    while cursor != 52:
        unit = timer_log.unit(cursor)
        assert unit is not None and (unit.slot_ms, unit.write_ms, unit.due_ms) == (9000, 1000, 2500)
        found.append(unit.physical_offset)
        cursor = unit.previous
    assert found == [100 * number for number in reversed(range(2 * A_FILE))]
