"""Pulls: RocketMQ's codes for its statuses, clamped waits, commits on the way."""

import pytest

from broker_core import commands as c
from broker_core.processors.pull_message import response_code
from tests.fakes.engine import ROOT, Bench, bodies


@pytest.mark.parametrize(("status", "offset", "code"), [
    ("FOUND", 0, 0), ("OFFSET_OVERFLOW_ONE", 7, 19), ("OFFSET_FOUND_NULL", 7, 19), ("NO_MATCHED_MESSAGE", 0, 20),
    ("MESSAGE_WAS_REMOVING", 0, 20), ("OFFSET_TOO_SMALL", 0, 21), ("OFFSET_OVERFLOW_BADLY", 9, 21),
    ("NO_MESSAGE_IN_QUEUE", 0, 19), ("NO_MESSAGE_IN_QUEUE", 5, 21), ("NO_MATCHED_LOGIC_QUEUE", 0, 19),
    ("NO_MATCHED_LOGIC_QUEUE", 1, 21),
])
def test_codes(status: str, offset: int, code: int) -> None:
    assert response_code(status, offset) == code


def test_a_wait_is_clamped_to_30_s() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    request = bench.pull("orders", 1, suspend_timeout_ms=3_600_000)
    bench.tick(30_004)
    assert bench.pulled(request).suspend_timeout_ms == 30_000


def test_no_wait_is_answered_at_once() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    pulled = bench.pulled(bench.pull("orders", 1, suspend_timeout_ms=0))
    assert pulled.code == 19 and pulled.hold is None and pulled.next_begin_offset == 1


def test_the_offset_that_comes_with_a_pull_is_committed_once() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    bench.pull("orders", 1, commit_offset=1)
    assert bench.engine.context.offsets.query("g", "orders", 0) == 1
    bench.engine.context.offsets.commit("g", "orders", 0, 0)
    bench.send("orders", b"y")
    assert bench.engine.context.offsets.query("g", "orders", 0) == 0


def test_limits_of_one_pull() -> None:
    bench = Bench()
    bench.send("orders", *(bytes([n]) * 1000 for n in range(10)))
    assert len(bodies(bench.pulled(bench.pull("orders", 0, max_msg_nums=3)))) == 3
    assert len(bodies(bench.pulled(bench.pull("orders", 0, max_msg_bytes=1)))) == 1


def test_one_request_number_is_held_once() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    pull = c.PullMessage(topic="orders", queue_id=0, queue_offset=1, suspend_timeout_ms=1000)
    bench.take(bench.engine.handle_batch([("c", 77, pull), ("c", 77, pull)], bench.clock.now()))
    (reply,) = bench.replies["c", 77]
    assert isinstance(reply, c.Failed) and len(bench.engine.context.holds) == 1


def test_a_topic_that_may_not_be_read() -> None:
    bench = Bench()
    bench.call(c.UpdateAndCreateTopic(topic="writeonly", perm=2))
    reply = bench.final(bench.pull("writeonly", 0))
    assert isinstance(reply, c.Failed) and "may not be read" in reply.remark


def test_every_group_gets_every_message() -> None:
    bench = Bench()
    bench.send("orders", b"x")
    pulls = [bench.pull("orders", 1, consumer_group=f"g{n}") for n in range(5)]
    bench.send("orders", b"y")
    assert [bodies(bench.pulled(pull)) for pull in pulls] == [[b"y"]] * 5


def test_a_pull_commits_for_groups_with_a_proper_name_only() -> None:
    bench = Bench()
    bench.send("orders", b"one")
    reply = bench.final(bench.pull("orders", 0, consumer_group="a@b", commit_offset=1))
    assert isinstance(reply, c.Failed) and reply.pointer == "/group"
    assert bench.engine.context.offsets.groups() == []


def test_a_store_that_is_not_ours_is_pulled_from_without_keeping_the_offset() -> None:
    bench = Bench()
    bench.send("orders", b"one")
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert foreign.engine.context.store.read_only
    assert bodies(foreign.pulled(foreign.pull("orders", 0, commit_offset=1))) == [b"one"]
    assert foreign.engine.context.offsets.groups() == []
