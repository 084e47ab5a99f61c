"""Messages that nobody acknowledged in time: given again, dead at last, never lost."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.consumers import pop_check_points
from broker_core.events import MessageDeadLettered, MessageSentBack
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import decode as properties_of
from broker_core.processors.pop import pop_revive
from tests.fakes.engine import Bench, records, send
from tests.fakes.members import events
from tests.fakes.pops import RETRY, ack, bodies, change, restart, take


@pytest.mark.covers("pop-due")
def test_a_message_is_invisible_for_the_time_that_the_pop_asked_for() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    reply = take(bench, invisible_ms=10_000)
    bench.tick(9_900)
    assert take(bench).code == 210
    bench.tick(200)
    again = take(bench)
    assert bodies(again) == [b"x"] and again.queues[0].topic == RETRY
    (record,) = decode_all(again.records)
    properties = properties_of(record.properties)
    assert record.reconsume_times == 1 and properties["1ST_POP_TIME"] == str(reply.pop_time_ms)
    assert (properties["RETRY_TOPIC"], properties["ORIGIN_GROUP"]) == ("orders", "g")
    (event,) = events(bench, MessageSentBack)
    assert (event.group, event.topic, event.reconsume_times, event.delay_level) == ("g", "orders", 1, 0)


def test_only_what_is_not_acknowledged_comes_back() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c")
    ack(bench, take(bench), 0, 2)
    bench.tick(61_000)
    assert bodies(take(bench)) == [b"b"]


def test_messages_that_came_back_wait_for_the_group_although_nobody_pops() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    take(bench)
    bench.tick(61_000)
    group = bench.call(c.GetConsumerGroup(group="g"))
    assert isinstance(group, c.ConsumerGroupDetail)
    assert [(queue.topic, queue.lag) for queue in group.queues if queue.lag] == [(RETRY, 2)]


def test_another_group_does_not_get_the_copy() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench)
    bench.tick(61_000)
    assert bodies(take(bench, consumer_group="other")) == [b"x"], "the original, once"
    assert take(bench, consumer_group="other").code == 210


@pytest.mark.covers("pop-dead-letter")
def test_after_the_last_attempt_it_is_a_dead_letter() -> None:
    bench = Bench()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "retryMaxTimes": 2}))
    bench.send("orders", b"x")
    for attempt in range(3):
        (record,) = decode_all(take(bench).records)
        assert record.reconsume_times == attempt
        bench.tick(61_000)
    assert take(bench).code == 210
    (dead,) = records(bench.pulled(bench.pull("%DLQ%g", 0, suspend_timeout_ms=0)))
    assert dead.body == b"x" and dead.reconsume_times == 3
    assert properties_of(dead.properties)["RETRY_TOPIC"] == "orders"
    (event,) = events(bench, MessageDeadLettered)
    assert (event.group, event.topic, event.reason) == ("g", "orders", "exhausted")
    assert bench.context.check_points.messages == 0


@pytest.mark.covers("pop-kill")
def test_a_kill_loses_no_acknowledgement_and_no_message() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c")
    ack(bench, take(bench), 1)
    again = restart(bench)
    assert take(again).code == 210, "what was acknowledged is not given again, the rest is still invisible"
    assert again.context.check_points.messages == 2
    again.tick(61_000)
    assert bodies(take(again)) == [b"a", b"c"]


def test_an_acknowledgement_after_a_kill_counts() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    reply = take(bench)
    again = restart(bench)
    assert ack(again, reply).messages == 1
    again.tick(61_000)
    assert take(again).code == 210


def test_a_stop_keeps_what_is_invisible_and_the_next_start_reads_only_that() -> None:
    bench = Bench()
    bench.send("orders", *[b"x"] * 40)
    done, open_one = take(bench), take(bench)
    ack(bench, done)
    bench.take(bench.engine.close(bench.clock.now()))
    again = Bench(files=bench.files, clock=bench.clock)
    assert again.context.check_points.messages == 8
    assert again.context.check_points.progress()[0] == 1, "the first record that counts"
    assert ack(again, open_one).messages == 8


def test_a_reset_that_was_written_outlives_a_kill() -> None:
    """The check points before it must not move the group's offset forwards again."""
    bench = Bench()
    bench.send("orders", b"a", b"b")
    ack(bench, take(bench))
    bench.call(c.ResetConsumerOffset(group="g", topic="orders", to="min"))
    bench.tick()
    bench.clock.advance(10_000)
    bench.flush()
    bench.file_work()
    again = restart(bench)
    assert bodies(take(again)) == [b"a", b"b"]


def test_a_crash_between_copy_and_table_does_not_copy_twice() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench)
    bench.tick(61_000)
    again = restart(bench)
    assert again.context.check_points.messages == 0
    again.tick(61_000)
    assert bodies(take(again)) == [b"x"] and take(again).code == 210


def test_messages_of_a_deleted_topic_come_back_to_nobody() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    bench.tick(61_000)
    bench.send("orders", b"older")
    take(bench, max_msg_nums=1)
    bench.call(c.DeleteTopic(topic="orders"))
    bench.tick()
    assert bench.context.check_points.messages == 0 and bench.context.topics.get(RETRY) is None
    bench.send("orders", b"new")
    bench.tick(61_000)
    assert bodies(take(bench)) == [b"new"]
    again = restart(bench)
    assert again.context.check_points.messages == 1, "those of the deleted topic are acknowledged in the revive log"


def test_messages_of_a_deleted_group_come_back_to_nobody() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench)
    bench.call(c.DeleteSubscriptionGroup(group="g", clean_offset=True))
    bench.tick(61_000)
    assert bench.context.check_points.messages == 0 and bench.context.topics.get(RETRY) is None


def test_a_full_disk_delays_revived_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench)
    append = bench.context.store.append
    failure = pop_revive.UnavailableError("the disk is full")

    def refuse(*arguments: object) -> None:
        raise failure

    monkeypatch.setattr(bench.context.store, "append", refuse)
    bench.tick(61_000)
    assert bench.context.check_points.messages == 1
    monkeypatch.setattr(bench.context.store, "append", append)
    bench.tick(1_100)
    assert bodies(take(bench)) == [b"x"]


def test_a_full_disk_is_logged_once_a_second(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(pop_revive, "POINTS_A_TURN", 2)
    bench = Bench()
    bench.send("orders", *[b"x"] * 10)
    for _ in range(10):
        take(bench, max_msg_nums=1)

    def refuse(*arguments: object) -> None:
        raise pop_revive.UnavailableError("the disk is full")

    monkeypatch.setattr(bench.context.store, "append", refuse)
    for _ in range(3):
        bench.tick(61_000)
    assert len(caplog.records) == 3 and bench.context.check_points.messages == 10
    monkeypatch.undo()
    bench.tick(1_100)
    assert len(bodies(take(bench))) == 10


def test_a_message_that_cannot_be_copied_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench)
    bench.call(c.UpdateAndCreateTopic(topic="%DLQ%g", perm=4))
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "retryMaxTimes": 0}))
    bench.send("orders", b"y")
    take(bench, consumer_group="other")
    bench.tick(61_000)
    assert bench.context.topics.get("%RETRY%other_orders") is not None
    assert bench.context.check_points.in_flight("g", "orders", 0) == 1
    bench.call(c.UpdateAndCreateTopic(topic="%DLQ%g", perm=6))
    bench.tick(60_100)
    assert bench.context.check_points.in_flight("g", "orders", 0) == 0


@pytest.mark.parametrize("length", [32_000, 32_500, 32_620])
def test_a_message_without_room_for_more_properties_is_a_dead_letter(length: int) -> None:
    bench = Bench()
    bench.call(send("orders", b"big", b"y", properties=f"K\x01{'v' * length}\x02", queue_id=0))
    assert bodies(take(bench)) == [b"big", b"y"]
    bench.tick(61_000)
    assert bench.context.check_points.messages == 0
    if length == 32_000:
        assert bodies(take(bench)) == [b"big", b"y"]
        return
    dead = records(bench.pulled(bench.pull("%DLQ%g", 0, suspend_timeout_ms=0)))
    assert [record.body for record in dead] == [b"big", b"y"] and properties_of(dead[0].properties)["K"] == "v" * length


def test_a_turn_revives_few_check_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is a block of the log, which takes a tenth of a millisecond, even with one message."""
    bench = Bench()
    bench.send("orders", *[b"x"] * 40)
    for _ in range(40):
        take(bench, max_msg_nums=1)
    append, blocks = bench.context.store.append, []

    def counted(messages: Any, now: Any) -> Any:
        blocks.append(len(messages))
        return append(messages, now)

    monkeypatch.setattr(bench.context.store, "append", counted)
    bench.engine.tick(bench.clock.advance(61_000))
    assert 0 < len(blocks) <= 20


def test_the_copies_of_a_turn_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_revive, "MESSAGES_A_TURN", 2)
    bench = Bench()
    bench.send("orders", *[b"x"] * 5)
    for _ in range(5):
        take(bench, max_msg_nums=1)
    now = bench.clock.advance(61_000)
    left = []
    while bench.context.check_points.messages:
        assert (bench.engine.next_deadline() or 0) <= now.mono_ns
        bench.engine.tick(now)
        left.append(bench.context.check_points.messages)
    assert left == [3, 1, 0]


def test_an_old_check_point_is_stored_again_so_that_a_start_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_check_points, "STALE", 10)
    bench = Bench()
    bench.send("orders", *[b"x"] * 30)
    old = take(bench, max_msg_nums=2, invisible_ms=3_600_000)
    ack(bench, old, 0)
    for _ in range(10):
        ack(bench, take(bench, max_msg_nums=1))
    bench.tick(61_000)
    assert bench.context.check_points.progress()[0] > 20
    again = restart(bench)
    assert again.context.check_points.messages == 1 and ack(again, old, 1).messages == 1


def test_a_clock_that_is_set_back_hides_nothing_for_longer() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    take(bench)
    bench.clock.step_wall(-3_600_000)
    again = restart(bench)
    again.tick(61_000)
    assert bodies(take(again)) == [b"x"]


def test_a_message_that_nobody_saw_keeps_its_attempts() -> None:
    """The last attempt is not used up either, however often the answer could not carry the message."""
    bench = Bench()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "retryMaxTimes": 1}))
    bench.send("orders", b"x")
    take(bench)
    bench.tick(61_000)
    for _ in range(3):
        reply = take(bench)
        (record,) = decode_all(reply.records)
        assert record.reconsume_times == 1 and reply.queues[0].topic == RETRY
        change(bench, reply, reply.queues[0].start_offset, 0, unseen=True)
        bench.tick(20)
    assert len(events(bench, MessageSentBack)) == 1, "what nobody got did not come back"
    take(bench)
    bench.tick(61_000)
    assert take(bench).code == 210 and len(events(bench, MessageDeadLettered)) == 1
