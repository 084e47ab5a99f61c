"""The pullRequestTable in pages, the ring of events, wake-ups for pages that open late."""

from broker_core import commands as c
from broker_core.processors.context import RECENT_RETRIES
from tests.fakes.engine import Bench


def test_holds_come_in_pages_and_by_topic_and_group() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.send("others", b"1")
    for n in range(5):
        bench.pull("orders", 1, consumer_group=f"g{n % 2}")
    bench.pull("others", 1)
    first = bench.call(c.GetHolds(limit=4))
    assert isinstance(first, c.Holds) and first.total == 6 and first.next == first.holds[-1].id
    rest = bench.call(c.GetHolds(limit=4, after=first.next or 0))
    assert isinstance(rest, c.Holds) and len(rest.holds) == 2 and rest.next is None
    mine = bench.call(c.GetHolds(topic="orders", group="g1"))
    assert isinstance(mine, c.Holds) and len(mine.holds) == 2
    one = bench.call(c.GetHold(hold_id=first.holds[0].id))
    assert isinstance(one, c.Holds) and one.holds == [first.holds[0]]


def test_a_limit_of_nothing_is_refused() -> None:
    reply = Bench().call(c.GetHolds(limit=0))
    assert isinstance(reply, c.Failed) and reply.pointer == "/limit"


def test_events_of_the_ring() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = bench.call(c.GetEvents(after=0, limit=2))
    assert isinstance(reply, c.Events) and len(reply.events) == 2
    last = reply.events[-1]["seq"]
    following = bench.call(c.GetEvents(after=last))
    assert isinstance(following, c.Events) and following.events[0]["seq"] == last + 1


def test_a_snapshot_has_the_last_wake_ups_and_says_what_it_left_out() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for n in range(3):
        bench.pull("orders", n + 1)
        bench.send("orders", b"x")
    bench.pull("orders", 4), bench.pull("orders", 4)
    reply = bench.call(c.GetSnapshot(max_holds=1, max_queues=2))
    assert isinstance(reply, c.Snapshot)
    assert [(w.cause, w.messages) for w in reply.wakeups] == [("arrival", 1)] * 3
    assert (len(reply.holds), reply.holds_total, len(reply.queues)) == (1, 2, 2) and reply.queues_total > 4
    assert reply.counters["woken_arrival"] == 3 and reply.counters["holds_now"] == 2
    assert sum(reply.wakeup_us.counts) == 3


def test_events_after_the_largest_number_there_is() -> None:
    reply = Bench().call(c.GetEvents(after=1 << 63))
    assert isinstance(reply, c.Events) and reply.events == []


def test_a_snapshot_has_what_became_of_clients() -> None:
    bench = Bench()
    bench.call(c.OpenConnection(client_id="c-1", protocol="websocket"), connection="w")
    beat = c.HeartBeat(client_id="c-1", protocol="websocket", consumers=[c.ConsumerData(group="g")])
    bench.call(beat, connection="w")
    bench.call(c.CloseConnection(), connection="w")
    reply = bench.call(c.GetSnapshot())
    assert isinstance(reply, c.Snapshot)
    kinds = [event["type"] for event in reply.client_events]
    assert kinds[0] == "client_connected" and kinds[-1] == "client_lost"
    assert {"group_member_joined", "consumer_ids_notified", "group_member_left"} <= set(kinds)


def test_a_snapshot_has_what_a_group_could_not_consume_among_the_other_events_of_clients() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=0))
    bench.call(c.OpenConnection(client_id="A", protocol="websocket"), "A")
    bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=0, delay_level=-1))
    for _ in range(2 * RECENT_RETRIES):
        bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=0))
    found = bench.engine.snapshot(bench.clock.now()).client_events
    assert [event["seq"] for event in found] == sorted(event["seq"] for event in found)
    kinds = [event["type"] for event in found]
    assert kinds[:2] == ["subscription_group_changed", "client_connected"]
    assert kinds[2:] == ["message_sent_back"] * RECENT_RETRIES
    assert found[-1]["group"] == "g" and found[-1]["topic"] == "orders"
