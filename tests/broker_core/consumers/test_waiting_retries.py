"""Messages that wait for their next retry, found among all delayed messages on request."""

from typing import Any, NoReturn

import pytest

from broker_core import commands as c
from broker_core.codes import ResponseCode
from broker_core.consumers import waiting_retries
from broker_core.consumers.waiting_retries import Waiting
from broker_core.formats.commit_log_record import decode_all
from broker_core.formats.message_properties import encode
from broker_core.processors import group_view
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


def waiting_messages(bench: Bench, **fields: Any) -> c.RetriesWaiting:
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


def pages(bench: Bench, max_num: int) -> list[c.RetriesWaiting]:
    found = [waiting_messages(bench, max_num=max_num)]
    while found[-1].next is not None:
        found.append(waiting_messages(bench, max_num=max_num, after=found[-1].next))
    return found


@pytest.mark.parametrize("max_num", [1, 2, 3, 4, 7])
def test_pages_have_every_waiting_message_once(bench: Bench, max_num: int) -> None:
    send_retries(bench, "g", THIRTY_S, 3)
    bench.clock.advance(20_000)
    send_retries(bench, "g", TEN_S, 3)  # all six are due at the same time
    send_retries(bench, "h", TEN_S)
    whole = waiting_messages(bench)
    assert len(set(whole.places)) == 6 and len(set(whole.due_ms)) == 1 and whole.next is None
    found = pages(bench, max_num)
    assert len(found) == -(-6 // max_num)
    assert [place for page in found for place in page.places] == whole.places
    assert b"".join(page.records for page in found) == whole.records


def test_a_page_continues_behind_a_message_that_was_delivered_meanwhile(bench: Bench) -> None:
    send_retries(bench, "g", TEN_S)
    later = send_retries(bench, "g", THIRTY_S)
    first = waiting_messages(bench, max_num=1)
    bench.tick(10_000)
    rest = waiting_messages(bench, max_num=1, after=first.next)
    assert (rest.due_ms, rest.next) == ([later + 30_000], None)
    assert waiting_messages(bench, after=rest.places[-1]).places == []


def test_a_page_ends_at_a_number_of_bytes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_view, "MAX_BYTES", 1)
    send_retries(bench, "g", TEN_S, 3)
    assert [len(page.places) for page in pages(bench, 64)] == [1, 1, 1]


def test_pages_have_every_message_if_the_clock_was_set_back(bench: Bench) -> None:
    first = send_retries(bench, "g", TEN_S)
    bench.clock.step_wall(-60_000)
    send_retries(bench, "g", TEN_S, 2)
    assert waiting_messages(bench).due_ms == [first + 10_000] * 3, "a level is delivered in the order of its queue"
    assert [len(page.places) for page in pages(bench, 1)] == [1, 1, 1]


@pytest.mark.parametrize("after", ["x", "1.2", "1.2.3.4", "1.2.-3", "1.2.3\n", "9" * 20 + ".1.1"])
def test_a_page_after_something_else_is_refused(bench: Bench, after: str) -> None:
    send_retries(bench, "g", TEN_S)
    refused = bench.call(c.GetWaitingRetries(group="g", after=after))
    assert isinstance(refused, c.Failed) and refused.pointer == "/after"


def test_the_list_of_waiting_messages_has_a_group_and_a_limit(bench: Bench) -> None:
    unknown = bench.call(c.GetWaitingRetries(group="nobody"))
    assert isinstance(unknown, c.Failed) and unknown.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    nothing = bench.call(c.GetWaitingRetries(group="g", max_num=0))
    assert isinstance(nothing, c.Failed) and nothing.pointer == "/limit"
