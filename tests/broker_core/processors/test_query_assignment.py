"""Queues shared out by the broker, for clients that ask it to."""

import pytest

from broker_core import commands as c
from tests.fakes.engine import Bench
from tests.fakes.members import failure, join

QUEUES = [
    c.MessageQueue(topic="orders", broker_name=broker, queue_id=queue_id)
    for broker in ("broker-b", "broker-a")
    for queue_id in (1, 0)
]


def ask(client_id: str, **fields: str) -> c.QueryAssignment:
    return c.QueryAssignment(**{"group": "g", "topic": "orders", "client_id": client_id} | fields)  # type: ignore[arg-type]


@pytest.fixture
def bench() -> Bench:
    """Two members; orders has two queues on each of two brokers."""
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "B")
    join(bench, "A")
    bench.context.find_queues = lambda topic: list(QUEUES) if topic == "orders" else None
    return bench


def queues(bench: Bench, command: c.QueryAssignment) -> list[tuple[str, int]]:
    reply = bench.call(command)
    assert isinstance(reply, c.Assignment), reply
    return [(queue.broker_name, queue.queue_id) for queue in reply.queues]


def test_members_share_the_queues_of_all_brokers(bench: Bench) -> None:
    assert queues(bench, ask("A")) == [("broker-a", 0), ("broker-a", 1)]
    assert queues(bench, ask("B")) == [("broker-b", 0), ("broker-b", 1)]
    assert queues(bench, ask("A", strategy="AVG_BY_CIRCLE")) == [("broker-a", 0), ("broker-b", 0)]
    assert queues(bench, ask("B", strategy="AVG_BY_CIRCLE")) == [("broker-a", 1), ("broker-b", 1)]
    assert queues(bench, ask("no member")) == []
    assert len(queues(bench, ask("A", message_model="BROADCASTING"))) == 4


def test_assignments_that_are_left_to_the_clients_are_refused(bench: Bench) -> None:
    assert failure(bench, ask("A", strategy="CONSISTENT_HASH")).code == 3
    bench.send("other", b"1")
    assert failure(bench, ask("A", topic="other")).code == 3
    bench.context.find_queues = None
    refused = failure(bench, ask("A"))
    assert refused.code == 3 and "clients" in refused.remark


def test_an_unknown_topic_or_group_is_refused(bench: Bench) -> None:
    assert failure(bench, ask("A", topic="none")).code == 17
    assert failure(bench, ask("A", group="none")).code == 1
