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


# --- POP mode -----------------------------------------------------------------------------------------------------


def let_pop(bench: Bench, share_queues: int = 0, mode: str = "POP") -> None:
    command = c.SetMessageRequestMode(topic="orders", consumer_group="g", mode=mode, share_queues=share_queues)  # type: ignore[arg-type]
    assert bench.call(command) == c.Done()


def test_members_that_pop_have_all_queues_of_all_brokers(bench: Bench) -> None:
    let_pop(bench)
    reply = bench.call(ask("A"))
    assert isinstance(reply, c.Assignment) and reply.mode == "POP"
    assert queues(bench, ask("A")) == queues(bench, ask("B")) == [("broker-a", -1), ("broker-b", -1)]
    let_pop(bench, mode="PULL")
    assert queues(bench, ask("A")) == [("broker-a", 0), ("broker-a", 1)]


def test_members_may_share_the_queues_of_those_behind_them(bench: Bench) -> None:
    join(bench, "C")
    let_pop(bench, share_queues=1)
    assert queues(bench, ask("A")) == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0)]
    assert queues(bench, ask("C")) == [("broker-b", 1), ("broker-a", 0), ("broker-a", 1)]
    assert queues(bench, ask("no member")) == []
    for client_id in "DE":
        join(bench, client_id)
    assert queues(bench, ask("E")) == [("broker-a", 0)], "five members share four queues"
    let_pop(bench, share_queues=4)
    assert queues(bench, ask("A")) == [("broker-a", -1), ("broker-b", -1)]


def test_a_mode_outlives_a_restart(bench: Bench) -> None:
    let_pop(bench, 3)
    bench.file_work()
    bench.files.kill()
    again = Bench(files=bench.files, clock=bench.clock)
    entry = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 3, "topic": "orders"}
    expected = c.MessageRequestModes(table={"messageRequestModeMap": {"orders": {"g": entry}}})
    assert again.call(c.GetMessageRequestModes()) == expected


def test_modes_that_are_refused(bench: Bench) -> None:
    wrong = c.SetMessageRequestMode(topic="%RETRY%g", consumer_group="g", mode="POP")
    assert failure(bench, wrong).code == 16
    assert failure(bench, c.SetMessageRequestMode(topic="a b", consumer_group="g", mode="POP")).code == 29
    assert failure(bench, c.SetMessageRequestMode(topic="none", consumer_group="g", mode="POP")).code == 17
    bench.call(c.UpdateBrokerConfig(changes={"autoCreateSubscriptionGroup": False}))
    unknown = c.SetMessageRequestMode(topic="orders", consumer_group="nobody", mode="POP")
    assert failure(bench, unknown).code == 26
    assert bench.context.request_modes.get("orders", "nobody") is None
