"""The revive log: what RocketMQ would read in it, and what a start does with it."""

import json
from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import DelayedMessagesLost
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import decode as properties_of
from broker_core.formats.message_properties import encode
from broker_core.formats.pop_check_point import AckMsg, PopCheckPoint
from broker_core.formats.pop_check_point import encode as body_of
from broker_core.processors.message_stored import message_stored
from broker_core.processors.pop import check_point_log
from broker_core.store.commit_log import PendingMessage
from broker_core.store.timer.timer_message import TIMER_TOPIC
from tests.fakes.engine import ROOT, Bench, records, send
from tests.fakes.members import events, failure
from tests.fakes.pops import RETRY, ack, bodies, restart, take
from tests.fakes.timers import small_wheel

__all__ = ["small_wheel"]

LOG = "rmq_sys_REVIVE_LOG_DefaultCluster"


def revive_log(bench: Bench) -> list[tuple[dict[str, str], dict[str, object]]]:
    pulled = bench.pulled(bench.pull(LOG, 0, suspend_timeout_ms=0, consumer_group="reader"))
    return [(properties_of(record.properties), json.loads(record.body)) for record in records(pulled)]


def test_a_broker_without_pops_has_no_revive_log() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    assert bench.context.topics.get(LOG) is None and bench.context.check_points.loaded


def test_the_records_are_rocketmqs() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c", b"d")
    reply = take(bench)
    ack(bench, reply, 1)
    ack(bench, reply, 0, 2)
    (ck, point), (one, _), (several, batch) = revive_log(bench)
    config = bench.context.topics.require(LOG)
    assert (config.read_queue_nums, ck["TAGS"], one["TAGS"], several["TAGS"]) == (8, "ck", "ack", "bAck")
    assert (ck["TIMER_DELIVER_MS"], several["TIMER_DELIVER_MS"]) == (
        str(reply.pop_time_ms + 59_000),
        str(reply.pop_time_ms + 60_000),
    )
    assert ck["UNIQ_KEY"] == f"orders@0@0@g@{reply.pop_time_ms}@broker-a@ck"
    assert point == {
        "bm": 0,
        "bn": "broker-a",
        "c": "g",
        "d": [0, 1, 2, 3],
        "it": 60_000,
        "n": 4,
        "pt": reply.pop_time_ms,
        "q": 0,
        "rp": None,
        "so": 0,
        "t": "orders",
    }
    assert (batch["ao"], batch["aol"]) == (-1, [0, 2])


def test_a_start_says_how_many_messages_are_invisible() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    take(bench)
    steps = restart(bench).context.store.recovery_steps
    assert ("pop", "2 popped messages are not acknowledged") in steps


def test_a_stop_flushes_check_points_before_it_writes_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.send("orders", b"a")
    take(bench)
    store, points = bench.context.store, bench.context.check_points
    assert store.flushed_offset < points.log_end
    write = store.table_write
    flushed: list[int] = []

    def note(name: str, table: dict[str, Any]) -> Any:
        if name == "consumerOffset":
            flushed.append(store.flushed_offset)
        return write(name, table)

    monkeypatch.setattr(store, "table_write", note)
    bench.engine.close(bench.clock.now())
    assert flushed == [points.log_end]


def test_invalid_records_of_the_revive_log_are_skipped() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    take(bench)
    for tag, body in (("ck", b"nonsense"), ("ack", b"nonsense"), ("other", b"{}")):
        record = PendingMessage(LOG, 0, body, encode({"TAGS": tag}), 0, 0, 0, "127.0.0.1", 1)
        check_point_log.append(bench.context, [record], bench.clock.now())
    assert restart(bench).context.check_points.messages == 1


def test_a_start_gives_a_topic_no_check_points_of_its_predecessor() -> None:
    """The broker was killed before a deletion was answered, and the name was used again meanwhile."""
    bench = Bench()
    bench.send("orders", b"a", b"b")
    take(bench)
    bench.submit(c.DeleteTopic(topic="orders"))
    bench.send("orders", b"c", b"d", b"e")
    again = restart(bench)
    assert again.context.check_points.messages == 0
    assert bodies(take(again)) == [b"c", b"d", b"e"]


@pytest.mark.parametrize("new", [[], [b"c"]], ids=["not created again", "created again with less"])
def test_a_start_forgets_check_points_of_messages_that_are_gone(new: list[bytes]) -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    take(bench)
    bench.call(c.DeleteTopic(topic="orders"))
    if new:
        bench.send("orders", *new)
    bench.context.store.table_write("consumerOffset", {}).run()  # so the revive log is read from its beginning
    again = restart(bench)
    assert again.context.check_points.messages == 0
    again.send("orders", b"x", b"y")
    assert bodies(take(again)) == [*new, b"x", b"y"]


def test_clients_cannot_write_into_the_revive_log() -> None:
    assert "may not send" in failure(Bench(), send(LOG, b"{}", tag="ck")).remark


def test_nobody_moves_the_brokers_own_progress() -> None:
    bench = Bench()
    for group in ("CID_RMQ_SYS_REVIVE_GROUP", "CID_RMQ_SYS_GLASSMQ_POPPED"):
        bench.send("orders", b"a")
        offset = c.QueueOffset(topic="orders", queue_id=0, offset=1)
        refused = failure(bench, c.UpdateConsumerOffset(group=group, offsets=[offset]))
        assert refused.code == 16


def test_the_progress_is_the_last_record_that_rocketmq_need_not_read() -> None:
    """RocketMQ reads from the record behind this offset on."""
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c")
    first = take(bench, max_msg_nums=1)
    second = take(bench, max_msg_nums=1)

    def progress() -> int | None:
        check_point_log.note_progress(bench.context)
        return bench.context.offsets.query("CID_RMQ_SYS_REVIVE_GROUP", LOG, 0)

    assert progress() is None, "the first record is needed"
    ack(bench, first)
    assert progress() == 0
    assert restart(bench).context.check_points.messages == 1
    ack(bench, second)
    assert progress() == 3, "all records"
    assert restart(bench).context.check_points.messages == 0


def test_a_long_log_is_read_in_pieces() -> None:
    bench = Bench()
    bench.send("orders", *[b"x"] * 80)
    replies = [take(bench, max_msg_nums=1) for _ in range(80)]
    for reply in replies[:50]:
        ack(bench, reply)
    again = restart(bench)
    assert again.context.check_points.messages == 30
    assert len(decode_all(take(again).records)) == 0


def settled() -> Bench:
    """An engine with two messages, of which everything is on the disk."""
    bench = Bench()
    bench.send("orders", b"a", b"b")
    for _ in range(2):
        bench.clock.advance(10_000)
        bench.flush()
        bench.file_work()
    return bench


def start_without(bench: Bench, start: int, end: int) -> Bench:
    """The next start, after a power cut that took these bytes of the log and kept those behind them."""
    path = ROOT / "commitlog" / "00000000000000000000"
    bench.files._names[path].volatile[start:end] = bytes(end - start)
    return restart(bench)


def test_a_pop_behind_a_lost_check_point_is_undone() -> None:
    """Otherwise the group's offset would move past a message that is in no check point."""
    bench = settled()
    start = bench.context.store.appended_offset
    take(bench, max_msg_nums=1)
    end = bench.context.store.appended_offset
    take(bench, max_msg_nums=1)
    bench = restart(start_without(bench, start, end))
    reply = take(bench)
    assert bodies(reply) == [b"a", b"b"]
    ack(bench, reply)
    bench = restart(bench)
    bench.tick(100_000)
    assert bodies(take(bench)) == [], "neither of them is in the check point of the pop that was undone"


def test_a_pop_behind_a_lost_check_point_is_undone_once() -> None:
    bench = settled()
    assert bodies(take(bench, max_msg_nums=1)) == [b"a"]
    bench.clock.advance(10_000)
    bench.flush()
    bench.file_work()
    bench.send("orders", b"c")
    bench.flush()
    start = bench.context.store.appended_offset
    take(bench, max_msg_nums=1)
    end = bench.context.store.appended_offset
    take(bench, max_msg_nums=1)
    bench = start_without(bench, start, end)
    assert bench.context.offsets.query("g", "orders", 0) == 1
    bench = restart(bench)
    bench.flush()
    assert bench.context.offsets.query("g", "orders", 0) == 1 and bodies(take(bench)) == [b"b", b"c"]


def test_an_acknowledgement_whose_copy_is_lost_does_not_count() -> None:
    bench = settled()
    take(bench, max_msg_nums=1, invisible_ms=1000)
    bench.clock.advance(500)
    bench.flush()
    start = bench.context.store.appended_offset
    bench.tick(1000)
    copied = bench.context.store.look_message_by_offset(start)
    assert copied is not None
    bench = restart(start_without(bench, start, start + len(copied)))
    bench.tick(1000)
    assert b"a" in bodies(take(bench))


def with_a_lost_check_point() -> tuple[Bench, int, int]:
    """An engine with two pops, and the bytes of the first one's check point."""
    bench = settled()
    start = bench.context.store.appended_offset
    take(bench, max_msg_nums=1)
    end = bench.context.store.appended_offset
    take(bench, max_msg_nums=1)
    return bench, start, end


def test_a_start_that_is_killed_before_it_dealt_with_lost_pops_leaves_them_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    bench, start, end = with_a_lost_check_point()
    with monkeypatch.context() as patch:
        patch.setattr(check_point_log, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            start_without(bench, start, end)
    assert bodies(take(restart(bench))) == [b"a", b"b"]


def test_a_loss_that_an_earlier_start_dealt_with_delivers_no_acknowledged_message_again() -> None:
    """A later start that reads the whole log finds the placeholders of the earlier one."""
    bench = start_without(*with_a_lost_check_point())
    bench.send("others", b"x")
    reply = take(bench)
    assert bodies(reply) == [b"a", b"b"] and ack(bench, reply).messages == 2
    bench.clock.advance(10_000)
    bench.flush()
    for path in [path for path in bench.files._names if "others" in path.parts]:
        bench.files.remove(path)  # so that the next start reads the log from its beginning
    bench = restart(bench)
    assert any("queues are missing" in detail for _, detail in bench.context.store.recovery_steps)
    bench.tick(100_000)
    assert bodies(take(bench)) == [], "both are acknowledged"


# --- check points that RocketMQ's timer wheel still has when its store is adopted -------------------------------------

INVISIBLE_MS = 10_000
"""Of what was popped at RocketMQ."""


def put_into_timer(bench: Bench, tag: str, body: PopCheckPoint | AckMsg, due_ms: int, log: str = LOG) -> None:
    """Store a record as RocketMQ 5.4.0 does: in the timer queue, to be delivered to queue 3 of the revive topic."""
    properties = {
        "TAGS": tag,
        "UNIQ_KEY": f"{tag}@{due_ms}@{body.start_offset}",
        "TIMER_DELIVER_MS": str(due_ms),
        "TIMER_OUT_MS": str((due_ms - 1) // 1000 * 1000),
        "REAL_TOPIC": log,
        "REAL_QID": "3",
    }
    message = PendingMessage(
        topic=TIMER_TOPIC,
        queue_id=0,
        body=body_of(body),
        properties=encode(properties),
        flag=0,
        sys_flag=0,
        born_timestamp=bench.clock.now().wall_ms,
        born_host="127.0.0.1",
        born_port=10911,
    )
    message_stored(bench.context, bench.context.store.append([message], bench.clock.now()), bench.clock.now())


def popped_at_rocketmq(bench: Bench, messages: int, *acknowledged: int, ago_ms: int = 0) -> int:
    """What RocketMQ leaves of a pop of so many messages, and of acknowledgements. Returns the pop's time."""
    for number in range(messages):
        bench.send("orders", b"%d" % number)
    bench.context.topics.adopt(LOG, 8, bench.clock.now())
    bench.context.offsets.commit("g", "orders", 0, messages)
    pop_time = bench.clock.now().wall_ms - ago_ms
    place = {
        "broker_name": "b",
        "group": "g",
        "pop_time": pop_time,
        "queue_id": 0,
        "start_offset": 0,
        "topic": "orders",
    }
    point = PopCheckPoint(count=messages, invisible_ms=INVISIBLE_MS, diffs=list(range(messages)), **place)
    put_into_timer(bench, "ck", point, pop_time + INVISIBLE_MS - 1000)
    for offset in acknowledged:
        put_into_timer(bench, "ack", AckMsg(offset=offset, **place), pop_time + INVISIBLE_MS)
    return pop_time


def pass_seconds(bench: Bench, seconds: int) -> None:
    for _ in range(seconds):
        bench.tick(1000)
        bench.file_work()


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_is_not_acknowledged_comes_back_and_nothing_else(is_killed: bool) -> None:
    bench = Bench()
    popped_at_rocketmq(bench, 3, 0, 2)
    pass_seconds(bench, 8)
    assert take(bench).code == 210
    if is_killed:
        bench = restart(bench)
    pass_seconds(bench, 1)
    assert bench.context.check_points.messages == 3, "its acknowledgements are due a second later"
    if is_killed:
        bench = restart(bench)
    pass_seconds(bench, 4)
    again = take(bench)
    assert bodies(again) == [b"1"] and again.queues[0].topic == RETRY
    pass_seconds(bench, 120)
    assert bodies(take(bench)) == [b"1"], "of this pop"
    assert not events(bench, DelayedMessagesLost)


def test_a_check_point_waits_for_acknowledgements_that_are_late() -> None:
    """The store was adopted an hour later, and the timer messages of a turn end before the acknowledgements."""
    bench = Bench()
    popped_at_rocketmq(bench, 30, *range(29), ago_ms=3_600_000)
    bench.context.store.table_write("consumerOffset", bench.context.offsets.as_table()).run()
    bench = restart(bench)
    pass_seconds(bench, 3)
    assert bodies(take(bench)) == [b"29"]
    assert take(bench).code == 210


def test_a_start_waits_for_the_acknowledgements_of_a_check_point_that_rocketmq_delivered() -> None:
    bench = Bench()
    popped_at_rocketmq(bench, 2, 0)
    pass_seconds(bench, 9)
    assert bench.context.check_points.messages == 2
    bench.clock.advance(3_600_000)
    again = restart(bench)
    pass_seconds(again, 3)
    assert bodies(take(again)) == [b"1"]


def test_new_timer_messages_do_not_delay_what_comes_back() -> None:
    """Some of them are not in the timer wheel yet whenever messages may come back."""
    bench = Bench()
    popped_at_rocketmq(bench, 1)
    for _ in range(15):
        bench.clock.advance(1000)
        for _ in range(100):
            bench.submit(send("others", b"x", properties=encode({"TIMER_DELAY_MS": "3600000"})))
        bench.tick()
        bench.file_work()
    assert bodies(take(bench)) == [b"0"]


def test_an_acknowledgement_of_a_delivered_check_point_counts() -> None:
    bench = Bench()
    pop_time = popped_at_rocketmq(bench, 2)
    pass_seconds(bench, 9)
    place = {"consumer_group": "g", "topic": "orders", "queue_id": 0, "start_offset": 0, "pop_time_ms": pop_time}
    assert bench.call(c.AckMessage(offsets=[0], **place)) == c.Acknowledged(messages=1)
    bench.clock.advance(500)
    assert bench.flush(), "else the timer wheel delivers the check point again after the kill"
    bench = restart(bench)
    pass_seconds(bench, 4)
    assert bodies(take(bench)) == [b"1"]


def test_a_reset_of_the_group_is_kept() -> None:
    bench = Bench()
    popped_at_rocketmq(bench, 2, 0, 1)
    bench.context.offsets.commit("g", "orders", 0, 0)
    pass_seconds(bench, 12)
    assert bench.context.offsets.query("g", "orders", 0) == 0


def test_a_reset_of_the_group_is_kept_by_a_start() -> None:
    """The check point was delivered after the offsets had been written last."""
    bench = Bench()
    popped_at_rocketmq(bench, 2, 0, 1)
    bench.context.offsets.commit("g", "orders", 0, 0)
    pass_seconds(bench, 8)
    check_point_log.note_progress(bench.context)
    bench.context.store.table_write("consumerOffset", bench.context.offsets.as_table()).run()
    pass_seconds(bench, 1)
    assert bench.context.check_points.messages == 2
    again = restart(bench)
    assert again.context.check_points.messages == 2
    assert again.context.offsets.query("g", "orders", 0) == 0


def test_a_bad_check_point_is_passed_over() -> None:
    bench = Bench()
    popped_at_rocketmq(bench, 1)
    place = {"group": "g", "pop_time": 1, "queue_id": 0, "start_offset": 0, "topic": "orders"}
    put_into_timer(bench, "ck", AckMsg(offset=0, **place), bench.clock.now().wall_ms + 500)
    pass_seconds(bench, 12)
    assert bodies(take(bench)) == [b"0"]


def test_the_revive_topic_of_another_cluster_gets_nothing() -> None:
    bench = Bench()
    place = {"group": "g", "pop_time": 1, "queue_id": 0, "start_offset": 0, "topic": "orders"}
    put_into_timer(bench, "ack", AckMsg(offset=0, **place), bench.clock.now().wall_ms + 500, LOG + "2")
    pass_seconds(bench, 2)
    (lost,) = events(bench, DelayedMessagesLost)
    assert "cannot be delivered to" in lost.reason and bench.context.topics.get(LOG + "2") is None
