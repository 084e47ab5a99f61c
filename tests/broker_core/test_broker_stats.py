"""Windows over running totals, compared with plain sums of the additions."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core import broker_stats
from broker_core.broker_stats import (
    MINUTE_HOUR_DAY,
    SECOND,
    BrokerStatsManager,
    BrokerTotals,
    StatsItem,
    StatsItemSet,
    StatsSnapshot,
    StatsWindows,
)
from broker_core.clock import Now

NOTHING = StatsSnapshot(0, 0.0, 0.0)
MIDNIGHT_MS = round(datetime(2026, 3, 2).timestamp() * 1000)


def at(second: float) -> int:
    return round((86_400_000 + second) * SECOND)


def now(second: float) -> Now:
    return Now(MIDNIGHT_MS + round(second * 1000), at(second))


def added(*what: tuple[int, int, int]) -> StatsItem:
    """(second, messages, bytes) each."""
    table: StatsItemSet[str] = StatsItemSet()
    for second, nums, size in what:
        table.add(("key", nums, size, at(second)))
    item = table.get("key")
    assert item is not None
    return item


def test_a_window_ends_with_the_last_finished_slot() -> None:
    item = added((3, 2, 200), (9, 4, 100))
    nothing = StatsWindows(NOTHING, NOTHING, NOTHING)
    assert item.windows(at(9.9)) == (nothing, nothing)
    nums, sizes = item.windows(at(10))
    assert nums == StatsWindows(StatsSnapshot(6, 0.6, 3.0), NOTHING, NOTHING)
    assert sizes.minute == StatsSnapshot(300, 30.0, 150.0)
    assert item.windows(at(59.9))[0].minute == StatsSnapshot(6, 6 / 50, 3.0)
    assert item.windows(at(60))[0].minute == StatsSnapshot(6, 0.1, 3.0)
    assert item.windows(at(69.9))[0].minute.sum == 6 and item.windows(at(70))[0].minute == NOTHING


def test_hours_and_days() -> None:
    item = added((0, 5, 0), (600, 1, 0))
    hour, day = item.windows(at(1200))[0][1:]
    assert (hour, day) == (StatsSnapshot(6, 6 / 1200, 3.0), NOTHING)
    hour, day = item.windows(at(3600))[0][1:]
    assert (hour, day) == (StatsSnapshot(6, 6 / 3600, 3.0), StatsSnapshot(6, 6 / 3600, 3.0))
    hour, day = item.windows(at(24 * 3600))[0][1:]
    assert (hour, day) == (NOTHING, StatsSnapshot(6, 6 / 86_400, 3.0))
    assert item.windows(at(25 * 3600))[0].day == NOTHING


@given(
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 9), st.integers(0, 99)), max_size=30),
    st.integers(0, 100_000),
)
def test_windows_equal_plain_sums(more: list[tuple[int, int, int]], later: int) -> None:
    clock, log = 0, [(0, 1, 1)]
    for wait, nums, size in more:
        clock += wait
        log.append((clock, nums, size))
    item = added(*log)
    clock += later
    for kind, windows in enumerate(item.windows(at(clock)), start=1):
        for (slot_ns, slots), snapshot in zip(MINUTE_HOUR_DAY, windows, strict=True):
            slot = slot_ns // SECOND
            end = clock // slot * slot
            begin = max(0, end - slots * slot)
            inside = [entry[kind] for entry in log if begin <= entry[0] < end]
            assert snapshot.sum == sum(inside)
            assert snapshot.tps == (sum(inside) / (end - begin) if end > begin else 0.0)
            assert snapshot.avgpt == (sum(inside) / len(inside) if inside else 0.0)


def test_the_number_of_notes_is_limited() -> None:
    item = added(*((second, 1, 1) for second in range(0, 90_000, 7)))
    assert [len(notes.rows) // 8 // 4 for notes in item.notes] == [7, 7, 25]


def test_the_number_of_keys_is_limited() -> None:
    table: StatsItemSet[tuple[str, str]] = StatsItemSet()
    for number in range(broker_stats.MAX_KEYS + 3):
        table.add(((f"t{number}", "g"), 1, 1, at(0)))
    assert len(table) == broker_stats.MAX_KEYS
    assert table.get(("t2", "g")) is None and table.get(("t3", "g")) is not None
    table.forget(lambda key: key[0] != "t7")
    assert len(table) == 1 and table.tps(("t7", "g"), at(10)) == 0.1 and table.tps(("t8", "g"), at(10)) == 0.0


def test_additions_are_counted_once() -> None:
    stats = BrokerStatsManager(now(0))
    for second in (1, 2):
        stats.topic_put.add(("a", 1, 10, at(second)))
        stats.group_get.add((("a", "g"), 2, 20, at(second)))
        stats.send_back.add((("a", "g"), 3, 30, at(second)))
    assert stats.unsettled == 6
    for _ in range(2):
        stats.settle()
        assert stats.unsettled == 0
    stats.topic_put.add(("a", 5, 50, at(3)))
    items = stats.topic_put.get("a"), stats.group_get.get(("a", "g")), stats.send_back.get(("a", "g"))
    assert [(item.nums, item.size, item.times) for item in items if item] == [(7, 70, 3), (4, 40, 2), (6, 60, 2)]


def test_counts_of_deleted_topics_and_groups_are_dropped() -> None:
    stats = BrokerStatsManager(now(0))
    for topic in ("a", "b"):
        stats.topic_put.add((topic, 1, 1, at(0)))
        for group in ("g", "h"):
            stats.group_get.add(((topic, group), 1, 1, at(0)))
            stats.send_back.add(((topic, group), 1, 0, at(0)))
    stats.forget_topic("a")
    stats.forget_group("h")
    assert list(stats.topic_put._items) == ["b"]
    assert list(stats.group_get._items) == list(stats.send_back._items) == [("b", "g")]


def test_totals_by_topic_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_stats, "MAX_TOTALS", 2)
    totals = broker_stats.TopicTotals()
    for topic in ("a", "b", "c", "a", "c"):
        totals.add(topic)
    assert (totals.total, totals.by_topic, totals.left_out) == (5, {"a": 2, "b": 1}, 2)
    totals.forget("b")
    totals.add("c")
    assert (totals.total, totals.by_topic, totals.left_out) == (6, {"a": 2, "c": 1}, 2)


def test_rates_of_the_whole_broker() -> None:
    stats = BrokerStatsManager(now(0))
    assert stats.next_sample_ns == 0
    stats.sample(BrokerTotals(), now(0.5))
    assert stats.next_sample_ns == at(1)
    totals = BrokerTotals(stored=10, found=4, missed=2, transferred=8, enqueued=6, dequeued=5)
    assert stats.rates(totals, 10, at(0.9)) == [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    stats.sample(totals, now(1.2))
    assert stats.rates(totals, 10, at(1.2)) == [10.0, 4.0, 2.0, 8.0, 6.0, 5.0]
    more = BrokerTotals(stored=30, found=4, missed=2, transferred=8, enqueued=6, dequeued=5)
    assert stats.rates(more, 10, at(1.9)) == [10.0, 4.0, 2.0, 8.0, 6.0, 5.0]
    assert stats.rates(more, 10, at(5)) == [6.0, 0.8, 0.4, 1.6, 1.2, 1.0]
    stats.sample(more, now(100))
    assert stats.rates(more, 10, at(100)) == [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert stats.rates(more, 600, at(100)) == [0.3, 0.04, 0.02, 0.08, 0.06, 0.05]
    puts, gets = stats.windows(more, at(100))
    assert puts == StatsWindows(NOTHING, NOTHING, NOTHING) and stats.windows(more, at(600))[0].hour == (30, 0.05, 0.0)
    assert gets == puts and stats.windows(more, at(600))[1].hour.sum == 8


def test_days_begin_at_midnight() -> None:
    stats = BrokerStatsManager(now(-100))
    stats.sample(BrokerTotals(stored=1), now(-50))
    assert stats.today_morning == BrokerTotals()
    stats.sample(BrokerTotals(stored=5), now(0))
    assert (stats.yesterday_morning.stored, stats.today_morning.stored) == (0, 5)
    stats.sample(BrokerTotals(stored=7), now(86_400 + 30))
    assert (stats.yesterday_morning.stored, stats.today_morning.stored) == (5, 7)
    stats.sample(BrokerTotals(stored=9), now(4 * 86_400))
    assert (stats.yesterday_morning.stored, stats.today_morning.stored) == (9, 9)
