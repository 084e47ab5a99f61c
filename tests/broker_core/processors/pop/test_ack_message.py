"""Acknowledgements and changes of the invisible time: late, twice, wrong, and before the disk has them."""

from typing import Any

import pytest
from msgspec import structs

from broker_core import commands as c
from broker_core.events import InvisibleTimeChanged, MessagesAcknowledged
from tests.fakes.engine import Bench
from tests.fakes.members import failure
from tests.fakes.pops import ack, ack_of, bodies, change, change_of, restart, take


def acknowledged(bench: Bench) -> list[MessagesAcknowledged]:
    return [event for event in bench.engine.events.after(0) if isinstance(event, MessagesAcknowledged)]


def test_an_acknowledgement_counts_once() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    reply = take(bench)
    assert ack(bench, reply, 0) == c.Acknowledged(messages=1)
    assert ack(bench, reply, 0, 1, 1) == c.Acknowledged(messages=1, late=[0])
    assert bench.engine.counters.acknowledged_late == 1


def test_acknowledgements_of_one_batch_are_one_record_of_each_check_point() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c")
    reply = take(bench)
    stored = bench.engine.counters.messages_stored
    requests = bench.submit(ack_of(reply, 0), ack_of(reply, 2), ack_of(reply, 0, 1), ack_of(reply, 1))
    assert [bench.final(request) for request in requests] == [
        c.Acknowledged(messages=1),
        c.Acknowledged(messages=1),
        c.Acknowledged(messages=1, late=[0]),
        c.Acknowledged(messages=0, late=[1]),
    ]
    assert bench.engine.counters.messages_stored - stored == 2, "the third repeats one that had to be stored first"
    again = restart(bench)
    again.tick(61_000)
    assert take(again).code == 210


def test_each_check_point_of_a_batch_is_one_event_and_late_offsets_are_another() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c", b"d")
    first, second = take(bench, max_msg_nums=2), take(bench, max_msg_nums=2)
    bench.submit(ack_of(first, 1), ack_of(second, 2), ack_of(first, 0, 3))
    found = [(event.group, event.topic, event.queue_id, event.offsets, event.late) for event in acknowledged(bench)]
    assert found == [
        ("g", "orders", 0, [1, 0], False),
        ("g", "orders", 0, [2], False),
        ("g", "orders", 0, [3], True),
    ]


def test_an_event_has_32_offsets_at_most() -> None:
    bench = Bench()
    bench.send("orders", *[b"x"] * 40)
    reply = take(bench, max_msg_nums=1)
    ack(bench, reply, *range(1, 40))
    assert [(len(event.offsets), event.late) for event in acknowledged(bench)] == [(32, True), (7, True)]


def test_a_changed_invisible_time_is_an_event_and_a_refused_one_is_not() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    change(bench, reply, 0, 30_000)
    assert isinstance(change(bench, reply, 0, 30_000), c.Failed), "the first one has moved it to another check point"
    (event,) = bench.engine.events.after(0, InvisibleTimeChanged)
    assert isinstance(event, InvisibleTimeChanged)
    assert (event.group, event.topic, event.queue_id, event.offset, event.invisible_ms) == ("g", "orders", 0, 0, 30_000)


def test_an_acknowledgement_that_the_store_refuses_leaves_its_message_invisible() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    reply = take(bench)
    bench.engine.flush_failed(OSError("the disk is broken"), bench.clock.now())
    requests = bench.submit(ack_of(reply, 0), ack_of(reply, 1))
    replies = [bench.final(request) for request in requests]
    assert all(isinstance(refused, c.Failed) and refused.code == 14 for refused in replies), replies
    assert not acknowledged(bench)
    assert bench.context.check_points.messages == 2


def test_an_acknowledgement_that_comes_late_is_no_error() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    bench.tick(61_000)
    assert ack(bench, reply) == c.Acknowledged(messages=0, late=[0])
    assert bodies(take(bench)) == [b"a"]


def test_another_group_acknowledges_nothing() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    command = c.AckMessage(
        consumer_group="other", topic="orders", queue_id=0, start_offset=0, pop_time_ms=reply.pop_time_ms, offsets=[0]
    )
    assert bench.call(command) == c.Acknowledged(messages=0, late=[0])
    assert bench.context.check_points.messages == 1


@pytest.mark.parametrize("wrong", [{"start_offset": 1}, {"pop_time_ms": 1}, {"start_offset": 2**63 - 1}])
@pytest.mark.parametrize("order", [False, True])
def test_an_acknowledgement_with_a_wrong_start_or_pop_time_acknowledges_nothing(
    wrong: dict[str, int], order: bool
) -> None:
    """As in RocketMQ it is no error. A pop in order is named by its time alone."""
    bench = Bench()
    bench.send("orders", b"a", b"b")
    named = structs.asdict(ack_of(take(bench, order=order), 0)) | {"order": order}
    stored = bench.engine.counters.messages_stored
    is_known = order and "pop_time_ms" not in wrong
    expected = c.Acknowledged(messages=1) if is_known else c.Acknowledged(messages=0, late=[0])
    assert bench.call(c.AckMessage(**(named | wrong))) == expected
    if is_known:
        return
    assert bench.engine.counters.messages_stored == stored
    assert bench.call(c.AckMessage(**named)) == c.Acknowledged(messages=1), "the message was still unacknowledged"


@pytest.mark.covers("pop-change")
@pytest.mark.parametrize("wrong", [{"start_offset": 1}, {"pop_time_ms": 1}])
def test_a_change_with_a_wrong_start_or_pop_time_changes_nothing(wrong: dict[str, int]) -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    reply = take(bench)
    named = structs.asdict(change_of(reply, 0, 1000))
    assert failure(bench, c.ChangeInvisibleTime(**(named | wrong))).code == 208
    bench.tick(1100)
    assert take(bench).code == 210
    assert ack(bench, reply, 0) == c.Acknowledged(messages=1)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"topic": "unknown"}, 17),
        ({"queue_id": 4}, 13),
        ({"queue_id": -1}, 13),
        ({"offsets": [2]}, 208),
        ({"offsets": [-1]}, 208),
        ({"offsets": [0] * 4097}, 29),
    ],
)
def test_an_acknowledgement_of_what_does_not_exist(more: dict[str, Any], code: int) -> None:
    bench = Bench()
    bench.send("orders", b"a")
    fields = {"topic": "orders", "queue_id": 0, "start_offset": 0, "pop_time_ms": 1, "offsets": [0]} | more
    assert failure(bench, c.AckMessage(consumer_group="g", **fields)).code == code


def test_a_refused_acknowledgement_leaves_nothing_for_the_next_batch() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    assert failure(bench, ack_of(reply, 7)).code == 208
    assert isinstance(change(bench, reply, 0, 60_000), c.InvisibleTimeChanged)
    assert ack(bench, reply, 0) == c.Acknowledged(messages=0, late=[0]), "another check point has the message now"


def test_a_message_is_made_visible_earlier() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    reply = take(bench)
    changed = change(bench, reply, 0, 1000)
    assert isinstance(changed, c.InvisibleTimeChanged) and changed.pop_time_ms > reply.pop_time_ms
    bench.tick(1100)
    assert bodies(take(bench)) == [b"a"], "the other one keeps its time"


def test_a_message_is_hidden_for_longer_and_its_old_handle_is_invalid() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    bench.tick(50_000)
    changed = change(bench, reply, 0, 60_000)
    assert isinstance(changed, c.InvisibleTimeChanged)
    bench.tick(30_000)
    assert take(bench).code == 210
    assert ack(bench, reply).late == [0]
    again = restart(bench)
    command = c.AckMessage(
        consumer_group="g", topic="orders", queue_id=0, start_offset=0, pop_time_ms=changed.pop_time_ms, offsets=[0]
    )
    assert again.call(command) == c.Acknowledged(messages=1)
    again.tick(61_000)
    assert take(again).code == 210


@pytest.mark.covers("pop-change")
def test_the_invisible_time_of_a_visible_message_cannot_be_changed() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    ack(bench, reply)
    refused = change(bench, reply, 0, 1000)
    assert isinstance(refused, c.Failed) and refused.code == 208
    out_of_range = change(bench, reply, 0, 13 * 3_600_000)
    assert isinstance(out_of_range, c.Failed) and out_of_range.code == 29


def test_an_acknowledgement_is_answered_when_it_is_on_the_disk() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    bench.submit(c.SendMessage(topic="orders", messages=[c.OutgoingMessage(body=b"a", queue_id=0)]))
    assert bench.flush()
    reply = take(bench)
    (queue,) = reply.queues
    command = c.AckMessage(
        consumer_group="g", topic="orders", queue_id=0, start_offset=0, pop_time_ms=reply.pop_time_ms, offsets=[0]
    )
    (request_id,) = bench.submit(command)
    assert bench.final(request_id) is None
    assert bench.flush() and bench.final(request_id) == c.Acknowledged(messages=1)
    assert queue.offsets == [0]


def test_a_store_that_is_not_ours_is_not_popped_from() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(bench.context.store.root / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert "read-only" in failure(foreign, c.PopMessage(topic="orders", consumer_group="g")).remark
