"""The SQL92 filters of all groups, in ``config/consumerFilter.json``, and the choice of those for bitmaps.

A filter is alive while its group has members; for 24 hours after that it stays in the table, without bitmaps. Nothing
depends on the table: a filter that is not in it is evaluated whenever it is needed.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from broker_core.clock import Now
from broker_core.commands import SubscriptionData
from broker_core.errors import RequestError
from broker_core.filters.bloom_filter import BloomFilter
from broker_core.filters.consumer_filter_data import NEVER, ConsumerFilterData
from broker_core.filters.message_filter import MessageFilter
from broker_core.filters.sql92.sql_filter import SQL92, parse_sql
from broker_core.options import Options

MAX_FILTERS = 2048
"""Filters of all topics and groups, few enough to copy the table in a millisecond or two. The table has no more."""

KEPT_DEAD_MS = 24 * 3_600_000
DEAD_BEFORE_START_MS = 30_000
"""When the broker starts, it assumes that all groups left so long ago. RocketMQ does the same."""

SetFilters = Callable[[str, Sequence[ConsumerFilterData]], int]


class _Row(msgspec.Struct, rename="camel"):
    """RocketMQ's ConsumerFilterData in the file, without its bits, which are computed anew."""

    consumer_group: str
    topic: str
    expression: str
    expression_type: str
    born_time: int
    dead_time: int = 0
    client_version: int = 0


class _OfTopic(msgspec.Struct, rename="camel"):
    """RocketMQ's FilterDataMapByTopic."""

    topic: str = ""
    group_filter_data: dict[str, _Row] = {}


class ConsumerFilterManager:
    """RocketMQ's ConsumerFilterManager.

    ``set_filters`` sets the filters with which a topic's bitmaps are computed, and returns the physical offset from
    which the bitmaps are right. It is None if bitmaps are switched off.
    """

    def __init__(self, options: Options, table: dict[Any, Any] | None, now: Now) -> None:
        """``table``: the content of consumerFilter.json. msgspec.ValidationError if it has another form."""
        self.set_filters: SetFilters | None = None
        self._bloom_filter = BloomFilter(options.max_error_rate_of_bloom_filter, options.expect_consumer_num_use_filter)
        self._limit = options.expect_consumer_num_use_filter
        self._by_topic: dict[str, dict[str, ConsumerFilterData]] = {}
        self._alive: dict[str, dict[str, ConsumerFilterData]] = {}
        """Those of groups with members, of each topic. Bitmaps are computed with the first ``_limit`` of a topic."""
        self._topics_of: dict[str, set[str]] = {}
        self._count = 0
        for of_topic in msgspec.convert((table or {}).get("filterDataByTopic", {}), dict[str, _OfTopic]).values():
            for row in of_topic.group_filter_data.values():
                self._load(row, now)
        self.dirty = False

    def __len__(self) -> int:
        return self._count

    def get(self, topic: str, group: str) -> ConsumerFilterData | None:
        """The filter of a group's subscription, alive or not."""
        return self._by_topic.get(topic, {}).get(group)

    def with_bitmaps(self, topic: str, group: str, wanted: MessageFilter) -> MessageFilter:
        """The group's own filter, if it is ``wanted`` and bitmaps may contain its bits; otherwise ``wanted``."""
        sql = wanted.sql if isinstance(wanted, ConsumerFilterData) else wanted
        data = self._by_topic.get(topic, {}).get(group)
        return data if data is not None and data.sql is sql and data.bitmaps_from != NEVER else sql

    # --- subscriptions --------------------------------------------------------------------------------------------

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now: Now) -> None:
        """Take over all subscriptions of a group, as its heartbeat has them."""
        wanted = {each.topic: each for each in subscriptions if each.expression_type == SQL92}
        present = self._topics_of.get(group)
        if not wanted and present is None:
            return
        for topic in (present or set()) - wanted.keys():
            self._end(topic, group, now)
        for subscription in wanted.values():
            self._register(group, subscription, now)

    def _register(self, group: str, subscription: SubscriptionData, now: Now) -> None:
        topic, version = subscription.topic, subscription.sub_version
        data = self.get(topic, group)
        if data is None or data.expression != subscription.sub_string:
            self._remove(topic, group)
            try:
                sql = parse_sql(subscription.sub_string)
            except RequestError:  # its pulls are answered with the reason
                return
            if self._count >= MAX_FILTERS and not self._remove_dead(now.wall_ms):
                return
            self._add(
                ConsumerFilterData(topic, group, sql, self._bloom_filter.data(group, topic), version, now.wall_ms)
            )
            self._begin(topic, group)
            return
        if data.dead_ms or data.version < version:
            self.dirty = True
            data.version = max(data.version, version)
        if data.dead_ms:
            data.dead_ms = 0
            self._begin(topic, group)

    def unregister(self, group: str, now: Now) -> None:
        """The group has no members any more."""
        for topic in self._topics_of.get(group, ()):
            self._end(topic, group, now)

    def _end(self, topic: str, group: str, now: Now) -> None:
        data = self._by_topic[topic][group]
        if not data.dead_ms:
            data.dead_ms = max(1, now.wall_ms)
            self.dirty = True
            self._stop(topic, group)

    def _begin(self, topic: str, group: str) -> None:
        """A filter is alive now."""
        self._alive.setdefault(topic, {})[group] = self._by_topic[topic][group]
        self._choose(topic)

    def _stop(self, topic: str, group: str) -> None:
        """A filter is not alive any more. Bitmaps without its bits follow, so held pulls that have it evaluate it."""
        alive = self._alive.get(topic, {})
        data = alive.pop(group, None)
        if data is None:
            return
        data.bitmaps_from = NEVER
        self._choose(topic)
        if not alive:
            del self._alive[topic]

    def _choose(self, topic: str) -> None:
        """Choose the filters to compute bitmaps with: those that are alive, as many as bitmaps have bits for.

        A chosen filter remains chosen until it ends, because filters that begin later come after it.
        """
        if self.set_filters is None:
            return
        chosen = list(islice(self._alive[topic].values(), self._limit))
        begin = self.set_filters(topic, chosen)
        for data in chosen:
            data.bitmaps_from = min(data.bitmaps_from, begin)

    def _add(self, data: ConsumerFilterData) -> None:
        self._by_topic.setdefault(data.topic, {})[data.group] = data
        self._topics_of.setdefault(data.group, set()).add(data.topic)
        self._count += 1
        self.dirty = True

    def _remove(self, topic: str, group: str) -> None:
        data = self._by_topic.get(topic, {}).pop(group, None)
        if data is None:
            return
        self._stop(topic, group)
        if not self._by_topic[topic]:
            del self._by_topic[topic]
        topics = self._topics_of[group]
        topics.discard(topic)
        if not topics:
            del self._topics_of[group]
        self._count -= 1
        self.dirty = True

    def _remove_dead(self, dead_by_ms: int) -> bool:
        """Remove the filters of groups that left by this time. Returns whether there were any."""
        dead = [
            (data.topic, data.group)
            for of_topic in self._by_topic.values()
            for data in of_topic.values()
            if 0 < data.dead_ms <= dead_by_ms
        ]
        for topic, group in dead:
            self._remove(topic, group)
        return bool(dead)

    # --- the table ------------------------------------------------------------------------------------------------

    def _load(self, row: _Row, now: Now) -> None:
        """Take over a filter from the table. Its bits are computed anew, because the options may have changed."""
        try:
            sql = parse_sql(row.expression)
        except RequestError:
            return
        if row.expression_type != SQL92 or self._count >= MAX_FILTERS or self.get(row.topic, row.consumer_group):
            return
        bloom = self._bloom_filter.data(row.consumer_group, row.topic)
        data = ConsumerFilterData(row.topic, row.consumer_group, sql, bloom, row.client_version, row.born_time)
        data.dead_ms = row.dead_time or max(1, row.born_time, now.wall_ms - DEAD_BEFORE_START_MS)
        self._add(data)

    def as_table(self, now: Now) -> dict[Any, Any]:
        """The content of consumerFilter.json. Filters that are dead for 24 hours are removed from it."""
        self._remove_dead(now.wall_ms - KEPT_DEAD_MS)
        return {
            "filterDataByTopic": {
                topic: {"groupFilterData": {group: _row(data) for group, data in groups.items()}, "topic": topic}
                for topic, groups in self._by_topic.items()
            }
        }


def _row(data: ConsumerFilterData) -> dict[str, Any]:
    return {
        "bloomFilterData": {"bitNum": data.bloom.bit_num, "bitPos": data.bloom.bit_pos},
        "bornTime": data.born_ms,
        "clientVersion": data.version,
        "consumerGroup": data.group,
        "dead": data.dead_ms > 0,
        "deadTime": data.dead_ms,
        "expression": data.expression,
        "expressionType": SQL92,
        "topic": data.topic,
    }
