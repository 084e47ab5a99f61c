"""Topics, groups, offsets and members of the followed broker."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import GroupMemberJoined
from broker_core.verdicts.judge import judge
from tests.fakes.engine import Bench
from tests.fakes.followed import SEGMENT, append, blocks_of, follower, log_of, master
from tests.fakes.name_server import topic_config


def round_of_topics(bench: Bench, *topics: dict[str, Any]) -> None:
    for command in (
        c.ReplicateTables(begin_topics=True),
        c.ReplicateTables(topics=list(topics)),
        c.ReplicateTables(end_topics=True),
    ):
        assert bench.call(command) == c.Done()


def test_topics_become_those_of_the_followed_broker() -> None:
    bench = follower()
    round_of_topics(bench, topic_config("orders", 6, perm=4), topic_config("payments"))
    assert (bench.context.topics.require("orders").read_queue_nums, bench.context.topics.require("orders").perm) == (
        6,
        4,
    )
    round_of_topics(bench, topic_config("orders", 8))
    assert bench.context.topics.require("orders").read_queue_nums == 8
    assert bench.context.topics.get("payments") is not None  # it may be younger than this round
    round_of_topics(bench, topic_config("orders", 8))
    assert bench.context.topics.get("payments") is None
    assert bench.context.topics.get("TBW102") is not None


def test_a_topic_whose_messages_came_first_gets_its_configuration_later() -> None:
    bench = follower()
    append(bench, blocks_of(log_of(master(20))))
    assert bench.context.topics.require("orders").read_queue_nums == 3
    round_of_topics(bench, topic_config("orders", 4))
    assert bench.context.topics.require("orders").read_queue_nums == 4


def test_groups_become_those_of_the_followed_broker() -> None:
    bench = follower()

    def round_of_groups(*names: str) -> None:
        bench.call(
            c.ReplicateTables(begin_groups=True, groups=[{"groupName": name} for name in names], end_groups=True)
        )

    round_of_groups("g", "h")
    assert "g" in bench.context.subscription_groups and "h" in bench.context.subscription_groups
    round_of_groups("g")
    round_of_groups("g")
    assert "h" not in bench.context.subscription_groups and "TOOLS_CONSUMER" in bench.context.subscription_groups


def test_offsets_give_the_lag_and_its_progress() -> None:
    bench = follower()
    append(bench, blocks_of(log_of(master(60))))
    end = bench.context.store.max_offset("orders", 1)

    def commit(offset: int) -> None:
        bench.call(c.ReplicateTables(offsets=[c.ReplicatedOffsets(group="g", topic="orders", offsets={1: offset})]))

    commit(3)
    detail = bench.call(c.GetConsumerGroup(group="g"))
    assert isinstance(detail, c.ConsumerGroupDetail)
    (queue,) = [queue for queue in detail.queues if queue.queue_id == 1]
    assert (queue.offset, queue.lag, queue.moved_ms_ago) == (3, end - 3, None)
    bench.clock.advance(5000)
    commit(5)
    detail = bench.call(c.GetConsumerGroup(group="g"))
    assert isinstance(detail, c.ConsumerGroupDetail)
    (queue,) = [queue for queue in detail.queues if queue.queue_id == 1]
    assert (queue.offset, queue.lag, queue.moved_ms_ago) == (5, end - 5, 0)


@pytest.mark.parametrize("ago_ms", [None, 0, 2500])
def test_a_pull_whose_time_the_client_does_not_say_has_no_time(ago_ms: int | None) -> None:
    bench = follower()
    append(bench, blocks_of(log_of(master(60))))
    bench.clock.advance(10_000)
    bench.call(c.ReplicateTables(offsets=[c.ReplicatedOffsets(group="g", topic="orders", offsets={1: 3})]))
    pull = c.ReplicatedPull(
        topic="orders", queue_id=1, client_id="c1", pull_offset=7, handed=4, handed_ms_ago=3000, polled_ms_ago=ago_ms
    )
    assert bench.call(c.ReplicatePulls(group="g", pulls=[pull])) == c.Done()
    detail = bench.call(c.GetConsumerGroup(group="g"))
    assert isinstance(detail, c.ConsumerGroupDetail)
    (queue,) = [queue for queue in detail.queues if queue.queue_id == 1]
    assert (queue.polled_by, queue.polled_ms_ago, queue.pull_offset, queue.handed) == ("c1", ago_ms, 7, 4)
    assert ("s ago" in queue.why) == (ago_ms is not None)  # c1 is no member, so the pull explains the queue


def test_delay_offsets_are_taken() -> None:
    bench = follower()
    bench.call(c.ReplicateTables(delay_offsets={3: 17}))
    assert bench.context.store.delayed._offsets[3] == 17


def test_an_entry_that_cannot_be_read_is_refused() -> None:
    bench = follower()
    for entry in ({"topicName": 5}, {"topicName": "t", "readQueueNums": 10_000_000}):
        reply = bench.call(c.ReplicateTables(topics=[entry]))
        assert isinstance(reply, c.Failed) and reply.kind == "request"


def test_the_ends_of_queues_without_a_message_in_the_copy_are_those_of_its_broker() -> None:
    bench = follower()
    blocks = blocks_of(log_of(master(250)), 2 * SEGMENT)
    ends = {0: 7, 1: 0}
    bench.call(c.ReplicateTables(ends=[c.TopicEnds(topic="old", offsets=ends), c.TopicEnds("orders", {0: 999})]))
    append(bench, blocks)
    bench.call(c.ReplicateTables(topics=[topic_config("old", 2) | {"topicName": "old"}]))
    bench.call(c.ReplicateTables(offsets=[c.ReplicatedOffsets(group="g", topic="old", offsets={0: 3, 1: 0})]))
    store = bench.context.store
    assert [(store.min_offset("old", queue), store.max_offset("old", queue)) for queue in (0, 1)] == [(7, 7), (0, 0)]
    assert 0 < store.min_offset("orders", 0) < store.max_offset("orders", 0) < 999
    groups = bench.call(c.GetConsumerGroups())
    assert isinstance(groups, c.ConsumerGroups)
    assert [(group.lag, group.oldest_ms, group.holds) for group in groups.groups] == [(4, None, None)]


def test_the_ends_of_a_removed_topic_are_forgotten() -> None:
    bench = follower()
    bench.call(c.ReplicateTables(topics=[topic_config("old", 1) | {"topicName": "old"}]))
    bench.call(c.ReplicateTables(ends=[c.TopicEnds(topic="old", offsets={0: 7})]))
    for _ in range(2):
        bench.call(c.ReplicateTables(begin_topics=True, end_topics=True))
    assert bench.context.topics.get("old") is None and bench.context.store.max_offset("old", 0) == 0


def test_committed_offsets_that_move_are_the_rate_of_a_group() -> None:
    bench = follower()
    append(bench, blocks_of(log_of(master(60))))
    for offset in (2, 8):
        bench.call(c.ReplicateTables(offsets=[c.ReplicatedOffsets(group="g", topic="orders", offsets={0: offset})]))
        bench.clock.advance(10_000)
    groups = bench.call(c.GetConsumerGroups())
    assert isinstance(groups, c.ConsumerGroups) and groups.groups[0].consume_tps == pytest.approx(0.6)


def test_a_client_of_the_followed_broker_becomes_a_member() -> None:
    bench = follower()
    bench.call(c.ReplicateTables(groups=[{"groupName": "g"}]))
    consumer = c.ConsumerData(group="g", subscriptions=[c.SubscriptionData(topic="orders")])
    for _ in range(2):
        bench.call(
            c.ReplicateMember(client_id="c1", remote="10.0.0.9:1", language="JAVA", version=493, consumer=consumer),
            connection="of c1",
        )
    assert bench.context.consumers.client_ids("g") == ["c1"]
    assert kinds(bench) == set()  # a first look is no change, and nobody connected or was told
    (client,) = clients(bench)
    assert (client.connected_at_ms, client.last_heartbeat_ms, client.holds) == (None, None, None)
    bench.call(c.ReportFollowing(source="s", state="following", members_ms=5))
    bench.call(
        c.ReplicateMember(client_id="c2", remote="10.0.0.9:2", language="JAVA", version=493, consumer=consumer),
        connection="of c2",
    )
    joined = [event for event in bench.engine.events.after(0) if isinstance(event, GroupMemberJoined)]
    assert [(event.client_id, event.remote) for event in joined] == [("c2", "10.0.0.9:2")]
    bench.call(c.CloseConnection(), connection="of c2")
    assert kinds(bench) == {"GroupMemberJoined", "GroupMemberLeft"}
    assert bench.context.topics.get("%RETRY%g") is None
    assert isinstance(bench.call(c.CloseConnection(), connection="of c1"), c.Done)
    assert bench.context.consumers.client_ids("g") == []


def test_what_the_first_round_brings_is_no_change() -> None:
    bench = follower()
    first = c.ReplicateTables(topics=[topic_config("t", 2) | {"topicName": "t"}], groups=[{"groupName": "g"}])
    bench.call(first)
    assert kinds(bench) == set()
    bench.call(c.ReportFollowing(source="s", state="following", tables_ms=5))
    bench.call(first)
    assert kinds(bench) == set()
    bench.call(c.ReplicateTables(topics=[topic_config("u", 2) | {"topicName": "u"}], groups=[{"groupName": "h"}]))
    assert kinds(bench) == {"TopicChanged", "SubscriptionGroupChanged"}


def kinds(bench: Bench) -> set[str]:
    """The kinds of events so far."""
    return {type(event).__name__ for event in bench.engine.events.after(0)}


def clients(bench: Bench) -> list[c.ClientView]:
    reply = bench.call(c.GetClients())
    assert isinstance(reply, c.Clients)
    return reply.clients


def facts_of(bench: Bench, members_ms: int | None) -> c.GroupFacts:
    """The facts of a group with a member and a lag, in an engine that knows the members or not."""
    bench.call(c.ReportFollowing(source="s", state="following", members_ms=members_ms))
    reply = bench.call(c.GetGroupFacts(group="g"))
    assert isinstance(reply, c.GroupFacts)
    return reply


def test_what_rocketmq_does_not_report_is_not_known() -> None:
    bench = follower()
    append(bench, blocks_of(log_of(master(60))))
    bench.call(c.ReplicateTables(offsets=[c.ReplicatedOffsets(group="g", topic="orders", offsets={0: 1, 1: 3, 2: 1})]))
    verdicts = judge([facts_of(bench, None)])
    assert verdicts.state == "unknown"
    assert {verdict.id for verdict in verdicts.verdicts} == {"attached"}
    assert "members are being asked for" in verdicts.verdicts[0].sentence
    groups = bench.call(c.GetConsumerGroups())
    assert isinstance(groups, c.ConsumerGroups) and groups.groups[0].state == "unknown"
    assert judge([facts_of(bench, 5)]).state == "stopped"
    consumer = c.ConsumerData(group="g", subscriptions=[c.SubscriptionData(topic="orders")])
    member = c.ReplicateMember(client_id="c1", remote="10.0.0.9:1", language="JAVA", version=493, consumer=consumer)
    bench.call(member, connection="of c1")
    facts = facts_of(bench, 5)
    assert {queue.state for queue in facts.detail.queues} == {"not_known"}
    assert all("does not report" in queue.why for queue in facts.detail.queues)
    (client,) = facts.detail.members
    assert client.last_heartbeat_ms is None
    bench.clock.advance(60_000)
    bench.call(member, connection="of c1")
    verdicts = judge([facts_of(bench, 5)])
    assert verdicts.state == "stalled"
    assert {verdict.id for verdict in verdicts.verdicts} == {"attached", "stands_still"}
