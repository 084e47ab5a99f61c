"""Messages that wait for their next try, found among all delayed ones when somebody asks."""

import pytest

from broker_core import commands as c
from broker_core.formats.message_properties import encode
from broker_core.store import waiting_retries
from broker_core.store.waiting_retries import Waiting
from tests.fakes.clock import VirtualClock
from tests.fakes.engine import ROOT, Bench

TEN_S, THIRTY_S = encode({"DELAY": "3"}), encode({"DELAY": "4"})


@pytest.fixture
def bench() -> Bench:
    bench = Bench(clock=VirtualClock())
    for group in "gh":
        bench.call(c.UpdateSubscriptionGroup(config={"groupName": group}))
    return bench


def again(bench: Bench, group: str, delay: str, times: int = 1) -> int:
    """Send to a group's retry topic, as its consumers may; when it was."""
    for _ in range(times):
        bench.send(f"%RETRY%{group}", b"x", properties=delay)
    return bench.clock.now().wall_ms


def waiting(bench: Bench, group: str = "g") -> Waiting:
    return bench.engine.context.retries.of(f"%RETRY%{group}")


def test_nothing_waits_at_first(bench: Bench) -> None:
    assert waiting(bench) == (0, None, True)


def test_the_first_that_is_due_of_all_levels_counts_until_it_is_delivered(bench: Bench) -> None:
    first = again(bench, "g", THIRTY_S, 2)
    bench.clock.advance(25_000)
    second = again(bench, "g", TEN_S, 3)
    again(bench, "h", TEN_S)
    bench.send("orders", b"x", properties=TEN_S)
    assert waiting(bench) == (5, first + 30_000, True)
    assert waiting(bench, "h") == (1, second + 10_000, True)
    bench.tick(5_000)
    assert waiting(bench) == (3, second + 10_000, True)
    bench.tick(5_000)
    assert waiting(bench) == (0, None, True) == waiting(bench, "h")


def test_what_was_delivered_unseen_is_never_counted(bench: Bench) -> None:
    again(bench, "g", TEN_S, 3)
    bench.tick(10_000)
    last = again(bench, "g", TEN_S)
    assert waiting(bench) == (1, last + 10_000, True)


def test_a_restart_finds_them_again(bench: Bench) -> None:
    first = again(bench, "g", TEN_S, 2)
    bench.take(bench.engine.close(bench.clock.now()))
    assert waiting(Bench(files=bench.files, clock=bench.clock)) == (2, first + 10_000, True)


def test_they_are_counted_in_a_store_that_is_only_read(bench: Bench) -> None:
    again(bench, "g", TEN_S)
    bench.tick(10_000)
    first = again(bench, "g", TEN_S, 2)
    bench.flush()
    bench.take(bench.engine.close(bench.clock.now()))
    bench.files.remove(ROOT / "glassmq")
    foreign = Bench(files=bench.files, clock=bench.clock)
    assert foreign.engine.context.store.read_only
    assert waiting(foreign) == (2, first + 10_000, True)
    foreign.tick(20_000)
    assert waiting(foreign) == (2, first + 10_000, True)  # nobody delivers them


def test_a_question_looks_at_some_of_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "LOOKS", 4)
    again(bench, "g", TEN_S, 3)
    again(bench, "g", THIRTY_S, 3)
    assert [(found.messages, found.is_all) for found in (waiting(bench), waiting(bench))] == [(4, False), (6, True)]


def test_large_ones_are_looked_at_one_by_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "BYTES", 10)
    again(bench, "g", TEN_S, 2)
    assert [(found.messages, found.is_all) for found in (waiting(bench), waiting(bench))] == [(1, False), (2, True)]


def test_what_is_noted_has_an_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_retries, "MAX_NOTED", 2)
    again(bench, "g", TEN_S, 2)
    bench.clock.advance(1_000)
    again(bench, "g", TEN_S, 2)
    assert (waiting(bench).messages, waiting(bench).is_all) == (2, False)
    bench.tick(9_000)
    assert waiting(bench)[::2] == (2, True)  # the first two are delivered: there is room


def test_one_whose_record_is_gone_is_passed_over(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    again(bench, "g", TEN_S, 2)
    delayed = bench.engine.context.store.delayed
    whole = delayed.message_at
    monkeypatch.setattr(
        delayed,
        "message_at",
        lambda level, offset: whole(level, offset)._replace(record=None) if offset == 0 else whole(level, offset),
    )
    assert waiting(bench)[::2] == (1, True)
