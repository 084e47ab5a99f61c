"""Topics, queues, the broker's own view, options that change while it runs."""

from typing import Any

import pytest

from broker_core import commands as c
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


def test_a_changed_option_is_an_event_and_is_seen() -> None:
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


@pytest.mark.parametrize("kind", [c.GetMaxOffset, c.GetMinOffset, c.GetEarliestMsgStoreTime])
def test_queues_that_are_not_there_have_no_offsets(kind: Any) -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for topic, queue_id, code in (("nowhere", 0, 17), ("orders", 4, 29), ("orders", -1, 29)):
        reply = bench.call(kind(topic=topic, queue_id=queue_id))
        assert isinstance(reply, c.Failed) and reply.code == code
