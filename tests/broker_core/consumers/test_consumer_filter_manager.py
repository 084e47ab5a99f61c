from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from broker_core.clock import Now
from broker_core.commands import SubscriptionData
from broker_core.consumers import consumer_filter_manager
from broker_core.consumers.consumer_filter_manager import KEPT_DEAD_MS, ConsumerFilterManager
from broker_core.filters.consumer_filter_data import NEVER, ConsumerFilterData
from broker_core.filters.sql92.sql_filter import parse_sql
from broker_core.options import Options

TABLE = {
    "filterDataByTopic": {
        "T": {
            "groupFilterData": {
                "g": {
                    "bloomFilterData": {"bitNum": 112, "bitPos": [55, 18, 94]},
                    "bornTime": 1000,
                    "clientVersion": 7,
                    "consumerGroup": "g",
                    "dead": True,
                    "deadTime": 5000,
                    "expression": "a > 1",
                    "expressionType": "SQL92",
                    "topic": "T",
                }
            },
            "topic": "T",
        }
    }
}


def now(ms: int) -> Now:
    return Now(ms, ms * 1_000_000)


def sql(expression: str, topic: str = "T", version: int = 7) -> SubscriptionData:
    return SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92", sub_version=version)


class Manager(ConsumerFilterManager):
    """It has bitmaps computed from ``position`` on; ``calculated`` are the groups of a topic."""

    def __init__(self, table: dict[Any, Any] | None = None, **options: Any) -> None:
        super().__init__(Options(**options), table, now(100_000))
        self.position = 10
        self.calculated: dict[str, list[str]] = {}
        self.choices = 0
        self.set_filters = self._note

    def _note(self, topic: str, filters: Sequence[ConsumerFilterData]) -> int:
        self.choices += 1
        self.calculated[topic] = [data.group for data in filters]
        return self.position

    def bitmaps_from(self, group: str) -> int:
        data = self.get("T", group)
        assert data is not None
        return data.bitmaps_from


def test_a_filter_lives_from_the_heartbeat_until_its_group_has_no_members() -> None:
    manager = Manager()
    manager.register("g", [sql("a > 1"), SubscriptionData(topic="U", sub_string="*")], now(1))
    assert manager.calculated == {"T": ["g"]} and manager.bitmaps_from("g") == 10
    manager.position = 20
    manager.register("g", [sql("a > 1", version=8)], now(2))
    assert manager.bitmaps_from("g") == 10, "the same expression: its bitmaps stay right"
    manager.unregister("g", now(3))
    assert manager.calculated == {"T": []} and manager.bitmaps_from("g") == NEVER
    manager.register("g", [sql("a > 1", version=8)], now(4))
    assert manager.calculated == {"T": ["g"]} and manager.bitmaps_from("g") == 20
    row = manager.as_table(now(5))["filterDataByTopic"]["T"]["groupFilterData"]["g"]
    assert (row["bornTime"], row["deadTime"], row["clientVersion"]) == (1, 0, 8)
    manager.register("g", [], now(6))
    assert manager.calculated == {"T": []}


def test_another_expression_is_another_filter() -> None:
    manager = Manager()
    manager.register("g", [sql("a > 1")], now(1))
    held = manager.with_bitmaps("T", "g", parse_sql("a > 1"))
    assert held is manager.get("T", "g")
    manager.position = 20
    manager.register("g", [sql("a > 2", version=8)], now(2))
    assert isinstance(held, ConsumerFilterData) and held.bitmaps_from == NEVER, "held pulls may still have it"
    assert manager.with_bitmaps("T", "g", held) is parse_sql("a > 1")
    assert manager.bitmaps_from("g") == 20
    manager.register("g", [sql("a >", version=9)], now(3))
    assert manager.get("T", "g") is None and manager.calculated == {"T": []} and not len(manager)


def test_only_the_groups_own_filter_is_tested_by_bitmaps() -> None:
    manager = Manager()
    manager.register("g", [sql("a > 1")], now(1))
    for topic, group, expression in (("T", "g", "a > 2"), ("T", "h", "a > 1"), ("U", "g", "a > 1")):
        assert manager.with_bitmaps(topic, group, parse_sql(expression)) is parse_sql(expression)


def test_bitmaps_have_room_for_as_many_groups_as_are_expected() -> None:
    manager = Manager(expect_consumer_num_use_filter=2)
    for group in ("a", "b", "c"):
        manager.register(group, [sql("a > 1")], now(1))
    assert manager.calculated == {"T": ["a", "b"]} and manager.bitmaps_from("c") == NEVER
    manager.position = 20
    manager.unregister("a", now(2))
    assert manager.calculated == {"T": ["b", "c"]}
    assert (manager.bitmaps_from("b"), manager.bitmaps_from("c")) == (10, 20)


def test_the_table_is_rocketmqs() -> None:
    manager = Manager(TABLE)
    assert manager.calculated == {} and not manager.dirty
    table = manager.as_table(now(6000))
    bloom = table["filterDataByTopic"]["T"]["groupFilterData"]["g"].pop("bloomFilterData")
    assert bloom["bitNum"] == 112 and len(bloom["bitPos"]) == 3
    expected = msgspec.json.decode(msgspec.json.encode(TABLE))
    del expected["filterDataByTopic"]["T"]["groupFilterData"]["g"]["bloomFilterData"]
    assert table == expected
    assert manager.as_table(now(5000 + KEPT_DEAD_MS)) == {"filterDataByTopic": {}}


def test_a_group_that_was_alive_in_the_table_has_left_30_s_before_the_start() -> None:
    row = msgspec.json.decode(msgspec.json.encode(TABLE))
    row["filterDataByTopic"]["T"]["groupFilterData"]["g"]["deadTime"] = 0
    data = Manager(row).get("T", "g")
    assert data is not None and data.dead_ms == 70_000


def test_a_full_table_of_groups_that_left_is_cleared_without_choosing_anew() -> None:
    """Thousands of groups of one topic leave for good, as broadcast groups with random names do."""
    manager = Manager()
    for number in range(50):
        manager.register(f"g{number}", [sql("a > 1")], now(1))
        manager.unregister(f"g{number}", now(2))
    chosen = manager.choices
    manager.as_table(now(2 + KEPT_DEAD_MS))
    assert not len(manager) and manager.choices == chosen


def test_a_group_that_returns_displaces_no_other() -> None:
    manager = Manager(expect_consumer_num_use_filter=1)
    manager.register("a", [sql("a > 1")], now(1))
    manager.register("b", [sql("a > 1")], now(1))
    manager.unregister("a", now(2))
    manager.position = 20
    manager.register("a", [sql("a > 1")], now(3))
    assert manager.calculated == {"T": ["b"]}
    assert (manager.bitmaps_from("a"), manager.bitmaps_from("b")) == (NEVER, 10)


@pytest.mark.parametrize("expression", ["a >", ""])
def test_a_filter_of_the_table_that_cannot_be_read_is_dropped(expression: str) -> None:
    row = msgspec.json.decode(msgspec.json.encode(TABLE))
    row["filterDataByTopic"]["T"]["groupFilterData"]["g"]["expression"] = expression
    assert len(Manager(row)) == 0


def test_the_table_is_bounded_and_living_groups_displace_those_that_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_filter_manager, "MAX_FILTERS", 2)
    manager = Manager(TABLE)
    for group in ("a", "b", "c"):
        manager.register(group, [sql("a > 1")], now(6000))
    assert manager.calculated == {"T": ["a", "b"]} and len(manager) == 2
    assert manager.with_bitmaps("T", "c", parse_sql("a > 1")) is parse_sql("a > 1")
