"""One sample of what the history keeps."""

from broker_core import commands as c
from broker_core.processors.why import history_sample
from broker_core.wakeup_stats import WAKEUP_US_BOUNDS
from tests.fakes.engine import Bench
from tests.fakes.members import join


def sample(bench: Bench, **limits: int) -> c.HistorySample:
    reply = bench.call(c.GetHistorySample(**limits), "asker")
    assert isinstance(reply, c.HistorySample), reply
    return reply


def rows(names: list[str], columns: list[list[int | None]]) -> dict[str, tuple[int | None, ...]]:
    """The numbers of each name."""
    return dict(zip(names, zip(*columns, strict=True), strict=True))


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
    assert rows(one.groups, one.group_columns) == {
        "others": (0, 0, 1, None, None),
        "readers": (3, 0, 0, None, 3),
        "silent": (0, 0, 0, None, None),
    }
    assert rows(one.topics, one.topic_columns) == {"orders": (3, 3, 0, 1, None, 2), "parcels": (1, 0, 0, 0, None, 1)}


def test_wake_ups_belong_to_the_topic_and_the_group_and_their_latency_to_10_s() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1, "c", consumer_group="readers")
    bench.pull("orders", 1, "d")
    bench.clock.advance(10_000 - bench.clock.now().wall_ms % 10_000)
    bench.send("orders", b"2")
    one = sample(bench)
    assert (one.woken, one.holds, one.wake_p99_us) == (2, 0, None), "these 10 s are not over"
    bench.clock.advance(10_000)
    one = sample(bench)
    assert one.woken == 2 and one.wake_p99_us == WAKEUP_US_BOUNDS[0]
    assert rows(one.groups, one.group_columns)["readers"] == (1, 1, 0, WAKEUP_US_BOUNDS[0], None)
    assert rows(one.topics, one.topic_columns)["orders"] == (2, 2, 2, 0, WAKEUP_US_BOUNDS[0], None)
    bench.pull("orders", 2, "c", consumer_group="readers", suspend_timeout_ms=5000)
    bench.clock.advance(10_000)
    bench.tick()
    one = sample(bench)
    assert rows(one.groups, one.group_columns)["readers"] == (1, 2, 0, None, None), "a timeout has no latency"


def test_an_offset_behind_the_end_of_a_deleted_topic_is_no_lag() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    commit(bench, "ahead", "orders", 5)
    assert sample(bench).group_columns[-1] == [0]
    bench.call(c.DeleteTopic(topic="orders"))
    one = sample(bench)
    assert (one.lag, one.topics) == (None, [])


def test_what_is_beyond_a_limit_is_counted() -> None:
    bench = Bench()
    for number in range(5):
        bench.send(f"topic-{number}", b"x")
        commit(bench, f"group-{number}", f"topic-{number}", 0)
    one = sample(bench, max_groups=2, max_topics=3)
    assert (len(one.groups), len(one.group_columns[-1]), one.groups_left_out) == (2, 2, 3)
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
