"""Errors as answers; refused pulls as an event, a counter, and a row until one succeeds."""

import pytest

from broker_core import commands as c
from broker_core import errors
from broker_core.codes import ResponseCode
from broker_core.events import PullRefused, RequestRefused
from broker_core.processors.outcome import failed
from tests.fakes.engine import Bench
from tests.fakes.members import connect, events, failure, join


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.RequestError("no", pointer="/x"), "request"),
        (errors.NotFoundError("no"), "not_found"),
        (errors.ConflictError("no"), "conflict"),
        (errors.TooLargeError("no", pointer="/x"), "too_large"),
        (errors.UnavailableError("no", retry_after_ms=7), "unavailable"),
        (errors.StoreError("no"), "store"),
        (errors.StoreReadOnlyError("no"), "request"),
    ],
)
def test_kinds(error: errors.BrokerError, kind: str) -> None:
    reply = failed(error)
    assert (reply.kind, reply.remark, reply.code, reply.pointer) == (kind, "no", int(error.code), error.pointer)
    assert reply.retry_after_ms == (7 if kind == "unavailable" else 0)


def test_an_unexpected_error_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    reply = failed(KeyError("secret"))
    assert (reply.code, reply.kind) == (ResponseCode.SYSTEM_ERROR, "store") and "secret" not in reply.remark
    assert "secret" in caplog.text


def pull(**fields: object) -> c.PullMessage:
    given = {"topic": "orders", "queue_id": 0, "queue_offset": 0, "consumer_group": "g", "check_group": True}
    return c.PullMessage(**(given | fields))  # type: ignore[arg-type]


def test_a_refused_pull_is_an_event_and_a_counter() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    connect(bench, "A", "websocket")
    failure(bench, pull(subscription=None), "A")
    (event,) = events(bench, PullRefused)
    assert (event.topic, event.queue_id, event.group, event.client_id, event.code) == ("orders", 0, "g", "A", 24)
    assert "no member" in event.remark
    assert bench.context.counters.as_dict()["pulls_refused"] == 1
    assert events(bench, RequestRefused) == [] and bench.context.counters.requests_refused == 0


def test_a_refusal_that_protects_the_broker_is_reported_as_both() -> None:
    bench = Bench(max_holds=1)
    bench.send("orders", b"1")
    bench.pull("orders", 1)
    failure(bench, pull(queue_offset=1, suspend_timeout_ms=1000, subscription="*"))
    assert len(events(bench, PullRefused)) == len(events(bench, RequestRefused)) == 1
    assert events(bench, PullRefused)[0].code == 215


def test_a_pull_without_a_group_is_only_counted() -> None:
    bench = Bench()
    failure(bench, pull(topic="nope", consumer_group="", check_group=False, subscription="*"))
    assert bench.context.counters.pulls_refused == 1 and "" not in bench.context.refused_pulls


def test_a_refusal_is_remembered_until_a_pull_succeeds() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    for _ in range(3):
        failure(bench, pull(subscription=None), "A")
        bench.clock.advance(3000)

    def counts() -> list[int]:
        table, pulls = bench.context.refused_pulls, bench.context.pulls
        return [refusal.count for refusal in table.present("g", pulls, bench.clock.now().mono_ns)]

    assert counts() == [3]
    join(bench, "A")
    bench.pull("orders", 0, "A", subscription=None, check_group=True, client_id="A")
    assert counts() == [], "the refused pulls came from a connection without a name"
    failure(bench, pull(subscription=None, client_id="A", topic="other"), "A")
    assert counts() == [1]


def test_a_deleted_group_has_no_refusals() -> None:
    bench = Bench()
    bench.send("orders", b"1")
    failure(bench, pull(subscription=None), "A")
    bench.call(c.DeleteSubscriptionGroup(group="g", clean_offset=True))
    assert "g" not in bench.context.refused_pulls
