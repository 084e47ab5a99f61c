"""Questions that are answered in pieces, while the tables change between the pieces."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_core import commands as c
from broker_core import walk
from broker_core.processor_table import WALKS
from broker_core.processors import client_view, consume_stats, group_view, message_timeline, observe
from broker_core.processors.why import live_state
from tests.fakes.engine import Bench

TOPICS = ["a", "b", "b-2", "c"]
GROUPS = ["g", "h"]

CHANCES = st.integers(0, 1 << 32).map(random.Random)

QUESTIONS: list[c.Command] = [
    c.GetTopics(),
    c.GetTopics(system=False),
    c.GetQueues(),
    c.GetQueues(topic="b"),
    c.GetQueues(after="b@1", limit=3),
    c.GetTopicConfigs(),
    c.GetSubscriptionGroups(),
    c.GetConsumerGroups(),
    c.GetConsumerGroup(group="g"),
    c.GetWaitingRetries(group="g"),
    c.GetWaitingRetries(group="g", max_num=1),
    c.GetGroupFacts(group="g"),
    c.GetMetrics(),
    c.GetHistorySample(),
    c.GetHoldTimeline(hold_id=1),
    c.GetConsumeStats(group="g"),
    c.GetBrokerConsumeStats(),
    c.GetAllConsumerOffset(),
    c.QueryConsumerOffset(group="g"),
    c.QueryConsumerOffset(group="g", after="a@1", limit=2),
    c.QueryTopicConsumeByWho(topic="b"),
    c.QueryConsumeTimeSpan(topic="b", group="g"),
    c.QueryCorrectionOffset(topic="b", compare_group="h"),
    c.GetClients(),
    c.GetClients(group="g"),
    c.GetConsumerConnections(group="g"),
    c.GetProducerConnections(),
    c.GetHolds(),
    c.GetHolds(topic="b", limit=2),
    c.GetHolds(group="g"),
    c.GetEvents(after=3),
    c.ViewMessage(message_id="none"),
    c.ConsumeMessageDirectly(group="g", client_id="x-client", message_id="none"),
    c.QueryMessage(topic="b", key="k"),
    c.QueryMessageByTime(topic="b"),
    c.GetPulls(topic="b"),
    c.GetMessageTimeline(message_id="none"),
]


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Any:
    """Every row is a piece of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "PIECE", 1)
        for module in (client_view, consume_stats, group_view, live_state, message_timeline, observe):
            for name in ("LOOKED_AT", "HOLDS_LOOKED_AT", "TIMED", "EXPLAINED"):
                if hasattr(module, name):
                    patch.setattr(module, name, 1)
        yield


def change(bench: Bench, chance: random.Random) -> None:
    """One change of some table."""
    topic, group, queue_id = chance.choice(TOPICS), chance.choice(GROUPS), chance.randrange(4)
    connection = chance.choice(["x", "y"])
    changes: list[Callable[[], Any]] = [
        lambda: bench.submit(c.UpdateAndCreateTopic(topic=topic, read_queues=chance.randrange(1, 5))),
        lambda: bench.submit(c.DeleteTopic(topic=topic)),
        lambda: bench.submit(c.SendMessage(topic=topic, messages=[c.OutgoingMessage(body=b"x", queue_id=queue_id)])),
        lambda: bench.pull(topic, 0, connection, consumer_group=group, queue_id=queue_id),
        lambda: bench.submit(
            c.UpdateConsumerOffset(group=group, offsets=[c.QueueOffset(topic=topic, queue_id=queue_id, offset=1)])
        ),
        lambda: bench.submit(c.DeleteSubscriptionGroup(group=group, clean_offset=True)),
        lambda: bench.submit(c.CloseConnection(), connection=connection),
        lambda: bench.submit(
            c.OpenConnection(client_id="", protocol="remoting", remote=""),
            c.HeartBeat(
                client_id=f"{connection}-client",
                protocol="remoting",
                producer_groups=["p"],
                consumers=[c.ConsumerData(group=group, subscriptions=[c.SubscriptionData(topic=topic)])],
            ),
            connection=connection,
        ),
        lambda: bench.tick(chance.choice([0, 100, 16_000])),
    ]
    chance.choice(changes)()


def filled(chance: random.Random) -> Bench:
    bench = Bench()
    for topic in TOPICS:
        bench.send(topic, b"x", queue_id=chance.randrange(4))
    for _ in range(30):
        change(bench, chance)
    return bench


def answered(bench: Bench, question: c.Command, between: Callable[[], Any]) -> c.Reply:
    """The answer to a question, with changes between its pieces."""
    steps = bench.engine.walk(question, bench.clock.now())
    while True:
        try:
            next(steps)
        except StopIteration as end:
            reply: c.Reply = end.value
            return reply
        between()


def test_there_is_a_question_for_every_walk() -> None:
    assert {type(question) for question in QUESTIONS} == {*WALKS}


@settings(max_examples=20, deadline=None)
@given(CHANCES)
def test_pieces_make_the_answer_that_one_turn_makes(chance: random.Random) -> None:
    bench = filled(chance)
    for question in QUESTIONS:
        assert answered(bench, question, lambda: None) == bench.call(question), question


@settings(max_examples=20, deadline=None)
@given(CHANCES)
def test_tables_may_change_between_the_pieces(chance: random.Random) -> None:
    bench = filled(chance)
    for question in QUESTIONS:
        seq = bench.engine.events.seq
        reply = answered(bench, question, lambda: change(bench, chance))
        if isinstance(reply, c.Failed):
            assert reply.kind == "not_found", (question, reply)
        else:
            assert getattr(reply, "seq", seq) == seq, question


@settings(max_examples=20, deadline=None)
@given(CHANCES)
def test_entries_that_stay_in_a_table_are_in_the_answer(chance: random.Random) -> None:
    bench = filled(chance)
    bench.call(c.UpdateAndCreateTopic(topic="stays", read_queues=4, write_queues=4))
    for queue_id in range(4):
        bench.pull("stays", 0, "stays", queue_id=queue_id, consumer_group="stays", suspend_timeout_ms=30_000)
    bench.call(c.UpdateConsumerOffset(group="stays", offsets=[c.QueueOffset(topic="stays", queue_id=1, offset=7)]))
    places = [("stays", queue_id) for queue_id in range(4)]

    def ask(question: c.Command) -> Any:
        changes = chance.randrange(3)  # no tick: the holds do not end
        return answered(bench, question, lambda: [delete_or_create(bench, chance) for _ in range(changes)])

    for _ in range(3):
        assert "stays" in [topic.topic for topic in ask(c.GetTopics()).topics]
        assert [place for place in map(place_of, ask(c.GetQueues()).queues) if place[0] == "stays"] == places
        assert "stays" in ask(c.GetTopicConfigs()).configs
        assert [place for place in map(place_of, ask(c.GetHolds()).holds) if place[0] == "stays"] == places
        (group,) = [group for group in ask(c.GetConsumerGroups()).groups if group.group == "stays"]
        assert (group.topics, group.holds, group.lag) == (["stays"], 4, 0)
        assert [queue.offset for queue in ask(c.GetConsumerGroup(group="stays")).queues] == [None, 7, None, None]
        assert ask(c.GetAllConsumerOffset()).table["offsetTable"]["stays@stays"] == {1: 7}


def delete_or_create(bench: Bench, chance: random.Random) -> None:
    topic = chance.choice([*TOPICS, "r", "z"])
    if bench.context.topics.get(topic) is None:
        bench.send(topic, b"x")
        bench.pull(topic, 1, consumer_group="g")
        bench.submit(c.UpdateConsumerOffset(group="g", offsets=[c.QueueOffset(topic=topic, queue_id=0, offset=1)]))
    else:
        bench.call(c.DeleteTopic(topic=topic))


def place_of(view: c.QueueView | c.HoldView) -> tuple[str, int]:
    return view.topic, view.queue_id


@settings(max_examples=20, deadline=None)
@given(CHANCES, st.integers(1, 7))
def test_pages_of_queues_are_all_queues_in_order(chance: random.Random, limit: int) -> None:
    bench = filled(chance)
    expected = sorted(
        (config.topic_name, queue_id)
        for config in bench.context.topics
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums))
    )
    found: list[tuple[str, int]] = []
    after: str | None = ""
    while after is not None:
        page: Any = bench.call(c.GetQueues(after=after, limit=limit))
        assert 0 < len(page.queues) <= limit and (page.next is None or len(page.queues) == limit)
        found += [place_of(queue) for queue in page.queues]
        after = page.next
    assert found == expected


@settings(max_examples=20, deadline=None)
@given(CHANCES)
def test_totals_are_what_counting_gives(chance: random.Random) -> None:
    bench = filled(chance)
    topics, store = bench.context.topics, bench.context.store
    assert list(topics.names()) == sorted(config.topic_name for config in topics)
    snapshot = bench.engine.snapshot(bench.clock.now())
    assert snapshot.queues_total == sum(max(config.read_queue_nums, config.write_queue_nums) for config in topics)
    assert len(snapshot.queues) == snapshot.queues_total
    reply: Any = bench.call(c.GetTopics())
    for view in reply.topics:
        queues = range(max(view.read_queues, view.write_queues))
        assert view.messages == sum(
            store.max_offset(view.topic, queue_id) - store.min_offset(view.topic, queue_id) for queue_id in queues
        )


@pytest.mark.parametrize("after", ["orders", "@1", "orders@", "orders@-1", "orders@1x", "orders@12345678901"])
def test_a_page_begins_after_a_queue(after: str) -> None:
    reply = Bench().call(c.GetQueues(after=after))
    assert isinstance(reply, c.Failed) and (reply.kind, reply.pointer) == ("request", "/after")


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True), max_size=4), st.sampled_from(" ceh"), st.integers(0, 5)
)
def test_names_are_sorted_in_pieces(tables: list[list[str]], after: str, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "NAMES", 2)
        expected = sorted(name for name in {*"".join(map("".join, tables))} if name > after)
        assert walk.finish(walk.sort_names(*tables, after=after, limit=limit)) == expected[: limit or None]
        assert len(list(walk.sort_names(*tables))) == sum(-(-len(table) // 2) for table in tables)
