"""Delay levels, as RocketMQ writes and reads them."""

import pytest

from broker_core.options import Options
from broker_core.store.delay_level import DelayLevels, delay_level

SECONDS = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200]


def test_the_default_levels_are_rocketmqs() -> None:
    levels = DelayLevels(Options().message_delay_level)
    assert levels.ms == [1000 * seconds for seconds in SECONDS]
    assert len(levels) == 18


def test_units() -> None:
    assert DelayLevels("0s 2m 3h 1d").ms == [0, 120_000, 10_800_000, 86_400_000]


@pytest.mark.parametrize(("level", "ms"), [(1, 1000), (2, 5000), (3, 5000), (99, 5000)])
def test_levels_above_the_last_use_the_last_ones_delay(level: int, ms: int) -> None:
    assert DelayLevels("1s 5s").delay_ms(level) == ms


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ("DELAY\x011\x02", 6000),
        ("DELAY\x0118\x02", 5000 + 7_200_000),
        ("DELAY\x0199\x02", 5000 + 7_200_000),
        ("DELAY\x010\x02", 42),
        ("DELAY\x01-1\x02", 42),
        ("DELAY\x01x\x02", 42),
        ("", 42),
    ],
)
def test_a_schedule_queue_records_the_deliver_time(properties: str, code: int) -> None:
    assert DelayLevels(Options().message_delay_level).tags_code(properties, 5000, 42) == code


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("1", 1),
        ("+3", 3),
        ("-1", -1),
        ("007", 7),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("99999999999", None),
        ("1.0", None),
        (" 1", None),
        ("-", None),
        ("+", None),
        ("٣", None),
        ("²", None),
        ("1_0", None),
    ],
)
def test_the_property_is_parsed_as_a_java_int(value: str, level: int | None) -> None:
    assert delay_level(f"A\x01b\x02DELAY\x01{value}\x02") == level


def test_a_message_without_the_property_is_not_delayed() -> None:
    assert delay_level("TIMER_DELAY_SEC\x013\x02") == delay_level("DELAY\x01\x02") == 0
