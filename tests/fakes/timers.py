"""Timer messages in tests: sends, what is delivered, and a wheel that is small enough to be copied."""

from typing import Any

import pytest

from broker_core import commands as c
from broker_core.events import Event
from broker_core.formats import timer_wheel_slot
from broker_core.formats.commit_log_record import CommitLogRecord
from broker_core.formats.message_properties import encode
from tests.fakes.engine import Bench, records, send

SLOTS = 300
"""Seconds ahead that the small wheel has places for; RocketMQ's has those of 7 days."""


@pytest.fixture(autouse=True)
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a wheel of 19 KB."""
    monkeypatch.setattr(timer_wheel_slot, "TTL_SLOTS", SLOTS)
    return


def timed(body: bytes = b"x", topic: str = "orders", **properties: Any) -> c.SendMessage:
    """A send for an exact time, such as ``timed(TIMER_DELAY_MS=1500)``."""
    return send(topic, body, queue_id=0, properties=encode({name: str(value) for name, value in properties.items()}))


def content(bench: Bench, topic: str = "orders", queue_id: int = 0) -> list[CommitLogRecord]:
    """All messages of a queue."""
    found: list[CommitLogRecord] = []
    offset, end = 0, bench.context.store.max_offset(topic, queue_id)
    while offset < end:
        pulled = bench.pulled(bench.pull(topic, offset, queue_id=queue_id, suspend_timeout_ms=0))
        found += records(pulled)
        offset = pulled.next_begin_offset
    return found


def read(bench: Bench, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """The bodies of a queue."""
    return [record.body for record in content(bench, topic, queue_id)]


def events(bench: Bench, kind: type[Event]) -> list[Any]:
    return list(bench.engine.events.after(0, kind))


def sent(bench: Bench, command: c.SendMessage) -> c.SentMessage:
    reply = bench.call(command)
    assert isinstance(reply, c.Sent), reply
    return reply.messages[0]
