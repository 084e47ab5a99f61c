"""Wake-ups by topic and by group."""

import pytest

from broker_core import wakeup_stats
from broker_core.wakeup_stats import WAKEUP_US_BOUNDS, WakeupStats, percentile_99


def test_wake_ups_are_counted_by_topic_and_by_group() -> None:
    stats = WakeupStats()
    for topic, group, wake_us in (("a", "g", 9), ("b", "g", None), ("a", "", 15)):
        stats.add((topic, group, wake_us, 10_000))
    assert stats.unsettled == 3
    slot = stats.slot_at(19_999)
    assert stats.unsettled == 0
    assert [stats.of_topics.get(name) for name in ("a", "b", "c")] == [2, 1, 0]
    assert [stats.of_groups.get(name) for name in ("g", "")] == [2, 0]
    assert (slot.of_broker, slot.of_topics["a"]) == (1 + (1 << 32), 1 + (1 << 32))
    assert (slot.of_topics["b"], slot.of_groups["g"]) == (0, 1), "a pull that no arrival woke has no latency"


def test_the_slot_that_ended_is_kept_until_another_one_ends() -> None:
    stats = WakeupStats()
    for wall_ms in (10_000, 20_000, 19_999):
        stats.add(("a", "g", 9, wall_ms))
    assert [stats.slot_at(wall_ms).of_broker for wall_ms in (10_000, 20_000, 30_000)] == [2, 1, 0]
    stats.add(("a", "g", 9, 30_000))
    assert [stats.slot_at(wall_ms).of_broker for wall_ms in (10_000, 20_000, 30_000)] == [0, 1, 1]


def test_names_beyond_the_limit_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeup_stats, "MAX_NAMES", 1)
    stats = WakeupStats()
    for group in ("first", "second"):
        stats.add(("a", group, 9, 0))
    slot = stats.slot_at(0)
    assert (stats.of_groups.get("first"), stats.of_groups.get("second")) == (1, None)
    assert (slot.of_broker, slot.of_groups["first"], slot.of_groups["second"]) == (2, 1, 0)
    stats.forget_group("first")
    stats.forget_topic("a")
    assert (stats.of_groups.get("first"), stats.of_topics.get("a")) == (0, 0)


def test_percentile() -> None:
    last = 1 << (32 * len(WAKEUP_US_BOUNDS))
    assert percentile_99(0) is None
    assert percentile_99(99 + (1 << 32)) == WAKEUP_US_BOUNDS[0]
    assert percentile_99(98 + (2 << 32)) == WAKEUP_US_BOUNDS[1]
    assert percentile_99(last) == percentile_99(2**32 - 1 << (32 * len(WAKEUP_US_BOUNDS))) == WAKEUP_US_BOUNDS[-1]
