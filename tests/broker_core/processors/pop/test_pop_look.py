"""How much one look of a pop does, of which the rest waits for the next."""

import pytest

from broker_core import commands as c
from broker_core.longpolling.pull_request import Pop
from broker_core.processors.pop.pop_look import look
from tests.fakes.engine import Bench
from tests.fakes.pops import RETRY, bodies, pop, popped, take


def wide(queues: int) -> Bench:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="orders", read_queues=queues, write_queues=queues))
    return bench


def test_a_pop_reads_few_of_many_queues_at_once() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="wide", read_queues=40, write_queues=40))
    for queue_id in range(40):
        bench.send("wide", b"x", queue_id=queue_id, tag="A" if queue_id else "B")
    polling = {"topic": "wide", "consumer_group": "polling", "expression": "none"}
    assert [take(bench, **polling).rest for _ in range(3)] == [8, 0, 0]
    waits = pop(bench, topic="wide", expression="B", poll_ms=5000)
    assert bodies(popped(bench, waits)) == [b"x"], "the held pop goes on with the queues that are left"


def test_the_first_pop_of_a_group_stores_few_offsets() -> None:
    bench = wide(1024)
    bench.send("orders", *[b"first"] * 3, queue_id=700)
    assert bodies(take(bench)) == [b"first"] * 3, "queues without messages do not hide the one with messages"
    assert bench.context.counters.offsets_committed <= 128


def test_all_messages_of_many_queues_that_are_new_to_a_group_are_popped() -> None:
    bench = wide(300)
    for queue_id in range(300):
        bench.send("orders", b"%d" % queue_id, queue_id=queue_id)
    reply = take(bench)
    committed = bench.context.counters.offsets_committed
    assert committed <= 128 + 12 and reply.rest == 288
    got = bodies(reply)
    while len(got) < 300:
        got += bodies(popped(bench, pop(bench, poll_ms=5000)))
    assert sorted(map(int, got)) == list(range(300))


def test_an_answer_has_messages_of_few_queues() -> None:
    bench = wide(32)
    for queue_id in range(32):
        bench.send("orders", b"x", queue_id=queue_id)
    first, second = take(bench), take(bench)
    assert [len(first.queues), len(second.queues)] == [12, 12]
    assert (first.rest, second.rest) == (20, 8)


def test_the_wake_ups_of_a_turn_pop_from_few_queues_together() -> None:
    bench = wide(32)
    for _ in range(32):
        pop(bench, poll_ms=5000)
    messages = [c.OutgoingMessage(body=b"x", queue_id=queue_id) for queue_id in range(32)]
    bench.submit(*[c.SendMessage(topic="orders", messages=[message]) for message in messages])
    assert 0 < bench.context.check_points.messages < 32
    bench.tick()
    assert bench.context.check_points.messages == 32


@pytest.mark.parametrize("order", [False, True])
def test_a_look_says_which_queues_it_leaves(order: bool) -> None:
    bench = wide(2)
    for queue_id in (0, 1):
        bench.send("orders", b"x", queue_id=queue_id)
    one = Pop(topic="orders", group="g", queue_id=-1, client_id="c", protocol="http", max_msg_nums=1, order=order)
    found = look(bench.context, one, bench.clock.now())
    (_, queue_id, _) = found.queues[0]
    assert (found.left, found.rest, found.is_unfinished) == ([("orders", 1 - queue_id)], 1, True)


@pytest.mark.parametrize("order", [False, True])
def test_groups_whose_pops_alternate_get_messages_of_all_queues(order: bool) -> None:
    bench = wide(8)
    for queue_id in range(8):
        bench.send("orders", *[b"x"] * 12, queue_id=queue_id)
    queues = set[int]()
    for _ in range(60):
        queues.update(queue.queue_id for queue in take(bench, max_msg_nums=1, order=order, invisible_ms=1).queues)
        for other in range(3):
            take(bench, consumer_group=f"other{other}", max_msg_nums=1, order=order)
        bench.clock.advance(2)
    assert queues == set(range(8))


def test_groups_whose_pops_alternate_get_messages_of_the_retry_topic() -> None:
    bench = wide(1)
    bench.send("orders", *[b"x"] * 40)
    take(bench, max_msg_nums=1, invisible_ms=100)
    bench.tick(200)
    got = list[str]()
    for _ in range(30):
        got += [queue.topic for queue in take(bench, max_msg_nums=1).queues]
        for other in range(4):
            take(bench, consumer_group=f"other{other}", max_msg_nums=1)
    assert RETRY in got
