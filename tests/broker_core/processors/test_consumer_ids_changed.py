"""Notices: to everybody who is there at the end of the turn, as many groups as a turn takes."""

import pytest

from broker_core import commands as c
from broker_core.events import ConsumerIdsNotified
from broker_core.processors import consumer_ids_changed
from tests.fakes.engine import Bench
from tests.fakes.members import beat, connect, events, join, notices


def test_each_change_is_an_event_with_its_cause() -> None:
    bench = Bench()
    join(bench, "A")
    join(bench, "B")
    join(bench, "B", connection="B again")
    bench.call(beat("A", topics={"orders": "*", "more": "*"}), "A")
    bench.call(c.CloseConnection(), "A")
    assert [(e.cause, e.members) for e in events(bench, ConsumerIdsNotified)] == [
        ("joined", 1),
        ("joined", 2),
        ("reconnected", 2),
        ("subscription", 2),
        ("left", 1),
    ]
    assert bench.engine.counters.rebalances_notified == 5


def test_a_member_that_joined_and_left_in_one_turn_gets_no_notice() -> None:
    bench = Bench()
    connect(bench, "A")
    bench.submit(beat("A"), c.CloseConnection(), connection="A")
    assert notices(bench, "A") == [] and events(bench, ConsumerIdsNotified) == []
    assert bench.engine.next_deadline() != 0


def test_notices_beyond_the_limit_of_a_turn_are_sent_in_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_ids_changed, "NOTICES_A_TURN", 3)
    bench = Bench()
    for name in "AB":
        connect(bench, name)
    groups = ["g1", "g2", "g3"]
    now = bench.clock.now()
    bench.take(bench.engine.handle_batch([(name, 900, beat(name, *groups)) for name in "AB"], now))
    assert len(bench.replies["A", c.NOTICE_ID]) == 2
    assert bench.engine.next_deadline() == 0
    bench.tick()
    assert notices(bench, "A") == notices(bench, "B") == groups


def test_members_are_notified_of_a_new_retry_topic_after_their_first_rebalance() -> None:
    bench = Bench()
    join(bench, "A")
    assert notices(bench, "A") == ["g"]
    bench.tick(1999)
    assert notices(bench, "A") == []
    join(bench, "B")
    assert notices(bench, "A") == notices(bench, "B") == ["g"]
    due = bench.engine.next_deadline()
    assert due is not None and due <= bench.clock.now().mono_ns + 1_000_000
    bench.tick(1)
    assert notices(bench, "A") == notices(bench, "B") == ["g"]
    assert events(bench, ConsumerIdsNotified)[-1].cause == "retry_topic"
    bench.tick(10_000)
    assert notices(bench, "A") == notices(bench, "B") == []


def test_a_returning_member_gets_one_notice_if_the_retry_topic_exists() -> None:
    bench = Bench()
    join(bench, "A")
    bench.tick(2000)
    bench.call(c.CloseConnection(), "A")
    join(bench, "B")
    bench.tick(10_000)
    assert notices(bench, "B") == ["g"]


def test_a_group_without_members_gets_no_notice_of_its_retry_topic() -> None:
    bench = Bench()
    join(bench, "A")
    bench.call(c.CloseConnection(), "A")
    notified = len(events(bench, ConsumerIdsNotified))
    bench.tick(10_000)
    assert len(events(bench, ConsumerIdsNotified)) == notified


def test_broadcasting_groups_get_no_notice_of_a_retry_topic() -> None:
    bench = Bench()
    join(bench, "A", model="BROADCASTING")
    bench.tick(10_000)
    assert notices(bench, "A") == []
