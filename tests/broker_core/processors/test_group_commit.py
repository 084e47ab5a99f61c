"""The one place of acknowledgement: what each flush mode promises before it answers."""

import sys

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.formats.message_properties import encode
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
