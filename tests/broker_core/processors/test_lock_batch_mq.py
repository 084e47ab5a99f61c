"""Locks of queues, as clients ask for them."""

import pytest

from broker_core import commands as c
from broker_core.events import QueueLocked, QueueUnlocked
from tests.fakes.engine import Bench
from tests.fakes.members import events, failure, join


def queue(queue_id: int, topic: str = "orders") -> c.MessageQueue:
    return c.MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)


def lock(bench: Bench, client_id: str, *queue_ids: int, connection: str = "") -> list[int]:
    reply = bench.call(
        c.LockBatchMq(group="g", client_id=client_id, queues=[queue(n) for n in queue_ids]), connection or client_id
    )
    assert isinstance(reply, c.LockedQueues), reply
    assert all(locked == queue(locked.queue_id) for locked in reply.queues)
    return [locked.queue_id for locked in reply.queues]


def unlock(bench: Bench, client_id: str, *queue_ids: int) -> None:
    assert bench.call(c.UnlockBatchMq(group="g", client_id=client_id, queues=[queue(n) for n in queue_ids])) == c.Done()


def unlocked(bench: Bench) -> list[tuple[int, str, str]]:
    return [(e.queue_id, e.client_id, e.cause) for e in events(bench, QueueUnlocked)]


def test_queues_are_locked_renewed_refused_and_unlocked() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    assert lock(bench, "A", 0, 1) == [0, 1]  # before any heartbeat
    assert lock(bench, "B", 1, 2) == [2]
    assert lock(bench, "A", 0, 1, 2) == [0, 1]
    unlock(bench, "B", 0, 2)
    assert lock(bench, "A", 2) == [2]
    assert [(e.queue_id, e.client_id) for e in events(bench, QueueLocked)] == [(0, "A"), (1, "A"), (2, "B"), (2, "A")]
    assert unlocked(bench) == [(2, "B", "unlock")]


def test_queues_that_are_not_there_are_not_locked() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    reply = bench.call(
        c.LockBatchMq(group="g", client_id="A", queues=[queue(0), queue(99), queue(-1), queue(0, "nowhere")])
    )
    assert reply == c.LockedQueues(queues=[queue(0)])
    assert len(bench.context.locks) == 1


def test_a_lock_that_is_not_renewed_is_taken_over_after_60_s() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    lock(bench, "A", 0, 1)
    bench.tick(40_000)
    lock(bench, "A", 1)
    bench.tick(19_999)
    assert lock(bench, "B", 0, 1) == []
    bench.clock.advance(1)  # and nobody has looked yet
    assert lock(bench, "B", 0, 1) == [0]
    bench.tick(40_000)
    assert unlocked(bench) == [(0, "A", "expired"), (1, "A", "expired")]


def test_unregistering_frees_the_locks_at_once() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A")
    lock(bench, "A", 0)
    bench.call(c.UnregisterClient(client_id="A", consumer_group="g"), "A")
    assert lock(bench, "B", 0) == [0]
    assert unlocked(bench) == [(0, "A", "unregister")]


@pytest.mark.covers("order-lock")
def test_a_client_whose_connection_closed_keeps_its_locks_for_as_long_as_it_would_consume_by_them() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    join(bench, "A")
    lock(bench, "A", 0, 1)
    bench.tick(20_000)
    bench.call(c.CloseConnection(), "A")
    assert lock(bench, "B", 0, 1) == []
    bench.tick(14_000)
    assert lock(bench, "A", 1, connection="back") == [1]
    bench.tick(1_000)
    assert lock(bench, "B", 0, 1) == [0]
    assert unlocked(bench) == [(0, "A", "expired")]


def test_bad_requests() -> None:
    bench = Bench()
    assert failure(bench, c.LockBatchMq(group="a/b", client_id="A", queues=[])).pointer == "/group"
    assert failure(bench, c.UnlockBatchMq(group="g", client_id="", queues=[])).pointer == "/client_id"
    assert failure(bench, c.LockBatchMq(group="g", client_id="A", queues=[queue(0)] * 10_001)).pointer == "/queues"
