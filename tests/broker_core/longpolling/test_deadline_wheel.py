"""Deadlines: never early, at most one tick late, and removal from anywhere."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from broker_core.longpolling.deadline_wheel import SPARE_TICKS, TICK_NS, DeadlineWheel
from broker_core.longpolling.pull_request import ManyPullRequest, PullRequest

MANY = ManyPullRequest("T", 0, 0)


def request(hold_id: int) -> PullRequest:
    return PullRequest(
        hold_id=hold_id,
        connection="c",
        request_id=hold_id,
        many=MANY,
        pull_from_offset=0,
        max_msg_nums=32,
        max_msg_bytes=1,
        group="",
        client_id="",
        protocol="http",
        message_filter=None,
        suspended_ns=0,
        suspend_timeout_ms=1,
        short=False,
        check_group=False,
    )


def test_nothing_is_due_before_its_time() -> None:
    wheel = DeadlineWheel()
    wheel.add(request(1), 10 * TICK_NS + 1)
    assert wheel.next_deadline_ns() == 11 * TICK_NS
    assert wheel.take_due(11 * TICK_NS - 1, 10) == []
    assert [r.hold_id for r in wheel.take_due(11 * TICK_NS, 10)] == [1]
    assert wheel.next_deadline_ns() is None


def test_a_limit_leaves_the_rest_due() -> None:
    wheel = DeadlineWheel()
    for hold_id in range(5):
        wheel.add(request(hold_id), TICK_NS)
    first, second = wheel.take_due(TICK_NS, 3), wheel.take_due(TICK_NS, 3)
    assert len(first) == 3 and len(second) == 2
    assert {r.hold_id for r in first + second} == set(range(5))


def test_removing_twice_is_harmless() -> None:
    wheel = DeadlineWheel()
    held = request(1)
    wheel.add(held, TICK_NS)
    wheel.remove(held)
    wheel.remove(held)
    assert wheel.next_deadline_ns() is None


def test_ticks_without_holds_do_not_come_together_for_a_day() -> None:
    wheel = DeadlineWheel()
    first, woken = request(1), request(2)
    wheel.add(first, 0)
    for tick in range(1, 3 * SPARE_TICKS):
        wheel.add(woken, tick * TICK_NS)
        wheel.remove(woken)
    assert len(wheel._due) == len(wheel._ticks) <= SPARE_TICKS + 2
    last = request(3)
    wheel.add(last, 3 * SPARE_TICKS * TICK_NS)
    assert wheel.take_due(3 * SPARE_TICKS * TICK_NS, 10) == [first, last]


def test_the_garbage_collector_does_not_look_at_each_hold() -> None:
    wheel = DeadlineWheel()
    wheel.add(request(1), TICK_NS)
    assert not gc.is_tracked(wheel._due[1])


@given(st.lists(st.tuples(st.integers(0, 20 * TICK_NS), st.booleans()), max_size=40), st.integers(1, 7))
def test_every_hold_is_due_once_at_the_tick_after_its_deadline(entries: list[tuple[int, bool]], limit: int) -> None:
    wheel = DeadlineWheel()
    held = []
    for hold_id, (deadline, _) in enumerate(entries):
        held.append(request(hold_id))
        wheel.add(held[-1], deadline)
    for hold_id, (_, removed) in enumerate(entries):
        if removed:
            wheel.remove(held[hold_id])
    came: dict[int, int] = {}
    for tick in range(22):
        while due := wheel.take_due(tick * TICK_NS, limit):
            assert len(due) <= limit
            for one in due:
                assert one.hold_id not in came
                came[one.hold_id] = tick * TICK_NS
    expected = {hold_id for hold_id, (_, removed) in enumerate(entries) if not removed}
    assert set(came) == expected
    for hold_id, when in came.items():
        assert 0 <= when - entries[hold_id][0] < TICK_NS
