"""The table of requests that wait for their replies."""

import logging

import pytest

from broker_core.client import Message, MQClientException
from broker_core.client.producer import request_future_holder
from broker_core.client.producer.request_future_holder import RequestFutureHolder


async def test_late_double_and_unknown_replies_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    holder = RequestFutureHolder()
    with caplog.at_level(logging.WARNING):
        first, reply = holder.add("pg")
        assert holder.take(first, "h:1") is reply and holder.unmatched_replies == 0
        assert holder.take(first, "h:1") is None  # twice
        second, _ = holder.add("pg")
        holder.remove(second)
        assert holder.take(second, "h:1") is None  # late
        assert holder.take("never-asked", "h:1") is None
    assert (holder.unmatched_replies, len(holder), len(caplog.records)) == (3, 0, 1)
    assert first in caplog.text and "h:1" in caplog.text


async def test_a_request_that_has_ended_takes_no_reply() -> None:
    holder = RequestFutureHolder()
    correlation_id, reply = holder.add("pg")
    reply.cancel()
    assert holder.take(correlation_id, "h:1") is None and holder.unmatched_replies == 1


async def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_future_holder, "MAX_REQUESTS", 2)
    holder = RequestFutureHolder()
    first, _ = holder.add("pg")
    holder.add("pg")
    with pytest.raises(MQClientException, match="2 requests of this client wait"):
        holder.add("pg")
    holder.remove(first)
    holder.add("pg")
    assert len(holder) == 2


async def test_the_end_of_a_group_ends_its_requests_only() -> None:
    holder = RequestFutureHolder()
    (_, mine), (_, answered), (_, other) = holder.add("pg"), holder.add("pg"), holder.add("pg-2")
    reply = Message("T", b"x")
    answered.set_result(reply)
    holder.end_group("pg")
    with pytest.raises(MQClientException, match="shut down while its request waited"):
        await mine
    assert await answered is reply and not other.done()
