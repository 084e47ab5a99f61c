"""Groups, seen from outside: who should have a queue, who asks for it, and why nobody does."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core import walk
from broker_core.formats.message_properties import encode
from broker_core.processors import group_view
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


def test_groups_are_those_with_members_offsets_or_pulls() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.pull("orders", 1, consumer_group="waiting")
    bench.pull("orders", 0, consumer_group="me")
    bench.call(c.UpdateConsumerOffset(group="behind", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=0)]))
    join(bench, "A", "there", topics={"more": "*"})
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    assert [(g.group, g.lag, g.holds, g.topics, g.members, g.message_model) for g in reply.groups] == [
        ("behind", 1, 0, ["orders"], 0, ""),
        ("me", None, 0, ["orders"], 0, ""),
        ("there", None, 0, ["more"], 1, "CLUSTERING"),
        ("waiting", None, 1, ["orders"], 0, ""),
    ]


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


def listed_lag(bench: Bench) -> int | None:
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    return next(view.lag for view in reply.groups if view.group == "g")


def test_the_list_of_groups_has_no_lag_where_none_is_known() -> None:
    bench = orders()
    join(bench, "A")
    assert listed_lag(bench) is None, "no offset is committed"
    commit(bench, 3)
    assert listed_lag(bench) == 0
    commit(bench, 1)
    assert listed_lag(bench) == 2
    entry = c.QueueOffset(topic="never-created", queue_id=0, offset=7)
    bench.context.offsets.commit("h", entry.topic, entry.queue_id, entry.offset)
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    assert [(view.group, view.lag) for view in reply.groups] == [("g", 2), ("h", None)], "the topic does not exist"


def test_a_member_that_stops_pulling_is_not_polling() -> None:
    bench = orders()
    join(bench, "A")
    member_pull(bench, "A", 0)
    assert "will pull again" in why(bench)
    bench.tick(10_000)
    assert queues(bench, "state", "pull_offset") == [("not_polling", 3), ("not_polling", None)]
    assert why(bench) == "A pulled 10 s ago and has not pulled since: it is suspended, or busy with its messages"


def test_a_queue_of_a_frozen_member_says_what_the_verdict_says() -> None:
    bench = orders()
    join(bench, "A")
    member_pull(bench, "A", 0)
    bench.tick(45_000)
    assert "suspended, or busy" in why(bench)
    bench.tick(1000)
    assert why(bench) == "A has sent no heartbeat for 46 s: its process is frozen or its network is cut"
    beats(bench, "A")
    assert "suspended, or busy" in why(bench), "it sends heartbeats again"


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


def test_groups_come_in_pages() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for group in "dbeca":
        bench.pull("orders", 1, consumer_group=group)
    pages, after = [], ""
    while True:
        page = bench.call(c.GetConsumerGroups(after=after, limit=2))
        assert isinstance(page, c.ConsumerGroups)
        pages.append([view.group for view in page.groups])
        if page.next is None:
            break
        after = page.next
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


def test_the_list_has_the_oldest_message_the_rate_retries_and_dead_letters() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.tick(4000)
    first = bench.send("orders", b"2", b"3").messages[0].physical_offset
    commit = c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=1)])
    assert bench.call(commit) == c.Done()
    bench.pull("orders", 0)
    for delay_level in (3, -1):
        assert bench.call(c.ConsumerSendMsgBack(group="g", physical_offset=first, delay_level=delay_level)) == c.Done()
    bench.tick(3000)
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups)
    (group,) = reply.groups
    assert (group.lag, group.oldest_ms, group.retrying, group.dead_letters) == (2, 3000, 1, 1)
    later = c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic="orders", queue_id=0, offset=3)])
    assert bench.call(later) == c.Done()
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups) and reply.groups[0].oldest_ms is None
    for _ in range(4):
        bench.tick(10_000)
        bench.pull("orders", 0)
    reply = bench.call(c.GetConsumerGroups())
    assert isinstance(reply, c.ConsumerGroups) and reply.groups[0].consume_tps > 0


def test_a_page_of_groups_looks_at_its_own_groups_only(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = orders()
    for number in range(20):
        bench.pull("orders", 1, consumer_group=f"group-{number:02}")  # answered
    bench.pull("orders", 3, consumer_group="group-11")  # held
    looked_at = set()
    rows = bench.context.pulls.topics

    def note(group: str) -> Any:
        looked_at.add(group)
        return rows(group)

    monkeypatch.setattr(bench.context.pulls, "topics", note)
    with monkeypatch.context() as patch:
        patch.setattr(bench.context.holds, "ids_after", None)  # none of this page's groups has a hold
        page = bench.call(c.GetConsumerGroups(after="group-03", limit=2))
    assert isinstance(page, c.ConsumerGroups) and page.next == "group-05"
    assert looked_at == {"group-04", "group-05"} == {view.group for view in page.groups}
    page = bench.call(c.GetConsumerGroups(after="group-10", limit=1))
    assert isinstance(page, c.ConsumerGroups)
    assert [(view.group, view.holds, view.topics) for view in page.groups] == [("group-11", 1, ["orders"])]


def test_the_lag_of_many_queues_is_added_up_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=40, write_queues=40))
    for queue_id in range(40):
        bench.send("orders", b"1", queue_id=queue_id)
        offset = c.QueueOffset(topic="orders", queue_id=queue_id, offset=0)
        bench.call(c.UpdateConsumerOffset(group="g", offsets=[offset]))
    monkeypatch.setattr(walk, "PIECE", 10)
    steps = group_view._known_lag(bench.context, "g", bench.clock.now())
    pieces = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert end.value == (40, 0)
            break
        pieces += 1
    assert pieces == 4
