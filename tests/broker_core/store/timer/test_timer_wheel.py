"""The timer wheel: a slot for each second."""

from broker_core.store.mapped_file import OpenMaps
from broker_core.store.timer.timer_wheel import FILE_NAME, TimerWheel
from tests.fakes.engine import ROOT
from tests.fakes.simulated_files import SimulatedFiles
from tests.fakes.timers import SLOTS, small_wheel

__all__ = ["small_wheel"]

START = 1_700_000_000_000


def opened(files: SimulatedFiles) -> TimerWheel:
    wheel = TimerWheel(files, OpenMaps(100), ROOT, 1000)
    wheel.reserve()
    return wheel


def test_a_slot_belongs_to_one_second() -> None:
    wheel = opened(SimulatedFiles())
    assert wheel.get(START) is None
    wheel.put(START, 0, 52, 2)
    slot = wheel.get(START + 999)
    assert slot is not None and slot == (START // 1000, 0, 52, 2, 0)
    assert wheel.get(START + 1000) is None
    assert wheel.get(START + 2 * SLOTS * 1000) is None  # the same place, at another time
    wheel.clear(START)
    assert wheel.get(START) is None


def test_used_slots_are_found_from_a_time_on() -> None:
    files = SimulatedFiles()
    wheel = opened(files)
    for second in (1, 5, 90):
        wheel.put(START + second * 1000, 0, 0, 1)
    assert sorted(slot_ms - START for slot_ms, _ in wheel.used(START + 5000)) == [5000, 90_000]


def test_only_the_changed_range_is_flushed() -> None:
    wheel = opened(SimulatedFiles())
    assert wheel.take_dirty() == []
    wheel.put(START + 3000, 0, 0, 1)
    wheel.put(START + 1000, 0, 0, 1)
    ((_, low, high),) = wheel.take_dirty()
    assert high - low == 3 * 32
    assert wheel.take_dirty() == []


def test_a_file_of_another_size_is_not_whole() -> None:
    files = SimulatedFiles()
    wheel = opened(files)
    assert wheel.is_whole
    files.write(ROOT / FILE_NAME, bytes(100))
    assert not TimerWheel(files, OpenMaps(100), ROOT, 1000).is_whole
    wheel.begin_empty()
    assert not wheel.is_whole
