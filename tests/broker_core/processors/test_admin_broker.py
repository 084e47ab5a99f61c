"""Topics, queues, the broker's own view, options that change while it runs."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core import topics as topics_module
from broker_core.events import ConfigChanged
from tests.fakes.engine import Bench


def test_topics_are_listed_with_what_they_hold() -> None:
    bench = Bench()
    bench.send("orders", b"1", b"2")
    reply = bench.call(c.GetTopics(system=False))
    assert isinstance(reply, c.Topics)
    (topic,) = reply.topics
    assert (topic.topic, topic.messages, topic.read_queues, topic.perm, topic.system) == ("orders", 2, 4, 6, False)
    everything = bench.call(c.GetTopics())
    assert isinstance(everything, c.Topics) and any(t.topic == "TBW102" and t.system for t in everything.topics)


def test_queues_of_one_topic() -> None:
    bench = Bench()
    bench.send("orders", b"1", queue_id=2)
    reply = bench.call(c.GetQueues(topic="orders"))
    assert isinstance(reply, c.Queues)
    assert [(q.queue_id, q.max_offset) for q in reply.queues] == [(0, 0), (1, 0), (2, 1), (3, 0)]


def test_a_changed_option_is_an_event_and_takes_effect() -> None:
    bench = Bench()
    reply = bench.call(c.UpdateBrokerConfig(changes={"longPollingEnable": False}))
    assert isinstance(reply, c.BrokerView) and reply.config["longPollingEnable"] is False
    (event,) = [e for e in bench.engine.events.after(0) if isinstance(e, ConfigChanged)]
    assert (event.name, event.value, event.previous) == ("longPollingEnable", False, True)
    assert "longPollingEnable" in reply.changeable and "listenPort" not in reply.changeable


def test_the_broker_view() -> None:
    bench = Bench(broker_name="b7")
    bench.send("orders", b"1")
    bench.clock.advance(1234)
    reply = bench.call(c.GetBroker())
    assert isinstance(reply, c.BrokerView)
    assert (reply.broker, reply.uptime_ms, reply.read_only, reply.problem) == ("b7", 1234, False, "")
    assert reply.positions.appended == reply.positions.dispatched > 0


def test_search_by_time() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    begin = bench.clock.advance(1000).wall_ms
    bench.send("orders", b"2")
    reply = bench.call(c.SearchOffset(topic="orders", queue_id=0, timestamp_ms=begin))
    assert reply == c.FoundOffset(offset=1)


def test_the_offsets_of_a_queue() -> None:
    bench = Bench()
    stored = bench.clock.now().wall_ms
    bench.send("orders", b"1", b"2")
    assert bench.call(c.GetMaxOffset(topic="orders", queue_id=0)) == c.FoundOffset(offset=2)
    assert bench.call(c.GetMinOffset(topic="orders", queue_id=0)) == c.FoundOffset(offset=0)
    bench.clock.advance(1000)
    assert bench.call(c.GetEarliestMsgStoreTime(topic="orders", queue_id=0)) == c.StoreTime(timestamp_ms=stored)
    assert bench.call(c.GetMaxOffset(topic="orders", queue_id=1)) == c.FoundOffset(offset=0)
    assert bench.call(c.GetEarliestMsgStoreTime(topic="orders", queue_id=1)) == c.StoreTime(timestamp_ms=-1)


def test_the_end_of_a_queue_that_is_not_there_is_its_beginning() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for topic, queue_id in (("nowhere", 0), ("orders", 9)):
        assert bench.call(c.GetMaxOffset(topic=topic, queue_id=queue_id)) == c.FoundOffset(offset=0)
    assert isinstance(bench.call(c.GetMaxOffset(topic="../x", queue_id=0)), c.Failed)


@pytest.mark.parametrize("kind", [c.GetMinOffset, c.GetEarliestMsgStoreTime])
def test_queues_that_are_not_there_have_no_offsets(kind: Any) -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for topic, queue_id, code in (("nowhere", 0, 17), ("orders", 4, 29), ("orders", -1, 29)):
        reply = bench.call(kind(topic=topic, queue_id=queue_id))
        assert isinstance(reply, c.Failed) and reply.code == code


def test_several_topics_at_once_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    def update(*topics: c.UpdateAndCreateTopic) -> c.Reply:
        return bench.call(c.UpdateAndCreateTopicList(topics=list(topics)))

    def names() -> set[str]:
        reply = bench.call(c.GetTopics(system=False))
        assert isinstance(reply, c.Topics)
        return {topic.topic for topic in reply.topics}

    assert update(c.UpdateAndCreateTopic(topic="a", read_queues=2), c.UpdateAndCreateTopic(topic="b")) == c.Done()
    assert names() == {"a", "b"}
    refused = update(c.UpdateAndCreateTopic(topic="c"), c.UpdateAndCreateTopic(topic="a/b"))
    assert isinstance(refused, c.Failed) and refused.code == 29
    limit = len(list(bench.context.topics)) + 1
    monkeypatch.setattr(topics_module, "MAX_TOPICS", limit)
    refused = update(*(c.UpdateAndCreateTopic(topic=name) for name in "acd"))
    assert isinstance(refused, c.Failed) and f"the limit is {limit} topics" in refused.remark
    assert names() == {"a", "b"}
    assert update(*(c.UpdateAndCreateTopic(topic=name) for name in "ac")) == c.Done()


def test_configurations_of_topics() -> None:
    bench = Bench()
    bench.call(
        c.UpdateAndCreateTopic(
            topic="orders",
            read_queues=2,
            write_queues=3,
            perm=6,
            order=True,
            sys_flag=1,
            filter_type="MULTI_TAG",
            attributes={"+message.type": "FIFO"},
        )
    )
    reply = bench.call(c.GetTopicConfigs(topic="orders"))
    assert isinstance(reply, c.TopicConfigs)
    assert reply.configs == {
        "orders": {
            "topicName": "orders",
            "readQueueNums": 2,
            "writeQueueNums": 3,
            "perm": 6,
            "order": True,
            "topicFilterType": "MULTI_TAG",
            "topicSysFlag": 1,
            "attributes": {"message.type": "FIFO"},
        }
    }
    everything = bench.call(c.GetTopicConfigs())
    assert isinstance(everything, c.TopicConfigs) and {"orders", "TBW102"} <= set(everything.configs)
    assert everything.data_version == bench.context.topics.data_version
    unknown = bench.call(c.GetTopicConfigs(topic="none"))
    assert isinstance(unknown, c.Failed) and unknown.code == 17


def test_topic_stats_have_the_offsets_of_each_queue() -> None:
    bench = Bench(default_topic_queue_nums=2)
    bench.send("orders", b"1", b"2", queue_id=1)
    reply = bench.call(c.GetTopicStats(topic="orders"))
    assert isinstance(reply, c.TopicStats)
    assert [(q.queue_id, q.min_offset, q.max_offset, q.last_store_time_ms) for q in reply.queues] == [
        (0, 0, 0, None),
        (1, 0, 2, bench.clock.now().wall_ms),
    ]
    unknown = bench.call(c.GetTopicStats(topic="none"))
    assert isinstance(unknown, c.Failed) and unknown.code == 17


def test_a_topic_that_is_deleted_wherever_it_is() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for _ in range(2):
        assert bench.call(c.DeleteTopic(topic="orders", missing_ok=True)) == c.Done()
    unknown = bench.call(c.DeleteTopic(topic="orders"))
    assert isinstance(unknown, c.Failed) and (unknown.code, unknown.pointer) == (17, "/topic")
    assert unknown.remark == "topic orders does not exist on this broker, so it cannot be deleted; check its name"
    for name in ("", "a/b", "TBW102"):
        refused = bench.call(c.DeleteTopic(topic=name, missing_ok=True))
        assert isinstance(refused, c.Failed) and refused.code == 29


def test_options_have_a_version() -> None:
    bench = Bench()
    before = bench.call(c.GetBrokerConfig())
    bench.clock.advance(5)
    bench.call(c.UpdateBrokerConfig(changes={"fileReservedTime": "48"}))
    after = bench.call(c.GetBrokerConfig())
    assert isinstance(before, c.BrokerConfig) and isinstance(after, c.BrokerConfig)
    assert (before.config["fileReservedTime"], after.config["fileReservedTime"]) == (72, 48)
    begin = bench.clock.now().wall_ms - 5
    assert before.data_version == {"counter": 0, "stateVersion": 0, "timestamp": begin}
    assert after.data_version == {"counter": 1, "stateVersion": 0, "timestamp": begin + 5}


def test_topics_come_in_pages() -> None:
    bench = Bench()
    for topic in "dbca":
        bench.send(topic, b"1")
    first = bench.call(c.GetTopics(system=False, limit=2))
    assert isinstance(first, c.Topics) and first.next == "b"
    last = bench.call(c.GetTopics(system=False, after="b", limit=2))
    assert isinstance(last, c.Topics) and last.next is None
    assert [[view.topic for view in page.topics] for page in (first, last)] == [["a", "b"], ["c", "d"]]
