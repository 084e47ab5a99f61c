"""Peeking: what a group would pop, as often as it asks."""

from typing import Any

import pytest

from broker_core import commands as c
from tests.fakes.engine import Bench
from tests.fakes.members import failure
from tests.fakes.pops import ack, bodies, take


def peek(bench: Bench, **more: Any) -> c.Popped:
    fields: dict[str, Any] = {"topic": "orders", "consumer_group": "g"}
    reply = bench.call(c.PeekMessage(**(fields | more)))
    assert isinstance(reply, c.Popped), reply
    return reply


def test_a_peek_changes_nothing() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b")
    bench.send("orders", b"c", queue_id=1)
    for _ in range(2):
        assert sorted(bodies(peek(bench))) == [b"a", b"b", b"c"]
    assert bodies(peek(bench, queue_id=1)) == [b"c"]
    assert bench.context.check_points.messages == 0 and bench.context.offsets.query("g", "orders", 0) is None
    assert sorted(bodies(take(bench))) == [b"a", b"b", b"c"]


def test_a_peek_shows_what_is_behind_the_offset_and_what_came_back() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", b"c")
    ack(bench, take(bench, max_msg_nums=2, invisible_ms=5000), 0)
    shown = peek(bench, max_msg_nums=1)
    assert (shown.code, shown.rest, bodies(shown)) == (0, 1, [b"c"])
    bench.tick(5100)
    assert sorted(bodies(peek(bench))) == [b"b", b"c"]
    assert len(bodies(peek(bench, max_msg_nums=1))) == 1 and peek(bench, max_msg_nums=1).rest == 2


def test_an_offset_that_the_queue_does_not_have() -> None:
    bench = Bench()
    bench.send("orders", b"a")
    bench.context.offsets.commit("g", "orders", 0, 77)
    shown = bodies(peek(bench))
    assert shown == bodies(take(bench)), "a pop begins at the same place"


@pytest.mark.covers("pop-peek")
def test_a_peek_shows_32_messages_at_most() -> None:
    bench = Bench(max_transfer_count_on_message_in_memory=100)
    bench.send("orders", *[b"x"] * 40)
    shown = peek(bench, max_msg_nums=2**31 - 1)
    assert (len(bodies(shown)), shown.rest) == (32, 40)


def test_nothing_to_show() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="orders"))
    assert (peek(bench).code, peek(bench).rest, peek(bench).records) == (19, 0, b"")


@pytest.mark.parametrize(
    ("more", "code"),
    [({"topic": "no"}, 17), ({"queue_id": 9}, 29), ({"max_msg_nums": 0}, 1)],
)
def test_a_wrong_peek_is_refused(more: dict[str, Any], code: int) -> None:
    bench = Bench()
    bench.send("orders", b"a")
    assert failure(bench, c.PeekMessage(**({"topic": "orders", "consumer_group": "g"} | more))).code == code
