"""The pullRequestTable in pages, the ring of events, wake-ups for pages that open late."""

import pytest

from broker_core import commands as c
from broker_core.processors import observe
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


def timeline(bench: Bench, hold_id: int) -> c.HoldTimeline:
    reply = bench.call(c.GetHoldTimeline(hold_id=hold_id))
    assert isinstance(reply, c.HoldTimeline)
    return reply


def test_the_timeline_of_a_hold_says_when_it_came_and_what_woke_it() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1, consumer_group="other", subscription="TagA")
    bench.pull("orders", 1)
    holds = bench.call(c.GetHolds())
    assert isinstance(holds, c.Holds)
    filtering, hold = holds.holds
    waiting = timeline(bench, hold.id)
    assert (waiting.hold, waiting.complete) == (hold, True)
    assert [event["type"] for event in waiting.events] == ["pull_held"]
    bench.send("orders", b"x")
    ended = timeline(bench, hold.id)
    assert ended.hold is None
    assert [event["type"] for event in ended.events] == [
        "pull_held",
        "pull_woken",
        "pull_answered",
        "messages_delivered",
    ]
    assert (ended.events[1]["cause"], ended.events[3]["from_offset"]) == ("arrival", 1)
    passed = timeline(bench, filtering.id)
    assert passed.hold is not None
    assert [event["type"] for event in passed.events] == ["pull_held", "pull_passed_over"]


def test_a_hold_whose_beginning_is_no_longer_kept_is_incomplete() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1, subscription="TagA")
    holds = bench.call(c.GetHolds())
    assert isinstance(holds, c.Holds)
    bench.context.events._ring.clear()
    waiting = timeline(bench, holds.holds[0].id)
    assert (waiting.hold is not None, waiting.complete, waiting.events) == (True, False, [])


def test_of_many_events_of_a_hold_the_first_and_the_last_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "MOST_OF_HOLD", 3)
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1, subscription="TagA")
    holds = bench.call(c.GetHolds())
    assert isinstance(holds, c.Holds)
    for _ in range(5):
        bench.send("orders", b"x")
    shown = timeline(bench, holds.holds[0].id)
    assert [event["type"] for event in shown.events] == ["pull_held", "pull_passed_over", "pull_passed_over"]
    assert (shown.events[-1]["to_offset"], shown.complete) == (6, False)


def test_no_hold_has_the_id_of_pulls_that_were_not_held() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 0)
    assert isinstance(bench.call(c.GetHoldTimeline(hold_id=0)), c.Failed)


def test_nothing_is_known_of_a_hold_that_never_was() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = bench.call(c.GetHoldTimeline(hold_id=4711))
    assert isinstance(reply, c.Failed) and reply.pointer == "/id"


def test_pulls_say_until_when_the_journal_may_know_them() -> None:
    bench = Bench(poll_journal_flush_interval=500)
    bench.send("t", b"x")
    asked_ms = bench.clock.now().wall_ms
    reply = bench.call(c.GetPulls(topic="t"))
    assert isinstance(reply, c.Pulls) and reply.written_ms == asked_ms - 500
