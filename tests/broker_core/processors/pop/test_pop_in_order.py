"""Pops in order: a queue is handed out to one member at a time. What is expected was observed at RocketMQ 5.4.0."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.consumers import consumer_order_info_manager
from broker_core.formats.rocketmq_json import decode
from tests.fakes.engine import ROOT, Bench
from tests.fakes.pops import ack_of, bodies, change_of, pop, popped, restart, take


def in_order(bench: Bench, **more: Any) -> c.Popped:
    """Pop in order, and return the answer, which comes at once."""
    return take(bench, **({"order": True, "max_msg_nums": 3} | more))


def ack(bench: Bench, reply: c.Popped, *offsets: int) -> c.Reply:
    return bench.call(ordered(ack_of(reply, *offsets)))


def ordered(command: c.AckMessage) -> c.AckMessage:
    return c.AckMessage(**{name: getattr(command, name) for name in command.__struct_fields__} | {"order": True})


def change(bench: Bench, reply: c.Popped, offset: int, invisible_ms: int, *, unseen: bool = False) -> c.Reply:
    command = change_of(reply, offset, invisible_ms, unseen=unseen)
    fields = {name: getattr(command, name) for name in command.__struct_fields__}
    return bench.call(c.ChangeInvisibleTime(**fields | {"order": True}))


def offset(bench: Bench) -> int | None:
    return bench.context.offsets.query("g", "orders", 0)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.send("orders", *[b"%d" % number for number in range(8)])
    return bench


def test_a_queue_is_handed_out_to_one_pop_at_a_time(bench: Bench) -> None:
    first = in_order(bench)
    assert (bodies(first), first.rest, first.revive_queue_id) == ([b"0", b"1", b"2"], 5, 999)
    second = in_order(bench)
    assert (second.code, second.rest, second.revive_queue_id) == (210, 0, 999)
    assert offset(bench) == 0
    assert bodies(in_order(bench, consumer_group="other")) == [b"0", b"1", b"2"]
    bench.send("orders", b"x", queue_id=1)
    assert bodies(in_order(bench)) == [b"x"], "the other queue is free"


def test_the_next_messages_come_when_all_are_acknowledged(bench: Bench) -> None:
    first = in_order(bench)
    assert ack(bench, first, 1) == c.Acknowledged(messages=1) and offset(bench) == 0
    assert ack(bench, first, 0) == c.Acknowledged(messages=1) and offset(bench) == 2
    assert ack(bench, first, 0) == c.Acknowledged(messages=0, late=[0])
    assert in_order(bench).code == 210
    assert ack(bench, first, 2) == c.Acknowledged(messages=1) and offset(bench) == 3
    assert len(bench.context.order_infos) == 0
    assert bodies(in_order(bench)) == [b"3", b"4", b"5"]


def test_acknowledgements_that_come_together_are_one_record(bench: Bench) -> None:
    first = in_order(bench)
    log = "rmq_sys_REVIVE_LOG_DefaultCluster"
    requests = bench.submit(*[ordered(ack_of(first, number)) for number in (2, 0, 1, 0)])
    assert [bench.final(request) for request in requests[:3]] == [c.Acknowledged(messages=1)] * 3
    assert bench.final(requests[3]) == c.Acknowledged(messages=0, late=[0])
    assert offset(bench) == 3 and bench.context.store.max_offset(log, 0) == 1


def test_messages_come_back_from_their_queue_when_their_time_is_over(bench: Bench) -> None:
    first = in_order(bench, max_msg_nums=2, invisible_ms=2000)
    waits = pop(bench, order=True, poll_ms=8000, max_msg_nums=3)
    ack(bench, first, 0)
    bench.tick(1900)
    assert bench.final(waits) is None
    bench.tick(200)
    again = popped(bench, waits)
    assert bodies(again) == [b"1", b"2", b"3"] and again.queues[0].counts == {1: 1}
    assert ack(bench, first, 1) == c.Acknowledged(messages=0, late=[1]), "of an earlier pop"
    assert offset(bench) == 1 and bench.context.topics.get("%RETRY%g_orders") is None


def test_an_acknowledgement_counts_until_the_queue_is_handed_out_again(bench: Bench) -> None:
    first = in_order(bench, invisible_ms=1000)
    bench.tick(2000)
    assert ack(bench, first, 0) == c.Acknowledged(messages=1) and offset(bench) == 1


def test_a_repeated_attempt_gets_the_same_messages(bench: Bench) -> None:
    first = in_order(bench, attempt_id="a")
    again = in_order(bench, attempt_id="a")
    assert bodies(again) == bodies(first) and again.pop_time_ms > first.pop_time_ms
    assert again.queues[0].counts == {}, "a repetition does not count"
    assert ack(bench, first, 0) == c.Acknowledged(messages=0, late=[0])
    assert in_order(bench, attempt_id="b").code == in_order(bench).code == 210
    ack(bench, again, 0, 1, 2)
    assert bodies(in_order(bench, attempt_id="b")) == [b"3", b"4", b"5"]


def test_the_last_acknowledgement_wakes_a_held_pop(bench: Bench) -> None:
    first = in_order(bench)
    one = pop(bench, order=True, poll_ms=8000, max_msg_nums=2)
    two = pop(bench, order=True, poll_ms=8000, max_msg_nums=2)
    bench.send("orders", b"8")
    bench.tick()
    ack(bench, first, 0, 2)
    assert bench.final(one) is bench.final(two) is None
    ack(bench, first, 1)
    (answer,) = [reply for request in (one, two) if (reply := bench.final(request)) is not None]
    assert isinstance(answer, c.Popped) and bodies(answer) == [b"3", b"4"]


def test_counts_grow_with_each_pop(bench: Bench) -> None:
    for expected in ({}, {0: 1, 1: 1}, {0: 2, 1: 2}):
        reply = in_order(bench, max_msg_nums=2, invisible_ms=500)
        assert reply.queues[0].counts == expected
        bench.tick(600)


def test_a_changed_invisible_time_counts_from_the_pop(bench: Bench) -> None:
    first = in_order(bench)
    bench.tick(1000)
    changed = change(bench, first, 0, 500)
    assert changed == c.InvisibleTimeChanged(pop_time_ms=first.pop_time_ms, invisible_ms=1500, revive_queue_id=999), (
        changed
    )
    ack(bench, first, 1, 2)
    waits = pop(bench, order=True, poll_ms=8000, max_msg_nums=1)
    bench.tick(400)
    assert bench.final(waits) is None
    bench.tick(200)
    assert bodies(popped(bench, waits)) == [b"0"]


def test_a_message_that_is_given_back_unseen_does_not_count(bench: Bench) -> None:
    first = in_order(bench, max_msg_nums=1)
    change(bench, first, 0, 0, unseen=True)
    again = in_order(bench, max_msg_nums=1)
    assert bodies(again) == [b"0"] and again.queues[0].counts == {}


def test_the_time_of_a_message_of_an_earlier_pop_cannot_be_changed(bench: Bench) -> None:
    first = in_order(bench, invisible_ms=500)
    bench.tick(600)
    in_order(bench)
    refused = change(bench, first, 0, 500)
    assert isinstance(refused, c.Failed) and refused.code == ResponseCode.NO_MESSAGE


@pytest.mark.parametrize(("wrong", "code"), [(99, 208), (7, 13)])
def test_an_acknowledgement_of_what_was_not_popped_is_refused(bench: Bench, wrong: int, code: int) -> None:
    reply = in_order(bench)
    refused = ack(bench, reply, wrong)
    assert isinstance(refused, c.Failed) and refused.code == code
    assert refused.remark.startswith("offset is illegal, key:orders@")


@pytest.mark.covers("pop-order")
def test_an_acknowledgement_of_an_unknown_pop_moves_nothing(bench: Bench) -> None:
    """RocketMQ moves the offset behind it: the messages before it would be lost."""
    reply = in_order(bench)
    bench.context.order_infos.clear("g", "orders", 0)
    assert ack(bench, reply, 1) == c.Acknowledged(messages=0, late=[1]) and offset(bench) == 0


def test_a_notification_does_not_count_queues_that_are_handed_out(bench: Bench) -> None:
    first = in_order(bench, attempt_id="a")
    asked = c.Notification(topic="orders", consumer_group="g", order=True)
    assert bench.call(asked) == c.Notified(has_message=False)
    same = c.Notification(topic="orders", consumer_group="g", order=True, attempt_id="a")
    assert bench.call(same) == c.Notified(has_message=True)
    ack(bench, first, 0, 1, 2)
    assert bench.call(asked) == c.Notified(has_message=True)


def test_what_a_filter_rejects_is_passed_over_in_order() -> None:
    bench = Bench()
    for tag in ("A", "B", "A", "B"):
        bench.send("orders", tag.encode(), tag=tag)
    reply = in_order(bench, expression="B")
    assert reply.queues[0].offsets == [1, 3] and offset(bench) == 1
    ack(bench, reply, 1, 3)
    assert offset(bench) == 4


def test_a_reset_frees_the_queue(bench: Bench) -> None:
    first = in_order(bench)
    ack(bench, first, 0)
    (request,) = bench.submit(c.ResetConsumerOffset(group="g", topic="orders", to="min"))
    bench.tick()
    assert offset(bench) == 0, bench.final(request)
    assert bodies(in_order(bench)) == [b"0", b"1", b"2"], "in the same millisecond"
    assert ack(bench, first, 1) == c.Acknowledged(messages=0, late=[1])


def test_a_deleted_topic_is_forgotten(bench: Bench) -> None:
    in_order(bench)
    bench.call(c.DeleteTopic(topic="orders"))
    assert len(bench.context.order_infos) == 0
    bench.send("orders", b"new")
    assert bodies(in_order(bench)) == [b"new"]


@pytest.mark.covers("pop-order-kill")
def test_a_kill_forgets_no_acknowledgement(bench: Bench) -> None:
    first = in_order(bench)
    ack(bench, first, 0, 1)
    again = restart(bench)
    assert offset(again) == 2
    again.tick(1)
    reply = in_order(again)
    assert bodies(reply) == [b"2", b"3", b"4"], "in order, and without those that were acknowledged"
    assert ack(again, first, 2) == c.Acknowledged(messages=0, late=[2])


def test_a_kill_after_the_table_was_written_keeps_the_queue_with_its_member(bench: Bench) -> None:
    first = in_order(bench, attempt_id="a")
    ack(bench, first, 1)
    bench.flush()
    bench.tick(6000)
    bench.file_work()
    again = restart(bench)
    assert in_order(again).code == 210, "it is still handed out"
    assert ack(again, first, 0) == c.Acknowledged(messages=1) and offset(again) == 2
    again.tick(60_000)
    assert bodies(in_order(again)) == [b"2", b"3", b"4"]


def test_the_file_is_rocketmqs(bench: Bench) -> None:
    first = in_order(bench, attempt_id="a", invisible_ms=1000)
    bench.tick(1000)
    first = in_order(bench, attempt_id="b")
    ack(bench, first, 1)
    change(bench, first, 2, 500)
    bench.engine.close(bench.clock.now())
    data = bench.files.read(ROOT / "config" / "consumerOrderInfo.json")
    assert data is not None
    pop_time = first.pop_time_ms
    assert decode(data) == {
        "orderedConsumptionLevel": "QUEUE",
        "table": {
            "orders@g": {
                0: {
                    "a": "b",
                    "cm": 2,
                    "i": 60000,
                    "l": pop_time,
                    "o": [0, 1, 2],
                    "oc": {0: 1, 1: 1, 2: 1},
                    "ot": {2: pop_time + 500},
                    "popTime": pop_time,
                }
            }
        },
    }


@pytest.mark.covers("pop-order-limit")
def test_queues_that_are_handed_out_are_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_order_info_manager, "MAX_QUEUES", 1)
    in_order(bench, invisible_ms=1000)
    refused = bench.final(pop(bench, order=True, consumer_group="other"))
    assert isinstance(refused, c.Failed) and refused.code == ResponseCode.FLOW_CONTROL
    bench.tick(1100)
    assert bodies(in_order(bench, consumer_group="other")) == [b"0", b"1", b"2"], "an ended one makes room"


def test_a_clock_that_is_set_back_blocks_no_queue_for_longer(bench: Bench) -> None:
    in_order(bench, invisible_ms=2000)
    bench.clock.step_wall(-3_600_000)
    bench.tick(2100)
    assert bodies(in_order(bench)) == [b"0", b"1", b"2"]


def unacknowledged(bench: Bench) -> int:
    """What the page says about the group's pops."""
    popping = bench.context.check_points.popping("g", "orders")
    assert popping is not None
    return popping.unacknowledged


def test_messages_that_are_visible_again_are_not_missing_an_acknowledgement(bench: Bench) -> None:
    first = in_order(bench, invisible_ms=1000)
    bench.send("orders", b"x", b"y", queue_id=1)
    other = in_order(bench)
    assert bodies(other) == [b"x", b"y"] and unacknowledged(bench) == 5
    ack(bench, first, 1)
    assert unacknowledged(bench) == 4
    bench.tick(1000)
    assert unacknowledged(bench) == 2, "those of the other queue"
    ack(bench, first, 0)
    assert unacknowledged(bench) == 2, "a late one"
    change(bench, first, 2, 500)
    assert unacknowledged(bench) == 3
    bench.tick(500)
    assert bodies(in_order(bench)) == [b"2", b"3", b"4"] and unacknowledged(bench) == 5


@pytest.mark.parametrize(
    "command",
    [
        c.ResetConsumerOffset(group="g", topic="orders", to="max"),
        c.DeleteSubscriptionGroup(group="g", clean_offset=True),
        c.DeleteTopic(topic="orders"),
    ],
)
def test_nobody_waits_for_acknowledgements_after_a_reset_or_a_deletion(bench: Bench, command: c.Command) -> None:
    in_order(bench)
    bench.call(command)
    assert unacknowledged(bench) == 0
    bench.send("orders", b"new", queue_id=0)
    last = in_order(bench)
    assert unacknowledged(bench) == len(bodies(last)) > 0


def test_acknowledgements_of_a_queue_that_another_pop_moved_leave_none_missing(bench: Bench) -> None:
    first = in_order(bench)
    both = take(bench, max_msg_nums=2)
    assert bodies(both) == [b"0", b"1"] and unacknowledged(bench) == 5
    ack(bench, first, 2)
    assert unacknowledged(bench) == 2
