"""The clients' sum, against the table of RocketMQ's results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.consumers.allocate_message_queue import (
    allocate_averagely,
    allocate_averagely_by_circle,
    averagely,
    averagely_owners,
)


@pytest.mark.parametrize(
    ("queues", "members", "expected"),
    [
        (4, 3, [[0, 1], [2], [3]]),
        (5, 2, [[0, 1, 2], [3, 4]]),
        (2, 3, [[0], [1], []]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (3, 3, [[0], [1], [2]]),
        (0, 2, [[], []]),
    ],
)
def test_averagely(queues: int, members: int, expected: list[list[int]]) -> None:
    assert [list(averagely(queues, members, index)) for index in range(members)] == expected


def rocketmq(queues: int, members: int, index: int) -> list[int]:
    """The rule as it is written down: M queues, N clients, m = M mod N."""
    rest = queues % members
    more = queues // members + (1 if rest > 0 and index < rest else 0)
    size = 1 if queues <= members else more
    start = index * size if rest > 0 and index < rest else index * size + rest
    return list(range(start, start + max(0, min(size, queues - start))))


@given(st.integers(0, 200), st.integers(1, 50))
def test_every_queue_has_one_owner_by_rocketmqs_rule(queues: int, members: int) -> None:
    names = [f"client-{n:02}" for n in range(members)]
    owners = averagely_owners(queues, names)
    assert len(owners) == queues
    for index, name in enumerate(names):
        assert [queue for queue, owner in enumerate(owners) if owner == name] == rocketmq(queues, members, index)


def test_without_members_nobody_has_a_queue() -> None:
    assert averagely_owners(4, []) == []


@given(st.integers(0, 50), st.integers(1, 9))
def test_in_turns(queues: int, members: int) -> None:
    names = [f"client-{n:02}" for n in range(members)]
    for index, name in enumerate(names):
        mine = [queue for queue in range(queues) if queue % members == index]
        assert allocate_averagely_by_circle(range(queues), names, name) == mine
        assert allocate_averagely(range(queues), names, name) == list(averagely(queues, members, index))
    for allocate in (allocate_averagely, allocate_averagely_by_circle):
        assert allocate(range(queues), names, "nobody") == []
