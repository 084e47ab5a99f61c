"""Clients that come and go: members of groups from a heartbeat to an end of any kind."""

from itertools import permutations
from types import ModuleType

import pytest

from broker_core import commands as c
from broker_core import topics
from broker_core.consumers import consumer_manager, memberships, subscription_group_manager
from broker_core.events import (
    ClientConnected,
    ClientIdentified,
    ClientLost,
    GroupMemberJoined,
    GroupMemberLeft,
    SubscriptionChanged,
    SubscriptionGroupChanged,
    TopicChanged,
)
from broker_core.processors.client_manage import MAX_GROUPS_OF_A_CLIENT
from tests.fakes.engine import ROOT, Bench, bodies
from tests.fakes.members import beat, beats, client_ids, connect, events, failure, join, notices


def test_a_client_that_goes_is_an_event_with_what_it_held() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    bench.submit(c.OpenConnection(client_id="me", protocol="websocket", remote="127.0.0.1"), connection="w")
    bench.pull("orders", 1, connection="w")
    bench.submit(c.CloseConnection(), connection="w")
    bench.submit(c.CloseConnection(), connection="w")
    (came,), (went,) = events(bench, ClientConnected), events(bench, ClientLost)
    assert came.client_id == "me" and went.holds_released == 1


def test_a_connection_opens_once() -> None:
    bench = Bench()
    connect(bench, "w")
    assert "already" in failure(bench, c.OpenConnection(client_id="", protocol="remoting"), "w").remark


def test_a_member_is_listed_before_its_heartbeat_is_answered() -> None:
    bench = Bench()
    connect(bench, "A")
    first, second = bench.submit(beat("A"), c.GetConsumerListByGroup(group="g"), connection="A")
    assert bench.replies["A", first] == [c.HeartBeatDone(sub_changed=True)]
    assert bench.replies["A", second] == [c.ConsumerList(client_ids=["A"])]
    assert notices(bench, "A") == ["g"]
    (identified,) = events(bench, ClientIdentified)
    assert (identified.client_id, identified.language, identified.version) == ("A", "JAVA", 493)


def test_a_heartbeat_makes_the_group_and_its_retry_topic() -> None:
    bench = Bench()
    join(bench, "A")
    beats(bench, "A")
    topic = bench.context.topics.get("%RETRY%g")
    assert topic is not None and (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    assert "g" in bench.context.subscription_groups
    assert [e.topic for e in events(bench, TopicChanged)] == ["%RETRY%g"]
    assert [(e.group, e.action) for e in events(bench, SubscriptionGroupChanged)] == [("g", "created")]


def test_broadcasting_needs_no_retry_topic_and_no_notices() -> None:
    bench = Bench()
    join(bench, "A", model="BROADCASTING")
    join(bench, "B", model="BROADCASTING")
    assert bench.context.topics.get("%RETRY%g") is None
    assert notices(bench, "A") == notices(bench, "B") == []
    assert client_ids(bench) == ["A", "B"]


def test_a_group_that_cannot_be_created_has_no_members() -> None:
    bench = Bench(auto_create_subscription_group=False)
    assert not join(bench, "A")
    assert client_ids(bench) == []
    assert bench.context.topics.get("%RETRY%g") is None


def test_members_are_notified_of_real_changes_only() -> None:
    bench = Bench()
    join(bench, "A")
    join(bench, "B")
    assert notices(bench, "A") == ["g", "g"] and notices(bench, "B") == ["g"]
    assert not beats(bench, "B", version=2)
    assert not beats(bench, "B", topics={"orders": "TagA"}, version=3)
    assert not beats(bench, "A", without_sub=True)
    assert notices(bench, "A") == notices(bench, "B") == []
    assert beats(bench, "B", topics={"orders": "TagA", "more": "*"}, version=4)
    assert notices(bench, "A") == notices(bench, "B") == ["g"]
    assert beats(bench, "A", topics={"more": "*"}, version=5)
    assert [(e.topic, e.expression, e.previous, e.client_id) for e in events(bench, SubscriptionChanged)] == [
        ("orders", "*", "", "A"),
        ("orders", "TagA", "*", "B"),
        ("more", "*", "", "B"),
        ("orders", "", "TagA", "A"),
    ]


def test_a_group_that_wants_no_notices_gets_none() -> None:
    bench = Bench()
    bench.call(c.UpdateSubscriptionGroup(config={"groupName": "g", "notifyConsumerIdsChangedEnable": False}))
    join(bench, "A")
    assert notices(bench, "A") == []


def test_one_notice_a_turn_for_a_group_that_changed_often() -> None:
    bench = Bench()
    for name in "ABC":
        connect(bench, name)
    now = bench.clock.now()
    bench.take(bench.engine.handle_batch([(name, 900, beat(name)) for name in "ABC"], now))
    assert [notices(bench, name) for name in "ABC"] == [["g"]] * 3


@pytest.mark.parametrize("order", list(permutations(("unregister", "channel_closed", "expired"))))
def test_members_leave_in_every_way_and_order(order: tuple[str, ...]) -> None:
    bench = Bench()
    members = dict(zip(("A", "B", "C"), order, strict=True))
    for name in members:
        join(bench, name)
    bench.tick(2000)  # the group's retry topic is told of
    for cause in order:
        name = next(name for name, how in members.items() if how == cause)
        for other in members:
            notices(bench, other)
        if cause == "unregister":
            bench.call(c.UnregisterClient(client_id=name, consumer_group="g"), name)
        elif cause == "channel_closed":
            bench.call(c.CloseConnection(), name)
        else:
            for _ in range(4):
                bench.tick(30_000)
                for other in members:
                    if other != name:
                        beats(bench, other)
        del members[name]
        assert client_ids(bench) == sorted(members)
        assert {other: notices(bench, other) for other in members} == {other: ["g"] for other in members}
        assert notices(bench, name) == []
    assert [(e.client_id, e.cause, e.members) for e in events(bench, GroupMemberLeft)] == [
        (name, cause, left) for left, (name, cause) in zip((2, 1, 0), zip("ABC", order, strict=True), strict=True)
    ]
    assert bench.context.consumers.get("g") is None


def test_expiry_is_120_s_after_the_last_heartbeat_of_the_group() -> None:
    bench = Bench()
    join(bench, "A", "g", "h", producer_groups=["p"])
    bench.tick(60_000)
    beats(bench, "A", "h")
    bench.tick(59_999)
    assert client_ids(bench, "g") == client_ids(bench, "h") == ["A"]
    bench.tick(1)
    assert (client_ids(bench, "g"), client_ids(bench, "h")) == ([], ["A"])
    assert isinstance(bench.call(c.GetProducerConnections(group="p")), c.Failed)
    assert bench.engine.next_deadline() == bench.clock.now().mono_ns + 60_000_000_000
    assert bench.call(c.GetClients()).total == 1  # type: ignore[union-attr]


def test_a_client_that_comes_back_is_counted_once() -> None:
    bench = Bench()
    join(bench, "A", connection="old")
    join(bench, "B")
    notices(bench, "B")
    assert join(bench, "A", connection="new")
    assert client_ids(bench) == ["A", "B"]
    assert (notices(bench, "new"), notices(bench, "B")) == (["g"], ["g"])
    assert notices(bench, "old") == ["g", "g"]  # of its own coming, and B's
    assert not beats(bench, "A", connection="old", topics={"other": "*"}, version=9)
    bench.call(c.UnregisterClient(client_id="A", consumer_group="g"), "old")
    bench.call(c.CloseConnection(), "old")
    assert client_ids(bench) == ["A", "B"] and notices(bench, "B") == []
    bench.call(c.CloseConnection(), "new")
    assert client_ids(bench) == ["B"] and notices(bench, "B") == ["g"]
    assert [e.client_id for e in events(bench, GroupMemberJoined)] == ["A", "B"]


def test_an_older_connection_joins_again_when_the_newer_one_is_closed() -> None:
    bench = Bench()
    join(bench, "A", connection="old")
    join(bench, "A", connection="new")
    bench.call(c.CloseConnection(), "new")
    assert client_ids(bench) == []
    assert beats(bench, "A", connection="old") and client_ids(bench) == ["A"]


def test_a_client_cannot_unregister_another_one() -> None:
    bench = Bench()
    for name in "AB":
        join(bench, name, producer_groups=["p"])
    bench.call(c.UnregisterClient(client_id="A", consumer_group="g", producer_group="p"), "B")
    assert client_ids(bench) == ["A", "B"]
    assert list(bench.context.producers.members("p")) == ["A", "B"]


def test_leaving_twice_or_without_having_been_there_is_no_error() -> None:
    bench = Bench()
    join(bench, "A")
    for _ in range(2):
        for who in ("A", "stranger"):
            leave = c.UnregisterClient(client_id="A", consumer_group="g", producer_group="p")
            assert bench.call(leave, who) == c.Done()
    assert len(events(bench, GroupMemberLeft)) == 1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (beat(""), "client id"),
        (beat("x" * 256), "client id"),
        (beat("B"), "client A;"),
        (beat("A", "a/b"), "group"),
        (beat("A", "x" * 121), "group"),
        (beat("A", *(f"g{n}" for n in range(MAX_GROUPS_OF_A_CLIENT + 1))), "groups"),
        (beat("A", producer_groups=[""]), "producer group"),
        (beat("A", topics={f"t{n}": "*" for n in range(1025)}), "topics"),
        (beat("A", *(f"g{n}" for n in range(11)), topics={f"t{n}": "*" for n in range(1000)}), "in all its groups"),
        (beat("A", topics={"": "*"}), "1 to 255"),
        (beat("A", topics={"t" * 256: "*"}), "1 to 255"),
        (beat("A", topics={"orders": "x" * 5000}), "filter"),
    ],
)
def test_a_heartbeat_that_is_refused_changes_nothing(command: c.HeartBeat, words: str) -> None:
    bench = Bench()
    join(bench, "A", "before")
    assert words in failure(bench, command, "A").remark
    assert bench.context.consumers.memberships.groups_of("A") == ["before"]


@pytest.mark.parametrize(
    ("module", "limit"),
    [
        (topics, "MAX_TOPICS"),
        (subscription_group_manager, "MAX_GROUPS"),
        (memberships, "MAX_MEMBERS"),
        (consumer_manager, "MAX_SUBSCRIPTIONS"),
    ],
)
def test_a_heartbeat_with_more_than_there_is_room_for_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, limit: str
) -> None:
    bench = Bench()
    join(bench, "A", "before")
    context = bench.context

    def everything() -> dict[str, int]:
        return {
            "MAX_TOPICS": sum(1 for _ in context.topics),
            "MAX_GROUPS": sum(1 for _ in context.subscription_groups),
            "MAX_MEMBERS": len(context.consumers.memberships),
            "MAX_SUBSCRIPTIONS": sum(
                len(info.subscriptions) for group in context.consumers if (info := context.consumers.get(group))
            ),
        }

    before = everything()
    monkeypatch.setattr(module, limit, before[limit] + 1)
    refused = failure(bench, beat("A", "before", "one", "two", producer_groups=["p"]), "A")
    assert str(before[limit] + 1) in refused.remark
    assert everything() == before and context.producers.groups_of("A") == []
    assert beats(bench, "A", "before", "one")
    assert not beats(bench, "A", "before", "one")  # what is there has room


def test_entries_beyond_a_lowered_limit_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    join(bench, "A")
    for module, limit in (
        (topics, "MAX_TOPICS"),
        (subscription_group_manager, "MAX_GROUPS"),
        (memberships, "MAX_MEMBERS"),
        (consumer_manager, "MAX_SUBSCRIPTIONS"),
    ):
        monkeypatch.setattr(module, limit, 0)
    assert not beats(bench, "A")


def test_a_client_with_no_room_for_a_new_group_stays_in_its_old_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    join(bench, "A", "old", producer_groups=["p"])
    monkeypatch.setattr(topics, "MAX_TOPICS", 0)
    for _ in range(5):
        bench.tick(60_000)
        assert "topics" in failure(bench, beat("A", "old", "new", producer_groups=["p"]), "A").remark
    assert client_ids(bench, "old") == ["A"] and client_ids(bench, "new") == []
    assert bench.context.producers.groups_of("A") == ["p"]
    failure(bench, beat("A", "new"), "A")  # it names neither of them any more
    bench.tick(120_000)
    assert client_ids(bench, "old") == [] and bench.context.producers.groups_of("A") == []


def test_a_heartbeat_needs_an_open_connection() -> None:
    bench = Bench()
    assert "not open" in failure(bench, beat("A"), "nowhere").remark
    join(bench, "A")
    bench.call(c.CloseConnection(), "A")
    assert "not open" in failure(bench, beat("A"), "A").remark
    assert client_ids(bench) == []


@pytest.mark.parametrize(
    ("expression", "kind", "code"),
    [
        *[("*", "TAG", 0), ("TagA || TagB", "TAG", 0), ("TagA||", "TAG", 0), ("||", "TAG", 23)],
        *[("a > 1", "SQL92", 0), ("a >", "SQL92", 23), ("a > 1", "other", 1)],
    ],
)
def test_check_client_config(expression: str, kind: str, code: int) -> None:
    reply = Bench().call(
        c.CheckClientConfig(
            client_id="A",
            group="g",
            subscription=c.SubscriptionData(topic="orders", sub_string=expression, expression_type=kind),
        )
    )
    assert (reply.code if isinstance(reply, c.Failed) else 0) == code


def test_a_read_only_store_can_be_consumed_and_gets_no_new_group_or_topic() -> None:
    bench = Bench()
    bench.send("orders", b"one")
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert foreign.context.store.read_only
    join(foreign, "A")
    assert foreign.context.topics.get("%RETRY%g") is None
    pull = foreign.pull("orders", 0, connection="A", subscription=None, check_group=True)
    assert bodies(foreign.pulled(pull, "A")) == [b"one"]
    assert foreign.engine.next_file_work(foreign.clock.now()) is None
