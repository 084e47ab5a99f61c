"""The progress of many groups by topic, as a monitoring system gets it."""

from typing import Any

import msgspec
import pytest

from broker_core import commands as c
from broker_core.formats.message_properties import encode
from broker_core.processors.why import group_metrics, live_state
from broker_core.verdicts import group as group_of_verdicts
from broker_core.verdicts.group_state import PATIENCE_MS
from broker_core.verdicts.progress import QueueProgress, queue_progress
from tests.fakes.engine import Bench
from tests.fakes.members import beats, join, subscribe_by_sql
from tests.fakes.pops import ack, take


def asked(bench: Bench, **limits: Any) -> c.BrokerMetrics:
    reply = bench.call(c.GetMetrics(**limits), "asker")
    assert isinstance(reply, c.BrokerMetrics), reply
    return reply


def row(bench: Bench, topic: str = "orders", group: str = "g") -> c.TopicMetrics:
    (found,) = [one for one in asked(bench, estimate=True).groups if one.group == group]
    return next(one for one in found.topics if one.topic == topic)


def progress(bench: Bench) -> tuple[int | None, ...]:
    """(lag, oldest_ms, in flight, ready, unknown queues, delivered) of g in orders."""
    one = row(bench)
    return one.lag, one.oldest_ms, one.in_flight, one.ready, one.unknown_queues, one.delivered


def orders(queues: int = 1, **more: Any) -> Bench:
    """A member A of g, and three messages in the first queue."""
    bench = Bench(default_topic_queue_nums=queues)
    bench.send("orders", b"1", b"2", b"3")
    join(bench, "A", **more)
    return bench


def pull(bench: Bench, offset: int, **fields: Any) -> None:
    bench.pull("orders", offset, "A", **({"subscription": None, "check_group": True} | fields))


def commit(bench: Bench, offset: int, queue_id: int = 0, group: str = "g") -> None:
    entry = c.QueueOffset(topic="orders", queue_id=queue_id, offset=offset)
    bench.call(c.UpdateConsumerOffset(group=group, offsets=[entry]))


def test_nothing_is_known_before_the_first_commit() -> None:
    bench = orders()
    assert progress(bench) == (None, None, None, None, 1, None)
    assert asked(bench).groups[0].state == "unknown"


def test_a_group_whose_lag_is_unknown_is_stalled_by_an_error_as_in_its_verdicts() -> None:
    bench = orders()
    pull(bench, 0, max_msg_nums=2)
    bench.tick(31_000)
    beats(bench, "A")
    (one,) = asked(bench, alone=True, sentences=True).groups
    assert (one.state, one.topics[0].lag) == ("stalled", None)
    assert [line.id for line in one.verdicts] == ["listener_blocked"]
    assert one.verdicts[0].severity == "error"
    assert one.verdicts[0].sentence.startswith("g stands still: 2 messages handed to A, nothing committed for 31 s;")


def test_the_metrics_ask_for_no_sentences() -> None:
    bench = orders()
    (without,), (with_it,) = asked(bench).groups, asked(bench, sentences=True).groups
    assert with_it.verdicts[0].sentence and not without.verdicts[0].sentence
    assert msgspec.structs.replace(with_it, verdicts=without.verdicts) == without


def test_the_progress_in_each_queue_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders(queues=4)
    commit(bench, 1)
    looked_at: list[int] = []

    def counted(view: c.GroupQueueView, patience_ms: int = PATIENCE_MS) -> QueueProgress:
        looked_at.append(view.queue_id)
        return queue_progress(view, patience_ms)

    for module in (live_state, group_of_verdicts):
        monkeypatch.setattr(module, "queue_progress", counted)
    (one,) = asked(bench, alone=True).groups
    assert [line.id for line in one.verdicts] and looked_at == [0, 1, 2, 3]
    assert (one.topics[0].lag, one.topics[0].unknown_queues) == (2, 0)


def test_without_a_problem_the_first_verdict_is_named() -> None:
    bench = orders()
    assert [(line.id, line.severity) for line in asked(bench).groups[0].verdicts] == [("lag_unknown", "info")]


def test_pulled_messages_are_in_flight_until_they_are_committed() -> None:
    bench = orders()
    commit(bench, 0)
    bench.clock.advance(2000)
    pull(bench, 0, max_msg_nums=2)
    assert progress(bench) == (3, 2000, 2, 1, 0, 2)
    commit(bench, 1)
    assert progress(bench) == (2, 2000, 1, 1, 0, 2)
    pull(bench, 2)
    commit(bench, 3)
    assert progress(bench) == (0, 0, 0, 0, 0, 3)


def test_deleted_messages_count_in_the_lag_as_in_rocketmq(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders()
    commit(bench, 0)
    pull(bench, 0, max_msg_nums=1)
    monkeypatch.setattr(bench.context.store, "min_offset", lambda *_: 2)
    assert progress(bench) == (3, 0, 1, 2, 0, 1)


def test_popped_messages_are_in_flight_until_they_are_acknowledged() -> None:
    bench = Bench(default_topic_queue_nums=1)
    bench.send("orders", b"1", b"2", b"3")
    first = take(bench, max_msg_nums=2)
    bench.clock.advance(2000)
    assert progress(bench) == (1, 2000, 2, 1, 0, 2)
    take(bench)
    assert progress(bench) == (0, 0, 3, 0, 0, 3), "they are no part of the lag"
    ack(bench, first)
    assert progress(bench) == (0, 0, 1, 0, 0, 3)


def test_after_a_start_the_lag_is_known_and_what_is_in_flight_is_not() -> None:
    bench = orders()
    commit(bench, 1)
    assert progress(bench)[:5] == (2, 0, None, None, 0)


def test_a_sum_over_an_unknown_queue_is_a_lower_bound_and_never_zero() -> None:
    bench = orders(queues=2)
    bench.send("orders", b"4", queue_id=1)
    commit(bench, 1)
    assert progress(bench)[:5] == (2, 0, None, None, 1)
    commit(bench, 3)
    assert progress(bench)[:5] == (None, None, None, None, 1)


def test_an_empty_queue_has_no_lag_without_a_commit() -> None:
    bench = orders(queues=2)
    commit(bench, 3)
    pull(bench, 3)
    assert progress(bench)[:5] == (0, 0, 0, 0, 0)


def test_the_lag_of_a_broadcasting_group_is_unknown() -> None:
    bench = orders(model="BROADCASTING")
    pull(bench, 3)
    one = row(bench)
    assert (one.lag, one.oldest_ms, one.in_flight, one.ready, one.unknown_queues) == (None, None, None, None, 1)


def test_dead_letters_retries_and_held_pulls() -> None:
    bench = orders()
    commit(bench, 0)
    pull(bench, 3, suspend_timeout_ms=15_000)
    for level in (0, -1):
        bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=0, delay_level=level), "A")
    (one,) = asked(bench).groups
    assert (one.holds, one.retrying, one.dead_letters, one.dead_lettered) == (1, 1, 1, 1)


def test_the_cluster_and_the_disk() -> None:
    bench = Bench(broker_cluster_name="blue")
    bench.context.store.clean.disk_used_percent = 42.5
    reply = asked(bench)
    assert (reply.broker, reply.cluster, reply.disk_used_percent, reply.groups) == ("broker-a", "blue", 42.5, [])


def test_groups_beyond_the_limit_are_counted_and_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders()
    for number in range(4):
        commit(bench, 1, group=f"other-{number}")
    looked_at: list[str] = []
    original = group_metrics.queues_of_group
    monkeypatch.setattr(
        group_metrics,
        "queues_of_group",
        lambda context, group, *more, **options: looked_at.append(group) or original(context, group, *more, **options),
    )
    reply = asked(bench, max_groups=2)
    assert ([one.group for one in reply.groups], reply.groups_left_out) == (["g", "other-0"], 3)
    assert looked_at == ["g", "other-0"]


def test_topics_beyond_the_limit_are_counted_and_the_states_stay() -> None:
    bench = orders()
    for number in range(4):
        commit(bench, 1, group=f"other-{number}")
    reply = asked(bench, max_topics=2)
    assert [len(one.topics) for one in reply.groups] == [1, 1, 0, 0, 0]
    assert (reply.groups_left_out, reply.topics_left_out) == (0, 3)


def test_nobody_can_ask_for_more_than_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metrics, "MAX_METRIC_GROUPS", 2)
    bench = orders()
    for number in range(4):
        commit(bench, 1, group=f"other-{number}")
    assert asked(bench, max_groups=1_000_000).groups_left_out == 3
    assert asked(bench, max_groups=-1).groups_left_out == 5


def test_a_topic_is_left_out_when_not_all_of_its_queues_were_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_state, "MAX_QUEUES", 3)
    monkeypatch.setattr(group_metrics, "MAX_QUEUES", 3)
    monkeypatch.setattr(live_state, "LOOKED_AT", 1)
    bench = orders(queues=4)
    commit(bench, 1)
    (one,) = asked(bench).groups
    assert [found.topic for found in one.topics if found.topic == "orders"] == []
    assert asked(bench).topics_left_out >= 1


def test_a_deleted_topic_has_no_row() -> None:
    bench = orders()
    commit(bench, 1)
    bench.call(c.DeleteTopic(topic="orders"))
    assert [found.topic for one in asked(bench).groups for found in one.topics if found.topic == "orders"] == []
    assert asked(bench).topics_left_out == 0


def test_pages_have_every_group_once_with_all_of_its_topics() -> None:
    bench = orders()
    for group in ("a", "b", "c"):
        for topic in ("orders", f"of-{group}"):
            bench.send(topic, b"x")
            entry = c.QueueOffset(topic=topic, queue_id=0, offset=0)
            bench.call(c.UpdateConsumerOffset(group=group, offsets=[entry]))
    commit(bench, 0)
    pages, after = [], ""
    while True:
        page = asked(bench, after=after, max_groups=3, max_topics=3)
        pages.append([(one.group, len(one.topics)) for one in page.groups])
        assert page.topics_left_out == 0
        if page.next is None:
            break
        after = page.next
    assert pages == [[("a", 2)], [("b", 2)], [("c", 2), ("g", 1)]]


def test_a_page_has_at_least_one_group() -> None:
    bench = orders()
    commit(bench, 0)
    page = asked(bench, after="", max_topics=0)
    assert ([one.group for one in page.groups], page.next, page.topics_left_out) == (["g"], None, 1)


def test_how_far_behind_slaves_are_is_unknown_without_one() -> None:
    bench = orders()
    assert (asked(bench).slaves, asked(bench).slave_lag_bytes, asked(bench).slave_timeouts) == (0, None, 0)
    end = bench.context.store.appended_offset
    report = c.ReportSlaveMaxOffset(address="10.0.0.7:1", slave_ack_offset=end - 12, transferred=end)
    bench.call(report, "slave")
    assert (asked(bench).slaves, asked(bench).slave_lag_bytes) == (1, 12)


def tagged(expression: str = "A", *, count: int = 4, **options: Any) -> Bench:
    """A member of g that subscribes to an expression, and messages with the tags A and B in turn, from A on."""
    bench = Bench(**options)
    for number in range(count):
        bench.send("orders", b"x", tag="AB"[number % 2])
    join(bench, "A", topics={"orders": expression})
    commit(bench, 0)
    return bench


@pytest.mark.covers("metrics-filtered")
def test_only_messages_with_the_groups_tags_are_its_lag() -> None:
    bench = tagged()
    assert row(bench).lag == 2
    assert asked(bench).groups[0].topics[0].lag == 4, "alerts count all messages, as the pages do"
    pull(bench, 0, max_msg_nums=1)  # the next pull will begin at 1
    one = row(bench)
    assert (one.lag, one.in_flight, one.ready) == (2, 1, 1)
    bench.send("orders", b"x", tag="B")
    commit(bench, 3)
    assert row(bench).lag == 0 and row(bench).unknown_queues == 0


@pytest.mark.parametrize(
    ("expression", "options", "lag"),
    [("*", {}, 4), ("A || B", {}, 4), ("C", {}, 0), ("A", {"estimate_accumulation": False}, 4)],
)
def test_what_counts_as_lag(expression: str, options: dict[str, bool], lag: int) -> None:
    assert row(tagged(expression, **options)).lag == lag


def sql(expression: str = "size > 2", *, before: int = 0, **options: Any) -> Bench:
    """A member of g that filters by SQL92, and four messages, after ``before`` ones that were stored before it came."""
    bench = Bench(**options)
    for number in range(before):
        bench.send("orders", b"x", properties=encode({"size": str(number)}))
    join(bench, "A")
    subscribe_by_sql(bench, expression, 9)
    for number in range(4):
        bench.send("orders", b"x", properties=encode({"size": str(number)}))
    commit(bench, 0)
    return bench


@pytest.mark.parametrize(
    ("bench", "lag"),
    [
        ({}, 1),
        ({"expression": "size > 1"}, 2),
        ({"expression": "size > 9"}, 0),
        ({"before": 3}, 4),
        ({"enable_calc_filter_bit_map": False}, 4),
        ({"enable_consume_queue_ext": False}, 4),
        ({"estimate_accumulation": False}, 4),
    ],
)
@pytest.mark.covers("metrics-filtered")
def test_an_sql92_filter_is_tested_by_bitmaps_and_messages_without_one_count(bench: dict[str, Any], lag: int) -> None:
    assert row(sql(**bench)).lag == lag


def test_the_share_in_a_long_lag_is_estimated_for_sql92_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metrics, "SAMPLE", 4)
    monkeypatch.setattr(group_metrics, "LEAST_SAMPLE", 4)
    bench = sql()
    for _ in range(2):
        for number in range(4):
            bench.send("orders", b"x", properties=encode({"size": str(number)}))
    assert row(bench).lag == 3


def test_a_message_that_waits_has_an_age_even_if_none_has_the_tags() -> None:
    bench = tagged("C")
    bench.clock.advance(2000)
    assert (row(bench).lag, row(bench).oldest_ms) == (0, 2000)


def test_a_group_without_members_lags_by_all_messages() -> None:
    bench = tagged()
    bench.call(c.UnregisterClient(client_id="A", consumer_group="g"), "A")
    assert row(bench).lag == 4


def test_the_share_in_a_long_lag_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_metrics, "SAMPLE", 16)
    monkeypatch.setattr(group_metrics, "LEAST_SAMPLE", 2)
    bench = tagged(count=30)
    assert row(bench).lag == 15
    bench.send("orders", *[b"x"] * 32, tag="B")
    assert row(bench).lag == 31, "a half of the first four: the topic has eight queues"
    for name, looked_at in (("SAMPLE", 800), ("MOST_SAMPLE", 100)):
        monkeypatch.setattr(group_metrics, name, looked_at)
    assert row(bench).lag == 15
