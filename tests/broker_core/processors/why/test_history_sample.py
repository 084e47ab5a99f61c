"""One sample of what the history keeps."""

from broker_core import commands as c
from broker_core.processors.why import history_sample
from tests.fakes.engine import Bench
from tests.fakes.members import join


def sample(bench: Bench, **limits: int) -> c.HistorySample:
    reply = bench.call(c.GetHistorySample(**limits), "asker")
    assert isinstance(reply, c.HistorySample), reply
    return reply


def commit(bench: Bench, group: str, topic: str, offset: int) -> None:
    entry = c.QueueOffset(topic=topic, queue_id=0, offset=offset)
    bench.call(c.UpdateConsumerOffset(group=group, offsets=[entry]))


def test_an_empty_broker_has_no_lag_rather_than_a_lag_of_0() -> None:
    one = sample(Bench())
    assert (one.stored, one.delivered, one.woken, one.holds, one.lag) == (0, 0, 0, 0, None)
    assert (one.groups, one.topics, one.groups_left_out, one.topics_left_out) == ([], [], 0, 0)


def test_totals_and_values_of_groups_and_topics() -> None:
    bench = Bench()
    bench.send("orders", b"1", b"2", b"3")
    bench.send("parcels", b"1")
    join(bench, "A", "silent")
    commit(bench, "readers", "orders", 1)
    commit(bench, "readers", "parcels", 0)
    bench.pull("orders", 0, "c", consumer_group="readers")
    bench.pull("orders", 3, "d", consumer_group="others")
    one = sample(bench)
    assert (one.stored, one.delivered, one.holds, one.lag) == (4, 3, 1, 3)
    assert dict(
        zip(one.groups, zip(one.group_delivered, one.group_holds, one.group_lag, strict=True), strict=True)
    ) == {
        "others": (0, 1, None),
        "readers": (3, 0, 3),
        "silent": (0, 0, None),
    }
    rows = zip(one.topic_stored, one.topic_delivered, one.topic_holds, one.topic_lag, strict=True)
    assert dict(zip(one.topics, rows, strict=True)) == {"orders": (3, 3, 1, 2), "parcels": (1, 0, 0, 1)}
    bench.send("orders", b"4")
    one = sample(bench)
    assert (one.woken, sum(one.wakeup_us.counts), one.holds) == (1, 1, 0)


def test_an_offset_behind_the_end_of_a_deleted_topic_is_no_lag() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    commit(bench, "ahead", "orders", 5)
    assert sample(bench).group_lag == [0]
    bench.call(c.DeleteTopic(topic="orders"))
    one = sample(bench)
    assert (one.lag, one.topics) == (None, [])


def test_what_is_beyond_a_limit_is_counted() -> None:
    bench = Bench()
    for number in range(5):
        bench.send(f"topic-{number}", b"x")
        commit(bench, f"group-{number}", f"topic-{number}", 0)
    one = sample(bench, max_groups=2, max_topics=3)
    assert (len(one.groups), len(one.group_lag), one.groups_left_out) == (2, 2, 3)
    assert (one.topics, one.topics_left_out) == (["topic-0", "topic-1", "topic-2"], 2)
    assert one.lag == 5, "the broker's lag is that of all groups"


def test_many_queues_are_measured_in_pieces(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(history_sample, "QUEUES_LOOKED_AT", 2)
    bench = Bench()
    bench.send("orders", b"1")
    for number in range(10):
        commit(bench, f"group-{number}", "orders", 0)
    steps = bench.engine.walk(c.GetHistorySample(), bench.clock.now())
    assert len(list(steps)) >= 5
    assert sample(bench).lag == 10
