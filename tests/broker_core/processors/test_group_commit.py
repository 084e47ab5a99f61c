"""The one place of acknowledgement: what each flush mode promises before it answers."""

import sys

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.formats.message_properties import encode
from broker_core.processors.context import INDEX_MAY_WAIT_NS
from broker_core.processors.group_commit import ANSWERS_A_TURN
from tests.fakes import pops
from tests.fakes.engine import Bench, bodies, send


@pytest.fixture
def bench() -> Bench:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    bench.submit(send("orders", b"warm"))
    assert bench.flush()
    return bench


def test_async_flush_answers_when_stored() -> None:
    assert Bench().send("orders", b"one").code == ResponseCode.SUCCESS


def test_sync_flush_answers_and_dispatches_only_what_is_on_the_disk(bench: Bench) -> None:
    pull = bench.pull("orders", 1)
    first, second = bench.submit(send("orders", b"one"), send("orders", b"two"))
    assert bench.final(first) is None and bench.final(pull) is None
    assert bench.flush()
    assert isinstance(bench.final(first), c.Sent) and isinstance(bench.final(second), c.Sent)
    assert bodies(bench.pulled(pull)) == [b"one", b"two"]


def test_sends_during_a_flush_wait_for_the_next_one(bench: Bench) -> None:
    (first,) = bench.submit(send("orders", b"one"))
    flush = bench.engine.next_flush(bench.clock.now())
    assert flush is not None
    flush.run()
    (second,) = bench.submit(send("orders", b"two"))
    bench.take(bench.engine.flushed(flush, 0, bench.clock.now()))
    assert bench.final(first) is not None and bench.final(second) is None
    assert bench.flush()
    assert bench.final(second) is not None


def test_no_body_waits_for_the_disk(bench: Bench) -> None:
    body = bytes(1000)
    before = sys.getrefcount(body)
    (request,) = bench.submit(send("orders", body))
    assert bench.final(request) is None and sys.getrefcount(body) == before
    assert bench.flush() and isinstance(bench.final(request), c.Sent)


def test_a_message_that_does_not_wait_is_answered_at_once(bench: Bench) -> None:
    sent = bench.send("orders", b"one", properties=encode({"WAIT": "false"}))
    assert sent.code == ResponseCode.SUCCESS


def test_a_flush_that_takes_too_long_is_answered_once(bench: Bench) -> None:
    (request,) = bench.submit(send("orders", b"one"))
    bench.tick(5_001)
    late = bench.final(request)
    assert isinstance(late, c.Sent) and late.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert bench.flush()
    assert bench.final(request) is late


def test_a_disk_that_refuses_is_never_called_success(bench: Bench) -> None:
    (request,) = bench.submit(send("orders", b"one"))
    bench.take(bench.engine.flush_failed(OSError(5, "Input/output error"), bench.clock.now()))
    answer = bench.final(request)
    assert isinstance(answer, c.Sent) and answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
    refused = bench.call(send("orders", b"two"))
    assert isinstance(refused, c.Failed) and refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert bench.engine.snapshot(bench.clock.now()).problem


# --- SYNC_MASTER ------------------------------------------------------------------------------------------------------


def sync_master(slaves_needed: int = 1, **options: object) -> Bench:
    return Bench(
        broker_role="SYNC_MASTER",
        in_sync_replicas=slaves_needed + 1,
        ha_listen_port=10912,
        **({"slave_timeout": 3000} | options),
    )


def report(bench: Bench, offset: int, slave: str = "slave") -> None:
    bench.call(c.ReportSlaveMaxOffset(address=slave, slave_ack_offset=offset, transferred=offset), connection=slave)


def end_of(bench: Bench) -> int:
    return bench.context.store.appended_offset


def test_messages_are_indexed_when_slaves_have_them_or_soon() -> None:
    bench = sync_master()
    report(bench, 0)
    (request_id,) = bench.submit(send("orders", b"one"))
    soon = bench.clock.now().mono_ns + INDEX_MAY_WAIT_NS
    assert bench.engine.next_deadline() == soon and bench.context.store.index_is_behind
    report(bench, end_of(bench))
    assert isinstance(bench.final(request_id), c.Sent) and bench.engine.next_deadline() == 0
    bench.tick()
    assert not bench.context.store.index_is_behind

    bench.clock.advance(10)
    bench.submit(send("orders", b"two"))
    bench.clock.advance(0.75)
    bench.submit(send("orders", b"three"))
    bench.tick(0.2)
    assert bench.context.store.index_is_behind
    bench.tick(0.05)
    assert not bench.context.store.index_is_behind


def test_sync_master_answers_when_enough_slaves_have_the_whole_message() -> None:
    bench = sync_master(slaves_needed=2)
    report(bench, 0, "a")
    report(bench, 0, "b")
    report(bench, 0, "c")
    (first,) = bench.submit(send("orders", b"one"))
    first_end = end_of(bench)
    (second,) = bench.submit(send("orders", b"two"))
    report(bench, end_of(bench), "a")
    report(bench, first_end - 1, "b")
    assert bench.final(first) is None
    report(bench, first_end, "c")
    answer = bench.final(first)
    assert isinstance(answer, c.Sent) and answer.code == ResponseCode.SUCCESS and bench.final(second) is None
    report(bench, end_of(bench), "b")
    assert isinstance(bench.final(second), c.Sent)


def test_a_slave_that_has_left_does_not_count() -> None:
    bench = sync_master()
    (request,) = bench.submit(send("orders", b"one"))
    report(bench, end_of(bench) - 1)
    bench.call(c.RemoveSlave(address="slave", reason="", refused=False), connection="slave")
    report(bench, 0, "other")
    assert bench.final(request) is None
    report(bench, end_of(bench), "other")
    assert isinstance(bench.final(request), c.Sent)


def test_a_follower_that_acknowledges_nothing_does_not_count() -> None:
    bench = sync_master()
    report(bench, 0)
    (request,) = bench.submit(send("orders", b"one"))
    report(bench, -(1 << 40))
    assert bench.final(request) is None


def test_without_slaves_the_answer_comes_after_slave_timeout() -> None:
    bench = sync_master(slave_timeout=200)
    (request,) = bench.submit(send("orders", b"one"))
    bench.tick(199)
    assert bench.final(request) is None and bench.context.ha_service.waiting == 1
    bench.tick(1)
    late = bench.final(request)
    assert isinstance(late, c.Sent) and late.code == ResponseCode.FLUSH_SLAVE_TIMEOUT and late.messages
    assert (bench.context.ha_service.waiting, bench.context.ha_service.timeouts) == (0, 1)
    report(bench, end_of(bench))
    assert bench.final(request) is late


def test_consumers_see_a_message_before_slaves_have_it() -> None:
    bench = sync_master()
    bench.submit(send("orders", b"zero"))
    pull = bench.pull("orders", 1)
    bench.submit(send("orders", b"one"))
    assert bodies(bench.pulled(pull)) == [b"one"]


def test_one_in_sync_replica_is_this_broker_alone() -> None:
    bench = sync_master(slaves_needed=0)
    assert bench.send("orders", b"one").code == ResponseCode.SUCCESS


def test_a_message_that_does_not_wait_is_answered_without_slaves() -> None:
    sent = sync_master().send("orders", b"one", properties=encode({"WAIT": "false"}))
    assert sent.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("flushed_first", [True, False])
def test_both_the_disk_and_the_slave_are_waited_for(flushed_first: bool) -> None:
    bench = sync_master(flush_disk_type="SYNC_FLUSH")
    (request,) = bench.submit(send("orders", b"one"))
    steps = [bench.flush, lambda: report(bench, end_of(bench))]
    for step in steps if flushed_first else reversed(steps):
        assert bench.final(request) is None
        step()
    answer = bench.final(request)
    assert isinstance(answer, c.Sent) and answer.code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("flushes", "reports", "ms", "code"),
    [
        (True, False, 3000, ResponseCode.FLUSH_SLAVE_TIMEOUT),
        (False, True, 5000, ResponseCode.FLUSH_DISK_TIMEOUT),
        (False, False, 3000, ResponseCode.FLUSH_SLAVE_TIMEOUT),
    ],
)
def test_the_code_says_which_promise_was_not_kept_in_time(flushes: bool, reports: bool, ms: int, code: int) -> None:
    bench = sync_master(flush_disk_type="SYNC_FLUSH")
    (request,) = bench.submit(send("orders", b"one"))
    if flushes:
        assert bench.flush()
    if reports:
        report(bench, end_of(bench))
    bench.tick(ms - 1)
    assert bench.final(request) is None
    bench.tick(1)
    late = bench.final(request)
    assert isinstance(late, c.Sent) and late.code == code


def test_who_waits_is_answered_when_the_options_need_no_slave_any_more() -> None:
    bench = sync_master()
    (request,) = bench.submit(send("orders", b"one"))
    bench.call(c.UpdateBrokerConfig(changes={"inSyncReplicas": 1}))
    bench.tick()
    answer = bench.final(request)
    assert isinstance(answer, c.Sent) and answer.code == ResponseCode.SUCCESS


def test_a_broker_that_stops_says_that_the_slaves_lack_the_message() -> None:
    bench = sync_master()
    (request,) = bench.submit(send("orders", b"one"))
    bench.take(bench.engine.close(bench.clock.now()))
    late = bench.final(request)
    assert isinstance(late, c.Sent) and late.code == ResponseCode.FLUSH_SLAVE_TIMEOUT


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_acknowledgements_of_popped_messages_wait_for_the_disk_alone(flush_disk_type: str) -> None:
    bench = sync_master(flush_disk_type=flush_disk_type)
    bench.submit(send("orders", b"one", b"two", queue_id=0))
    bench.flush()
    reply = pops.take(bench)
    requests = bench.submit(pops.ack_of(reply, reply.queues[0].offsets[0]), pops.change_of(reply, 1, 5000))
    if flush_disk_type == "SYNC_FLUSH":
        assert not any(bench.final(request) for request in requests) and bench.context.ha_service.waiting == 1
        assert bench.flush()
    assert [type(bench.final(request)) for request in requests] == [c.Acknowledged, c.InvisibleTimeChanged]


def test_thousands_of_senders_that_waited_for_a_slave_are_answered_over_several_turns() -> None:
    bench = sync_master()
    requests = [request for _ in range(20) for request in bench.submit(*[send("orders", b"x") for _ in range(100)])]
    report(bench, end_of(bench))
    answered = [request for request in requests if bench.final(request) is not None]
    assert answered == requests[:ANSWERS_A_TURN] and bench.engine.next_deadline() == 0
    while bench.engine.next_deadline() == 0:
        before = len(answered)
        bench.take(bench.engine.tick(bench.clock.now()))
        answered = [request for request in requests if bench.final(request) is not None]
        assert before < len(answered) <= before + ANSWERS_A_TURN
    assert answered == requests
    assert {answer.code for answer in map(bench.final, requests) if isinstance(answer, c.Sent)} == {0}
    assert bench.context.ha_service.waiting == 0


def test_thousands_of_senders_whose_time_is_over_are_answered_over_several_turns() -> None:
    bench = sync_master()
    requests = [request for _ in range(8) for request in bench.submit(*[send("orders", b"x") for _ in range(100)])]
    bench.clock.advance(3000)
    bench.take(bench.engine.tick(bench.clock.now()))
    answered = sum(bench.final(request) is not None for request in requests)
    assert answered == ANSWERS_A_TURN and bench.context.ha_service.waiting == len(requests) - answered
    bench.tick()
    assert bench.context.ha_service.timeouts == len(requests)


def test_a_broker_that_stops_confirms_all_messages_that_are_safe() -> None:
    bench = sync_master(flush_disk_type="SYNC_FLUSH")
    requests = [request for _ in range(12) for request in bench.submit(*[send("orders", b"x") for _ in range(100)])]
    report(bench, end_of(bench))
    bench.take(bench.engine.close(bench.clock.now()))
    assert {answer.code for answer in map(bench.final, requests) if isinstance(answer, c.Sent)} == {0}


def test_a_disk_that_fails_takes_back_no_message_that_is_safe() -> None:
    bench = Bench(flush_disk_type="SYNC_FLUSH")
    requests = [request for _ in range(12) for request in bench.submit(*[send("orders", b"x") for _ in range(100)])]
    flush = bench.engine.next_flush(bench.clock.now())
    assert flush is not None
    flush.run()
    bench.take(bench.engine.flushed(flush, 0, bench.clock.now()))
    bench.take(bench.engine.flush_failed(OSError(5, "Input/output error"), bench.clock.now()))
    assert {answer.code for answer in map(bench.final, requests) if isinstance(answer, c.Sent)} == {0}
