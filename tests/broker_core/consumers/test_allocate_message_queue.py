import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.consumers.allocate_message_queue import allocate_averagely

CLIENTS = ["a", "b", "c"]


@pytest.mark.parametrize(("queues", "clients", "allocated"), [
    (4, 3, [[0, 1], [2], [3]]),
    (5, 2, [[0, 1, 2], [3, 4]]),
    (2, 3, [[0], [1], []]),
    (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
    (0, 2, [[], []]),
    (4, 1, [[0, 1, 2, 3]]),
])
def test_as_rocketmq_does(queues: int, clients: int, allocated: list[list[int]]) -> None:
    ids = CLIENTS[:clients]
    assert [allocate_averagely(range(queues), ids, client) for client in ids] == allocated


def test_who_is_no_member_has_none() -> None:
    assert allocate_averagely(range(4), CLIENTS, "stranger") == []
    assert allocate_averagely(range(4), [], "a") == []


@given(st.integers(0, 200), st.integers(1, 40))
def test_every_queue_has_one_owner_and_nobody_much_more(queues: int, clients: int) -> None:
    ids = sorted(f"client-{number}" for number in range(clients))
    shares = [allocate_averagely(range(queues), ids, client) for client in ids]
    assert [queue for share in shares for queue in share] == list(range(queues))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(0, 200), st.integers(1, 40))
def test_the_figures_are_those_of_rocketmqs_own_sum(queues: int, clients: int) -> None:
    """M queues, N clients, m = M mod N, i a client's place: size, start and count as RocketMQ's clients reckon them."""
    ids = sorted(f"client-{number}" for number in range(clients))
    rest = queues % clients
    for index, client in enumerate(ids):
        more = rest > 0 and index < rest
        size = 1 if queues <= clients else queues // clients + (1 if more else 0)
        start = index * size if more else index * size + rest
        expected = list(range(queues))[start:start + max(0, min(size, queues - start))]
        assert allocate_averagely(range(queues), ids, client) == expected
