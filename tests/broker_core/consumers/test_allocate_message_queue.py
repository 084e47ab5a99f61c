"""The clients' sum, against the table of RocketMQ's results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.commands import MessageQueue
from broker_core.consumers.allocate_message_queue import (
    Allocate,
    allocate_averagely,
    allocate_averagely_by_circle,
    allocate_by_consistent_hash,
    allocate_machine_room_nearby,
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
def test_averagely_by_circle_deals_queues_in_turn(queues: int, members: int) -> None:
    names = [f"client-{n:02}" for n in range(members)]
    for index, name in enumerate(names):
        mine = [queue for queue in range(queues) if queue % members == index]
        assert allocate_averagely_by_circle(range(queues), names, name) == mine
        assert allocate_averagely(range(queues), names, name) == list(averagely(queues, members, index))
    for allocate in (allocate_averagely, allocate_averagely_by_circle):
        assert allocate(range(queues), names, "nobody") == []


def message_queues(*brokers: str, count: int = 8) -> list[MessageQueue]:
    return [MessageQueue(topic="T", broker_name=broker, queue_id=n) for broker in brokers for n in range(count)]


def names(queues: list[MessageQueue]) -> str:
    return " ".join(f"{queue.broker_name}{queue.queue_id}" for queue in queues)


def test_consistent_hash_shares_as_the_java_client_does() -> None:
    """The expected queues are what RocketMQ 5.4.0's AllocateMessageQueueConsistentHash returned."""
    members = ["10.0.0.1@1", "10.0.0.1@2", "10.0.0.2@7"]
    assert [names(allocate_by_consistent_hash(message_queues("a", "b"), members, member)) for member in members] == [
        "a3 a7 b4",
        "a1 a2 a4 b0 b3 b7",
        "a0 a5 a6 b1 b2 b5 b6",
    ]


def nearby(inside: Allocate = allocate_averagely) -> Allocate:
    """Rooms are the first letters of brokers' names and client ids."""
    return allocate_machine_room_nearby(inside, lambda broker: broker[0], lambda client: client[0])


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (["x1", "y1"], ["x0 x1 x2 x3", "y0 y1 y2 y3"]),
        (["x1", "x2", "y1"], ["x0 x1", "x2 x3", "y0 y1 y2 y3"]),
        (["x1", "x2"], ["x0 x1 y0 y1", "x2 x3 y2 y3"]),
        (["x1", "z1"], ["x0 x1 x2 x3 y0 y1", "y2 y3"]),
        (["z1"], ["x0 x1 x2 x3 y0 y1 y2 y3"]),
    ],
)
def test_queues_stay_in_their_room_while_it_has_members(members: list[str], expected: list[str]) -> None:
    queues = message_queues("x", "y", count=4)
    assert [names(nearby()(queues, members, member)) for member in members] == expected


@given(st.integers(0, 30), st.sets(st.sampled_from([f"{room}{n}" for room in "xyz" for n in range(4)]), min_size=1))
def test_every_strategy_gives_each_queue_to_one_member(count: int, client_ids: set[str]) -> None:
    queues, members = message_queues("x", "y", count=count), sorted(client_ids)
    for allocate in (allocate_averagely, allocate_averagely_by_circle, allocate_by_consistent_hash, nearby()):
        shares = [queue for member in members for queue in allocate(queues, members, member)]
        assert sorted(map(repr, shares)) == sorted(map(repr, queues))
        assert allocate(queues, members, "nobody") == []


@given(st.sets(st.integers(0, 99), min_size=2, max_size=9))
def test_with_a_consistent_hash_only_queues_of_the_member_that_left_move(numbers: set[int]) -> None:
    queues, members = message_queues("a", "b"), sorted(f"client-{number}" for number in numbers)
    gone, stay = members[0], members[1:]
    for member in stay:
        before = allocate_by_consistent_hash(queues, members, member)
        after = allocate_by_consistent_hash(queues, stay, member)
        assert all(queue in after for queue in before), gone
