"""Groups, seen from outside: who should have a queue, who asks for it, and why nobody does."""

from typing import Any

from broker_core import commands as c
from broker_core.formats.message_properties import encode
from tests.fakes.engine import Bench
from tests.fakes.members import beats, connect, failure, join


def detail(bench: Bench, group: str = "g") -> c.ConsumerGroupDetail:
    reply = bench.call(c.GetConsumerGroup(group=group))
    assert isinstance(reply, c.ConsumerGroupDetail), reply
    return reply


def queues(bench: Bench, *fields: str, topic: str = "orders") -> list[tuple[Any, ...]]:
    return [tuple(getattr(view, field) for field in fields) for view in detail(bench).queues if view.topic == topic]


def why(bench: Bench, queue_id: int = 0) -> str:
    return next(view.why for view in detail(bench).queues if (view.topic, view.queue_id) == ("orders", queue_id))


def orders() -> Bench:
    """Two queues of orders; three messages in the first one."""
    bench = Bench(default_topic_queue_nums=2)
    bench.send("orders", b"1", b"2", b"3", tag="TagB")
    return bench


def member_pull(bench: Bench, client: str, offset: int, queue_id: int = 0, **fields: Any) -> None:
    bench.pull("orders", offset, client, subscription=None, check_group=True, queue_id=queue_id, **fields)


def commit(bench: Bench, offset: int) -> None:
    bench.call(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=offset)]))


def test_a_group_in_full() -> None:
    bench = orders()
    bench.clock.advance(2000)
    join(bench, "B")
    join(bench, "A")
    commit(bench, 1)
    member_pull(bench, "A", 1)
    bench.clock.advance(300)
    bench.call(
        c.LockBatchMq(
            group="g", client_id="A", queues=[c.MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)]
        )
    )
    view = detail(bench)
    assert (view.broker, view.consume_type, view.message_model) == ("broker-a", "CONSUME_PASSIVELY", "CLUSTERING")
    assert [member.client_id for member in view.members] == ["B", "A"]
    assert [data.topic for data in view.subscriptions] == ["orders"]
    first, second = view.queues
    assert (first.assigned_to, first.polled_by, first.polled_ms_ago, first.state) == ("A", "A", 300, "polling")
    assert (first.offset, first.pull_offset, first.min_offset, first.max_offset) == (1, 3, 0, 3)
    assert (first.lag, first.lag_ms, first.locked_by) == (2, 2300, "A")
    assert (second.assigned_to, second.polled_by, second.polled_ms_ago, second.state) == (
        "B",
        None,
        None,
        "not_polling",
    )
    assert (second.offset, second.lag, second.lag_ms, second.locked_by) == (None, 0, 0, None)
    assert second.why == "B has not pulled from it yet"


def test_a_held_pull_says_what_it_waits_for() -> None:
    bench = orders()
    join(bench, "A", topics={"orders": "TagA"})
    member_pull(bench, "A", 3)
    assert queues(bench, "state", "polled_by") == [("held", "A"), ("not_polling", None)]
    assert why(bench) == "A waits at offset 3, the queue's end, for a message that TagA accepts"
    bench.send("orders", b"4", tag="TagB")
    assert why(bench) == "A waits at offset 3; its filter accepts none of 1 newer messages"


def test_without_a_commit_only_an_empty_queue_has_a_known_lag() -> None:
    bench = orders()
    join(bench, "A")
    assert queues(bench, "offset", "lag", "lag_ms") == [(None, None, None), (None, 0, 0)]


def test_a_member_that_stops_pulling_is_not_polling() -> None:
    bench = orders()
    join(bench, "A")
    member_pull(bench, "A", 0)
    assert "will pull again" in why(bench)
    bench.tick(10_000)
    assert queues(bench, "state", "pull_offset") == [("busy", 3), ("not_polling", None)]
    assert why(bench) == "A pulled 10 s ago; it may be busy with the messages that it has"
    bench.tick(20_001)
    assert queues(bench, "state", "pull_offset") == [("not_polling", 3), ("not_polling", None)]
    assert (
        why(bench)
        == "A pulled 30 s ago and has not pulled since: it is suspended, frozen, cut off, or busy with its messages"
    )


def test_a_queue_of_a_frozen_member_says_what_the_verdict_says() -> None:
    bench = orders()
    join(bench, "A")
    member_pull(bench, "A", 0)
    bench.tick(45_000)
    assert "suspended, frozen" in why(bench)
    bench.tick(1000)
    assert why(bench) == "A has sent no heartbeat for 46 s: its process is frozen or its network is cut"
    beats(bench, "A")
    assert "suspended, frozen" in why(bench), "it sends heartbeats again"


def test_a_client_whose_connection_is_closed_is_not_about_to_pull() -> None:
    bench = orders()
    join(bench, "A")
    member_pull(bench, "A", 0, protocol="remoting")
    bench.tick(2000)
    assert queues(bench, "state")[0] == ("polling",)
    bench.call(c.CloseConnection(), "A")
    assert queues(bench, "state")[0] == ("unassigned",)
    assert why(bench) == "A's connection is closed; it pulled 2 s ago"
    join(bench, "B")
    assert queues(bench, "state")[0] == ("not_polling",) and why(bench) == "B has not pulled from it yet"


def test_after_a_pull_over_http_it_is_unknown_whether_another_one_follows() -> None:
    bench = orders()
    bench.pull("orders", 0, "web", client_id="10.0.0.1:7", protocol="http")
    expected = "10.0.0.1:7 pulled {} s ago; it is not a member, so it may or may not pull again"
    assert queues(bench, "state")[0] == ("polling",) and why(bench) == expected.format(0)
    bench.tick(3000)
    assert queues(bench, "state")[0] == ("unassigned",) and why(bench) == expected.format(3)


def test_a_websocket_that_is_open_is_about_to_pull_again() -> None:
    bench = orders()
    connect(bench, "ws", "websocket")
    bench.pull("orders", 0, "ws", client_id="ws", protocol="websocket")
    bench.tick(9000)
    assert queues(bench, "state")[0] == ("polling",) and why(bench) == "ws pulled a moment ago and will pull again"


def test_a_websocket_without_permits_does_not_pull() -> None:
    bench = orders()
    join(bench, "ws")
    member_pull(bench, "ws", 0, protocol="websocket")
    used_up = c.ConsumerWindow(topic="orders", permits=0, unacknowledged=51)
    bench.call(c.ReportWindows(group="g", windows=[used_up]), "ws")
    assert why(bench) == "ws pulled 0 s ago; its permits are used up, so it does not pull now"
    bench.tick(9000)
    assert why(bench) == "ws pulled 9 s ago; its permits are used up, so it does not pull now"
    other = c.ConsumerWindow(topic="more", permits=1, unacknowledged=0)
    bench.call(c.ReportWindows(group="g", windows=[used_up, other]), "ws")
    assert "permits" not in why(bench), "a member with permits for one topic still pulls its retries"


def test_without_members_or_subscription_nobody_is_there() -> None:
    bench = orders()
    commit(bench, 0)
    assert queues(bench, "state", "assigned_to", "lag") == [("unassigned", None, 3), ("unassigned", None, 0)]
    assert why(bench) == "the group has no member"
    join(bench, "A", topics={"more": "*"})
    assert queues(bench, "state") == [("unassigned",)] * 2 and why(bench) == "no member subscribes to the topic"


def test_a_lock_of_another_member_explains_the_wait() -> None:
    bench = orders()
    join(bench, "B")
    bench.call(
        c.LockBatchMq(
            group="g", client_id="B", queues=[c.MessageQueue(topic="orders", broker_name="broker-a", queue_id=0)]
        )
    )
    join(bench, "A")
    assert why(bench) == "B has it locked; A waits for the lock"


def test_why_names_the_setting_that_forbids_consuming() -> None:
    bench = orders()
    join(bench, "A")
    bench.call(c.ResetConsumerOffset(group="g", topic="orders", to="max"))
    assert why(bench) == "the answer to the next pull of A will move it to offset 3"
    bench.call(c.UpdateAndCreateTopic(topic="orders", perm=2))
    assert "perm" in why(bench)
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "consumeEnable": False}))
    assert "consumeEnable" in why(bench)


def test_broadcasting_members_share_no_queues() -> None:
    bench = orders()
    for name in "AB":
        join(bench, name, model="BROADCASTING")
    member_pull(bench, "A", 3)
    assert queues(bench, "assigned_to", "state") == [(None, "held"), (None, "not_polling")]


def test_a_topic_that_is_gone_has_no_queues() -> None:
    bench = orders()
    join(bench, "A")
    bench.call(c.DeleteTopic(topic="orders"))
    assert queues(bench, "queue_id") == []


def test_a_group_without_members_offsets_or_pulls() -> None:
    bench = orders()
    assert failure(bench, c.GetConsumerGroup(group="g")).code == 26
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"}))
    assert detail(bench).queues == [] and detail(bench).message_model == ""


def test_a_deleted_group_is_listed_while_one_of_its_pulls_is_held() -> None:
    bench = orders()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"}))
    bench.pull("orders", 3, consumer_group="g")
    bench.call(c.DeleteSubscriptionGroup(group="g", clean_offset=True))
    listed = bench.call(c.GetConsumerGroups())
    assert isinstance(listed, c.ConsumerGroups) and [view.group for view in listed.groups] == ["g"]
    assert queues(bench, "queue_id", "state") == [(0, "held"), (1, "unassigned")]
    bench.tick(60_000)
    assert "g" in failure(bench, c.GetConsumerGroup(group="g")).remark


def test_a_group_with_very_many_queues_shows_the_first_ones() -> None:
    bench = Bench()
    for topic in "abc":
        bench.call(c.UpdateAndCreateTopic(topic=topic, read_queues=1024, write_queues=1))
    join(bench, "A", topics=dict.fromkeys("abc", "*"))
    view = detail(bench)
    assert (len(view.queues), view.queues_total) == (2000, 3072)


def test_a_topic_that_is_subscribed_to_and_not_there_is_named() -> None:
    bench = orders()
    join(bench, "A", topics={"orders": "*", "typo": "*", "%RETRY%other": "*"})
    assert detail(bench).missing_topics == ["typo"]
    bench.send("typo", b"1")
    assert detail(bench).missing_topics == []


def test_the_view_counts_waiting_retries_and_dead_letters() -> None:
    bench = orders()
    assert detail_of_retries(bench) == (0, None, True, "%DLQ%g", 0, 0)
    for level in ("3", "4"):
        bench.send("%RETRY%g", b"again", properties=encode({"DELAY": level}))
    for _ in range(3):
        bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=0, delay_level=-1))
    first = bench.clock.now().wall_ms + 10_000
    assert detail_of_retries(bench) == (2, first, True, "%DLQ%g", 3, 0)
    assert detail(bench).retries.broker == bench.options.broker_name
    bench.tick(30_000)
    assert detail_of_retries(bench) == (0, None, True, "%DLQ%g", 3, 0)


def detail_of_retries(bench: Bench) -> tuple[int, int | None, bool, str, int, int]:
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g"}))
    found = detail(bench).retries
    return (
        found.waiting,
        found.next_due_ms,
        found.counted,
        found.dead_letter_topic,
        found.dead_letters,
        found.dead_letters_from,
    )
