"""The messages of one second, by their milliseconds."""

from broker_core.formats.timer_log_unit import NONE, TimerLogUnit
from broker_core.store.timer.open_slot import OpenSlot

UNIT = TimerLogUnit(NONE, 1, 0, 0, 0, 1, 0, 0)


def test_entries_come_in_the_order_of_time_and_log() -> None:
    slot = OpenSlot(0, 156)
    for position, due_ms in ((156, 7), (104, 5), (52, 7), (0, 5)):
        slot.note(due_ms, position)
    slot.add(5, 208)
    slot.add(1, 260)
    assert slot.next_due_ms() == 1 and slot.left == 6
    assert slot.take(6, 10) == [(1, 260), (5, 0), (5, 104), (5, 208)]
    assert slot.take(6, 10) == []
    assert slot.take(7, 1) == [(7, 52)]
    assert slot.take(7, 1) == [(7, 156)]
    assert slot.next_due_ms() is None and slot.left == 0


def test_what_was_put_back_comes_again_in_its_order() -> None:
    slot = OpenSlot(0, NONE)
    for position in (0, 52, 104):
        slot.add(5, position)
    taken = slot.take(5, 2)
    slot.put_back(taken)
    assert slot.left == 3
    assert slot.take(5, 9) == [(5, 0), (5, 52), (5, 104)]


def test_it_is_read_when_the_first_entry_was_or_one_is_missing() -> None:
    slot = OpenSlot(0, 52)
    slot.read(UNIT._replace(previous=0))
    assert slot.cursor == 0 and not slot.is_read
    slot.read(UNIT)
    assert slot.is_read
    broken = OpenSlot(0, 52)
    broken.read(None)
    assert broken.is_read
