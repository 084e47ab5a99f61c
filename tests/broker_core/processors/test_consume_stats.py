"""How far groups are, who consumes what, offsets copied from one group to another."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.processors import consume_stats
from tests.fakes.engine import Bench
from tests.fakes.members import beats, failure, join


@pytest.fixture
def bench() -> Bench:
    """Topic orders, two queues: three messages, a second apart, in queue 0, one in queue 1. Group g has consumed two
    and one of them, and pulled all."""
    bench = Bench(default_topic_queue_nums=2)
    bench.send("orders", b"1")
    bench.clock.advance(1000)
    bench.send("orders", b"2")
    bench.send("orders", b"x", queue_id=1)
    bench.clock.advance(1000)
    bench.send("orders", b"3")
    join(bench, "A")
    for queue_id in (0, 1):
        bench.pull("orders", 0, "A", queue_id=queue_id)
    commit(bench, "g", {0: 2, 1: 1})
    return bench


def commit(bench: Bench, group: str, offsets: dict[int, int], topic: str = "orders") -> None:
    assert (
        bench.call(
            c.UpdateConsumerOffset(
                group=group,
                offsets=[
                    c.QueueOffset(topic=topic, queue_id=queue_id, offset=offset) for queue_id, offset in offsets.items()
                ],
            ),
            "tool",
        )
        == c.Done()
    )


def stats(bench: Bench, group: str = "g", *topics: str) -> c.ConsumeStats:
    reply = bench.call(c.GetConsumeStats(group=group, topics=list(topics)))
    assert isinstance(reply, c.ConsumeStats)
    return reply


def rows(reply: c.ConsumeStats) -> list[tuple[Any, ...]]:
    return [
        (queue.topic, queue.queue_id, queue.broker_offset, queue.consumer_offset, queue.pull_offset)
        for queue in reply.queues
    ]


def test_progress_of_a_group(bench: Bench) -> None:
    begin = bench.clock.now().wall_ms - 2000
    reply = stats(bench)
    assert rows(reply) == [("orders", 0, 3, 2, 3), ("orders", 1, 1, 1, 1)]
    assert [queue.last_timestamp for queue in reply.queues] == [begin + 1000, begin + 1000]
    assert reply.consume_tps == 0.0
    bench.clock.advance(10_000)
    assert stats(bench).consume_tps == 0.4
    assert rows(stats(bench, "g", "orders", "orders")) == rows(reply)
    assert stats(bench, "nobody").queues == [] == stats(bench, "g", "no-such-topic").queues


def test_consume_stats_of_queues_that_were_not_pulled_or_consumed(bench: Bench) -> None:
    commit(bench, "h", {0: 3})
    reply = stats(bench, "h")
    assert rows(reply) == [("orders", 0, 3, 3, 3), ("orders", 1, 1, 0, 0)]
    assert reply.queues[1].last_timestamp == 0


def test_topics_that_the_group_has_left_do_not_count(bench: Bench) -> None:
    bench.send("other", b"1")
    commit(bench, "g", {0: 1}, "other")
    assert [row[0] for row in rows(stats(bench))] == ["orders", "orders"]
    bench.call(c.CloseConnection(), "A")
    assert [row[0] for row in rows(stats(bench))] == ["orders", "orders", "other", "other"]
    bench.call(c.DeleteTopic(topic="other"))
    assert [row[0] for row in rows(stats(bench))] == ["orders", "orders"]


@pytest.mark.covers("inflight")
def test_consume_stats_of_the_broker_cover_all_groups(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send("ordered", b"1", b"2")
    bench.call(c.UpdateAndCreateTopic(topic="ordered", order=True))
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "h"}))
    commit(bench, "h", {0: 0}, "ordered")
    reply = bench.call(c.GetBrokerConsumeStats())
    assert isinstance(reply, c.BrokerConsumeStats)
    assert reply.broker_addr == "127.0.0.1:10911" and reply.groups["TOOLS_CONSUMER"] == []
    assert [rows(one) for one in reply.groups["g"]] == [rows(stats(bench))]
    assert (reply.total_diff, reply.total_inflight_diff) == (3, 1)
    ordered = bench.call(c.GetBrokerConsumeStats(is_order=True))
    assert isinstance(ordered, c.BrokerConsumeStats)
    assert ordered.groups["g"] == [] and ordered.total_diff == 2
    monkeypatch.setattr(consume_stats, "MAX_QUEUES", 3)
    assert "3 queues" in failure(bench, c.GetBrokerConsumeStats()).remark
    assert rows(stats(bench))
    monkeypatch.setattr(consume_stats, "MAX_QUEUES", 1)
    assert "1 queues" in failure(bench, c.GetConsumeStats(group="g")).remark
    assert "1 queues" in failure(bench, c.CloneGroupOffset(src_group="g", dest_group="h")).remark


def test_time_spans(bench: Bench) -> None:
    end = bench.clock.now().wall_ms
    bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=3, write_queues=3))

    def spans(group: str) -> list[tuple[int, int, int, int]]:
        reply = bench.call(c.QueryConsumeTimeSpan(topic="orders", group=group))
        assert isinstance(reply, c.ConsumeTimeSpans) and reply.topic == "orders"
        assert [span.queue_id for span in reply.spans] == [0, 1, 2]
        return [
            (span.min_timestamp, span.max_timestamp, span.consume_timestamp, span.delay_time) for span in reply.spans
        ]

    bench.clock.advance(500)
    assert spans("g") == [(end - 2000, end, end - 1000, 500), (end - 1000, end - 1000, end - 1000, 0), (-1, -1, -1, 0)]
    assert spans("nobody") == [
        (end - 2000, end, end - 2000, 2500),
        (end - 1000, end - 1000, end - 1000, 1500),
        (-1, -1, -1, 0),
    ]
    assert failure(bench, c.QueryConsumeTimeSpan(topic="none", group="g")).code == 17


def test_groups_of_a_topic_and_topics_of_a_group(bench: Bench) -> None:
    commit(bench, "h", {0: 1})
    join(bench, "B", "i", topics={"orders": "TagA", "%RETRY%i": "*"})
    assert bench.call(c.QueryTopicConsumeByWho(topic="orders")) == c.GroupNames(groups=["g", "h", "i"])
    assert bench.call(c.QueryTopicConsumeByWho(topic="none")) == c.GroupNames(groups=[])
    assert bench.call(c.QueryTopicsByConsumer(group="h")) == c.TopicNames(
        broker_addr="127.0.0.1:10911", topics=["orders"]
    )
    assert bench.call(c.QuerySubscriptionByConsumer(group="i", topic="orders")) == c.FoundSubscription(
        group="i", topic="orders", subscription=c.SubscriptionData(topic="orders", sub_string="TagA", sub_version=1)
    )
    for group, topic in (("i", "other"), ("h", "orders")):
        assert bench.call(c.QuerySubscriptionByConsumer(group=group, topic=topic)) == c.FoundSubscription(
            group=group, topic=topic, subscription=None
        )


def test_the_least_offset_of_all_groups(bench: Bench) -> None:
    commit(bench, "h", {0: 1})
    commit(bench, "i", {0: 3, 1: 0})

    def least(*without: str, beside: str = "") -> c.Reply:
        return bench.call(c.QueryCorrectionOffset(topic="orders", filter_groups=list(without), compare_group=beside))

    assert least() == c.CorrectionOffsets(offsets={0: 1, 1: 0})
    assert least("h", "i") == c.CorrectionOffsets(offsets={0: 2, 1: 1})
    assert least("h", beside="h") == c.CorrectionOffsets(offsets={0: (1 << 63) - 1, 1: 0})
    assert bench.context.offsets.query("h", "orders", 0) == 1


@pytest.mark.covers("clone-offsets")
def test_offsets_are_cloned(bench: Bench) -> None:
    bench.send("other", b"1")
    commit(bench, "g", {0: 1}, "other")

    def clone(**fields: Any) -> dict[str, dict[int, int]]:
        bench.call(c.DeleteSubscriptionGroup(group="h", clean_offset=True))
        assert bench.call(c.CloneGroupOffset(**{"src_group": "g", "dest_group": "h"} | fields)) == c.Done()
        return bench.context.offsets.topics("h")

    assert clone(topic="orders") == {"orders": {0: 2, 1: 1}}
    assert clone() == {"orders": {0: 2, 1: 1}}, "the members of g do not subscribe to other"
    assert clone(offline=True) == {"orders": {0: 2, 1: 1}, "other": {0: 1}}
    beats(bench, "A", topics={})
    assert clone() == {"orders": {0: 2, 1: 1}, "other": {0: 1}}
    assert clone(topic="none") == {} == clone(src_group="nobody")
    assert "group" in failure(bench, c.CloneGroupOffset(src_group="g", dest_group="a/b")).remark


def test_the_table_of_offsets(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = bench.call(c.GetAllConsumerOffset())
    assert isinstance(reply, c.OffsetTable) and reply.table["offsetTable"] == {"orders@g": {0: 2, 1: 1}}
    commit(bench, "g", {0: 3})
    assert reply.table["offsetTable"]["orders@g"][0] == 2, "it is a copy"
    monkeypatch.setattr(consume_stats, "MAX_OFFSETS", 1)
    assert "1 offsets" in failure(bench, c.GetAllConsumerOffset()).remark
