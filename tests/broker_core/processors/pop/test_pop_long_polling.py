"""Held pops: rows of the pullRequestTable, one of which each arrival wakes."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.consumers import pop_check_points
from broker_core.events import PullAnswered, PullHeld, PullReleased, PullWoken
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import find
from broker_core.formats.pop_check_point import ExtraInfo
from broker_core.processors.pop import pop_look, pop_message
from broker_core.processors.pop.check_point_log import append
from broker_core.store.commit_log import PendingMessage
from tests.fakes.engine import Bench, send
from tests.fakes.members import events
from tests.fakes.pops import ack, bodies, pop, popped, take


def waiting(bench: Bench, connection: str = "c", **more: object) -> int:
    return pop(bench, connection, **({"poll_ms": 15_000} | more))


def test_an_arrival_wakes_one_pop_of_each_group() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench, consumer_group="other")
    take(bench)
    first, second = waiting(bench), waiting(bench)
    others = waiting(bench, consumer_group="other")
    assert len(bench.context.holds) == 3
    bench.send("orders", b"x", queue_id=2)
    assert bodies(popped(bench, first)) == bodies(popped(bench, others)) == [b"x"]
    assert bench.final(second) is None and len(bench.context.holds) == 1
    bench.send("orders", b"y")
    assert bodies(popped(bench, second)) == [b"y"]
    hold = popped(bench, second).hold
    assert hold is not None and hold.wake_cause == "arrival"


def test_many_messages_wake_as_many_pops_as_they_need() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    requests = [waiting(bench, max_msg_nums=2) for _ in range(4)]
    bench.send("orders", b"a", b"b", b"c", b"d", b"e")
    assert [bodies(popped(bench, request)) for request in requests[:3]] == [[b"a", b"b"], [b"c", b"d"], [b"e"]]
    assert bench.final(requests[3]) is None


def test_a_pop_of_one_queue_is_woken_by_that_queue_alone() -> None:
    bench = Bench()
    bench.send("orders", b"old", queue_id=1)
    take(bench)
    request = waiting(bench, queue_id=1)
    bench.send("orders", b"x", queue_id=2)
    assert bench.final(request) is None
    bench.send("orders", b"y", queue_id=1)
    assert bodies(popped(bench, request)) == [b"y"]


def test_a_message_that_comes_back_wakes_a_pop() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench, invisible_ms=5000)
    request = waiting(bench)
    bench.tick(5100)
    assert bodies(popped(bench, request)) == [b"x"]


def test_a_message_that_comes_back_wakes_a_pop_of_one_queue() -> None:
    """It comes back in the retry topic, from which all pops read."""
    bench = Bench()
    bench.send("orders", b"x")
    take(bench, invisible_ms=5000)
    request = waiting(bench, queue_id=2)
    bench.tick(5100)
    assert bodies(popped(bench, request)) == [b"x"]


def test_the_other_form_of_a_retry_topic_is_popped_from() -> None:
    """RocketMQ writes it with enableRetryTopicV2: an adopted store may have it."""
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    bench.context.topics.adopt("%RETRY%g+orders", 1, bench.clock.now())
    request = waiting(bench, queue_id=2)
    fields: dict[str, Any] = {"born_timestamp": 1, "born_host": "127.0.0.1", "born_port": 1, "flag": 0, "sys_flag": 0}
    copy = PendingMessage(topic="%RETRY%g+orders", queue_id=0, body=b"x", properties="", **fields)
    append(bench.context, [copy], bench.clock.now())
    bench.tick()
    reply = popped(bench, request)
    assert bodies(reply) == [b"x"] and reply.queues[0].topic == "%RETRY%g+orders"
    (record,) = decode_all(reply.records)
    point = ExtraInfo.decode(find(record.properties, "POP_CK"))
    assert record.topic == "orders" and point.kind == "2"
    bench.tick(61_000)
    again = take(bench)
    assert {queue.topic for queue in again.queues} == {"%RETRY%g_orders", "%RETRY%g+orders"}
    popping = bench.context.check_points.popping("g", "orders")
    assert popping is not None and popping.unacknowledged == 2
    assert ack(bench, again).messages == 1 and popping.unacknowledged == 1


def test_what_is_left_wakes_a_pop_of_its_queue() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    others = [waiting(bench, queue_id=3), waiting(bench, queue_id=2)]
    commands = [
        send("orders", b"a", b"b", queue_id=1),
        c.PopMessage(topic="orders", consumer_group="g", max_msg_nums=1),
    ]
    (_, first) = bench.submit(*commands)
    one = waiting(bench, queue_id=1)
    assert bodies(popped(bench, first)) == [b"a"] and bodies(popped(bench, one)) == [b"b"]
    assert [bench.final(other) for other in others] == [None, None]


def test_an_acknowledgement_makes_room_for_a_held_pop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_look, "MAX_IN_FLIGHT_OF_QUEUE", 2)
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c", b"d")
    reply = take(bench, invisible_ms=20_000)
    first, second = waiting(bench, queue_id=0, poll_ms=30_000), waiting(bench, poll_ms=30_000)
    assert bench.final(first) is None
    ack(bench, reply, 0)
    assert bodies(popped(bench, first)) == [b"c"] and bench.final(second) is None
    bench.tick(20_100)
    assert bodies(popped(bench, second)) in ([b"d"], [b"b"], [b"d", b"b"])


def test_an_acknowledgement_makes_room_for_another_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pop_look, pop_message, pop_check_points):
        monkeypatch.setattr(module, "MAX_IN_FLIGHT", 2)
    bench = Bench()
    bench.send("orders", b"old")
    ack(bench, take(bench))
    request = waiting(bench, consumer_group="other", queue_id=1)
    bench.send("orders", b"a", b"b")
    reply = take(bench)
    bench.send("orders", b"x", queue_id=1)
    assert bench.final(request) is None, "the limit of the broker is reached"
    ack(bench, reply, 1)
    assert bodies(popped(bench, request)) == [b"x"]


def test_a_pop_whose_filter_rejects_the_message_stays_until_its_own_deadline() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    request = waiting(bench, expression="B")
    bench.tick(10_000)
    bench.send("orders", b"x", tag="A")
    assert bench.final(request) is None
    (view,) = bench.engine.snapshot(bench.clock.now()).holds
    assert (view.queue_id, view.group, view.filter) == (-1, "g", "B")
    bench.tick(5_100)
    reply = popped(bench, request)
    assert reply.code == 210 and reply.hold is not None and reply.hold.wake_cause == "timeout"
    assert len(bench.context.holds) == 0


def test_a_pop_without_messages_is_reported_too() -> None:
    """So the poll journal has it: short polling is seen to cost answers without messages."""
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    take(bench)
    waiting(bench, poll_ms=5000)
    bench.tick(5_100)
    found = [(event.messages, event.queue_id, event.hold_id, event.granted_ms) for event in events(bench, PullAnswered)]
    assert found == [(1, 0, 0, 0), (0, -1, 0, 0), (0, -1, 1, 5000)]


def test_holds_are_listed_in_their_order_after_one_was_held_again() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    for _ in range(3):
        waiting(bench, expression="B")
    bench.send("orders", b"x", tag="A")
    assert bench.context.holds.ids_after(0) == [1, 2, 3]
    assert bench.context.holds.ids_after(1) == [2, 3]


def test_the_periodic_check_leaves_pops_alone() -> None:
    bench = Bench()
    bench.send("orders", b"old", queue_id=1)
    take(bench)
    request = waiting(bench, queue_id=1)
    bench.tick(6_000)
    assert bench.final(request) is None and bench.engine.counters.as_dict()["woken_missed_arrival"] == 0


def test_holds_are_reported() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    waiting(bench)
    bench.send("orders", b"x")
    (held,), (woken,) = events(bench, PullHeld), events(bench, PullWoken)
    assert (held.queue_id, held.pull_from_offset, held.group) == (-1, -1, "g")
    assert (woken.hold_id, woken.cause, woken.messages) == (held.hold_id, "arrival", 1)


@pytest.mark.covers("pop-client-gone")
def test_a_disconnected_client_gets_no_message() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    bench.call(c.OpenConnection(client_id="", protocol="remoting", remote="ip"), "gone")
    waiting(bench, "gone", protocol="remoting")
    bench.call(c.CloseConnection(), "gone")
    bench.tick()
    bench.send("orders", b"x")
    assert bodies(take(bench)) == [b"x"]
    (released,) = events(bench, PullReleased)
    assert released.cause == "channel_gone"


@pytest.mark.parametrize("protocol", ["remoting", "websocket"])
def test_the_wake_up_of_a_disconnected_client_wakes_the_next_member(protocol: c.Protocol) -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    bench.call(c.OpenConnection(client_id="", protocol=protocol, remote="ip"), "gone")
    waiting(bench, "gone", protocol=protocol)
    request = waiting(bench)
    now = bench.clock.now()
    bench.take(bench.engine.handle_batch([("c", 77, send("orders", b"x")), ("gone", 78, c.CloseConnection())], now))
    bench.tick()
    assert bodies(popped(bench, request)) == [b"x"]


def test_two_groups_with_one_retry_topic() -> None:
    """``%RETRY%a_b_c`` is that of group a for topic b_c, and of group a_b for topic c."""
    bench = Bench()
    requests = {}
    for group, topic in (("a", "b_c"), ("a_b", "c")):
        bench.call(c.UpdateAndCreateTopic(topic=topic))
        for seconds in (10, 20):
            requests[group, seconds] = pop(bench, topic=topic, consumer_group=group, poll_ms=seconds * 1000)
    bench.tick(11_000)
    assert popped(bench, requests["a", 10]).code == popped(bench, requests["a_b", 10]).code == 210
    bench.call(c.UpdateAndCreateTopic(topic="%RETRY%a_b_c"))
    bench.send("%RETRY%a_b_c", b"x")
    assert [bodies(popped(bench, requests[group, 20])) for group in ("a", "a_b")] == [[b"x"], [b"x"]]
    assert not bench.context.holds.has_pops


def test_a_deleted_topic_ends_its_pops() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    request = waiting(bench)
    bench.call(c.DeleteTopic(topic="orders"))
    bench.tick()
    assert isinstance(bench.final(request), c.Failed) and not bench.context.holds.has_pops
    bench.send("orders", b"x")
    assert bodies(take(bench)) == [b"x"]


def test_a_held_pop_is_reported_to_the_client_that_wants_it() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    request = waiting(bench, report_hold=True, poll_ms=2000)
    assert bench.replies["c", request] == [c.Held(hold_id=1, deadline_ms=bench.clock.now().wall_ms + 2000)]
    bench.send("orders", b"x")
    assert bodies(popped(bench, request)) == [b"x"]


def test_a_stop_answers_held_pops_without_messages() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    request = waiting(bench)
    bench.take(bench.engine.drain(bench.clock.now()))
    assert popped(bench, request).code == 210 and bench.engine.drained


def test_a_reset_wakes_a_held_pop() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    ack(bench, take(bench))
    request = waiting(bench)
    bench.call(c.ResetConsumerOffset(group="g", topic="orders", to="min"))
    bench.tick()
    assert bodies(popped(bench, request)) == [b"x"]


def test_notification_reports_messages_and_leaves_them_where_they_are() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    asked = c.Notification(topic="orders", consumer_group="g", protocol="http", poll_ms=5000)
    assert bench.call(asked) == c.Notified(has_message=True)
    take(bench)
    first, second = bench.submit(asked, asked)
    bench.send("orders", b"x")
    assert bench.final(first) == c.Notified(has_message=True) and bench.final(second) is None
    assert bodies(take(bench)) == [b"x"]
    bench.tick(5_100)
    assert bench.final(second) == c.Notified(has_message=False)


def test_a_group_that_may_not_consume_any_more_gets_the_refusal() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    request = waiting(bench)
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": False}))
    bench.send("orders", b"x")
    refused = bench.final(request)
    assert isinstance(refused, c.Failed) and refused.code == 16
    assert bench.context.check_points.messages == 1, "the new one was given to nobody"
