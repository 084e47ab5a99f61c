"""Messages that wait for their next retry, found among all delayed messages on request."""

from typing import NoReturn

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.consumers import waiting_retries
from broker_core.consumers.waiting_retries import Waiting
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import encode
from broker_core.walk import finish
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import ROOT, Bench

TEN_S, THIRTY_S = encode({"DELAY": "3"}), encode({"DELAY": "4"})


@pytest.fixture
def bench() -> Bench:
    bench = Bench(clock=VirtualClock())
    for group in "gh":
        bench.call(c.UpdateSubscriptionGroup(config={"groupName": group}))
    return bench


def send_retries(bench: Bench, group: str, delay: str, times: int = 1) -> int:
    """Send to a group's retry topic, as its consumers may. Returns the store time."""
    for _ in range(times):
        bench.send(f"%RETRY%{group}", b"x", properties=delay)
    return bench.clock.now().wall_ms


def waiting_of(bench: Bench, group: str = "g") -> Waiting:
    retries = bench.context.retries
    return retries.noted_for(f"%RETRY%{group}", is_all=finish(retries.count()))


def test_at_first_no_message_waits(bench: Bench) -> None:
    assert waiting_of(bench) == (0, None, True)


def test_the_next_due_time_is_the_earliest_of_all_levels(bench: Bench) -> None:
    first = send_retries(bench, "g", THIRTY_S, 2)
    bench.clock.advance(25_000)
    second = send_retries(bench, "g", TEN_S, 3)
    send_retries(bench, "h", TEN_S)
    bench.send("orders", b"x", properties=TEN_S)
    assert waiting_of(bench) == (5, first + 30_000, True)
    assert waiting_of(bench, "h") == (1, second + 10_000, True)
    bench.tick(5_000)
    assert waiting_of(bench) == (3, second + 10_000, True)
    bench.tick(5_000)
    assert waiting_of(bench) == (0, None, True) == waiting_of(bench, "h")


def test_messages_delivered_before_a_request_are_not_counted(bench: Bench) -> None:
    send_retries(bench, "g", TEN_S, 3)
    bench.tick(10_000)
    last = send_retries(bench, "g", TEN_S)
    assert waiting_of(bench) == (1, last + 10_000, True)


def test_waiting_messages_are_found_after_a_restart(bench: Bench) -> None:
    first = send_retries(bench, "g", TEN_S, 2)
    bench.take(bench.engine.close(bench.clock.now()))
    assert waiting_of(Bench(files=bench.files, clock=bench.clock)) == (2, first + 10_000, True)


def test_waiting_messages_are_counted_in_a_read_only_store(bench: Bench) -> None:
    send_retries(bench, "g", TEN_S)
    bench.tick(10_000)
    first = send_retries(bench, "g", TEN_S, 2)
    bench.flush()
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert foreign.context.store.read_only
    assert waiting_of(foreign) == (2, first + 10_000, True)
    foreign.tick(20_000)
    assert waiting_of(foreign) == (2, first + 10_000, True)  # a read-only store delivers nothing


def test_a_request_reads_a_limited_number_of_messages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "MESSAGES_A_REQUEST", 4)
    send_retries(bench, "g", TEN_S, 3)
    send_retries(bench, "g", THIRTY_S, 3)
    assert [(found.messages, found.is_all) for found in (waiting_of(bench), waiting_of(bench))] == [
        (4, False),
        (6, True),
    ]


def test_a_request_reads_a_limited_number_of_bytes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "BYTES_A_REQUEST", 10)
    send_retries(bench, "g", TEN_S, 2)
    assert [(found.messages, found.is_all) for found in (waiting_of(bench), waiting_of(bench))] == [
        (1, False),
        (2, True),
    ]


def test_the_number_of_notes_is_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "MAX_NOTED", 2)
    send_retries(bench, "g", TEN_S, 2)
    bench.clock.advance(1_000)
    send_retries(bench, "g", TEN_S, 2)
    assert (waiting_of(bench).messages, waiting_of(bench).is_all) == (2, False)
    bench.tick(9_000)
    assert waiting_of(bench)[::2] == (2, True)  # the first two are delivered, so there is room


def test_a_message_without_its_record_is_skipped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    send_retries(bench, "g", TEN_S, 2)
    delayed = bench.context.store.delayed
    whole = delayed.message_at
    monkeypatch.setattr(
        delayed,
        "message_at",
        lambda level, offset: whole(level, offset)._replace(record=None) if offset == 0 else whole(level, offset),
    )
    assert waiting_of(bench)[::2] == (1, True)


def test_notes_of_delivered_messages_are_dropped_a_few_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "DROPPED_A_PIECE", 2)
    send_retries(bench, "g", TEN_S, 4)
    send_retries(bench, "h", TEN_S, 3)
    last = send_retries(bench, "g", THIRTY_S)
    assert waiting_of(bench)[::2] == (5, True)
    bench.tick(10_000)
    assert len(list(bench.context.retries.count())) == 3, "seven were delivered"
    assert waiting_of(bench) == (1, last + 30_000, True) and waiting_of(bench, "h") == (0, None, True)


def test_only_the_notes_of_a_topic_are_looked_at(bench: Bench) -> None:
    for group in "gh":
        send_retries(bench, group, TEN_S)
    waiting_of(bench)
    retries = bench.context.retries
    retries._by_topic = Lookup(retries._by_topic)
    assert waiting_of(bench).messages == 1


class Lookup(dict):  # type: ignore[type-arg]
    """A dictionary that nobody may go through."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("every topic was looked at")

    items = values = keys = __iter__  # type: ignore[assignment]


def waiting_messages(bench: Bench, **fields: int) -> c.RetriesWaiting:
    reply = bench.call(c.GetWaitingRetries(group="g", **fields))
    assert isinstance(reply, c.RetriesWaiting)
    return reply


def test_the_messages_that_are_due_first_are_listed_first(bench: Bench) -> None:
    later = send_retries(bench, "g", THIRTY_S, 2)
    bench.clock.advance(5_000)
    sooner = send_retries(bench, "g", TEN_S)
    send_retries(bench, "h", TEN_S)
    found = waiting_messages(bench)
    assert found.due_ms == [sooner + 10_000, later + 30_000, later + 30_000]
    assert [record.queue_offset for record in decode_all(found.records)] == [0, 0, 1]
    assert (found.retries.waiting, found.retries.counted) == (3, True)
    assert len(waiting_messages(bench, max_num=1).due_ms) == 1
    bench.tick(10_000)
    assert waiting_messages(bench).due_ms == [later + 30_000] * 2


def test_the_list_of_waiting_messages_has_a_group_and_a_limit(bench: Bench) -> None:
    unknown = bench.call(c.GetWaitingRetries(group="nobody"))
    assert isinstance(unknown, c.Failed) and unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    nothing = bench.call(c.GetWaitingRetries(group="g", max_num=0))
    assert isinstance(nothing, c.Failed) and nothing.pointer == "/limit"
