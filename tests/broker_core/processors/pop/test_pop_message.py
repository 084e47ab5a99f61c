"""Pops: which messages a member gets, and what a pop refuses."""

import re
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import MessagesDelivered
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import find
from broker_core.processors.pop import pop_look, pop_message
from tests.fakes.engine import Bench, send
from tests.fakes.members import events
from tests.fakes.pops import RETRY, ack, bodies, pop, popped, take


def test_each_message_is_given_to_one_member() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c")
    first, second = take(bench, max_msg_nums=2), take(bench, max_msg_nums=2)
    assert (bodies(first), bodies(second)) == ([b"a", b"b"], [b"c"])
    assert (first.code, first.rest, second.rest) == (0, 1, 0)
    (queue,) = first.queues
    assert (queue.topic, queue.queue_id, queue.start_offset, queue.offsets) == ("orders", 0, 0, [0, 1])
    assert take(bench).code == 210, "all of them are invisible"
    assert bench.context.check_points.messages == 3


def test_a_pop_takes_from_all_queues() -> None:
    bench = Bench()
    for queue_id in range(4):
        bench.send("orders", b"%d" % queue_id, queue_id=queue_id)
    reply = take(bench)
    assert sorted(bodies(reply)) == [b"0", b"1", b"2", b"3"] and len(reply.queues) == 4
    for queue_id in range(4):
        bench.send("orders", b"%d" % queue_id, queue_id=queue_id)
    firsts = {take(bench, max_msg_nums=1).queues[0].queue_id for _ in range(4)}
    assert firsts == {0, 1, 2, 3}, "no queue waits for another to become empty"


def test_a_pop_may_ask_for_one_queue() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    bench.send("orders", b"b", queue_id=1)
    assert bodies(take(bench, queue_id=1)) == [b"b"]


def test_groups_pop_independently() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    assert bodies(take(bench)) == bodies(take(bench, consumer_group="other")) == [b"a"]


def test_what_the_filter_rejects_is_passed_over() -> None:
    bench = Bench()
    for tag in ("A", "B", "A", "B"):
        bench.send("orders", tag.encode(), tag=tag)
    reply = take(bench, expression="B")
    assert bodies(reply) == [b"B", b"B"] and reply.queues[0].offsets == [1, 3]
    assert ack(bench, reply).messages == 2
    bench.tick(61_000)
    assert take(bench, expression="B").code == 210 and take(bench, expression="A").code == 210


def test_a_long_run_of_messages_that_the_filter_rejects_does_not_hide_the_next() -> None:
    """A read ends after some 800 units; the pop goes on where it ended."""
    bench = Bench()
    for _ in range(20):
        bench.send("orders", *[b"x"] * 100, tag="A")
    bench.send("orders", b"wanted", tag="B")
    request = pop(bench, expression="B", poll_ms=5000)
    assert bodies(popped(bench, request)) == [b"wanted"]


@pytest.mark.parametrize(("from_max", "expected"), [(False, [b"old", b"new"]), (True, [b"new"])])
def test_where_a_new_group_begins(from_max: bool, expected: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.send("orders", b"old", b"new")
    monkeypatch.setattr(bench.context.store, "is_in_memory", lambda *place: False)
    assert bodies(take(bench, from_max=from_max)) == expected


def test_a_new_group_gets_a_young_queue_from_its_beginning() -> None:
    bench = Bench()
    bench.send("orders", b"old", b"new")
    assert bodies(take(bench, from_max=True)) == [b"old", b"new"]


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"max_msg_nums": 33}, 1, "num is greater than 32"),
        ({"max_msg_nums": 0}, 1, "less than 1"),
        ({"queue_id": 4}, 29, r"queueId\[4\] is illegal"),
        ({"topic": "unknown"}, 17, "unknown"),
        ({"order": True, "attempt_id": "a" * 129}, 29, "attempt id"),
        ({"invisible_ms": 0}, 29, "invisible time"),
        ({"invisible_ms": 13 * 3_600_000}, 29, "invisible time"),
        ({"expression": "a = ", "expression_type": "SQL92"}, 23, ""),
        ({"consumer_group": "a@b"}, 29, "group"),
    ],
)
def test_a_pop_that_is_refused(more: dict[str, Any], code: int, words: str) -> None:
    bench = Bench()
    bench.send("orders", b"x")
    reply = bench.final(pop(bench, **more))
    assert isinstance(reply, c.Failed) and reply.code == code
    assert re.search(words, reply.remark), reply.remark


def test_a_group_that_may_not_consume_pops_nothing() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": False}))
    reply = bench.final(pop(bench))
    assert isinstance(reply, c.Failed) and reply.code == 16


@pytest.mark.covers("pop-limit")
def test_invisible_messages_of_a_group_in_a_queue_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.processors.pop.pop_look.MAX_IN_FLIGHT_OF_QUEUE", 3)
    bench = Bench()
    bench.send("orders", *[b"x"] * 5)
    first = take(bench, max_msg_nums=2)
    assert len(bodies(take(bench))) == 1, "so that there are three"
    assert (take(bench).code, take(bench).rest) == (210, 2)
    ack(bench, first)
    assert len(bodies(take(bench))) == 2


def test_invisible_messages_of_the_broker_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pop_look, pop_message):
        monkeypatch.setattr(module, "MAX_IN_FLIGHT", 1)
    bench = Bench()
    bench.send("orders", b"a", b"b")
    first = take(bench, max_msg_nums=1)
    reply = bench.final(pop(bench))
    assert isinstance(reply, c.Failed) and reply.code == 215
    ack(bench, first)
    assert bodies(take(bench)) == [b"b"]


def test_an_offset_that_is_too_far_is_corrected() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.context.offsets.commit("g", "orders", 0, 99)
    assert take(bench).code == 210
    bench.send("orders", b"y")
    assert bodies(take(bench)) == [b"y"]


def test_a_message_from_the_retry_topic_has_its_own_topic_and_its_check_point() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench)
    bench.tick(61_000)
    reply = take(bench)
    (record,) = decode_all(reply.records)
    (queue,) = reply.queues
    assert (record.topic, record.queue_id, record.reconsume_times, queue.topic) == ("orders", 0, 1, RETRY)
    assert find(record.properties, "POP_CK") == f"0 {reply.pop_time_ms} 60000 0 1 broker-a 0 0"
    assert ack(bench, reply).messages == 1


def test_pops_are_counted_and_reported() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    reply = take(bench)
    (event,) = events(bench, MessagesDelivered)
    assert (event.group, event.from_offset, event.to_offset) == ("g", 0, 2)
    assert bench.engine.counters.messages_invisible_now == 2
    ack(bench, reply)
    counters = bench.engine.counters
    assert (counters.messages_delivered, counters.messages_acknowledged, counters.messages_invisible_now) == (2, 2, 0)


def test_no_message_is_popped_if_its_check_point_cannot_be_stored() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    bench.context.store.flush_failed(OSError("the disk is gone"))
    assert isinstance(bench.final(pop(bench)), c.Failed)
    assert bench.context.offsets.query("g", "orders", 0) == 0 and bench.context.check_points.messages == 0


def test_a_reset_is_followed_by_the_next_pop() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    first = take(bench)
    bench.call(c.ResetConsumerOffset(group="g", topic="orders", to="min"))
    bench.tick()
    again = take(bench)
    assert bodies(again) == [b"a", b"b"] and again.pop_time_ms == first.pop_time_ms + 1, "another check point"


def test_an_acknowledgement_from_before_a_reset_does_not_count_for_a_pop_after_it() -> None:
    """Not even if all of it happens in one millisecond, and for no longer than a second if the clock is set back."""
    bench = Bench()
    bench.send("orders", b"a")
    first = take(bench)
    assert ack(bench, first).messages == 1
    bench.call(c.ResetConsumerOffset(group="g", topic="orders", to="min"))
    again = take(bench)
    assert bodies(again) == [b"a"] and ack(bench, first).messages == 0 and ack(bench, again).messages == 1
    assert bench.context.check_points.pop_time(first.pop_time_ms - 3_600_000) == first.pop_time_ms - 3_599_000


def test_a_retry_without_room_for_its_check_point_is_given_without_it() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="orders"))
    bench.call(c.UpdateAndCreateTopic(topic=RETRY))
    bench.send(RETRY, b"y")
    bench.call(send(RETRY, b"big", properties=f"K\x01{'v' * 32_620}\x02"))
    assert bodies(take(bench)) == [b"y", b"big"]


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, [b"3", b"2", b"1", b"0"]), ({"priority_order_asc": False}, [b"0", b"1", b"2", b"3"])],
)
def test_a_pop_takes_the_highest_priority_first(options: dict[str, bool], first: list[bytes]) -> None:
    bench = Bench(**options)
    bench.call(
        c.UpdateAndCreateTopic(topic="orders", read_queues=4, write_queues=4, attributes={"+message.type": "PRIORITY"})
    )
    for _ in range(2):  # so that without the attribute another queue's turn would come
        for priority in (1, 0, 3, 2):
            body = str(priority).encode()
            bench.send("orders", body, queue_id=0, properties=f"_SYS_MSG_PRIORITY_\x01{priority}\x02")
        assert [bodies(take(bench, max_msg_nums=1)) for _ in range(4)] == [[body] for body in first]


def test_a_group_may_pop_a_topic_with_priorities_without_their_order() -> None:
    bench = Bench()
    attributes = {"+message.type": "PRIORITY"}
    bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=2, write_queues=2, attributes=attributes))
    config = {"groupName": "g", "attributes": {"+priority.factor": "0"}}
    bench.call(c.UpdateSubscriptionGroup(config=config))
    for priority in (0, 0, 1, 1):
        bench.send("orders", b"%d" % priority, queue_id=0, properties=f"_SYS_MSG_PRIORITY_\x01{priority}\x02")
    assert sorted(bodies(take(bench, max_msg_nums=1))[0] for _ in range(2)) == [b"0", b"1"], "queues take turns"
