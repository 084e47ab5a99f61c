"""Pulls: RocketMQ's codes for its statuses, clamped waits, commits on the way."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import PullAnswered, PullPassedOver, PullRefused, PullReleased, QueueTaken
from broker_core.formats.message_properties import encode
from broker_core.processors.pull_message import response_code
from tests.fakes.engine import ROOT, Bench, bodies, send
from tests.fakes.members import events, failure, join, subscribe_by_sql


@pytest.mark.parametrize(
    ("status", "offset", "code"),
    [
        ("FOUND", 0, 0),
        ("OFFSET_OVERFLOW_ONE", 7, 19),
        ("OFFSET_FOUND_NULL", 7, 19),
        ("NO_MATCHED_MESSAGE", 0, 20),
        ("MESSAGE_WAS_REMOVING", 0, 20),
        ("OFFSET_TOO_SMALL", 0, 21),
        ("OFFSET_OVERFLOW_BADLY", 9, 21),
        ("NO_MESSAGE_IN_QUEUE", 0, 19),
        ("NO_MESSAGE_IN_QUEUE", 5, 21),
        ("NO_MATCHED_LOGIC_QUEUE", 0, 19),
        ("NO_MATCHED_LOGIC_QUEUE", 1, 21),
    ],
)
def test_codes(status: str, offset: int, code: int) -> None:
    assert response_code(status, offset) == code


@pytest.mark.covers("hold-cap")
@pytest.mark.parametrize(
    ("asked_ms", "options", "granted_ms"),
    [
        (3_600_000, {}, 3_600_000),
        (2**63 - 1, {}, 86_400_000),
        (3_600_000, {"max_hold_time_mills": 30_000}, 30_000),
        (2**63 - 1, {"max_hold_time_mills": 604_800_000}, 604_800_000),
    ],
)
def test_a_pull_is_held_as_long_as_it_asks_but_no_longer_than_the_option_allows(
    asked_ms: int, options: dict[str, Any], granted_ms: int
) -> None:
    bench = Bench(**options)
    bench.send("orders", b"x")
    request = bench.pull("orders", 1, suspend_timeout_ms=asked_ms)
    bench.tick(granted_ms - 1)
    assert len(bench.context.holds) == 1
    bench.tick(8)
    assert bench.pulled(request).suspend_timeout_ms == granted_ms


@pytest.mark.covers("short-polling")
@pytest.mark.parametrize(
    ("protocol", "asked_ms", "granted_ms"),
    [("remoting", 200, 1000), ("remoting", 15_000, 1000), ("http", 200, 200), ("websocket", 15_000, 1000)],
)
def test_short_polling_holds_rocketmq_clients_for_its_time(
    protocol: c.Protocol, asked_ms: int, granted_ms: int
) -> None:
    bench = Bench(long_polling_enable=False)
    bench.send("orders", b"x")
    request = bench.pull("orders", 1, suspend_timeout_ms=asked_ms, protocol=protocol)
    bench.tick(granted_ms + 4)
    assert bench.pulled(request).suspend_timeout_ms == granted_ms


LOCKS = {
    "the group may not consume": (
        c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": False}),
        16,
    ),
    "the topic may not be read": (c.UpdateAndCreateTopic(topic="orders", perm=2), 16),
    "the queue may not be read": (c.UpdateAndCreateTopic(topic="orders", read_queues=1, write_queues=2), 29),
    "the broker may not be read": (c.UpdateBrokerConfig(changes={"brokerPermission": 2}), 16),
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_held_pull_gets_no_message_when_reading_was_forbidden_meanwhile(lock: str) -> None:
    command, code = LOCKS[lock]
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=2, write_queues=2))
    request = bench.pull("orders", 0, queue_id=1, check_group=True)
    assert not isinstance(bench.call(command), c.Failed)
    assert bench.final(request) is None
    bench.send("orders", b"secret", queue_id=1)
    refused = bench.final(request)
    assert isinstance(refused, c.Failed) and refused.code == code
    assert [event.remark for event in events(bench, PullRefused)] == [refused.remark]
    assert [event.cause for event in events(bench, PullReleased)] == ["refused"]
    assert bench.context.counters.pulls_refused == 1 and not bench.context.counters.messages_delivered


@pytest.mark.parametrize("ms", [0, 5000, 15_000])
def test_a_held_pull_is_answered_by_the_subscription_that_its_group_has_by_then(ms: int) -> None:
    bench = Bench()
    send_sizes(bench, "1")
    join(bench, "A")
    subscribe_by_sql(bench, "size > 10", 9)
    request = bench.pull("orders", 1, "A", subscription=None)
    subscribe_by_sql(bench, "size < 3 OR size = 30", 10)
    send_sizes(bench, "2")
    if not ms:
        send_sizes(bench, "30")
    bench.tick(ms)
    pulled = bench.pulled(request, "A")
    assert bodies(pulled) == ([b"2"] if ms else [b"2", b"30"])
    assert bench.context.counters.woken["missed_arrival"] == 0


def test_a_held_pull_of_a_group_without_members_is_refused() -> None:
    """The client left the group, and its connection is still there."""
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A")
    request = bench.pull("orders", 1, "A", subscription=None)
    bench.call(c.UnregisterClient(client_id="A", consumer_group="g"), "A")
    assert bench.final(request, "A") is None
    bench.send("orders", b"2")
    refused = bench.final(request, "A")
    assert isinstance(refused, c.Failed) and refused.code == 24
    assert "group g has no member on this broker" in refused.remark


def test_a_held_lite_pull_is_refused_when_lite_pulls_were_forbidden_meanwhile() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    lite, other = (bench.pull("orders", 1, check_group=True, lite=lite) for lite in (True, False))
    assert not isinstance(bench.call(c.UpdateBrokerConfig(changes={"litePullMessageEnable": False})), c.Failed)
    bench.send("orders", b"2")
    refused = bench.final(lite)
    assert isinstance(refused, c.Failed) and (refused.code, "litePullMessageEnable" in refused.remark) == (16, True)
    assert bodies(bench.pulled(other)) == [b"2"]


def test_a_held_pull_of_a_subscription_that_ended_is_refused() -> None:
    bench = Bench()
    send_sizes(bench, "1")
    join(bench, "A")
    subscribe_by_sql(bench, "size > 10", 9)
    request = bench.pull("orders", 1, "A", subscription=None)
    bench.call(c.HeartBeat(client_id="A", protocol="remoting", consumers=[c.ConsumerData(group="g")]), "A")
    send_sizes(bench, "30")
    refused = bench.final(request, "A")
    assert isinstance(refused, c.Failed) and refused.code == 24


def test_a_pull_that_may_not_wait_is_answered_at_once() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    pulled = bench.pulled(bench.pull("orders", 1, suspend_timeout_ms=0))
    assert pulled.code == 19 and pulled.hold is None and pulled.next_begin_offset == 1


def test_the_offset_that_comes_with_a_pull_is_committed_once() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.pull("orders", 1, commit_offset=1)
    assert bench.context.offsets.query("g", "orders", 0) == 1
    bench.context.offsets.commit("g", "orders", 0, 0)
    bench.send("orders", b"y")
    assert bench.context.offsets.query("g", "orders", 0) == 0


def test_limits_of_one_pull() -> None:
    bench = Bench()
    bench.send("orders", *(bytes([n]) * 1000 for n in range(10)))
    assert len(bodies(bench.pulled(bench.pull("orders", 0, max_msg_nums=3)))) == 3
    assert len(bodies(bench.pulled(bench.pull("orders", 0, max_msg_bytes=1)))) == 1


def test_a_request_number_is_held_once() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    pull = c.PullMessage(topic="orders", queue_id=0, queue_offset=1, suspend_timeout_ms=1000)
    bench.take(bench.engine.handle_batch([("c", 77, pull), ("c", 77, pull)], bench.clock.now()))
    (reply,) = bench.replies["c", 77]
    assert isinstance(reply, c.Failed) and len(bench.context.holds) == 1


def test_a_pull_from_a_topic_without_read_permission_is_refused() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="writeonly", perm=2))
    reply = bench.final(bench.pull("writeonly", 0))
    assert isinstance(reply, c.Failed) and "may not be read" in reply.remark


def test_every_group_gets_every_message() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    pulls = [bench.pull("orders", 1, consumer_group=f"g{n}") for n in range(5)]
    bench.send("orders", b"y")
    assert [bodies(bench.pulled(pull)) for pull in pulls] == [[b"y"]] * 5


def test_a_pull_commits_for_groups_with_a_proper_name_only() -> None:
    bench = Bench()
    bench.send("orders", b"one")
    reply = bench.final(bench.pull("orders", 0, consumer_group="a@b", commit_offset=1))
    assert isinstance(reply, c.Failed) and reply.pointer == "/group"
    assert bench.context.offsets.groups() == []


def test_a_store_that_is_not_ours_is_pulled_from_without_keeping_the_offset() -> None:
    bench = Bench()
    bench.send("orders", b"one")
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert foreign.context.store.read_only
    assert bodies(foreign.pulled(foreign.pull("orders", 0, commit_offset=1))) == [b"one"]
    assert foreign.context.offsets.groups() == []


def stock_pull(bench: Bench, connection: str = "A", **fields: Any) -> c.Reply:
    """A pull as a RocketMQ client's, that is not to be held."""
    return bench.call(
        c.PullMessage(
            **{
                "topic": "orders",
                "queue_id": 0,
                "queue_offset": 0,
                "consumer_group": "g",
                "subscription": None,
                "check_group": True,
                "protocol": "remoting",
            }
            | fields
        ),
        connection,
    )


def code(reply: c.Reply) -> int:
    assert isinstance(reply, c.Failed | c.Pulled)
    return reply.code


def group_config(bench: Bench, **config: Any) -> None:
    reply = bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"} | config))
    assert isinstance(reply, c.SubscriptionGroups), reply


def test_the_subscription_is_the_groups_own() -> None:
    bench = Bench()
    bench.send("orders", b"a", tag="TagA")
    bench.send("orders", b"b", tag="TagB")
    join(bench, "A", topics={"orders": "TagA ||"})
    reply = stock_pull(bench)
    assert isinstance(reply, c.Pulled) and bodies(reply) == [b"a"] and reply.next_begin_offset == 2
    reply = stock_pull(bench, subscription="TagB")
    assert isinstance(reply, c.Pulled) and bodies(reply) == [b"b"]


def test_rocketmqs_checks_have_its_codes() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.send("more", b"1")
    assert code(stock_pull(bench)) == 24  # no heartbeat yet
    join(bench, "A", version=5)
    assert code(stock_pull(bench)) == 0
    assert code(stock_pull(bench, consumer_group="a/b")) == 29
    assert code(stock_pull(bench, topic="nowhere")) == 17
    assert code(stock_pull(bench, queue_id=99)) == code(stock_pull(bench, queue_id=-1)) == 29
    assert code(stock_pull(bench, topic="more")) == 24
    assert code(stock_pull(bench, sub_version=5)) == 0
    assert code(stock_pull(bench, sub_version=6)) == 25
    assert code(stock_pull(bench, subscription="||")) == 23
    sql: dict[str, Any] = {"subscription": "a > 1", "expression_type": "SQL92"}
    assert code(stock_pull(bench, **sql)) == 20
    bench.call(c.UpdateBrokerConfig(changes={"enablePropertyFilter": False}))
    assert code(stock_pull(bench, **sql)) == 1
    bench.call(c.UpdateAndCreateTopic(topic="orders", perm=2))
    assert code(stock_pull(bench)) == 16


def test_the_checks_come_in_rocketmqs_order() -> None:
    bench = Bench(auto_create_subscription_group=False)
    join(bench, "A")
    everything_wrong: dict[str, Any] = {"topic": "nowhere", "queue_id": 99, "lite": True}
    bench.call(c.UpdateBrokerConfig(changes={"brokerPermission": 2, "litePullMessageEnable": False}))
    assert "broker-a" in failure(bench, c.PullMessage(queue_offset=0, **everything_wrong)).remark
    bench.call(c.UpdateBrokerConfig(changes={"brokerPermission": 6}))
    assert code(stock_pull(bench, **everything_wrong)) == 16
    bench.call(c.UpdateBrokerConfig(changes={"litePullMessageEnable": True}))
    assert code(stock_pull(bench, **everything_wrong)) == 26
    group_config(bench, consumeEnable=False)
    assert code(stock_pull(bench, **everything_wrong)) == 16
    group_config(bench)
    assert code(stock_pull(bench, **everything_wrong)) == 17
    bench.send("orders", b"1")
    assert code(stock_pull(bench, queue_id=99)) == 29
    assert code(stock_pull(bench)) == 24


def test_pulls_are_refused_when_the_group_may_not_broadcast_or_read_the_topic() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A", model="BROADCASTING")
    assert code(stock_pull(bench)) == 0
    group_config(bench, consumeBroadcastEnable=False)
    assert code(stock_pull(bench)) == 16
    group_config(bench)
    bench.context.subscription_groups._forbidden = {"g": {"orders": 4, "more": 2}}
    assert code(stock_pull(bench)) == 16
    bench.context.subscription_groups._forbidden = {"g": {"orders": 2}}
    assert code(stock_pull(bench)) == 0


def send_sizes(bench: Bench, *sizes: str) -> None:
    for size in sizes:
        bench.send("orders", size.encode(), properties=encode({"size": size}))


@pytest.mark.covers("sql-pull")
def test_a_pull_gets_the_messages_that_its_sql92_expression_selects() -> None:
    bench = Bench()
    send_sizes(bench, "1", "12", "x", "30")
    join(bench, "A")
    subscribe_by_sql(bench, "size > 10", 9)
    reply = stock_pull(bench)
    assert isinstance(reply, c.Pulled) and bodies(reply) == [b"12", b"30"] and reply.next_begin_offset == 4
    (answered,) = events(bench, PullAnswered)
    assert (answered.messages, answered.passed_over) == (2, 2)
    counters = bench.context.counters
    assert (counters.messages_passed_over, counters.messages_passed_over_by_sql) == (2, 2)


@pytest.mark.covers("sql-wake")
def test_a_held_pull_is_woken_by_the_messages_that_its_sql92_expression_selects() -> None:
    bench = Bench()
    send_sizes(bench, "1")
    held = bench.pull("orders", 1, subscription="size > 10", expression_type="SQL92")
    send_sizes(bench, "2")
    assert bench.final(held) is None
    (passed,) = events(bench, PullPassedOver)
    assert (passed.from_offset, passed.by) == (1, "properties")
    assert bench.context.counters.pulls_passed_over_by_sql == 1
    send_sizes(bench, "30")
    assert bodies(bench.pulled(held)) == [b"30"] and bench.pulled(held).hold.wake_cause == "arrival"  # type: ignore[union-attr]


@pytest.mark.covers("sql-wrong")
def test_a_pull_with_a_wrong_sql92_expression_is_refused() -> None:
    bench = Bench()
    send_sizes(bench, "1")
    assert code(stock_pull(bench, subscription="a >", expression_type="SQL92")) == 23


def test_the_check_answers_a_pull_whose_sql92_expression_rejects_the_new_messages() -> None:
    bench = Bench()
    send_sizes(bench, "1")
    held = bench.pull("orders", 1, subscription="size > 10", expression_type="SQL92")
    send_sizes(bench, "2")
    bench.tick(5000)
    pulled = bench.pulled(held)
    assert (pulled.code, pulled.next_begin_offset) == (20, 2)
    assert pulled.hold is not None and pulled.hold.wake_cause == "filter_advanced"


def test_a_message_that_comes_between_the_check_and_the_second_reading_is_no_missed_arrival() -> None:
    bench = Bench()
    send_sizes(bench, "1")
    sql = {"subscription": "size > 10", "expression_type": "SQL92"}
    held = [bench.pull("orders", 1, f"c{number}", **sql) for number in range(20)]
    for _ in range(25):
        bench.send("orders", b"no", properties=encode({"size": "2", "pad": "y" * 20_000}))
    bench.take(bench.engine.tick(bench.clock.advance(5000)))
    assert len(bench.context.holds) == 0 and len(bench.context.waking) > 10, "evaluating takes several turns"
    send_sizes(bench, "30")
    bench.tick()
    last = bench.pulled(held[-1], "c19")
    assert bodies(last) == [b"30"] and last.hold is not None and last.hold.wake_cause == "filter_advanced"
    assert bench.context.counters.woken["missed_arrival"] == 0


def test_a_hold_that_is_woken_because_its_expression_is_too_much_work_had_no_matching_arrival() -> None:
    bench = Bench()
    send_sizes(bench, "1")
    held = bench.pull("orders", 1, subscription="size > 10", expression_type="SQL92")
    bench.submit(*[send("orders", b"no", properties=encode({"size": "2", "pad": "y" * 20_000})) for _ in range(60)])
    pulled = bench.pulled(held)
    assert pulled.code == 20 and pulled.hold is not None and pulled.hold.wake_cause == "filter_advanced"


def test_a_pull_ends_when_its_expression_is_too_much_work_for_a_turn() -> None:
    bench = Bench()
    for _ in range(60):
        bench.send("orders", b"x", properties=encode({"a": "y" * 30_000}))
    reply = bench.pulled(bench.pull("orders", 0, subscription="b = 'x'", expression_type="SQL92"))
    assert (reply.code, reply.next_begin_offset) == (20, 18)


def test_a_pull_is_its_clients_by_its_connection() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A")
    held = bench.pull("orders", 1, connection="A", subscription=None, check_group=True)
    (hold,) = bench.call(c.GetHolds()).holds  # type: ignore[union-attr]
    assert hold.client_id == "A" and bench.final(held, "A") is None


def test_another_member_that_pulls_from_a_queue_is_an_event() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A")
    join(bench, "B")
    for name in ("A", "A", "B", "B"):
        stock_pull(bench, name)
    bench.call(c.PullMessage(topic="orders", queue_id=0, queue_offset=0, consumer_group="g", client_id="no member"))
    assert [(e.client_id, e.previous) for e in events(bench, QueueTaken)] == [("A", ""), ("B", "A")]
    last = bench.context.pulls.topics("g")["orders"][0]
    assert (last.client_id, last.pull_offset) == ("no member", 1)


def test_a_hold_left_from_before_a_rebalance_does_not_take_the_queue_back() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for name in "AB":
        join(bench, name)
        bench.pull("orders", 1, connection=name, consumer_group="g", client_id=name)
    bench.send("orders", b"2")
    assert [(e.client_id, e.previous) for e in events(bench, QueueTaken)] == [("A", ""), ("B", "A")]
    last = bench.context.pulls.topics("g")["orders"][0]
    assert (last.client_id, last.pull_offset) == ("B", 2)


def test_a_broadcasting_member_takes_no_queue_from_another() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for name in "AB":
        join(bench, name, model="BROADCASTING")
        stock_pull(bench, name)
    assert events(bench, QueueTaken) == []
