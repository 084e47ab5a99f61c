"""Limits of held pops."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import PullAnswered, PullHeld
from tests.fakes.engine import Bench
from tests.fakes.members import events, failure
from tests.fakes.pops import ack, ack_of, pop, popped, take


def waiting(bench: Bench, **more: object) -> int:
    return pop(bench, **({"poll_ms": 15_000} | more))


def test_the_number_of_held_pops_is_limited() -> None:
    bench = Bench(max_holds=2)
    bench.send("orders", b"old")
    take(bench)
    requests = [waiting(bench) for _ in range(3)]
    assert popped(bench, requests[2]).code == 209
    assert bench.call(c.PollingInfo(topic="orders", consumer_group="g")) == c.PollingNumber(number=2)


def test_held_pops_of_a_group_for_a_queue_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_core.processors.pop.pop_hold.POLLING_SIZE", 1)
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    requests = [waiting(bench), waiting(bench), waiting(bench, queue_id=1)]
    assert popped(bench, requests[1]).code == 209
    assert bench.final(requests[0]) is None and bench.final(requests[2]) is None


@pytest.mark.covers("pop-hold")
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
def test_a_pop_is_held_as_long_as_it_asks_but_no_longer_than_the_option_allows(
    asked_ms: int, options: dict[str, Any], granted_ms: int
) -> None:
    bench = Bench(**options)
    bench.send("orders", b"old")
    ack(bench, take(bench))
    request = waiting(bench, poll_ms=asked_ms)
    notification = c.Notification(topic="orders", consumer_group="g", poll_ms=asked_ms, protocol="http")
    (notified,) = bench.submit(notification)
    bench.tick(granted_ms - 1)
    assert len(bench.context.holds) == 2
    bench.tick(8)
    assert popped(bench, request).code == 210
    assert bench.final(notified) == c.Notified(has_message=False)
    assert [event.granted_ms for event in events(bench, PullAnswered)][-1] == granted_ms


def test_a_request_number_is_held_once() -> None:
    bench = Bench()
    bench.send("orders", b"old")
    take(bench)
    asked = c.PopMessage(topic="orders", consumer_group="g", poll_ms=1000)
    bench.take(bench.engine.handle_batch([("c", 77, asked), ("c", 77, asked)], bench.clock.now()))
    (reply,) = bench.replies["c", 77]
    assert isinstance(reply, c.Failed) and len(bench.context.holds) == 1


def test_a_held_pop_in_order_says_for_what_it_waits() -> None:
    bench = Bench()
    bench.send("orders", b"a", b"b", queue_id=2)
    first = take(bench, order=True, client_id="one", invisible_ms=5000)
    ack = ack_of(first, 0)
    bench.call(c.AckMessage(**{name: getattr(ack, name) for name in ack.__struct_fields__} | {"order": True}))
    bench.tick(1000)
    pop(bench, order=True, poll_ms=8000)
    pop(bench, order=True, poll_ms=8000, queue_id=1)
    now = bench.clock.now().wall_ms
    expected = c.OrderWait(queue_id=2, messages=1, client_id="one", until_ms=now + 4000)
    assert [view.waits_for for view in bench.engine.snapshot(bench.clock.now()).holds] == [expected, None]
    held = [event.waits_for for event in events(bench, PullHeld)]
    assert held == [expected, None]


def test_numbers_of_an_unknown_topic() -> None:
    assert failure(Bench(), c.PollingInfo(topic="unknown", consumer_group="g")).code == 17
