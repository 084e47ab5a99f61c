"""What the properties of a timer message say."""

import pytest

from broker_core.formats.message_properties import encode
from broker_core.store.timer import timer_message
from tests.fakes.engine import Bench
from tests.fakes.timers import sent, small_wheel, timed

__all__ = ["small_wheel"]

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("due_ms", "slot_ms"), [(5500, 5000), (5999, 5000), (6000, 5000), (6001, 6000), (1, 0), (1000, 0)]
)
def test_the_slot_is_rocketmqs(due_ms: int, slot_ms: int) -> None:
    assert timer_message.slot_of(due_ms, 1000) == slot_ms


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("-3", -3), ("", None), ("1.5", None), ("\u0661", None), ("9" * 19, None), ("+1", None)],
)
def test_numbers_are_java_longs(text: str, number: int | None) -> None:
    assert timer_message.number(text) == number


@pytest.mark.parametrize(
    ("properties", "after_ms"),
    [
        ({"TIMER_DELAY_SEC": "7"}, 7000),
        ({"TIMER_DELAY_MS": "6500"}, 6500),
        ({"TIMER_DELIVER_MS": str(NOW + 6999)}, 6999),
    ],
)
def test_a_record_says_when_it_is_due(properties: dict[str, str], after_ms: int) -> None:
    bench = Bench()
    place = sent(bench, timed(**properties))
    record = bench.context.store.look_message_by_offset(place.physical_offset)
    assert record is not None
    assert timer_message.read(record, 1000) == (NOW + 6000, NOW + after_ms, "orders", "")


def test_other_messages_are_none() -> None:
    bench = Bench()
    place = sent(bench, timed())
    record = bench.context.store.look_message_by_offset(place.physical_offset)
    assert record is not None and timer_message.read(record, 1000) is None
    assert timer_message.wanted_ms(encode({"TIMER_DELAY_MS": "x"}), 0) is None
